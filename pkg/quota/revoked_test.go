package quota_test

import (
	"maps"
	"slices"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// revoked returns the gangs that are evicted for quotas alone, by name: their running pods are given by gang, and no gang can spare any.
func revoked(r *quota.Reclaim, running map[string][]quota.Pod) (gone []string) {
	c := &check{reclaim: r}
	var gangs []evict.Gang
	for _, name := range slices.Sorted(maps.Keys(running)) {
		right := r.Right(name)
		if len(running[name]) == 0 || right != quota.ByMin && right != quota.ByShares {
			continue
		}
		g := evict.Gang{Whole: true}
		for _, p := range running[name] {
			v := evict.Victim{Name: p.Name, Priority: p.Priority, Started: p.Since, Gang: len(gangs) + 1}
			g.Cost = g.Cost.Add(evict.CostOf(v))
			c.victims, c.pods = append(c.victims, v), append(c.pods, p)
		}
		gangs = append(gangs, g)
	}
	for name := range c.byGang(evict.Cheapest(evict.Anywhere(c.victims, gangs, c)).Victims) {
		gone = append(gone, name)
	}
	slices.Sort(gone)
	return gone
}

// check is the quota check for victims that are evicted for quotas alone.
type check struct {
	reclaim *quota.Reclaim
	victims []evict.Victim
	pods    []quota.Pod
}

func (c *check) byGang(picks []evict.Pick) map[string][]string {
	by := map[string][]string{}
	for _, p := range picks {
		pod := c.pods[p.Victim]
		by[pod.Gang] = append(by[pod.Gang], pod.Name)
	}
	return by
}

func (c *check) Check(gone []evict.Pick) evict.Verdict {
	return map[quota.Verdict]evict.Verdict{
		quota.Admitted: evict.Admitted, quota.Short: evict.Short, quota.Exceeds: evict.Exceeds,
	}[c.reclaim.Revokes(c.byGang(gone))]
}
func (c *check) Short() bool           { return false }
func (c *check) Frees(evict.Pick) bool { return true }
func (c *check) Own(evict.Pick) bool   { return false }
func (c *check) Turns() evict.Turns    { return turns{c, c.reclaim.Turns()} }

type turns struct {
	*check
	*quota.Turns
}

func (t turns) May(picks []evict.Pick) bool {
	by := t.byGang(picks)
	for gang := range by {
		if !t.Turns.May(gang, by) {
			return false
		}
	}
	return true
}

func (t turns) Evict(picks []evict.Pick) {
	for _, pods := range t.byGang(picks) {
		t.Leave(pods...)
	}
}
