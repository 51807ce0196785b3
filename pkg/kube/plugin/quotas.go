package plugin

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Revoke implements preempt.Quotas.
func (q quotas) Revoke(group *cache.Group) preempt.Claim {
	if c := q.Room.Revoke(group); c != nil {
		return c
	}
	return nil
}

// Fits implements preempt.Quotas.
func (q quotas) Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool {
	why, soon := q.Room.Lacks(group, leaves)
	return why == nil || soon
}

// Told implements preempt.Quotas.
func (q quotas) Told() uint64 { return q.Room.Told() }

// Quotas lists what all quotas have; nil if there are none.
func (s *Shared) Quotas() []elasticquota.Quota { return s.quotas.Quotas() }

// QuotaCure says what would have a group admitted that its quotas refuse; "" if they do not.
func (s *Shared) QuotaCure(group *cache.Group) string { return s.quotas.Cure(group) }

// shareQuotas connects the room of quotas with the gangs.
func (s *Shared) shareQuotas(room *elasticquota.Room) {
	s.quotas = room
	room.Connect(&quotaCluster{Shared: s}, s.options.Clock, min(elasticquota.Settle, max(0, 4*s.options.Settle)))
}

// quotaCluster implements elasticquota.Cluster.
type quotaCluster struct {
	*Shared
	limits atomic.Uint64 // of the quotas, when gangs were last tried for them
}

// Place implements elasticquota.Places.
func (c *quotaCluster) Place(pod *v1.Pod) elasticquota.Place {
	node, confirmed := c.Cache.Place(pod)
	return elasticquota.Place{Assigned: c.Cache.HasNode(pod), Reserved: node != "" && !confirmed, Foreign: !c.Cache.Serves(pod)}
}

// Templates implements elasticquota.Places.
func (c *quotaCluster) Templates(pods []*v1.Pod) []cache.Template { return c.Cache.Templates(pods) }

// Leaves implements elasticquota.Evictions.
func (c *quotaCluster) Leaves(pod *v1.Pod) bool { return c.Cache.Leaves(pod) }

// Terminates implements elasticquota.Evictions.
func (c *quotaCluster) Terminates(pod *v1.Pod, within time.Duration) bool {
	return c.victims.Departs(pod, c.options.Clock.Now(), within, c.Cache.Patience())
}

// Unseen implements elasticquota.Evictions.
func (c *quotaCluster) Unseen(within time.Duration) (accepted, others []*v1.Pod) {
	return c.victims.Unseen(c.options.Clock.Now(), within)
}

// Open implements elasticquota.Events.
func (c *quotaCluster) Open() bool { return c.Cache.Open() }

// Note implements elasticquota.Events.
func (c *quotaCluster) Note(n cache.Note) { c.teller.Note(n) }

// Hear implements elasticquota.Events.
func (c *quotaCluster) Hear(e elasticquota.Event) {
	switch e.What {
	case elasticquota.Begins:
		c.Cache.Follow()
	case elasticquota.MayBeAdmitted:
		c.Writer.Do("quotas", func(context.Context) error {
			if now := c.quotas.Limits(); c.limits.Swap(now) != now { // more may be evicted now for gangs for which no node had room
				c.try(c.refused.Leaders())
			}
			c.tryAdmitted(func(g *cache.Group) bool { return c.would(g) || c.quotas.Helps(g) })
			c.tryAwaited()
			return nil
		})
	case elasticquota.MayBeNext:
		c.Writer.Do("quotas served later", func(context.Context) error {
			c.tryAdmitted(func(g *cache.Group) bool { return c.quotas.Later(g) && c.would(g) })
			return nil
		})
	case elasticquota.MayEvict:
		c.tryEvicting(e.Waits)
	case elasticquota.MayNotKeep:
		c.giveUp(e.Members)
	}
}

// tryEvicting tries gangs and pods for which more may be evicted, by their names in the quotas' book.
func (s *Shared) tryEvicting(waits map[string]*v1.Pod) {
	var leaders []string
	// Also gangs for which no eviction helped when they were refused.
	for _, leader := range slices.Concat(s.refused.Leaders(), s.refused.LeadersFor(elasticquota.Name)) {
		if pod := s.Cache.Pod(leader); pod != nil && waits[elasticquota.Named(pod)] != nil {
			leaders = append(leaders, leader)
		}
	}
	s.try(leaders)
	pods := map[string]*v1.Pod{}
	for _, pod := range waits {
		if source.Of(pod).IsZero() {
			pods[convert.PodKey(pod)] = pod
		}
	}
	s.handle.Activate(klog.Background(), pods)
}

// Do implements elasticquota.Background.
func (c *quotaCluster) Do(key string, after time.Duration, idle bool, work func(ctx context.Context, yields func() bool) error) {
	if idle {
		c.teller.DoIdle(key, after, work)
		return
	}
	c.Writer.DoAfter(key, after, func(ctx context.Context) error { return work(ctx, func() bool { return false }) })
}

// Patch implements elasticquota.Background.
func (c *quotaCluster) Patch(ctx context.Context, of schema.GroupVersionResource, namespace, name string, patch []byte, sub string) error {
	return c.Writer.Patch(ctx, of, namespace, name, patch, sub)
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

// giveUp ends the reservations of members' groups: as long as they wait for victims somebody may lower what their quota may have, or write what cannot be
// used.
func (s *Shared) giveUp(members []*v1.Pod) {
	s.Writer.Do("places that a quota does not allow", func(context.Context) error {
		for _, pod := range members {
			if source.Of(pod).IsZero() {
				s.Cache.ReserveAlone(pod, "")
				continue
			}
			if group, refusal := s.Cache.Group(pod); !refusal.Is() && s.Cache.Reserved(group.Key) {
				s.Cache.Handle(gang.Kept{Group: group.Key, Why: "its quota does not allow the gang any more"})
			}
		}
		return nil
	})
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

// RevokesLater says whether somebody is to leave if nothing changes for a while.
func (s *Shared) RevokesLater() bool { return s.quotas.RevokesLater() }

// tryAdmitted tries who was refused by quotas and would be admitted now, as far as may says so of groups.
func (s *Shared) tryAdmitted(may func(*cache.Group) bool) {
	if pods := s.quotas.Waiting(); len(pods) > 0 {
		s.handle.Activate(klog.Background(), pods)
	}
	var admitted []string
	limits := s.quotas.Limits()
	for _, leader := range s.refused.LeadersFor(elasticquota.Name) {
		if s.refused.Limits(leader) == limits { // no choice that they allow could ever start
			continue
		}
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

// admitted are the attempts for those members whom the quotas admit, one for each choice of them. If there are none, what has come of the cycle is
// returned, with the attempt for those who are needed: others may leave for them, if anybody who may frees what the quotas lack.
func (p *Plugin) admitted(ctx context.Context, a *place.Attempt) (choices []*place.Attempt, c *refused) {
	admits, why := p.quotas.Admit(a.Group)
	if why != nil {
		if set := p.admittedSet(a.Group); set != nil { // Admit asks for one set of gangs
			admits, why = p.quotas.Admit(set)
		}
	}
	for _, members := range admits {
		if len(members) == len(a.Group.Pending) {
			return []*place.Attempt{a}, nil
		}
		if start := a.Group.Startable(members); len(start) > 0 {
			members = start
		}
		choices = append(choices, a.For(members))
	}
	if why == nil {
		return choices, nil
	}
	c = p.overQuota(a, why)
	if some, _, _ := p.fewest(ctx, a, nil); len(some) > 0 { // others leave for them alone; the quotas were not asked for more
		c.attempt, c.others = some[0].Attempt, attempts(some[1:])
		c.by.Evictable = slices.ContainsFunc(some, func(t Trial) bool { return t.Refusal == nil || t.Refusal.Plan != nil })
	}
	return nil, c
}

// overQuota is what comes of a cycle that quotas end.
func (p *Plugin) overQuota(a *place.Attempt, why *elasticquota.Said) *refused {
	return &refused{
		said: status.Said{Sentence: why.Sentence, Text: why.Text, Never: why.Never}, attempt: a,
		by: gang.Refusal{By: gang.Quota, Plugins: []string{elasticquota.Name}, Never: why.Never},
	}
}

// mostBestNodes bounds the nodes that are planned on, in all, for several choices.
const mostBestNodes = 160_000

// best is the first of some choices with which most members start, and what has come of all that were tried; if none can, of the first. At least two
// are tried. The error is that of a plugin.
func (p *Plugin) best(ctx context.Context, choices []*place.Attempt) (best Trial, tries []Trial, err error) {
	for i, a := range choices {
		if len(best.Found.Places) >= len(a.Group.Pending) {
			continue
		}
		if i >= max(2, mostBestNodes/max(1, len(a.Nodes))) {
			break
		}
		t := Trial{Attempt: a}
		if t.Found, t.Refusal, err = a.Plan(ctx); err != nil {
			return t, nil, err
		}
		if tries = append(tries, t); i == 0 || t.Refusal == nil && len(t.Found.Places) > len(best.Found.Places) {
			best = t
		}
	}
	return best, tries, nil
}

// mostFewestNodes bounds the nodes that are looked at, in all, for choices for whom others may leave.
const mostFewestNodes = 16_000

// fewest are the attempts for no more members than are needed for whom the quotas may have others leave, as they come out on the nodes as
// these are. Those are left out whom other attempts are for: of these, more may start. all says that, with those other attempts, no choice is left that
// may ever start. later are choices that quotas do not admit now, for which no pod may be evicted.
func (p *Plugin) fewest(ctx context.Context, a *place.Attempt, but []*place.Attempt) (some []Trial, later [][]gang.Member, all bool) {
	a = a.InMultiples()
	most := max(2, mostFewestNodes/max(1, len(a.Nodes)))
	sets := p.sets(a.Group)
	all = len(sets) < mostSets
	var choices [][]gang.Member
	for _, set := range sets {
		of, every := p.quotas.Fewest(set, most)
		choices, all = append(choices, of...), all && every
	}
	for i, members := range choices {
		if i >= most {
			return some, later, false
		}
		if slices.ContainsFunc(but, func(o *place.Attempt) bool { return within(members, o.Group) }) {
			continue
		}
		t := Trial{Attempt: a.For(members)}
		if !p.quotas.Helps(t.Attempt.Group) && p.quotas.Why(a.Group, members) != nil {
			later, all = append(later, members), false
			continue
		}
		var err error
		if t.Found, t.Refusal, err = t.Attempt.Plan(ctx); err != nil {
			all = false
			continue
		}
		some = append(some, t)
	}
	return some, later, all
}

// mostSets bounds how many sets of gangs quotas are asked about.
const mostSets = 16

// sets returns the group with only the gangs of a set, for each set that may start alone, as far as these differ for quotas.
func (s *Shared) sets(group *cache.Group) []*cache.Group {
	return group.Sets(mostSets, func(of *cache.Group) string {
		pods, templates := []*v1.Pod{}, map[cache.Template]int{}
		for _, m := range of.Pending {
			pods = append(pods, of.Pods[m.Pod])
		}
		for _, t := range s.Cache.Templates(pods) {
			templates[t]++
		}
		return fmt.Sprint(s.quotas.Class(of), templates)
	})
}

// admittedSet returns the group with only the gangs of a set that quotas admit; nil if there is none, or no choice of gangs.
func (s *Shared) admittedSet(group *cache.Group) *cache.Group {
	if !group.Choice.Any() {
		return nil
	}
	for _, set := range s.sets(group) {
		if s.quotas.Why(group, set.Needed()) == nil {
			return set
		}
	}
	return nil
}

// would says whether quotas would admit a group now, or a set of its gangs.
func (s *Shared) would(group *cache.Group) bool {
	return s.quotas.Would(group) || s.admittedSet(group) != nil
}

// within says whether members are all of a group that they are in.
func within(members []gang.Member, group *cache.Group) bool {
	return !slices.ContainsFunc(members, func(m gang.Member) bool { return !group.IsPending(m.Pod) })
}

func attempts(of []Trial) (all []*place.Attempt) {
	for _, t := range of {
		all = append(all, t.Attempt)
	}
	return all
}

// noChoice is what comes of a cycle when there is no plan for any choice of members that quotas admit: others may leave for these, and for choices
// that the quotas have room for then. untried says that there are more than were tried. What is said is of one that might start: nobody waits for members whom no node takes.
// Of many choices those with most members were tried, so that one of few may start all the same: there is no cycle then.
func (p *Plugin) noChoice(ctx context.Context, a *place.Attempt, of []Trial, untried bool) (c *refused, starts Trial) {
	limits := p.quotas.Limits()
	fewest, later, all := p.fewest(ctx, a, attempts(of))
	tries := slices.Concat(of, fewest)
	some := len(tries) > 1 || !all || p.quotas.Differ(a.Group) // or there may be, if other amounts are declared
	others := attempts(tries)
	for _, t := range fewest {
		if t.Refusal != nil { // not for want of quota alone
			continue
		}
		why := p.quotas.Why(a.Group, t.Attempt.Group.Pending)
		if why == nil {
			return nil, t
		}
		if c == nil {
			c = p.overQuota(t.Attempt, why)
			c.others, c.by.Evictable, c.some, c.untried = others, true, some, untried
		}
	}
	if c != nil {
		return c, Trial{}
	}
	c = &refused{attempt: of[0].Attempt, refusal: of[0].Refusal, choices: choices{others: others, untried: untried}}
	if some {
		c.several = &several{plugins: []string{elasticquota.Name}} // quotas may admit another choice
		for _, o := range tries {
			plugins := o.Refusal.Plugins
			if !c.some { // one that does not never fit is enough
				s := p.shortage(ctx, o.Attempt, o.Refusal)
				if plugins = s.Plugins; s.Never == nil {
					c.some, c.attempt, c.refusal = true, o.Attempt, o.Refusal
				}
			}
			c.several.refusedBy(plugins)
		}
		if c.some = c.some || !all; !c.some {
			c.several.limits = limits
		}
		for _, members := range later {
			p.quotas.Awaits(a.Group, members)
		}
	}
	c.said, c.by = said(c.refusal, nil), because(c.refusal)
	if some {
		c.by = gang.Refusal{By: gang.Plan, Evictable: true}
	}
	return c, Trial{}
}

// several is what keeps several choices of members, of which each may lack something else.
type several struct {
	plugins []string // who has refused any; nil if nobody knows that of one
	limits  uint64   // those of quotas, if none that they allow could ever start; else 0
}

func (s *several) refusedBy(plugins []string) {
	if len(plugins) == 0 {
		s.plugins = nil
	}
	if s.plugins != nil {
		s.plugins = append(s.plugins, plugins...)
		slices.Sort(s.plugins)
		s.plugins = slices.Compact(s.plugins)
	}
}
