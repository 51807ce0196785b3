package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// quotas asks the room of quotas for those who look for victims.
type quotas struct{ *elasticquota.Room }

// Claim implements preempt.Quotas.
func (q quotas) Claim(group *cache.Group) preempt.Claim {
	if c := q.Room.Claim(group); c != nil {
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

// Quotas lists what all quotas have; nil if there are none.
func (s *Shared) Quotas() []elasticquota.Quota { return s.quotas.Quotas() }

// QuotaCure says what would have a group admitted that its quotas refuse; "" if they do not.
func (s *Shared) QuotaCure(group *cache.Group) string { return s.quotas.Cure(group) }

// shareQuotas has the room of quotas know who has places, and those who were refused hear of what is given back.
func (s *Shared) shareQuotas(room *elasticquota.Room) {
	s.quotas = room
	room.Clock, room.Has, room.Serves, room.Follow, room.Note = s.options.Clock, s.Cache.HasNode, s.Cache.Serves, s.Cache.Follow, s.teller.Note
	room.Open, room.Starves = s.Cache.Open, s.Cache.Starves
	room.Write, room.Patch, room.Settle = s.Writer.DoAfter, s.Writer.Patch, min(elasticquota.Settle, max(0, 4*s.options.Settle))
	s.resume = append(s.resume, room.Resume)
	room.Changed = func() {
		s.Writer.Do("quotas", func(context.Context) error {
			s.tryAdmitted(func(g *cache.Group) bool { return room.Would(g) || room.Helps(g) })
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
	c = &cycle{verdict: refused, said: status.Said{Sentence: why.Sentence, Text: why.Text}, attempt: a, overQuota: true}
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

// byQuota is who refused an attempt whose quotas have too little.
func (c *cycle) byQuota() gang.Refusal {
	return gang.Refusal{By: gang.Quota, Plugins: []string{elasticquota.Name}, Evictable: c.mayHelp, Never: !c.mayHelp}
}
