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

// quotaChecks implements eligible.Quotas with the Manager of the plugin ElasticQuota.
type quotaChecks struct{ *elasticquota.Manager }

func (q quotaChecks) SearchVictims(group *cache.Group, within time.Duration) preempt.VictimSearch {
	if c := q.Manager.SearchVictims(group, within); c != nil {
		return c
	}
	return nil
}

func (q quotaChecks) SearchOverdueVictims(group *cache.Group) preempt.VictimSearch {
	if c := q.Manager.SearchOverdueVictims(group); c != nil {
		return c
	}
	return nil
}

func (q quotaChecks) Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool {
	why, soon := q.Manager.ReservationExceeds(group, leaves)
	return why == nil || soon
}

func (q quotaChecks) Revision() uint64 { return q.Manager.Revision() }

// Quotas returns the state of all quotas; nil if there are none.
func (s *Shared) Quotas() []elasticquota.Quota { return s.quotas.Quotas() }

// QuotaCure returns a text for users: what would let the quotas admit the group; "" if they admit it.
func (s *Shared) QuotaCure(group *cache.Group) string { return s.quotas.Remedy(group) }

// connectQuotas connects the plugin ElasticQuota with gangs.
func (s *Shared) connectQuotas(room *elasticquota.Manager) {
	s.quotas = room
	room.Connect(&quotaCluster{Shared: s}, s.options.Clock, min(elasticquota.Settle, max(0, 4*s.options.Settle)))
}

// quotaCluster implements elasticquota.Cluster.
type quotaCluster struct {
	*Shared
	limits atomic.Uint64 // elasticquota.Manager.TreeVersion at the last retry of all leaders
}

func (c *quotaCluster) Place(pod *v1.Pod) elasticquota.Place {
	node, confirmed := c.Cache.Place(pod)
	return elasticquota.Place{Assigned: c.Cache.HasNode(pod), Reserved: node != "" && !confirmed, Foreign: !c.Cache.Serves(pod)}
}

func (c *quotaCluster) Templates(pods []*v1.Pod) []cache.Template { return c.Cache.Templates(pods) }

func (c *quotaCluster) Leaves(pod *v1.Pod) bool { return c.Cache.Leaves(pod) }

func (c *quotaCluster) Terminates(pod *v1.Pod, within time.Duration) bool {
	return c.victims.GoneWithin(pod, c.options.Clock.Now(), within, c.Cache.Patience())
}

func (c *quotaCluster) Unseen(within time.Duration) (accepted, others []*v1.Pod) {
	return c.victims.Pending(c.options.Clock.Now(), within)
}

func (c *quotaCluster) Open() bool { return c.Cache.Open() }

func (c *quotaCluster) Note(n cache.Note) { c.teller.Note(n) }

// Hear implements elasticquota.Events. From Begins on, the cache reports node assignments. MayNotKeep drops the reservations of the event's
// members. Each other event retries the gangs and pods that may start, or may evict, because of it.
func (c *quotaCluster) Hear(e elasticquota.Event) {
	switch e.Kind {
	case elasticquota.Begins:
		c.Cache.Follow()
	case elasticquota.MayBeAdmitted:
		c.Writer.Do("quotas", func(context.Context) error {
			if now := c.quotas.TreeVersion(); c.limits.Swap(now) != now { // an eviction may find more victims now
				c.retry(c.retries.Leaders())
			}
			c.retryAdmitted(func(g *cache.Group) bool { return c.wouldAdmit(g) || c.quotas.EvictionHelps(g, false) })
			c.retryAwaiting()
			return nil
		})
	case elasticquota.MayBeNext:
		c.Writer.Do("quotas served later", func(context.Context) error {
			c.retryAdmitted(func(g *cache.Group) bool { return c.quotas.WaitsForTurn(g) && c.wouldAdmit(g) })
			return nil
		})
	case elasticquota.MayEvict:
		c.retryEvicting(e.Waits)
	case elasticquota.MayNotKeep:
		c.dropReservations(e.Members)
	}
}

// retryEvicting retries gangs and pods for which more pods may be evicted than before. waits has one pod of each by elasticquota.GangName.
// Of gangs only the leaders are retried.
func (s *Shared) retryEvicting(waits map[string]*v1.Pod) {
	var leaders []string
	// Also gangs that no eviction helped before.
	for _, leader := range slices.Concat(s.retries.Leaders(), s.retries.LeadersFor(elasticquota.Name)) {
		if pod := s.Cache.Pod(leader); pod != nil && waits[elasticquota.GangName(pod)] != nil {
			leaders = append(leaders, leader)
		}
	}
	s.retry(leaders)
	pods := map[string]*v1.Pod{}
	for _, pod := range waits {
		if source.GangOf(pod).IsZero() {
			pods[convert.PodKey(pod)] = pod
		}
	}
	s.handle.Activate(klog.Background(), pods)
}

func (c *quotaCluster) Do(key string, after time.Duration, idle bool, work func(ctx context.Context, yields func() bool) error) {
	if idle {
		c.teller.DoIdle(key, after, work)
		return
	}
	c.Writer.DoAfter(key, after, func(ctx context.Context) error { return work(ctx, func() bool { return false }) })
}

func (c *quotaCluster) Patch(ctx context.Context, resource schema.GroupVersionResource, namespace, name string,
	patch []byte, sub string,
) error {
	return c.Writer.Patch(ctx, resource, namespace, name, patch, sub)
}

// missingQuota returns why the quotas do not allow a group's reservation, nil if they do, and whether they will after pods have terminated
// (waits). Then the group is registered for a retry, with pod as its representative.
func (p *Plugin) missingQuota(group *cache.Group, pod *v1.Pod) (why *elasticquota.Explanation, waits bool) {
	p.awaitingQuota.Add(group.Key, convert.PodKey(pod))
	if why, waits = p.quotaShortage(group); !waits {
		p.awaitingQuota.Drop(group.Key)
	}
	return why, waits
}

// quotaShortage is missingQuota without the registration.
func (s *Shared) quotaShortage(group *cache.Group) (why *elasticquota.Explanation, waits bool) {
	return s.quotas.ReservationExceeds(group, s.victims.TerminatesFor(group.Key, s.options.Clock.Now()))
}

// retryAwaiting retries the groups in s.awaitingQuota whose quotas need not wait for terminating pods any more.
func (s *Shared) retryAwaiting() {
	for key, pod := range s.awaitingQuota.All() {
		group, refusal := s.Cache.GroupOf(key)
		if refusal.Exists() || !group.Waiting {
			s.awaitingQuota.Drop(key)
			continue
		}
		if _, waits := s.quotaShortage(group); !waits {
			s.retries.Call(key, pod)
			s.retry([]string{pod})
		}
	}
}

// dropReservations drops the reservations of these pods, or of the groups of these members, because their quota does not allow them.
func (s *Shared) dropReservations(members []*v1.Pod) {
	s.Writer.Do("places that a quota does not allow", func(context.Context) error {
		for _, pod := range members {
			if source.GangOf(pod).IsZero() {
				s.Cache.ReserveSinglePod(pod, "")
				continue
			}
			if group, refusal := s.Cache.Group(pod); !refusal.Exists() && s.Cache.Reserved(group.Key) {
				s.Cache.Handle(gang.VictimStays{Group: group.Key, Why: "its quota no longer allows the gang"})
			}
		}
		return nil
	})
}

// setPassedOver records in the quotas whether a pod, or the group of its gang, is passed over: it cannot start now for a reason other than
// quota.
func (s *Shared) setPassedOver(pod *v1.Pod, passedOver bool) {
	switch gangRef := source.GangOf(pod).Whole(); {
	case !s.quotas.Active():
	case gangRef.IsZero():
		s.quotas.RecordPassedOver(pod, passedOver)
	case passedOver:
		s.quotas.RecordPassedOverGangs(s.Cache.Together(gangRef), true)
	default: // an optional gang that lacks members does not start with the others
		s.quotas.RecordPassedOverGangs(s.Cache.StartTogether(gangRef), false)
	}
}

// RevokesLater returns whether a quota becomes overdue soon if nothing changes, so that its pods may be evicted.
func (s *Shared) RevokesLater() bool { return s.quotas.RevokesLater() }

// retryAdmitted retries pods without a gang that quotas would now admit, and groups that quotas rejected and for which may returns true.
func (s *Shared) retryAdmitted(may func(*cache.Group) bool) {
	if pods := s.quotas.Waiting(); len(pods) > 0 {
		s.handle.Activate(klog.Background(), pods)
	}
	var admitted []string
	limits := s.quotas.TreeVersion()
	for _, leader := range s.retries.LeadersFor(elasticquota.Name) {
		if s.retries.Limits(leader) == limits { // no choice within these limits can start
			continue
		}
		pod := s.Cache.Pod(leader)
		if pod == nil {
			continue
		}
		if group, refusal := s.Cache.Group(pod); !refusal.Exists() && may(group) {
			admitted = append(admitted, leader)
		}
	}
	s.retry(admitted)
}

// admittedChoices returns one attempt for each choice of members that the quotas admit. If there is none, it returns the outcome of the
// cycle. That has attempts for minimal choices of members, for which pods may be evicted.
func (p *Plugin) admittedChoices(ctx context.Context, a *place.Attempt) (choices []*place.Attempt, c *unschedulable) {
	admits, why := p.quotas.Admit(a.Group)
	if why != nil {
		if set := p.admittedSet(a.Group); set != nil { // Admit checks one set of gangs
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
	if minimal, _, _ := p.minimalTrials(ctx, a, nil); len(minimal) > 0 { // pods are evicted for these only
		c.attempt, c.others = minimal[0].Attempt, attempts(minimal[1:])
		c.cause.Evictable = slices.ContainsFunc(minimal, func(t Trial) bool { return t.Refusal == nil || t.Refusal.Plan != nil })
	}
	return nil, c
}

// overQuota returns the outcome of a cycle in which the quotas do not admit the group.
func (p *Plugin) overQuota(a *place.Attempt, why *elasticquota.Explanation) *unschedulable {
	return &unschedulable{
		message: status.Explained{Sentence: why.Sentence, Text: why.Text, Never: why.Never}, attempt: a,
		cause: gang.Obstacle{By: gang.Quota, Plugins: []string{elasticquota.Name}, NeverEvictable: why.Never},
	}
}

// maxBestNodes bounds the nodes of all attempts together in bestTrial.
const maxBestNodes = 160_000

// bestTrial plans the choices, and returns the first trial with the most members in its plan, and all trials. If no choice has a plan, it
// returns the first choice's trial. It plans at least two choices. The error is a plugin's failure.
func (p *Plugin) bestTrial(ctx context.Context, choices []*place.Attempt) (best Trial, tries []Trial, err error) {
	for i, a := range choices {
		if len(best.Found.Places) >= len(a.Group.Pending) {
			continue
		}
		if i >= max(2, maxBestNodes/max(1, len(a.Nodes))) {
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

// maxFewestNodes bounds the nodes of all attempts together in minimalTrials.
const maxFewestNodes = 16_000

// minimalTrials plans minimal choices of members, and returns a trial for each one. Choices that are part of an attempt in except are left
// out. later are choices that the quotas do not admit now, and for which no eviction helps. all says that no other choice can start as long
// as the quotas do not change.
func (p *Plugin) minimalTrials(ctx context.Context, a *place.Attempt, except []*place.Attempt) (
	trials []Trial, later [][]gang.Member, all bool,
) {
	a = a.Of(a.InMultiples(a.Group))
	limit := max(2, maxFewestNodes/max(1, len(a.Nodes)))
	sets := p.gangSets(a.Group)
	all = len(sets) < maxSets
	var choices [][]gang.Member
	for _, set := range sets {
		setChoices, complete := p.quotas.MinimalChoices(a.InMultiples(set), limit)
		choices, all = append(choices, setChoices...), all && complete
	}
	for i, members := range choices {
		if i >= limit {
			return trials, later, false
		}
		if slices.ContainsFunc(except, func(o *place.Attempt) bool { return allPending(members, o.Group) }) {
			continue
		}
		t := Trial{Attempt: a.For(members)}
		remaining, forceFits := p.Preemptor.ForceFitIn(t.Attempt)
		due := a.Group.Promise.Exists() && !a.Group.Promise.At.After(p.options.Clock.Now()) // Evictable pods may be evicted
		if !due && !p.quotas.EvictionHelps(t.Attempt.Group, forceFits && remaining <= 0) && p.quotas.Why(a.Group, members) != nil {
			later, all = append(later, members), false
			continue
		}
		var err error
		if t.Found, t.Refusal, err = t.Attempt.Plan(ctx); err != nil {
			all = false
			continue
		}
		trials = append(trials, t)
	}
	return trials, later, all
}

// maxSets bounds the sets of gangs that gangSets returns.
const maxSets = 16

// gangSets returns the group restricted to each set of gangs that may start alone. Of sets that are equal for the quotas it returns one.
func (s *Shared) gangSets(group *cache.Group) []*cache.Group {
	return group.Sets(maxSets, func(restricted *cache.Group) string {
		pods, templates := []*v1.Pod{}, map[cache.Template]int{}
		for _, m := range restricted.Pending {
			pods = append(pods, restricted.Pods[m.Pod])
		}
		for _, t := range s.Cache.Templates(pods) {
			templates[t]++
		}
		return fmt.Sprint(s.quotas.Class(restricted), templates)
	})
}

// admittedSet returns the group restricted to a set of gangs that quotas admit; nil if there is none, or if the group needs all its gangs.
func (s *Shared) admittedSet(group *cache.Group) *cache.Group {
	if !group.Choice.Any() {
		return nil
	}
	for _, set := range s.gangSets(group) {
		if s.quotas.Why(group, set.Needed()) == nil {
			return set
		}
	}
	return nil
}

// wouldAdmit returns whether quotas would admit the group or a set of its gangs.
func (s *Shared) wouldAdmit(group *cache.Group) bool {
	return s.quotas.WouldAdmit(group) || s.admittedSet(group) != nil
}

// allPending returns whether all members are pending in the group.
func allPending(members []gang.Member, group *cache.Group) bool {
	return !slices.ContainsFunc(members, func(m gang.Member) bool { return !group.IsPending(m.Pod) })
}

func attempts(trials []Trial) (all []*place.Attempt) {
	for _, t := range trials {
		all = append(all, t.Attempt)
	}
	return all
}

// noChoice returns the outcome of a cycle in which no admitted choice of members (tried) has a plan. It also plans minimal choices, for
// which pods may be evicted. If one of these has a plan and its quotas admit it, noChoice returns that trial instead, and nil. untried says
// that there are more choices. The outcome's message is about a choice that may start later.
func (p *Plugin) noChoice(ctx context.Context, a *place.Attempt, tried []Trial, untried bool) (c *unschedulable, starts Trial) {
	limits := p.quotas.TreeVersion()
	minimal, later, all := p.minimalTrials(ctx, a, attempts(tried))
	tries := slices.Concat(tried, minimal)
	several := len(tries) > 1 || !all || p.quotas.MembersDiffer(a.Group) // if members differ, there may be other choices
	others := attempts(tries)
	for _, t := range minimal {
		if t.Refusal != nil { // not only quota is missing
			continue
		}
		why := p.quotas.Why(a.Group, t.Attempt.Group.Pending)
		if why == nil {
			return nil, t
		}
		if c == nil {
			c = p.overQuota(t.Attempt, why)
			c.others = others
			c.cause.Evictable = true
			c.partial = several
			c.untried = untried
		}
	}
	if c != nil {
		return c, Trial{}
	}
	c = &unschedulable{attempt: tried[0].Attempt, refusal: tried[0].Refusal, choices: choices{others: others, untried: untried}}
	if several {
		c.alternatives = &alternatives{plugins: []string{elasticquota.Name}} // quotas may admit another choice
		for _, o := range tries {
			plugins := o.Refusal.Plugins
			if !c.partial { // the message needs only one choice that may start later
				s := p.shortage(ctx, o.Attempt, o.Refusal)
				if plugins = s.Plugins; s.Never == nil {
					c.partial = true
					c.attempt = o.Attempt
					c.refusal = o.Refusal
				}
			}
			c.alternatives.add(plugins)
		}
		if c.partial = c.partial || !all; !c.partial {
			c.alternatives.limits = limits
		}
		for _, members := range later {
			p.quotas.RecordTurn(a.Group, members)
		}
	}
	c.message, c.cause = planMessage(c.refusal, nil), causeOf(c.refusal)
	if several {
		c.cause = gang.Obstacle{By: gang.Plan, Evictable: true}
	}
	return c, Trial{}
}

// alternatives combines the causes why several choices of members do not start.
type alternatives struct {
	plugins []string // plugins that rejected any choice; nil if they are unknown for a choice
	limits  uint64   // the quotas' TreeVersion if no choice can start as long as it is the same; else 0
}

func (s *alternatives) add(plugins []string) {
	if len(plugins) == 0 {
		s.plugins = nil
	}
	if s.plugins != nil {
		s.plugins = append(s.plugins, plugins...)
		slices.Sort(s.plugins)
		s.plugins = slices.Compact(s.plugins)
	}
}
