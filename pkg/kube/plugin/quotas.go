package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// quotas asks the room of quotas for those who look for victims.
type quotas struct{ *elasticquota.Room }

// Claim implements preempt.Quotas.
func (q quotas) Claim(group *cache.Group, within time.Duration) preempt.Claim {
	if c := q.Room.Claim(group, within); c != nil {
		return c
	}
	return nil
}

// ClaimPod implements preempt.Quotas.
func (q quotas) ClaimPod(pod *v1.Pod) preempt.Claim {
	if c := q.Room.ClaimPod(pod); c != nil {
		return c
	}
	return nil
}

// Fits implements preempt.Quotas.
func (q quotas) Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool {
	why, soon := q.Room.Lacks(group, leaves)
	return why == nil || soon
}

// Quotas lists what all quotas have; nil if there are none.
func (s *Shared) Quotas() []elasticquota.Quota { return s.quotas.Quotas() }

// QuotaCure says what would have a group admitted that its quotas refuse; "" if they do not.
func (s *Shared) QuotaCure(group *cache.Group) string { return s.quotas.Cure(group) }

// shareQuotas has the room of quotas know who has places, and those who were refused hear of what is given back.
func (s *Shared) shareQuotas(room *elasticquota.Room) {
	s.quotas = room
	room.Clock, room.Has, room.Serves, room.Follow, room.Note = s.options.Clock, s.Cache.HasNode, s.Cache.Serves, s.Cache.Follow, s.teller.Note
	room.Open, room.Starves = s.Cache.Open, s.Cache.Starves
	room.Write, room.Idle, room.Patch, room.Settle = s.Writer.DoAfter, s.teller.DoIdle, s.Writer.Patch, min(elasticquota.Settle, max(0, 4*s.options.Settle))
	room.Together, room.Leaves, room.Violated = s.leaveTogether, s.Cache.Leaves, s.violated
	room.Departs = func(pod *v1.Pod, within time.Duration) bool {
		return s.victims.Departs(pod, s.options.Clock.Now(), within, s.Cache.Patience())
	}
	room.Unseen = func(within time.Duration) (taken, others []*v1.Pod) {
		return s.victims.Unseen(s.options.Clock.Now(), within)
	}
	s.resume = append(s.resume, room.Resume)
	room.GiveUp = s.giveUp
	room.Awaits = func(pod *v1.Pod) bool {
		place, confirmed := s.Cache.Place(pod)
		return place != "" && !confirmed
	}
	room.Changed = func() {
		s.Writer.Do("quotas", func(context.Context) error {
			s.tryAdmitted(func(g *cache.Group) bool { return room.Would(g) || room.Helps(g) })
			s.tryAwaited()
			return nil
		})
	}
	room.Next = func() {
		s.Writer.Do("quotas served later", func(context.Context) error {
			s.tryAdmitted(func(g *cache.Group) bool { return room.Later(g) && room.Would(g) })
			return nil
		})
	}
}

// lacks says what the quotas do not have for a group whose places are free, and whether it is to wait for that. Who waits is tried when
// something is given back: from before it is asked, so that nothing is missed.
func (p *Plugin) lacks(group *cache.Group, pod *v1.Pod) (why *elasticquota.Said, soon bool) {
	p.awaited.Add(group.Key, convert.PodKey(pod))
	if why, soon = p.short(group); !soon {
		p.awaited.Drop(group.Key)
	}
	return why, soon
}

func (s *Shared) short(group *cache.Group) (why *elasticquota.Said, soon bool) {
	return s.quotas.Lacks(group, s.victims.LeavesFor(group.Key, s.options.Clock.Now()))
}

// tryAwaited tries the groups whose quotas wait for nobody any more.
func (s *Shared) tryAwaited() {
	for key, pod := range s.awaited.All() {
		group, refusal := s.Cache.GroupOf(key)
		if refusal.Is() || !group.Waiting {
			s.awaited.Drop(key)
			continue
		}
		if _, soon := s.short(group); !soon {
			s.refused.Call(key, pod)
			s.try([]string{pod})
		}
	}
}

// giveUp ends the reservations of members' groups: as long as they wait for victims somebody may lower what their quota may have.
func (s *Shared) giveUp(members []*v1.Pod) {
	s.Writer.Do("places above a max", func(context.Context) error {
		for _, pod := range members {
			if group, refusal := s.Cache.Group(pod); !refusal.Is() && s.Cache.Reserved(group.Key) {
				s.Cache.Handle(gang.Kept{Group: group.Key, Why: "the max of a quota was lowered, and it has no more room for the gang"})
			}
		}
		return nil
	})
}

// leaveTogether are the members that leave whole with one: of its gang, and of all gangs of its group.
func (s *Shared) leaveTogether(pod *v1.Pod) (all []*v1.Pod) {
	for _, of := range s.Cache.Together(source.Of(pod).Whole()) {
		placed, _ := s.Cache.Placed(of)
		all = append(all, placed...)
	}
	return all
}

// passed notes that a pod cannot start now for other reasons than quota, or may be tried again; of a gang none that starts together with it can.
func (s *Shared) passed(pod *v1.Pod, is bool) {
	switch of := source.Of(pod).Whole(); {
	case !s.quotas.Active():
	case of.IsZero():
		s.quotas.Passed(pod, is)
	default:
		s.quotas.PassedGangs(s.Cache.Together(of), is)
	}
}

// revoke has those leave with whom quotas have had too much for long.
func (s *Shared) revoke() {
	if s.quotas == nil {
		return
	}
	what := s.quotas.Revoke()
	if what == nil {
		return
	}
	if p := s.profiles[what.For.Spec.SchedulerName]; p != nil {
		p.Preemptor.Revoke(what.For, what.Gone, what.Why)
	}
}

// violated are the disruption budgets that do not allow pods to leave; all profiles see the same ones.
func (s *Shared) violated(pods []*v1.Pod) []string {
	for _, p := range s.profiles {
		return p.Preemptor.Violated(pods)
	}
	return nil
}

// RevokesLater says whether somebody is to leave if nothing changes for a while.
func (s *Shared) RevokesLater() bool { return s.quotas.RevokesLater() }

// tryAdmitted tries who was refused by quotas and would be admitted now, as far as may says so of groups.
func (s *Shared) tryAdmitted(may func(*cache.Group) bool) {
	if pods := s.quotas.Waiting(); len(pods) > 0 {
		s.handle.Activate(klog.Background(), pods)
	}
	var admitted []string
	for _, leader := range s.refused.LeadersFor(elasticquota.Name) {
		pod := s.Cache.Pod(leader)
		if pod == nil {
			continue
		}
		if group, refusal := s.Cache.Group(pod); !refusal.Is() && may(group) {
			admitted = append(admitted, leader)
		}
	}
	s.try(admitted)
}

// admitted is the attempt for those members whom the quotas admit. If there are none, what has come of the cycle is returned, with the
// attempt for those who are needed: others may leave for them, if anybody who may frees what the quotas lack.
func (p *Plugin) admitted(ctx context.Context, a *place.Attempt) (some *place.Attempt, c *cycle) {
	members, why := p.quotas.Admit(a.Group)
	switch {
	case why == nil && len(members) == len(a.Group.Pending):
		return a, nil
	case why == nil:
		return a.For(members), nil
	}
	c = &cycle{verdict: refused, said: status.Said{Sentence: why.Sentence, Text: why.Text, Never: why.Never}, attempt: a, overQuota: true}
	if p.quotas.Helps(a.Group) {
		if needed := a.Group.Needed(); len(needed) > 0 { // others leave for them alone; the quotas were not asked for more
			a = a.For(needed)
			c.attempt = a
		}
		c.mayHelp = true
		if _, refusal, err := a.Plan(ctx); err != nil || refusal != nil && refusal.Plan == nil {
			c.mayHelp = false
		}
	}
	return nil, c
}

// byQuota is who refused an attempt whose quotas have too little. Whether anybody is evicted for it, or leaves by himself, is not the same.
func (c *cycle) byQuota() gang.Refusal {
	return gang.Refusal{By: gang.Quota, Plugins: []string{elasticquota.Name}, Evictable: c.mayHelp, Never: c.said.Never}
}
