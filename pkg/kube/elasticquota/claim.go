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

// Claim is the search for pods that may be evicted for somebody. It is true as long as the book does not change.
type Claim struct {
	room    *Room
	reclaim *quota.Reclaim
	shorts  []quota.Shortage
	helps   bool
	of      string // what is asked of which quotas
	ask     quota.Ask
	first   []*quota.Reclaim       // when those of the own quotas have left, see OwnFirst; none if they do not count
	bare    bool                   // somebody who asks has no quota
	rights  map[string]quota.Right // by gang
	gone    map[string]bool        // pods that count as gone; with true, those who would leave for this claim, too
	from    map[string]bool        // quotas of which pods may be evicted since they have had too much for long; nil is all
	single  []*quota.Turns         // in which no victim was evicted

	verdicts map[[sha256.Size]byte]quota.Verdict // by victim set
}

// Claim begins the search for pods that may be evicted for what a group needs; nil if there are no quotas. A terminating pod counts as gone if it is to be
// gone within a time. For a pod without a gang that the cluster itself cannot do without priorities alone decide, as without quotas: it is mostly of the
// default quota, which takes nothing back from others.
func (r *Room) Claim(group *cache.Group, within time.Duration) *Claim {
	if !r.Active() || len(group.Pending) == 0 {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	a := r.ask(group, claimants(group), nil)
	if group.Alone && a.Priority >= systemCritical {
		return nil
	}
	return r.claim(a, within, r.policy())
}

// claimants are the members of a group for whom others may leave: of those who are needed, those of the lowest ranks.
func claimants(group *cache.Group) (members []gang.Member) {
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

// forEver is as long as anybody may take to leave.
const forEver = time.Duration(math.MaxInt64)

// systemCritical is the least priority of system-cluster-critical and system-node-critical, which users cannot give.
const systemCritical = 2_000_000_000

func (r *Room) claim(a quota.Ask, within time.Duration, policy quota.Policy) *Claim {
	c := &Claim{room: r, ask: a, rights: map[string]quota.Right{}}
	c.reclaim, c.gone = r.reclaim(a, within, policy)
	c.shorts, c.helps = c.reclaim.Shorts()
	for _, w := range a.Need {
		c.of += fmt.Sprintf(" %s: %d of %v", w.Quota, w.Count, w.Asks)
	}
	c.bare = slices.ContainsFunc(a.Need, func(w quota.Want) bool { return w.Quota == "" })
	return c
}

// right is the right to a pod's gang, or to the pod. Among those who have no quota it is as if there were none. r.mu is held.
func (c *Claim) right(p *v1.Pod) quota.Right {
	if of, _ := c.room.quotaOf(p); of == "" {
		if c.bare {
			return quota.Own
		}
		return quota.None
	}
	name := gangOf(p)
	right, known := c.rights[name]
	if !known {
		right = c.reclaim.Right(name)
		for _, first := range c.first {
			if right == quota.None {
				right = first.Right(name)
			}
		}
		c.rights[name] = right
	}
	return right
}

// May says whether it is right that a pod, and its gang, is evicted. Lower says that its priority is lower, which decides within
// a quota.
func (c *Claim) May(p *v1.Pod, lower bool) bool {
	if !c.helps {
		return false
	}
	c.room.lock()
	defer c.room.mu.Unlock()
	if c.gone[key(p)] {
		return true
	}
	if of, _ := c.room.quotaOf(p); c.from != nil && !c.from[of] {
		return false
	}
	switch c.right(p) {
	case quota.None:
		return false
	case quota.Own:
		return lower
	}
	if c.single == nil {
		c.single = c.turns()
	}
	return c.isFree(p) || mayAll(c.single, c.byGang([]*v1.Pod{p}))
}

// QuotaOf is the quota of a member.
func (c *Claim) QuotaOf(member *v1.Pod) string {
	c.room.lock()
	defer c.room.mu.Unlock()
	of, _ := c.room.quotaOf(member)
	return of
}

// Own says whether a pod is of the quota that the members ask first.
func (c *Claim) Own(p *v1.Pod) bool { return c.QuotaOf(p) == c.ask.Need[0].Quota }

// Uses says whether members of a quota may use what a pod leaves: who leaves by right of others in their group leaves for these.
func (c *Claim) Uses(quotaName string, p *v1.Pod) bool {
	c.room.lock()
	defer c.room.mu.Unlock()
	if _, gone := c.gone[key(p)]; gone {
		return true
	}
	of, _ := c.room.quotaOf(p)
	if of == "" || quotaName == "" {
		return of == quotaName
	}
	return c.reclaim.RightFor(quotaName, gangOf(p), of) != quota.None
}

// Frees says whether what a pod has is of a quota that is short of something, so that its leaving helps wherever it is.
func (c *Claim) Frees(p *v1.Pod) bool {
	c.room.lock()
	defer c.room.mu.Unlock()
	name, _ := c.room.quotaOf(p)
	for _, above := range c.room.book.Tree().Path(name) {
		for _, s := range c.shorts {
			if s.Quota == above {
				return true
			}
		}
	}
	return false
}

// Of is equal for those who ask the same of the same quotas.
func (c *Claim) Of() string { return c.of }

// Short says whether anything must be freed in a quota.
func (c *Claim) Short() bool { return len(c.shorts) > 0 }

// mostVerdicts bounds how many verdicts a claim remembers.
const mostVerdicts = 4096

// Check returns what the quotas say of a victim set as a whole, also where victims of the own quota must be evicted before the others. It is
// remembered: a search comes to the same set on several ways.
func (c *Claim) Check(gone []*v1.Pod) quota.Verdict {
	uids := make([]string, len(gone))
	for i, p := range gone {
		uids[i] = string(p.UID)
	}
	slices.Sort(uids)
	set := sha256.Sum256([]byte(strings.Join(slices.Compact(uids), " ")))
	c.room.lock()
	defer c.room.mu.Unlock()
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

// byGang are pods that leave, by gang, without those who count as gone, and without those who need no right.
func (c *Claim) byGang(pods []*v1.Pod) map[string][]string {
	by := map[string][]string{}
	for _, p := range pods {
		if c.isFree(p) {
			continue
		}
		by[gangOf(p)] = append(by[gangOf(p)], key(p))
	}
	return by
}

// isFree says whether a pod may leave whatever its quota has: it counts as gone, or is of no quota where somebody who asks has none either. r.mu is held.
func (c *Claim) isFree(p *v1.Pod) bool {
	if _, gone := c.gone[key(p)]; gone {
		return true
	}
	of, _ := c.room.quotaOf(p)
	return of == "" && c.bare
}

// Turns is for pods that leave one after another: may says whether some may leave, too, as it is when all have left for whom leave was called, and
// before them those of the own quotas where they leave first.
func (c *Claim) Turns() (may func([]*v1.Pod) bool, leave func([]*v1.Pod)) {
	c.room.lock()
	defer c.room.mu.Unlock()
	turns := c.turns()
	may = func(pods []*v1.Pod) bool {
		c.room.lock()
		defer c.room.mu.Unlock()
		return mayAll(turns, c.byGang(pods))
	}
	leave = func(pods []*v1.Pod) {
		c.room.lock()
		defer c.room.mu.Unlock()
		for _, t := range turns {
			for _, p := range pods {
				t.Leave(key(p))
			}
		}
	}
	return may, leave
}

// turns returns the turns in which no victim was evicted yet. r.mu is held.
func (c *Claim) turns() (all []*quota.Turns) {
	for _, r := range c.searches() {
		all = append(all, r.Turns())
	}
	return all
}

// mayAll returns whether pods of some gangs may be evicted together, each gang in one of the turns.
func mayAll(turns []*quota.Turns, pods map[string][]string) bool {
	for gang := range pods {
		if !slices.ContainsFunc(turns, func(t *quota.Turns) bool { return t.May(gang, pods) }) {
			return false
		}
	}
	return true
}

// OwnFirst has the search go on with those, too, who may leave when others of the own quotas of lower priority have: a quota that stays within its
// min then may take back what others borrow. It says whether there are any. Where members are of several quotas there are none: who leaves of
// one quota gives the members of another one no right.
//
//	min = max = 8, 4 of a low pod; a gang of 8 CPU      4 + 8 is above min: who borrows stays
//	when the low pod has left                           0 + 8 is not
func (c *Claim) OwnFirst() bool {
	if !c.helps || c.Several() {
		return false
	}
	c.room.lock()
	defer c.room.mu.Unlock()
	own := c.reclaim.Own()
	if len(own) == 0 {
		return false
	}
	// When all of them have left their quota may ask for less, and others be entitled to more than when some have.
	first := []*quota.Reclaim{c.when(own), c.reclaim.Freed(own...)}
	if !slices.ContainsFunc(first, func(f *quota.Reclaim) bool { return f.More(c.reclaim) }) {
		return false
	}
	c.first, c.rights = first, map[string]quota.Right{}
	return true
}

// BelowMin has the search go on with members of gangs that do not borrow as a whole, as long as no quota lacks a part of what there is of its min then: with
// 1 each quota keeps its min, as it does without BelowMin. It returns whether more pods may be evicted then.
func (c *Claim) BelowMin(lacks quota.Share) bool {
	if !c.helps {
		return false
	}
	c.room.lock()
	defer c.room.mu.Unlock()
	more := false
	for _, r := range c.searches() {
		r.BelowMin(lacks)
		borrow := *r
		borrow.BelowMin(0)
		more = more || r.More(&borrow)
	}
	c.rights, c.verdicts, c.single = map[string]quota.Right{}, nil, nil
	return more
}

// searches lists the searches by which victims may be evicted: as things are, and when victims of the own quotas have terminated.
func (c *Claim) searches() []*quota.Reclaim { return append([]*quota.Reclaim{c.reclaim}, c.first...) }

// Shortfall returns how much the quota lacks of its min that lacks most when these pods have terminated, as a part of what there is.
func (c *Claim) Shortfall(gone []*v1.Pod) quota.Share {
	c.room.lock()
	defer c.room.mu.Unlock()
	return c.reclaim.Shortfall(c.byGang(gone))
}

// when is the search as it is when some pods have left. r.mu is held.
func (c *Claim) when(gone []string) *quota.Reclaim {
	return c.room.asked().Without(append(sorted(c.gone), gone...)...).Reclaim(c.ask, quota.Policy(c.room.args.Reclaim))
}

// Several says whether members of several quotas ask: who may leave for one of them may not for all.
func (c *Claim) Several() bool {
	return slices.ContainsFunc(c.ask.Need, func(w quota.Want) bool { return w.Quota != c.ask.Need[0].Quota })
}

// Leaving are the pods that leave already, and count as gone.
func (c *Claim) Leaving() (all []*v1.Pod) {
	c.room.lock()
	defer c.room.mu.Unlock()
	for _, k := range sorted(c.gone) {
		if p := c.room.pods[k]; p != nil {
			all = append(all, p.Pod)
		}
	}
	return all
}

// Told is another number whenever the quotas were told of something.
func (r *Room) Told() uint64 {
	if !r.Active() {
		return 0
	}
	r.lock()
	defer r.mu.Unlock()
	return r.grown<<32 + r.asked().Changes()
}

// Helps says whether anybody who may be evicted for a group gives back what its quotas are short of, for any choice of its members.
func (r *Room) Helps(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	needed := claimants(group)
	choices := [][]gang.Member{needed}
	if c := r.choosing(group, needed); c != nil && len(group.Needed()) > 0 {
		if some, _ := r.fewest(c, needed, mostChoices); len(some) > 0 {
			choices = some
		}
	}
	return slices.ContainsFunc(choices, func(members []gang.Member) bool {
		c := r.claim(r.ask(group, members, nil), forEver, r.policy())
		return c.anybody()
	})
}

// anybody says whether any gang may be evicted, also one that leaves its quota less than its min. r.mu is held.
func (c *Claim) anybody() bool {
	c.reclaim.BelowMin(math.MaxUint64)
	return c.helps && c.reclaim.Any()
}

// policy says which gangs of other quotas may be evicted.
func (r *Room) policy() quota.Policy { return quota.Policy(r.args.Reclaim) }
