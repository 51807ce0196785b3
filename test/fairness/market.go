package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// rules say how the market goes.
type rules struct {
	// starve is after how many minutes of waiting freed capacity is kept for a gang. One gang starves at a time: the one
	// that has waited longest.
	starve int
}

var usual = rules{starve: 240}

// market is a cluster whose gangs run if their quota admits them and there is capacity. An evicted gang begins from the
// start.
type market struct {
	rules
	book  *quota.Book
	gangs []*gang // in the order in which they come
	now   int
	keeps [3]*gang // by team: the gang that freed capacity is kept for

	evictions int
	at        []moment
	owed      int // the most that a team lacked of its fair share, beyond one gang: the smallest that waits, or the starving one
	owedAt    int
}

// moment is what teams used when nothing more could start, and their fair shares then.
type moment struct {
	now            int
	used, entitled [3]int64
}

// play has the trace happen.
func play(trace []*gang, by rules) *market {
	m := &market{rules: by, book: book(), gangs: trace}
	slices.SortStableFunc(m.gangs, func(a, b *gang) int { return cmp.Compare(a.comes, b.comes) })
	for i, g := range m.gangs {
		g.number = i
	}
	for m.happens() {
		for m.round() {
		}
		m.measure()
	}
	return m
}

// happens goes on to the next moment at which gangs come or end, or at which one starves; false if there is none.
func (m *market) happens() bool {
	next := math.MaxInt
	for _, g := range m.gangs {
		switch {
		case g.comes > m.now:
			next = min(next, g.comes)
		case g.runs:
			next = min(next, g.started+g.lasts)
		case g.ended == 0 && g.waitsFrom+m.starve > m.now:
			next = min(next, g.waitsFrom+m.starve)
		}
	}
	if next == math.MaxInt {
		return false
	}
	m.now = next
	for _, g := range m.gangs {
		switch {
		case g.comes == m.now:
			g.waitsFrom = m.now
			m.set(g, quota.Waiting)
		case g.runs && g.started+g.lasts == m.now:
			g.runs, g.ended = false, m.now
			m.book.Remove(g.name)
		}
	}
	return true
}

// set says how a gang is; its members are one pod to the quotas, since they come and go together.
func (m *market) set(g *gang, s quota.State) {
	p := quota.Pod{Name: g.name, Gang: g.name, Quota: teams[g.team].name, Asks: quota.List{gpu: int64(g.size)}, State: s}
	if s == quota.Bound {
		p.Since = int64(m.now)*1000 + int64(g.number)
	}
	m.book.Set(p)
}

// waiting are the gangs that wait, in the order of the queue.
func (m *market) waiting() (all []*gang) {
	for _, g := range m.gangs {
		if g.comes <= m.now && !g.runs && g.ended == 0 {
			all = append(all, g)
		}
	}
	return all
}

// free is how many of the market's places no gang uses.
func (m *market) free() int {
	n := places
	for _, g := range m.gangs {
		if g.runs {
			n -= g.size
		}
	}
	return n
}

// keep has what becomes free kept for a gang that starves, one of each team at a time.
func (m *market) keep(g *gang, refusal *quota.Refusal) {
	if m.keeps[g.team] == nil && refusal != nil && refusal.Cause == quota.OverFree && m.now-g.waitsFrom >= m.starve {
		m.keeps[g.team] = g
		m.book.Hold(m.ask(g), true)
	}
}

// round tries all gangs that wait, and says whether one has started.
func (m *market) round() (started bool) {
	all := m.waiting()
	for _, g := range all {
		m.book.SetPassedOver(g.name, false)
	}
	for _, g := range all {
		if m.starts(g) || m.evicts(g) {
			return true
		}
		_, refusal := m.book.Admit(m.ask(g))
		m.book.SetPassedOver(g.name, refusal == nil || refusal.Cause != quota.NotNext)
		m.keep(g, refusal)
	}
	return false
}

func (m *market) ask(g *gang) quota.Request {
	return quota.Request{Gang: g.name, Need: []quota.Want{{Quota: teams[g.team].name, Asks: quota.List{gpu: int64(g.size)}, Count: 1}}}
}

// starts has a gang run that is admitted, and for which there is room.
func (m *market) starts(g *gang) bool {
	if m.free() < g.size {
		return false
	}
	if _, refusal := m.book.Admit(m.ask(g)); refusal != nil {
		return false
	}
	m.run(g)
	return true
}

func (m *market) run(g *gang) {
	g.runs, g.started, g.waits = true, m.now, max(g.waits, m.now-g.waitsFrom)
	m.set(g, quota.Bound)
	if m.keeps[g.team] == g {
		m.keeps[g.team] = nil
		m.book.ReleaseHold(g.name)
	}
}

// evicts has gangs leave for one, the youngest that suffice, none of them needlessly; and has it run.
func (m *market) evicts(g *gang) bool {
	r := m.book.Reclaim(m.ask(g), quota.AnyPriority)
	if _, helps := r.Shortages(); !helps {
		return false
	}
	var may, leave []*gang
	for _, other := range m.gangs {
		if other.runs && r.Right(other.name) != quota.None {
			may = append(may, other)
		}
	}
	slices.SortStableFunc(may, func(a, b *gang) int {
		return cmp.Or(cmp.Compare(b.started, a.started), cmp.Compare(b.number, a.number))
	})
	for _, v := range may {
		if m.enough(g, r, leave) {
			break
		}
		leave = append(leave, v)
	}
	if len(leave) == 0 || !m.enough(g, r, leave) {
		return false
	}
	for i := 0; i < len(leave)-1; {
		if rest := slices.Delete(slices.Clone(leave), i, i+1); m.enough(g, r, rest) {
			leave = rest
		} else {
			i++
		}
	}
	for _, v := range leave {
		v.runs, v.waitsFrom, v.evicted = false, m.now, v.evicted+1
		m.set(v, quota.Waiting)
		m.evictions++
	}
	m.run(g)
	return true
}

// enough says whether a gang is admitted and has room when others have left.
func (m *market) enough(g *gang, r *quota.Reclaim, leave []*gang) bool {
	n, by := m.free(), map[string][]string{}
	for _, v := range leave {
		n += v.size
		by[v.name] = []string{v.name}
	}
	return n >= g.size && r.MayEvict(by) && r.Admits(by)
}

// measure notes what teams have, and what they lack although a gang of theirs could have it.
func (m *market) measure() {
	is, smallest := moment{now: m.now}, map[int]int{}
	for _, g := range m.waiting() {
		if n, ok := smallest[g.team]; !ok || g.size < n {
			smallest[g.team] = g.size
		}
	}
	for i, t := range teams {
		b, _ := m.book.Sums(t.name)
		is.used[i], is.entitled[i] = b.Used[gpu], b.FairShare[gpu]
		if n, waits := smallest[i]; waits {
			if k := m.keeps[i]; k != nil {
				n = k.size // smaller ones of the team wait for it
			}
			if owed := int(is.entitled[i]-is.used[i]) - n; owed > m.owed {
				m.owed, m.owedAt = owed, m.now
			}
		}
	}
	m.at = append(m.at, is)
}

// report says what has come of it.
func (m *market) report() string {
	var out strings.Builder
	done := 0
	var longest *gang
	for _, g := range m.gangs {
		if g.ended > 0 {
			done++
		}
		if longest == nil || g.waits > longest.waits {
			longest = g
		}
	}
	fmt.Fprintf(&out, "%d of %d gangs have run, until minute %d; %d evictions\n", done, len(m.gangs), m.now, m.evictions)
	for i, t := range teams {
		fmt.Fprintf(&out, "%-8s %s\n", t.name, m.ofTeam(i))
	}
	fmt.Fprintf(&out, "most that a team lacked of its entitlement beyond the size of its next gang: %d places", m.owed)
	if m.owed > 0 {
		fmt.Fprintf(&out, " (minute %d)", m.owedAt)
	}
	fmt.Fprintf(&out, "\nlongest wait: %d minutes (%s, of %d places)", longest.waits, longest.name, longest.size)
	return out.String()
}

// ofTeam is what a team used while it was short of its requests, and its fair share over the same time.
func (m *market) ofTeam(i int) string {
	var used, entitled, minutes int64
	for at, is := range m.at[:len(m.at)-1] {
		if is.used[i] == 0 && is.entitled[i] == 0 {
			continue
		}
		lasts := int64(m.at[at+1].now - is.now)
		used, entitled, minutes = used+is.used[i]*lasts, entitled+is.entitled[i]*lasts, minutes+lasts
	}
	return fmt.Sprintf("had %5.1f places while it asked for any, and was entitled to %5.1f", float64(used)/float64(minutes),
		float64(entitled)/float64(minutes))
}
