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
	helps       bool
	requestKey  string // what is requested of which quotas
	ask         quota.Request
	afterOwn    []*quota.Reclaim       // searches as if victims of the own quota had terminated, see OwnFirst
	hasNoQuota  bool                   // a member has no quota
	rights      map[string]quota.Right // by gang
	terminating map[string]bool        // pods that count as gone; true: only for this search
	overQuotas  map[string]bool        // quotas to evict from (monitorAllQuotas); nil is all
	freshTurns  []*quota.Turns         // turns without an evicted victim

	verdicts map[[sha256.Size]byte]quota.Verdict // by victim set
}

// SearchVictims begins the search for pods that may be evicted for a group; nil without quotas. A pod counts as gone if it terminates
// within the given time. Quotas do not restrict a system-critical pod without a gang: such a pod is mostly of the default quota,
// which takes nothing back.
func (r *Manager) SearchVictims(group *cache.Group, within time.Duration) *VictimSearch {
	if !r.Active() || len(group.Pending) == 0 {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	a := r.ask(group, membersToPlace(group), nil)
	if group.Alone && a.Priority >= systemCritical {
		return nil
	}
	return r.newClaim(a, within, r.policy())
}

// membersToPlace returns the members of a group that victims are evicted for: the needed ones, or those without a node.
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

// unlimited is a time within which every terminating pod is gone.
const unlimited = time.Duration(math.MaxInt64)

// systemCritical is the lowest priority of system-cluster-critical and system-node-critical, which users cannot assign.
const systemCritical = 2_000_000_000

func (r *Manager) newClaim(a quota.Request, within time.Duration, policy quota.Policy) *VictimSearch {
	c := &VictimSearch{manager: r, ask: a, rights: map[string]quota.Right{}}
	c.reclaim, c.terminating = r.reclaim(a, within, policy)
	c.shorts, c.helps = c.reclaim.Shortages()
	for _, w := range a.Need {
		c.requestKey += fmt.Sprintf(" %s: %d of %v", w.Quota, w.Count, w.Asks)
	}
	c.hasNoQuota = slices.ContainsFunc(a.Need, func(w quota.Want) bool { return w.Quota == "" })
	return c
}

// right returns the right to evict a pod's gang, or the pod. Pods without a quota compete by priority. r.mu is held.
func (c *VictimSearch) right(p *v1.Pod) quota.Right {
	if name, _ := c.manager.quotaOf(p); name == "" {
		if c.hasNoQuota {
			return quota.SameQuota
		}
		return quota.None
	}
	name := gangOf(p)
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

// May returns whether a pod and its gang may be evicted. lower says that the pod's priority is lower, which decides within a quota.
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

// QuotaOf returns the quota of a member.
func (c *VictimSearch) QuotaOf(member *v1.Pod) string {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	name, _ := c.manager.quotaOf(member)
	return name
}

// SameQuota returns whether a pod is of the quota of the first member.
func (c *VictimSearch) SameQuota(p *v1.Pod) bool { return c.QuotaOf(p) == c.ask.Need[0].Quota }

// Uses returns whether members of a quota may use the capacity that a victim frees. A victim may be evicted for other members of
// their group only.
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
	return c.reclaim.RightFor(quotaName, gangOf(p), name) != quota.None
}

// Frees returns whether a pod is charged to a quota that lacks capacity, so that its eviction helps on any node.
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

// RequestKey is equal for gangs with the same requests to the same quotas.
func (c *VictimSearch) RequestKey() string { return c.requestKey }

// Short returns whether a quota must free capacity.
func (c *VictimSearch) Short() bool { return len(c.shorts) > 0 }

const mostVerdicts = 4096

// Check returns the quota check of a whole victim set, in any order that quotas allow. The verdict is remembered: a search reaches
// the same set in several ways.
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

// byGang returns the pods by gang, without pods that need no right.
func (c *VictimSearch) byGang(pods []*v1.Pod) map[string][]string {
	byGang := map[string][]string{}
	for _, p := range pods {
		if c.needsNoRight(p) {
			continue
		}
		byGang[gangOf(p)] = append(byGang[gangOf(p)], key(p))
	}
	return byGang
}

// needsNoRight returns whether a pod counts as gone, or competes with the preemptor outside all quotas. r.mu is held.
func (c *VictimSearch) needsNoRight(p *v1.Pod) bool {
	if _, gone := c.terminating[key(p)]; gone {
		return true
	}
	name, _ := c.manager.quotaOf(p)
	return name == "" && c.hasNoQuota
}

// Turns is for victims that are selected one by one: may returns whether pods may be evicted after the pods that leave was called
// for. Victims of the own quotas come first where the order matters.
func (c *VictimSearch) Turns() (may func([]*v1.Pod) bool, leave func([]*v1.Pod)) {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	turns := c.turns()
	may = func(pods []*v1.Pod) bool {
		c.manager.lock()
		defer c.manager.mu.Unlock()
		return mayAll(turns, c.byGang(pods))
	}
	leave = func(pods []*v1.Pod) {
		c.manager.lock()
		defer c.manager.mu.Unlock()
		for _, t := range turns {
			for _, p := range pods {
				t.Leave(key(p))
			}
		}
	}
	return may, leave
}

// turns returns the turns in which no victim was evicted yet. r.mu is held.
func (c *VictimSearch) turns() (all []*quota.Turns) {
	for _, r := range c.searches() {
		all = append(all, r.Turns())
	}
	return all
}

// mayAll returns whether pods of some gangs may be evicted together, each gang in one of the turns.
func mayAll(turns []*quota.Turns, pods map[string][]string) bool {
	for gangID := range pods {
		if !slices.ContainsFunc(turns, func(t *quota.Turns) bool { return t.May(gangID, pods) }) {
			return false
		}
	}
	return true
}

// OwnFirst extends the search with pods that may be evicted after victims of the own quota: a quota that stays within its min then
// may take back what other quotas borrow. It returns whether there are such pods. With members of several quotas there are none: a
// victim of one quota gives the members of another quota no right.
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

// BelowMin adds members of gangs that do not borrow as a whole to the search. Invariant: no quota lacks more than this part of its min.
// With 1 each quota keeps its min, as without BelowMin. It returns whether more pods may be evicted.
func (c *VictimSearch) BelowMin(lacks quota.Share) bool {
	if !c.helps {
		return false
	}
	c.manager.lock()
	defer c.manager.mu.Unlock()
	more := false
	for _, r := range c.searches() {
		r.BelowMin(lacks)
		borrow := *r
		borrow.BelowMin(0)
		more = more || r.More(&borrow)
	}
	c.rights, c.verdicts, c.freshTurns = map[string]quota.Right{}, nil, nil
	return more
}

// searches returns the searches by which victims may be evicted: in the present state, and after victims of the own quotas.
func (c *VictimSearch) searches() []*quota.Reclaim {
	return append([]*quota.Reclaim{c.reclaim}, c.afterOwn...)
}

// Shortfall returns the largest part of its min that a quota lacks after these pods have terminated.
func (c *VictimSearch) Shortfall(gone []*v1.Pod) quota.Share {
	c.manager.lock()
	defer c.manager.mu.Unlock()
	return c.reclaim.Shortfall(c.byGang(gone))
}

// searchWithout returns the search as if the pods in gone had terminated. r.mu is held.
func (c *VictimSearch) searchWithout(gone []string) *quota.Reclaim {
	return c.manager.currentBook().Without(append(sortedKeys(c.terminating), gone...)...).Reclaim(c.ask, quota.Policy(c.manager.args.Reclaim))
}

// SeveralQuotas returns whether members of several quotas ask. A victim may then help some of the members only.
func (c *VictimSearch) SeveralQuotas() bool {
	return slices.ContainsFunc(c.ask.Need, func(w quota.Want) bool { return w.Quota != c.ask.Need[0].Quota })
}

// CountedAsGone returns the terminating pods, which count as gone.
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

// Revision returns another number after each change of the quotas or their use.
func (r *Manager) Revision() uint64 {
	if !r.Active() {
		return 0
	}
	r.lock()
	defer r.mu.Unlock()
	return r.treeVersion<<32 + r.currentBook().Changes()
}

// EvictionHelps returns whether some eviction for a group frees what its quotas lack, for any choice of its members.
func (r *Manager) EvictionHelps(group *cache.Group) bool {
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
		c := r.newClaim(r.ask(group, members, nil), unlimited, r.policy())
		return c.hasVictim()
	})
}

// hasVictim returns whether any gang may be evicted, also if its quota falls below its min. r.mu is held.
func (c *VictimSearch) hasVictim() bool {
	c.reclaim.BelowMin(math.MaxUint64)
	return c.helps && c.reclaim.Any()
}

func (r *Manager) policy() quota.Policy { return quota.Policy(r.args.Reclaim) }
