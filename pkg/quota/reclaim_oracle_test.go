package quota_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/test/worlds"
)

// without is the twin without some pods.
func (p *plain) without(pods ...string) *plain {
	some := *p
	if some.begin == nil {
		some.begin = p
	}
	some.pods = map[string]quota.Pod{}
	for name, pod := range p.pods {
		if !slices.Contains(pods, name) {
			some.pods[name] = pod
		}
	}
	return &some
}

func (p *plain) running(gang string) (names []string) {
	for name, pod := range p.pods {
		if pod.Gang == gang && pod.State != quota.Waiting {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// right returns the reason why one gang may be evicted for another, or "". It uses the fair shares and guarantees
// before any eviction.
func (p *plain) right(asker, victim string, begin *plain) string {
	g := begin.gang(victim)
	worst := ""
	for _, name := range begin.running(victim) {
		if g.Fixed {
			return ""
		}
		best := ""
		for leaf := range p.paths(asker) {
			if len(p.children(leaf)) > 0 {
				continue
			}
			is := p.rightIn(asker, leaf, victim, begin.pods[name].Quota, begin)
			if is != "" && (best == "" || order[is] < order[best]) {
				best = is
			}
		}
		if best == "" {
			return ""
		}
		if worst == "" || order[best] > order[worst] {
			worst = best
		}
	}
	return worst
}

var order = map[string]int{"own": 1, "by min": 2, "by shares": 3}

func (p *plain) rightIn(asker, leaf, victim, of string, begin *plain) string {
	if leaf == of {
		if begin.gang(victim).Priority < begin.gang(asker).Priority {
			return "own"
		}
		return ""
	}
	mine, others := p.apart(leaf, of)
	if mine == "" || begin.classes(others)[victim] != quota.Borrows {
		return ""
	}
	named, within, shared, over := false, true, true, false
	for _, r := range resources {
		w := begin.demand(asker, mine, r, true, true)
		if w == 0 {
			continue
		}
		if _, ok := p.specs[mine].Min[r]; ok {
			named, within = true, within && begin.taken(mine, r)+w <= p.least(mine, r)
		}
		if _, ok := p.limit(mine, r); ok {
			shared = shared && begin.taken(mine, r) <= begin.entitled(mine, r)-w
			if _, ok := p.limit(others, r); ok {
				over = over || p.taken(others, r) > begin.entitled(others, r)
			}
		}
	}
	switch {
	case named && within:
		return "by min"
	case shared && over:
		return "by shares"
	}
	return ""
}

// leaves are the quotas of a gang's request.
func (p *plain) leaves(gang string) map[string]bool {
	all := map[string]bool{}
	for leaf := range p.paths(gang) {
		if len(p.children(leaf)) == 0 {
			all[leaf] = true
		}
	}
	return all
}

// leavesFor returns whether a pod may be evicted for members of one quota.
func (p *plain) leavesFor(asker, leaf, pod string) bool {
	is := p.pods[pod]
	return !p.gang(is.Gang).Fixed && p.rightIn(asker, leaf, is.Gang, is.Quota, p) != ""
}

// eachByRight returns whether the members of any quotas are admitted with only the victims that may be evicted for one of these.
func (p *plain) eachByRight(asker string, gone []string) bool {
	leaves := slices.Sorted(maps.Keys(p.leaves(asker)))
	for set := 1; set < 1<<len(leaves); set++ {
		var some, leave []string
		for i, leaf := range leaves {
			if set&(1<<i) != 0 {
				some = append(some, leaf)
			}
		}
		for _, pod := range gone {
			if slices.ContainsFunc(some, func(leaf string) bool { return p.leavesFor(asker, leaf, pod) }) {
				leave = append(leave, pod)
			}
		}
		after := p.without(leave...)
		for name, pod := range p.pods {
			if pod.Gang == asker && pod.State == quota.Waiting && !slices.Contains(some, pod.Quota) {
				pod.Asks = nil
				after.pods[name] = pod
			}
		}
		if is := after.admit(asker); is != "" && is != quota.NotNext {
			return false
		}
	}
	return true
}

// apart returns the quotas next below the lowest one above both.
func (p *plain) apart(a, b string) (mine, others string) {
	x, y := p.path(a), p.path(b)
	slices.Reverse(x)
	slices.Reverse(y)
	if x[0] != y[0] {
		return "", ""
	}
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i], y[i]
		}
	}
	return "", ""
}

// mayLeave returns whether gangs may be evicted one after the other in some order.
func (p *plain) mayLeave(asker string, gangs []string, begin *plain) bool {
	if len(gangs) == 0 {
		return true
	}
	for i, g := range gangs {
		if p.right(asker, g, begin) == "" {
			continue
		}
		rest := slices.Delete(slices.Clone(gangs), i, i+1)
		if p.without(begin.running(g)...).mayLeave(asker, rest, begin) {
			return true
		}
	}
	return false
}

// compareTurns evicts gangs in their order, as far as they may be after the ones before.
func compareTurns(t *rapid.T, p *plain, r *quota.Reclaim, asker string, gangs []string, y worlds.Tally) {
	turns, now := r.Turns(), p.without()
	for _, g := range gangs {
		want := now.right(asker, g, p) != ""
		if got := turns.May(g, nil); got != want {
			t.Fatalf("%s may evict %s of %v in turn: %v, and not %v", asker, g, gangs, got, want)
		}
		if want {
			turns.Leave(p.running(g)...)
			now = now.without(p.running(g)...)
		}
		y.Count("not in turn", !want && p.right(asker, g, p) != "")
	}
}

func compareReclaim(t *rapid.T, p *plain, b *quota.Book, ask quota.Request, y worlds.Tally) {
	r := b.Reclaim(ask, quota.AnyPriority)
	var victims []string
	for _, g := range p.gangs() {
		if g == ask.Gang || len(p.running(g)) == 0 {
			continue
		}
		victims = append(victims, g)
		got := map[quota.Right]string{quota.SameQuota: "own", quota.ByMin: "by min", quota.ByFairShare: "by shares"}[r.Right(g)]
		want := p.right(ask.Gang, g, p)
		if y.Count(want, want != ""); got != want {
			t.Fatalf("%s may evict %s %q, and not %q", ask.Gang, g, got, want)
		}
		for leaf := range p.leaves(ask.Gang) {
			for _, pod := range p.running(g) {
				want := p.leavesFor(ask.Gang, leaf, pod)
				if got := r.RightFor(leaf, g, p.pods[pod].Quota) != quota.None; got != want {
					t.Fatalf("%s of %s may have %s leave: %v, and not %v", ask.Gang, leaf, pod, got, want)
				}
			}
		}
	}
	shorts, helps := r.Shortages()
	for set := range 1 << len(victims) {
		leave, gangs, pods := map[string][]string{}, []string(nil), []string(nil)
		for i, g := range victims {
			if set&(1<<i) != 0 {
				leave[g], gangs, pods = p.running(g), append(gangs, g), append(pods, p.running(g)...)
			}
		}
		after := p.without(pods...)
		right := p.admit(ask.Gang) != quota.NotNext && p.mayLeave(ask.Gang, gangs, p)
		if got := r.MayEvict(leave); got != right {
			t.Fatalf("%s may evict %v: %v, and not %v", ask.Gang, gangs, got, right)
		}
		compareTurns(t, p, r, ask.Gang, gangs, y)
		want := right && after.admit(ask.Gang) == "" && p.eachByRight(ask.Gang, pods)
		if got := r.Enough(leave); got != want {
			t.Fatalf("%s evicts %v: %v, and not %v", ask.Gang, gangs, got, want)
		}
		if want {
			y["enough"]++
			if !helps {
				t.Fatalf("%s: no victims should help, but %v do", ask.Gang, gangs)
			}
			for _, short := range shorts {
				for name, n := range short.Amount {
					if freed := p.taken(short.Quota, name) - after.taken(short.Quota, name); freed < n && !after.lent(p, ask.Gang) {
						t.Fatalf("%s: %v free %d %s of %s, which was short of %d", ask.Gang, gangs, freed, name, short.Quota, n)
					}
				}
			}
		} else {
			y["not enough"]++
		}
	}
}

// lent returns whether a gang is admitted above a fair share.
func (p *plain) lent(begin *plain, gang string) bool {
	for q := range p.paths(gang) {
		for _, r := range resources {
			w := p.demand(gang, q, r, true, true)
			if most, _ := p.limit(q, r); w > 0 && p.taken(q, r) <= most-w && p.taken(q, r) > begin.entitled(q, r)-w {
				return true
			}
		}
	}
	return false
}
