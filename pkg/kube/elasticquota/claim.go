package elasticquota

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// VictimSearch is the search for pods that may be evicted for a gang. It is valid as long as the book does not change.
type VictimSearch struct {
	manager     *Manager
	reclaim     *quota.Reclaim
	shorts      []quota.Shortage
	helps       bool   // evictions may free what the quotas lack
	requestKey  string // what is requested of which quotas
	request     quota.Request
	afterOwn    []*quota.Reclaim       // searches as if victims of the own quota had terminated, see OwnFirst
	hasNoQuota  bool                   // a member has no quota
	rights      map[string]quota.Right // by gang
	terminating map[string]bool        // pods that count as gone; true for pods whose eviction is not accepted yet
	overQuotas  map[string]bool        // quotas to evict from (monitorAllQuotas); nil is all
	freshTurns  []*quota.Turns         // turns without an evicted victim

	verdicts map[[sha256.Size]byte]quota.Verdict // by victim set
}

// SearchVictims returns a search for pods that may be evicted for a group. A terminating pod counts as gone if it terminates within the
// given time. SearchVictims returns nil without quotas, and for a system-critical pod without a gang, which quotas do not restrict.
func (r *Manager) SearchVictims(group *cache.Group, within time.Duration) *VictimSearch {
	if !r.Active() || len(group.Pending) == 0 {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	a := r.request(group, membersToPlace(group), nil)
	if group.Alone && a.Priority >= systemCritical {
		return nil
	}
	return r.newVictimSearch(a, within, r.policy())
}

// membersToPlace returns the members of a group for which pods may be evicted: the needed ones. If none is needed, it returns the pending
// members without a node assignment, or with a reservation.
func membersToPlace(group *cache.Group) (members []gang.Member) {
	if needed := group.Needed(); len(needed) > 0 {
		return needed
	}
	for _, m := range group.Pending {
		if group.Places[m.Pod] == "" || group.Waiting {
			members = append(members, m)
		}
	}
	return members
}

// unlimited is the time limit with which every terminating pod counts as gone.
const unlimited = time.Duration(math.MaxInt64)

// systemCritical is the lowest priority of system-cluster-critical and system-node-critical, which users cannot assign.
const systemCritical = 2_000_000_000

func (r *Manager) newVictimSearch(a quota.Request, within time.Duration, policy quota.Policy) *VictimSearch {
	c := &VictimSearch{manager: r, request: a, rights: map[string]quota.Right{}}
	c.reclaim, c.terminating = r.reclaim(a, within, policy)
	c.shorts, c.helps = c.reclaim.Shortages()
	for _, w := range a.Need {
		c.requestKey += fmt.Sprintf(" %s: %d of %v", w.Quota, w.Count, w.Asks)
	}
	c.hasNoQuota = slices.ContainsFunc(a.Need, func(w quota.Want) bool { return w.Quota == "" })
	return c
}

// right returns the right to evict a pod, with its gang. A pod without a quota is evicted only for members without one. r.mu is locked.
func (c *VictimSearch) right(p *v1.Pod) quota.Right {
	if name, _ := c.manager.quotaOf(p); name == "" {
		if c.hasNoQuota {
			return quota.SameQuota
		}
		return quota.None
	}
	name := GangName(p)
	right, known := c.rights[name]
	if !known {
		right = c.reclaim.Right(name)
		for _, first := range c.afterOwn {
			if right == quota.None {
				right = first.Right(name)
			}
		}
		c.rights[name] = right
	}
	return right
}

// May returns whether a pod and its gang may be evicted. lower says that its priority is lower, which decides within one quota.
func (c *VictimSearch) May(p *v1.Pod, lower bool) bool {
	if !c.helps {
		return false
	}
	c.manager.lock()
	defer c.manager.mu.Unlock()
	if c.terminating[key(p)] {
		return true
	}
	if name, _ := c.manager.quotaOf(p); c.overQuotas != nil && !c.overQuotas[name] {
		return false
	}
	switch c.right(p) {
	case quota.None:
		return false
	case quota.SameQuota:
		return lower
	}
	if c.freshTurns == nil {
		c.freshTurns = c.turns()
	}
	return c.needsNoRight(p) || mayAll(c.freshTurns, c.byGang([]*v1.Pod{p}))
}

// QuotaOf returns the name of a pod's quota; "" if it has none.
func (c *VictimSearch) QuotaOf(member *v1.Pod) string {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	name, _ := c.manager.quotaOf(member)
	return name
}

// SameQuota returns whether a pod has the same quota as the first requesting member.
func (c *VictimSearch) SameQuota(p *v1.Pod) bool { return c.QuotaOf(p) == c.request.Need[0].Quota }

// Uses returns whether members with the given quota may use the capacity of the victim p. A victim may be evicted for members of one quota
// only, even if the group also has members of another quota.
func (c *VictimSearch) Uses(quotaName string, p *v1.Pod) bool {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	if _, gone := c.terminating[key(p)]; gone {
		return true
	}
	name, _ := c.manager.quotaOf(p)
	if name == "" || quotaName == "" {
		return name == quotaName
	}
	return c.reclaim.RightFor(quotaName, GangName(p), name) != quota.None
}

// Frees returns whether a pod is charged to a quota that lacks capacity. The eviction of such a pod helps whatever its node.
func (c *VictimSearch) Frees(p *v1.Pod) bool {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	name, _ := c.manager.quotaOf(p)
	for _, above := range c.manager.book.Tree().Path(name) {
		for _, s := range c.shorts {
			if s.Quota == above {
				return true
			}
		}
	}
	return false
}

// RequestKey returns a text that is equal for gangs with equal requests to the same quotas.
func (c *VictimSearch) RequestKey() string { return c.requestKey }

// Short returns whether a quota lacks capacity for the request, so that victims are needed even if nodes are free.
func (c *VictimSearch) Short() bool { return len(c.shorts) > 0 }

// mostVerdicts bounds the remembered verdicts of a search.
const mostVerdicts = 4096

// Check returns whether the quotas allow the eviction of all these pods together and then admit the request. It remembers verdicts.
func (c *VictimSearch) Check(gone []*v1.Pod) quota.Verdict {
	uids := make([]string, len(gone))
	for i, p := range gone {
		uids[i] = string(p.UID)
	}
	slices.Sort(uids)
	set := sha256.Sum256([]byte(strings.Join(slices.Compact(uids), " ")))
	c.manager.lock()
	defer c.manager.mu.Unlock()
	verdict, known := c.verdicts[set]
	if known {
		return verdict
	}
	if c.helps {
		verdict = c.reclaim.Check(c.byGang(gone))
	}
	if c.verdicts == nil || len(c.verdicts) >= mostVerdicts {
		c.verdicts = map[[sha256.Size]byte]quota.Verdict{}
	}
	c.verdicts[set] = verdict
	return verdict
}

// byGang returns the keys of pods by the name of their gang, without pods for which needsNoRight returns true.
func (c *VictimSearch) byGang(pods []*v1.Pod) map[string][]string {
	byGang := map[string][]string{}
	for _, p := range pods {
		if c.needsNoRight(p) {
			continue
		}
		byGang[GangName(p)] = append(byGang[GangName(p)], key(p))
	}
	return byGang
}

// needsNoRight returns whether a pod counts as gone, or neither the pod nor some preempting member has a quota. r.mu is locked.
func (c *VictimSearch) needsNoRight(p *v1.Pod) bool {
	if _, gone := c.terminating[key(p)]; gone {
		return true
	}
	name, _ := c.manager.quotaOf(p)
	return name == "" && c.hasNoQuota
}

// Turns returns two functions for victims that are selected one after another. evict records pods as evicted. may returns whether pods may
// be evicted together after those pods.
func (c *VictimSearch) Turns() (may func([]*v1.Pod) bool, evict func([]*v1.Pod)) {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	turns := c.turns()
	may = func(pods []*v1.Pod) bool {
		c.manager.lock()
		defer c.manager.mu.Unlock()
		return mayAll(turns, c.byGang(pods))
	}
	evict = func(pods []*v1.Pod) {
		c.manager.lock()
		defer c.manager.mu.Unlock()
		for _, t := range turns {
			for _, p := range pods {
				t.Leave(key(p))
			}
		}
	}
	return may, evict
}

// turns returns new quota.Turns, without evicted pods, for each search of c.searches. r.mu is locked.
func (c *VictimSearch) turns() (all []*quota.Turns) {
	for _, r := range c.searches() {
		all = append(all, r.Turns())
	}
	return all
}

// mayAll returns whether all these pods, which are by gang, may be evicted together: each gang is allowed in at least one of the turns.
func mayAll(turns []*quota.Turns, pods map[string][]string) bool {
	for gangID := range pods {
		if !slices.ContainsFunc(turns, func(t *quota.Turns) bool { return t.May(gangID, pods) }) {
			return false
		}
	}
	return true
}

// EqualPriority adds gangs of the preemptor's own quota whose priority equals the preemptor's. It is called before OwnFirst.
func (c *VictimSearch) EqualPriority() {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	c.reclaim.EqualPriority()
	c.rights = map[string]quota.Right{}
}

// OwnFirst extends the search with pods that may be evicted only after victims of the preemptor's own quota: without these the quota is
// within its min, so that it may reclaim what other quotas borrow. It returns whether there are such pods. If the members have several
// quotas, it returns false.
//
//	min = max = 8, 4 of a low pod; a gang of 8 CPU      4 + 8 is above min: no borrower is evicted
//	when the low pod has terminated                     0 + 8 is not
func (c *VictimSearch) OwnFirst() bool {
	if !c.helps || c.SeveralQuotas() {
		return false
	}
	c.manager.lock()
	defer c.manager.mu.Unlock()
	own := c.reclaim.Own()
	if len(own) == 0 {
		return false
	}
	// Evicting all of them may lower the quota's request, and so raise other fair shares more than evicting some.
	first := []*quota.Reclaim{c.searchWithout(own), c.reclaim.Freed(own...)}
	if !slices.ContainsFunc(first, func(f *quota.Reclaim) bool { return f.More(c.reclaim) }) {
		return false
	}
	c.afterOwn, c.rights = first, map[string]quota.Right{}
	return true
}

// BelowMin adds to the search members of gangs that do not borrow as a whole. The victims of a set may lower no quota by lacks or more
// below its min, as a part of that min; with 1 each quota keeps its min. It returns whether this adds candidates.
func (c *VictimSearch) BelowMin(lacks quota.Share) bool {
	if !c.helps {
		return false
	}
	c.manager.lock()
	defer c.manager.mu.Unlock()
	more := false
	for _, r := range c.searches() {
		r.BelowMin(lacks)
		borrow := *r // the search for borrowing gangs alone
		borrow.BelowMin(0)
		more = more || r.More(&borrow)
	}
	c.rights, c.verdicts, c.freshTurns = map[string]quota.Right{}, nil, nil
	return more
}

// searches returns the searches that each may allow a victim: the one of the present state, and the ones from OwnFirst.
func (c *VictimSearch) searches() []*quota.Reclaim {
	return append([]*quota.Reclaim{c.reclaim}, c.afterOwn...)
}

// Shortfall returns the largest part of its min that any quota would lack after these pods have terminated.
func (c *VictimSearch) Shortfall(gone []*v1.Pod) quota.Share {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	return c.reclaim.Shortfall(c.byGang(gone))
}

// searchWithout returns a search as if the pods in gone had terminated, too. r.mu is locked.
func (c *VictimSearch) searchWithout(gone []string) *quota.Reclaim {
	book := c.manager.currentBook().Without(append(sortedKeys(c.terminating), gone...)...)
	return book.Reclaim(c.request, quota.Policy(c.manager.args.Reclaim))
}

// SeveralQuotas returns whether the requesting members have more than one quota. A victim may then help only some of them.
func (c *VictimSearch) SeveralQuotas() bool {
	return slices.ContainsFunc(c.request.Need, func(w quota.Want) bool { return w.Quota != c.request.Need[0].Quota })
}

// CountedAsGone returns the terminating pods that this search counts as gone.
func (c *VictimSearch) CountedAsGone() (all []*v1.Pod) {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	for _, k := range sortedKeys(c.terminating) {
		if p := c.manager.pods[k]; p != nil {
			all = append(all, p.Pod)
		}
	}
	return all
}

// Revision returns a number that changes with each change of the quotas or of their use; 0 without quotas.
func (r *Manager) Revision() uint64 {
	if !r.Active() {
		return 0
	}
	r.lock()
	defer r.mu.Unlock()
	return r.treeVersion<<32 + r.currentBook().Changes()
}

// EvictionHelps returns whether, for any choice of a group's members, there is a gang whose eviction may free what their quotas lack. With
// equalPriority, gangs of their own quotas with their priority count, too.
func (r *Manager) EvictionHelps(group *cache.Group, equalPriority bool) bool {
	return r.evictionHelps(group, equalPriority, math.MinInt32)
}

// EvictionHelpsAt is EvictionHelps as if all members had at least the given priority.
func (r *Manager) EvictionHelpsAt(group *cache.Group, priority int32) bool {
	return r.evictionHelps(group, false, priority)
}

func (r *Manager) evictionHelps(group *cache.Group, equalPriority bool, priority int32) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	needed := membersToPlace(group)
	choices := [][]gang.Member{needed}
	if c := r.choiceSet(group, needed); c != nil && len(group.Needed()) > 0 {
		if minimal, _ := r.minimalChoices(c, needed, mostChoices); len(minimal) > 0 {
			choices = minimal
		}
	}
	return slices.ContainsFunc(choices, func(members []gang.Member) bool {
		a := r.request(group, members, nil)
		a.Priority = max(a.Priority, priority)
		c := r.newVictimSearch(a, unlimited, r.policy())
		if equalPriority {
			c.reclaim.EqualPriority()
		}
		return c.hasVictim()
	})
}

// hasVictim returns whether any gang may be evicted, even if its quota falls below its min. r.mu is locked.
func (c *VictimSearch) hasVictim() bool {
	c.reclaim.BelowMin(math.MaxUint64)
	return c.helps && c.reclaim.Any()
}

func (r *Manager) policy() quota.Policy { return quota.Policy(r.args.Reclaim) }
