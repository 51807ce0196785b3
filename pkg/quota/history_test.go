package quota_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
	_ "github.com/muster-scheduler/muster/test/seed"
	"github.com/muster-scheduler/muster/test/worlds"
)

// market is gangs that compete for a cluster without nodes: an admitted gang with enough capacity runs.
type market struct {
	*plain
	book    *quota.Book
	now     int64
	evicted int
	seen    map[uint64]string // by version, the state of the quotas
}

// When no gang arrives or ends, evictions end, however the quotas differ. On the way no quota exceeds its max, and no guaranteed gang is
// evicted for another quota.
func TestEvictionsEndWithoutNewGangs(t *testing.T) {
	worlds.Check(t, 1500, []string{"evictions", "several evictions", "waits in the end"}, func(t *rapid.T, y worlds.Tally) {
		p, b := drawWorld(t)
		m := &market{plain: p, book: b, seen: map[uint64]string{}}
		var leaves []string
		for name, s := range p.specs {
			if !s.Inner && !s.Detached {
				leaves = append(leaves, name)
			}
		}
		if slices.Sort(leaves); len(leaves) == 0 {
			return
		}
		for step := range among(t, 3, 30, "steps") {
			m.happen(t, fmt.Sprint("g", step%10), leaves)
			m.round(t)
		}
		for rounds := 0; m.round(t); rounds++ {
			if rounds > 60 {
				t.Fatalf("after %d rounds and %d evictions nothing has come to rest", rounds, m.evicted)
			}
		}
		y.Count("evictions", m.evicted > 0)
		y.Count("several evictions", m.evicted > 2)
		waits := false
		for _, pod := range p.pods {
			waits = waits || pod.State == quota.Waiting
		}
		y.Count("waits in the end", waits)
	})
}

// happen starts or ends a gang.
func (m *market) happen(t *rapid.T, gang string, leaves []string) {
	if names := slices.Concat(m.running(gang), m.waiting(gang)); len(names) > 0 {
		for _, name := range names {
			delete(m.pods, name)
			m.book.Remove(name)
		}
		return
	}
	asks := quota.List{"cpu": int64(among(t, 1, 8, "cpu"))}
	leaf, priority := rapid.SampledFrom(leaves).Draw(t, "leaf"), int32(among(t, 0, 2, "priority"))
	for i := range among(t, 1, 4, "members") {
		m.set(quota.Pod{Name: fmt.Sprintf("%s-%d", gang, i), Gang: gang, Quota: leaf, Asks: asks, Priority: priority})
	}
}

func (m *market) waiting(gang string) (names []string) {
	for name, pod := range m.pods {
		if pod.Gang == gang && pod.State == quota.Waiting {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *market) set(p quota.Pod) {
	m.pods[p.Name] = p
	m.book.Set(p)
}

// round tries every waiting gang, and returns whether anything changed.
func (m *market) round(t *rapid.T) (changed bool) {
	gangs := m.gangs()
	slices.SortStableFunc(gangs, func(a, b string) int { return int(m.gang(b).Priority - m.gang(a).Priority) })
	for _, g := range gangs {
		m.book.SetPassedOver(g, false)
	}
	for _, g := range gangs {
		if len(m.waiting(g)) == 0 {
			continue
		}
		if m.starts(g, nil) || m.evicts(t, g) {
			changed = true
			for _, other := range gangs {
				m.book.SetPassedOver(other, false)
			}
			m.check(t)
			continue
		}
		_, refusal := m.book.Admit(askOf(m.plain, g))
		m.book.SetPassedOver(g, refusal == nil || refusal.Cause != quota.NotNext)
	}
	return changed
}

// room returns whether the capacity suffices for a gang without some gangs.
func (m *market) room(gang string, gone []string) bool {
	after := m.without(gone...)
	return after.taken(root, "cpu")+m.demand(gang, root, "cpu", true, true) <= m.totals["cpu"]
}

// starts runs a gang if it is admitted and there is capacity.
func (m *market) starts(gang string, gone []string) bool {
	if _, refusal := m.book.Admit(askOf(m.plain, gang)); refusal != nil && gone == nil || !m.room(gang, nil) {
		return false
	}
	m.now++
	for _, name := range m.waiting(gang) {
		pod := m.pods[name]
		pod.State, pod.Since = quota.Bound, m.now
		m.set(pod)
	}
	return true
}

// evicts finds the fewest gangs that may be evicted for one, evicts them, and runs it.
func (m *market) evicts(t *rapid.T, gang string) bool {
	r := m.book.Reclaim(askOf(m.plain, gang), quota.AnyPriority)
	var may []string
	for _, g := range m.gangs() {
		if len(m.running(g)) > 0 && r.Right(g) != quota.None {
			may = append(may, g)
		}
	}
	for size := 1; size <= min(3, len(may)); size++ {
		for _, set := range subsets(may, size) {
			leave, pods := map[string][]string{}, []string(nil)
			for _, g := range set {
				leave[g], pods = m.running(g), append(pods, m.running(g)...)
			}
			if !r.Enough(leave) || !m.room(gang, pods) {
				continue
			}
			for _, g := range set {
				m.justified(t, gang, g)
			}
			for _, name := range pods {
				pod := m.pods[name]
				pod.State = quota.Waiting
				m.set(pod)
			}
			m.evicted++
			if !m.starts(gang, pods) {
				t.Fatalf("%s evicted %v and does not start", gang, set)
			}
			return true
		}
	}
	return false
}

// justified checks that a guaranteed gang is evicted only for its own quota.
func (m *market) justified(t *rapid.T, gang, victim string) {
	if m.right(gang, victim, m.plain) == "" {
		t.Fatalf("%s evicts %s, which it may not", gang, victim)
	}
}

func subsets(of []string, size int) (all [][]string) {
	if size == 0 {
		return [][]string{nil}
	}
	for i, first := range of {
		for _, rest := range subsets(of[i+1:], size-1) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// check checks that no quota exceeds its max, and that equal versions mean equal states.
func (m *market) check(t *rapid.T) {
	for q := range m.specs {
		version := m.book.Version(q)
		is, _ := m.book.Sums(q)
		words := fmt.Sprint(q, is.Used, is.Reserved, is.Fixed, is.Request, is.FairShare)
		if was, known := m.seen[version]; known && was != words {
			t.Fatalf("version %d was %s and is %s", version, was, words)
		}
		m.seen[version] = words
		for _, r := range resources {
			if most, named := m.limit(q, r); named && m.taken(q, r) > most {
				t.Fatalf("%s has %d %s of at most %d", q, m.taken(q, r), r, most)
			}
		}
	}
}
