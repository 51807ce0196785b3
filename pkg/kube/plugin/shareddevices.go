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

// maxWriteWait bounds how long a cycle waits for the writes of allocations, because no other pod is scheduled meanwhile.
const maxWriteWait = 5 * time.Second

// allocateShared allocates the devices that the members of a new plan share, and returns "". If that fails, it drops the plan and returns
// why.
func (p *Plugin) allocateShared(ctx context.Context, pod *v1.Pod, a *place.Attempt, places []gang.Assignment) (why string) {
	// Checked again: before the plan was in the book, the claims may have been recorded as unused.
	if claim := p.claimInRelease(pod, a.Group); claim != "" {
		why = releaseMessage(claim)
		p.Cache.Handle(gang.Dropped{Group: a.Group.Key, Why: why})
		return why
	}
	claims, why := a.SharedClaims(ctx, places)
	if why == "" && len(claims) == 0 {
		return ""
	}
	if why == "" {
		ctx, cancel := context.WithTimeout(ctx, maxWriteWait)
		defer cancel()
		if err := p.allocations.Write(ctx, claims); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		why = "devices of shared ResourceClaims cannot be allocated: " + why
		p.Cache.Handle(gang.Dropped{Group: a.Group.Key, Why: why})
	}
	p.reviewAllocations() // the plan may have been dropped during the writes
	return why
}

// claimInRelease returns the key of a claim of the group that is being released; "" if there is none. After the release the pod is retried.
func (p *Plugin) claimInRelease(pod *v1.Pod, group *cache.Group) string {
	if !p.allocations.Any() {
		return ""
	}
	return p.allocations.WaitForRelease(pod, pendingPods(group))
}

func pendingPods(group *cache.Group) []*v1.Pod {
	members := make([]*v1.Pod, 0, len(group.Pending))
	for _, m := range group.Pending {
		members = append(members, group.Pods[m.Pod])
	}
	return members
}

// leftoverClaim returns the key of a member's claim from an earlier cycle that it begins to release before a plan is searched; "" if none.
func (p *Plugin) leftoverClaim(pod *v1.Pod, group *cache.Group) string {
	if !p.allocations.RecordLeftover(pendingPods(group)) {
		return ""
	}
	p.reviewAllocations()
	return p.claimInRelease(pod, group)
}

// idleClaim returns the key of an unused claim that may be why DynamicResources rejected members; "" if none. It starts the release.
func (p *Plugin) idleClaim(pod *v1.Pod, a *place.Attempt, refusal *place.Refusal) string {
	if refusal == nil || !slices.Contains(refusal.Plugins, names.DynamicResources) || !p.allocations.RecordIdle(pendingPods(a.Group)) {
		return ""
	}
	p.reviewAllocations()
	return p.claimInRelease(pod, a.Group)
}

func releaseMessage(claim string) string {
	return "devices of ResourceClaim " + claim + " are being released"
}

// reviewAllocations releases the devices that were allocated for plans of which no member is assigned or bound any more.
func (s *Shared) reviewAllocations() {
	if !s.allocations.Any() {
		return
	}
	for _, claim := range s.allocations.Review(s.fate) {
		s.Writer.Do("devices of "+string(claim), func(ctx context.Context) error {
			if kept, waiting := s.allocations.KeepIfNeeded(claim, s.fate); kept {
				s.activateTwice("members with devices that are not returned", waiting)
				return nil
			}
			if err := s.allocations.TakeBack(ctx, claim); err != nil {
				if !status.Permanent(err) {
					return err
				}
				klog.FromContext(ctx).Error(err, "Cannot release unused devices; the ResourceClaim keeps them", "claim", claim)
				s.allocations.SetUnreleasable(claim)
			}
			s.activateTwice("members with devices that were returned", s.allocations.Forget(claim))
			return nil
		})
	}
}

// fate returns whether a member for which devices were allocated is bound, assigned to a node, unassigned or deleted. As long as groups
// that were partially bound at the start are being completed, members count as assigned.
func (s *Shared) fate(u allot.User) allot.Fate {
	pod := s.Cache.Pod(u.String())
	switch {
	case pod == nil || pod.UID != u.UID:
		return s.fateOfOther(u)
	case pod.Spec.NodeName != "":
		return allot.Bound
	case s.Cache.Step(u.String(), string(u.UID)) != gang.NotAssumed:
		return allot.Assigned
	case !u.Extended && (s.Cache.HasPlace(pod) || s.Cache.Counted(pod) || s.Cache.Resuming()):
		return allot.Assigned
	}
	return allot.Unassigned
}

// fateOfOther is fate for a pod that is not a member any more.
func (s *Shared) fateOfOther(u allot.User) allot.Fate {
	pod, err := s.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(u.Namespace).Get(u.Name)
	switch {
	case err != nil || pod.UID != u.UID:
		return allot.Deleted
	case pod.Spec.NodeName != "":
		return allot.Bound
	}
	return allot.Unassigned
}

// findAllocations finds the devices that an earlier process allocated for members that did not start, and releases them if unused.
func (s *Shared) findAllocations() {
	if s.allocations.Claims == nil {
		return
	}
	informer := s.handle.SharedInformerFactory().Resource().V1().ResourceClaims()
	s.Writer.Do("devices that were left", func(context.Context) error {
		if !informer.Informer().HasSynced() {
			return errors.New("the list of ResourceClaims is not complete yet")
		}
		if err := s.allocations.FindIn(informer.Lister(), s.ownsUser); err != nil {
			return err
		}
		s.reviewAllocations()
		return nil
	})
}

// ownsUser returns whether a pod is a pending member of a gang that this process schedules. If waits is false, it also returns true for a
// pod that does not exist any more.
func (s *Shared) ownsUser(u allot.User, waits bool) bool {
	pods := s.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	if current, err := pods.Pods(u.Namespace).Get(u.Name); err != nil || current.UID != u.UID {
		return !waits
	}
	pod := s.Cache.Pod(u.String())
	return pod != nil && pod.UID == u.UID && pod.Spec.NodeName == "" && s.Cache.Serves(pod)
}
