package plugin

import (
	"context"
	"errors"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/allot"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// mostWriting bounds how long a cycle waits until the devices of a gang are written: nobody else is scheduled
// meanwhile.
const mostWriting = 5 * time.Second

// allot writes down what the members of a plan have together that was just put into the book. If that cannot be done the
// plan is given up, and it says why.
func (p *Plugin) allot(ctx context.Context, pod *v1.Pod, a *place.Attempt, places []gang.Place) (why string) {
	// It has been asked before, when nobody knew of a plan and what members have may have been listed as nobody's.
	if claim := p.givenBack(pod, a.Group); claim != "" {
		why = givenBackWords(claim)
		p.Cache.Handle(gang.Dropped{Group: a.Group.Key, Why: why})
		return why
	}
	claims, why := a.Joint(ctx, places)
	if why == "" && len(claims) == 0 {
		return ""
	}
	if why == "" {
		ctx, cancel := context.WithTimeout(ctx, mostWriting)
		defer cancel()
		if err := p.allotted.Write(ctx, claims); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		why = "devices that members share are not allocated: " + why
		p.Cache.Handle(gang.Dropped{Group: a.Group.Key, Why: why})
	}
	p.reviewAllotted() // somebody may have dropped the plan while it was written
	return why
}

// givenBack says which claim of a group is still being given back that members of an earlier plan had together; "" if
// none is. The pod is tried again when that is done.
func (p *Plugin) givenBack(pod *v1.Pod, group *cache.Group) string {
	if !p.allotted.Any() {
		return ""
	}
	return p.allotted.Waits(pod, pendingOf(group))
}

func pendingOf(group *cache.Group) []*v1.Pod {
	members := make([]*v1.Pod, 0, len(group.Pending))
	for _, m := range group.Pending {
		members = append(members, group.Pods[m.Pod])
	}
	return members
}

// leftBehind says which claim of a group must go before any of its members can pass, which an earlier cycle has made; "" if there
// is none.
func (p *Plugin) leftBehind(pod *v1.Pod, group *cache.Group) string {
	if !p.allotted.Leftover(pendingOf(group)) {
		return ""
	}
	p.reviewAllotted()
	return p.givenBack(pod, group)
}

// idle says which claim of a group is being given back that keeps a member where there is no room, and that nobody else uses; "" if
// there is none. Whoever is in the way of a group elsewhere had better stay until that was tried.
func (p *Plugin) idle(pod *v1.Pod, a *place.Attempt, refusal *place.Refusal) string {
	if refusal == nil || !slices.Contains(refusal.Plugins, names.DynamicResources) || !p.allotted.Idle(pendingOf(a.Group)) {
		return ""
	}
	p.reviewAllotted()
	return p.givenBack(pod, a.Group)
}

func givenBackWords(claim string) string {
	return "the devices of resource claim " + claim + " are being given back"
}

// reviewAllotted takes back what was written for members of whom none comes any more.
func (s *Shared) reviewAllotted() {
	if !s.allotted.Any() {
		return
	}
	for _, claim := range s.allotted.Review(s.fate) {
		s.Writer.Do("devices of "+string(claim), func(ctx context.Context) error {
			if kept, waiting := s.allotted.Keep(claim, s.fate); kept {
				s.letIn("members with devices that are not returned", waiting)
				return nil
			}
			if err := s.allotted.TakeBack(ctx, claim); err != nil {
				if !status.Final(err) {
					return err
				}
				klog.FromContext(ctx).Error(err, "Unused devices stay allocated", "claim", claim)
				s.allotted.Refused(claim)
			}
			s.letIn("members with devices that were returned", s.allotted.Forget(claim))
			return nil
		})
	}
}

// fate says whether a member still comes for whom devices were written. As long as gangs that were partially bound at the
// start have not been tried nobody knows who does not.
func (s *Shared) fate(u allot.User) allot.Fate {
	pod := s.Cache.Pod(u.String())
	switch {
	case pod == nil || pod.UID != u.UID:
		return s.lost(u)
	case pod.Spec.NodeName != "":
		return allot.Bound
	case s.Cache.Step(u.String(), string(u.UID)) != gang.Away:
		return allot.Comes
	case !u.Extended && (s.Cache.HasPlace(pod) || s.Cache.Counted(pod) || s.Cache.Resuming()):
		return allot.Comes
	}
	return allot.Stays
}

// lost says whether there still is a pod that is no member any more.
func (s *Shared) lost(u allot.User) allot.Fate {
	pod, err := s.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(u.Namespace).Get(u.Name)
	switch {
	case err != nil || pod.UID != u.UID:
		return allot.Gone
	case pod.Spec.NodeName != "":
		return allot.Bound
	}
	return allot.Stays
}

// findAllotted takes up what a process before this one has written for members that have not started.
func (s *Shared) findAllotted() {
	if s.allotted.Claims == nil {
		return
	}
	informer := s.handle.SharedInformerFactory().Resource().V1().ResourceClaims()
	s.Writer.Do("devices that were left", func(context.Context) error {
		if !informer.Informer().HasSynced() {
			return errors.New("not all claims are seen yet")
		}
		if err := s.allotted.FindIn(informer.Lister(), s.ours); err != nil {
			return err
		}
		s.reviewAllotted()
		return nil
	})
}

// ours says whether a pod waits here, as a member of a gang, or is gone, if that will do.
func (s *Shared) ours(u allot.User, waits bool) bool {
	pods := s.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	if is, err := pods.Pods(u.Namespace).Get(u.Name); err != nil || is.UID != u.UID {
		return !waits
	}
	pod := s.Cache.Pod(u.String())
	return pod != nil && pod.UID == u.UID && pod.Spec.NodeName == "" && s.Cache.Serves(pod)
}
