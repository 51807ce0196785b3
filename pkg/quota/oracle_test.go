package quota_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/test/worlds"
)

// plain is the slow twin of a Book: it stores the changes, and recomputes everything for each question.
type plain struct {
	specs  map[string]quota.Spec
	totals quota.List
	pods   map[string]quota.Pod
	passed map[string]bool
	with   map[string][]string // gangs that start together
	since  map[string]int64
	rich   bool   // few limits, and enough for one gang: quotas compete
	begin  *plain // before the removals: requests and fair shares are of then
}

const root = "root"

func (p *plain) children(of string) (all []string) {
	for name, s := range p.specs {
		if s.Parent == of && !s.Detached {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (p *plain) path(of string) (up []string) {
	for name := of; name != ""; name = p.specs[name].Parent {
		up = append(up, name)
		if p.specs[name].Detached {
			break
		}
	}
	return up
}

func (p *plain) within(pod quota.Pod, of string) bool { return slices.Contains(p.path(pod.Quota), of) }

// taken is what placed pods use of a quota.
func (p *plain) taken(of, r string) (n int64) {
	for _, pod := range p.pods {
		if pod.State != quota.Waiting && p.within(pod, of) {
			n += pod.Asks[r]
		}
	}
	return n
}

func (p *plain) limit(of, r string) (most int64, named bool) {
	s := p.specs[of]
	if n, ok := s.Max[r]; ok {
		return n, true
	}
	_, ok := s.Min[r]
	return math.MaxInt64, ok
}

func (p *plain) least(of, r string) int64 {
	most, _ := p.limit(of, r)
	return min(p.specs[of].Min[r], most)
}

func (p *plain) weight(of, r string) int64 {
	if w, ok := p.specs[of].Weight[r]; ok {
		return w
	}
	if most, ok := p.specs[of].Max[r]; ok {
		return most
	}
	heaviest := int64(1)
	for _, c := range p.children(p.specs[of].Parent) {
		w, ok := p.specs[c].Weight[r]
		if !ok {
			w = p.specs[c].Max[r]
		}
		heaviest = max(heaviest, w)
	}
	return heaviest
}

// demand is a gang's use and request of a quota, by state.
func (p *plain) demand(gang, of, r string, waits, below bool) (n int64) {
	for _, pod := range p.pods {
		if pod.Gang == gang && (pod.State == quota.Waiting) == waits && (pod.Quota == of || below && p.within(pod, of)) {
			n += pod.Asks[r]
		}
	}
	return n
}

func (p *plain) gangs() (all []string) {
	for _, pod := range p.pods {
		if !slices.Contains(all, pod.Gang) {
			all = append(all, pod.Gang)
		}
	}
	slices.Sort(all)
	return all
}

var resources = []string{"cpu", "gpu"}

// asks returns whether a gang's request to a quota counts: it would fit every quota above without other gangs.
func (p *plain) asks(gang, leaf string) bool {
	if p.begin != nil {
		return p.begin.asks(gang, leaf)
	}
	waits := false
	for _, pod := range p.pods {
		waits = waits || pod.Gang == gang && pod.Quota == leaf && pod.State == quota.Waiting
	}
	for _, q := range p.path(leaf) {
		for _, r := range resources {
			most, _ := p.limit(q, r)
			if w := p.demand(gang, leaf, r, true, false); w > 0 && p.demand(gang, leaf, r, false, false) > most-w {
				return false
			}
		}
	}
	return waits
}

func (p *plain) request(of, r string) (n int64) {
	for _, c := range p.children(of) {
		n += p.request(c, r)
	}
	for _, g := range p.gangs() {
		n += p.demand(g, of, r, false, false)
		if p.asks(g, of) {
			n += p.demand(g, of, r, true, false)
		}
	}
	most, _ := p.limit(of, r)
	if n = min(n, most); p.specs[of].NotLent {
		n = max(n, p.least(of, r))
	}
	return n
}

func (p *plain) entitled(of, r string) int64 {
	if p.begin != nil {
		return p.begin.entitled(of, r)
	}
	most, named := p.limit(of, r)
	if p.specs[of].Detached {
		return most
	}
	if of == root {
		total := p.totals[r]
		for name, s := range p.specs {
			if s.Detached {
				total -= p.taken(name, r)
			}
		}
		return min(max(total, 0), most)
	}
	if !named {
		return math.MaxInt64
	}
	parent := p.specs[of].Parent
	total := p.entitled(parent, r)
	var among []string
	for _, c := range p.children(parent) {
		if _, named := p.limit(c, r); named {
			among = append(among, c)
		} else if total != math.MaxInt64 {
			total = max(0, total-p.taken(c, r))
		}
	}
	return p.fill(total, among, r)[of]
}

// fill is water filling in fractions.
func (p *plain) fill(total int64, among []string, r string) map[string]int64 {
	gets, least := map[string]int64{}, map[string]int64{}
	var mins int64
	for _, c := range among {
		least[c] = p.least(c, r)
		mins += least[c]
	}
	left := total
	for _, c := range among {
		if mins > total {
			least[c] = new(big.Int).Div(new(big.Int).Mul(big.NewInt(total), big.NewInt(least[c])), big.NewInt(mins)).Int64()
		}
		gets[c] = least[c]
		if q := p.request(c, r); q < least[c] && !p.specs[c].NotLent {
			gets[c] = q
		}
		left -= gets[c]
	}
	for left > 0 {
		var want []string
		sum := new(big.Rat)
		for _, c := range among {
			if p.request(c, r) > gets[c] && p.weight(c, r) > 0 {
				want = append(want, c)
				sum.Add(sum, new(big.Rat).SetInt64(p.weight(c, r)))
			}
		}
		if len(want) == 0 {
			break
		}
		part, rest, given := map[string]int64{}, map[string]*big.Rat{}, int64(0)
		for _, c := range want {
			exact := new(big.Rat).SetInt64(p.weight(c, r))
			exact.Quo(exact.Mul(exact, new(big.Rat).SetInt64(left)), sum)
			floor := new(big.Int).Div(exact.Num(), exact.Denom())
			part[c], rest[c] = floor.Int64(), new(big.Rat).Sub(exact, new(big.Rat).SetInt(floor))
			given += part[c]
		}
		order := slices.Clone(want)
		slices.SortStableFunc(order, func(a, b string) int { return rest[b].Cmp(rest[a]) })
		for _, c := range order[:left-given] {
			part[c]++
		}
		for _, c := range want {
			n := min(part[c], p.request(c, r)-gets[c])
			gets[c], left = gets[c]+n, left-n
		}
	}
	return gets
}

// share in millionths, cut off after the part and after the weight.
func (p *plain) share(of string) *big.Int {
	most := big.NewInt(0)
	for _, r := range resources {
		_, named := p.limit(of, r)
		over := p.taken(of, r) - p.least(of, r)
		all := p.entitled(root, r)
		if p.specs[of].Detached {
			all = p.entitled(of, r)
		}
		if !named || over <= 0 || all == math.MaxInt64 {
			continue
		}
		s := new(big.Int).SetUint64(math.MaxUint64)
		if all > 0 {
			s = new(big.Int).Div(new(big.Int).Mul(big.NewInt(over), big.NewInt(1_000_000)), big.NewInt(all))
			if p.specs[of].Parent != "" && !p.specs[of].Detached {
				sum := new(big.Int)
				for _, c := range p.children(p.specs[of].Parent) {
					sum.Add(sum, big.NewInt(p.weight(c, r)))
				}
				if w := p.weight(of, r); w == 0 {
					s = new(big.Int).SetUint64(math.MaxUint64)
				} else {
					s = s.Div(s.Mul(s, sum), big.NewInt(w))
				}
			}
		}
		if s.Cmp(most) > 0 {
			most = s
		}
	}
	return most
}

func (p *plain) before(a, b string) bool {
	if c := p.share(a).Cmp(p.share(b)); c != 0 {
		return c < 0
	}
	if p.since[a] != p.since[b] {
		return p.since[a] < p.since[b]
	}
	return strings.Compare(a, b) < 0
}

// idle is the min reserved for a quota and the quotas below it that lend nothing.
func (p *plain) idle(of, r string) (n int64) {
	for _, c := range p.children(of) {
		n += p.idle(c, r)
	}
	if p.specs[of].NotLent {
		n = max(n, p.least(of, r)-p.taken(of, r))
	}
	return n
}

// free is the tree's free capacity for requests on some paths, whose members request so much of a quota.
func (p *plain) free(on map[string]bool, r string, demand func(q, r string) int64) int64 {
	all, known := p.entitled(root, r), false
	for q := range p.specs {
		_, named := p.limit(q, r)
		known = known || named
	}
	if all == math.MaxInt64 || !known {
		return math.MaxInt64
	}
	all -= p.taken(root, r)
	for q := range on {
		for _, c := range p.children(q) {
			switch {
			case !on[c]:
				all -= p.idle(c, r)
			case len(p.children(c)) == 0: // what a quota keeps is for its own members only
				all -= max(0, p.idle(c, r)-demand(c, r))
			}
		}
	}
	return all
}

// paths are the quotas of a gang's waiting members.
func (p *plain) paths(gang string) map[string]bool {
	on := map[string]bool{}
	for _, pod := range p.pods {
		if pod.Gang == gang && pod.State == quota.Waiting {
			for _, q := range p.path(pod.Quota) {
				on[q] = true
			}
		}
	}
	return on
}

// admit returns why a gang is not admitted; "" if it is.
func (p *plain) admit(gang string) quota.Cause {
	on := p.paths(gang)
	for q := range on {
		for _, r := range resources {
			most, _ := p.limit(q, r)
			if w := p.demand(gang, q, r, true, true); w > 0 && p.taken(q, r) > most-w {
				return quota.OverMax
			}
		}
	}
	for q := range on {
		for _, r := range resources {
			var fixed, has int64
			for _, pod := range p.pods {
				if pod.Fixed && p.within(pod, q) && (pod.State != quota.Waiting || pod.Gang == gang) {
					has += pod.Asks[r]
					if pod.State == quota.Waiting {
						fixed += pod.Asks[r]
					}
				}
			}
			if _, named := p.specs[q].Min[r]; named && fixed > 0 && has > p.least(q, r) {
				return quota.OverMin
			}
		}
	}
	var later bool
	for q := range on {
		above := false
		for _, r := range resources {
			_, named := p.limit(q, r)
			if w := p.demand(gang, q, r, true, true); w > 0 && named && p.taken(q, r) > p.entitled(q, r)-w {
				above = true
			}
		}
		if !above || p.specs[q].Detached {
			continue
		}
		for _, r := range resources {
			of := func(q, r string) int64 { return p.demand(gang, q, r, true, true) }
			if w := of(root, r); w > 0 && p.free(on, r, of) < w {
				return quota.OverFree
			}
		}
		for _, s := range p.children(p.specs[q].Parent) {
			later = later || q != root && !on[s] && p.before(s, q) && p.starter(s, gang)
		}
	}
	if later {
		return quota.NotNext
	}
	return ""
}

// group is the gangs that start together with a gang.
func (p *plain) group(gang string) []string {
	if all := p.with[gang]; all != nil {
		return all
	}
	return []string{gang}
}

// starter returns whether a gang that could start waits below a quota, and has its turn before another one.
func (p *plain) starter(below, gang string) bool {
	for _, g := range p.gangs() {
		if p.passed[g] || !p.paths(g)[below] || slices.Contains(p.group(gang), g) {
			continue
		}
		here, on := false, p.paths(g)
		for leaf := range on {
			if len(p.children(leaf)) == 0 && slices.Contains(p.path(leaf), below) && p.asks(g, leaf) {
				here = true
			}
		}
		could, demand := true, func(q, r string) (n int64) {
			for _, of := range p.group(g) {
				n += p.demand(of, q, r, true, true)
			}
			return n
		}
		for _, of := range p.group(g) {
			for q := range p.paths(of) {
				on[q] = true
			}
		}
		for q := range on {
			for _, r := range resources {
				most, _ := p.limit(q, r)
				w := demand(q, r)
				could = could && (w == 0 || p.taken(q, r) <= most-w)
			}
		}
		for _, r := range resources {
			w := demand(root, r)
			could = could && (w == 0 || p.free(on, r, demand) >= w)
		}
		if here && could && p.turn(p.group(g), gang) {
			return true
		}
	}
	return false
}

// turn returns whether some gangs have their turn before another gang, which borrows in a quota served after all of theirs.
func (p *plain) turn(some []string, other string) bool {
	mine := p.borrowing(some)
	for _, theirs := range p.borrowing([]string{other}) {
		if !slices.ContainsFunc(mine, func(q string) bool { return q == theirs || !p.sooner(q, theirs) }) {
			return true
		}
	}
	return false
}

// borrowing are the quotas of pods on whose paths gangs would exceed a fair share.
func (p *plain) borrowing(gangs []string) (leaves []string) {
	for leaf, s := range p.specs {
		borrows, asked := false, false
		for _, q := range p.path(leaf) {
			for _, r := range resources {
				_, named := p.limit(q, r)
				w := int64(0)
				for _, g := range gangs {
					w += p.demand(g, q, r, true, true)
				}
				borrows = borrows || q != root && w > 0 && named && p.taken(q, r) > p.entitled(q, r)-w
			}
		}
		for _, pod := range p.pods {
			asked = asked || pod.Quota == leaf && pod.State == quota.Waiting && slices.Contains(gangs, pod.Gang)
		}
		if borrows && asked && !s.Detached {
			leaves = append(leaves, leaf)
		}
	}
	return leaves
}

// sooner returns which of two quotas of pods is served first.
func (p *plain) sooner(a, b string) bool {
	x, y := p.path(a), p.path(b)
	if x[len(x)-1] != y[len(y)-1] {
		return x[len(x)-1] < y[len(y)-1]
	}
	for x[len(x)-2] == y[len(y)-2] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return p.before(x[len(x)-2], y[len(y)-2])
}

// guaranteed lists the gangs that fit the min of a quota.
func (p *plain) guaranteed(of string) map[string]bool {
	out := map[string]bool{}
	for g, class := range p.classes(of) {
		if class == quota.Guaranteed {
			out[g] = true
		}
	}
	return out
}

// classes are the classes of the gangs at a quota.
func (p *plain) classes(of string) map[string]quota.Class {
	out, sure, kept := map[string]quota.Class{}, map[string]bool{}, map[string]bool{}
	var running []string
	for _, g := range p.gangs() {
		has := false
		for _, pod := range p.pods {
			has = has || pod.Gang == g && pod.State != quota.Waiting && p.within(pod, of)
		}
		if !has {
			continue
		}
		running, sure[g] = append(running, g), len(p.children(of)) > 0
		for _, c := range p.children(of) {
			below := false
			for _, pod := range p.pods {
				below = below || pod.Gang == g && pod.State != quota.Waiting && p.within(pod, c)
			}
			sure[g] = sure[g] && (!below || p.classes(c)[g] == quota.Guaranteed)
			kept[g] = kept[g] || below && p.classes(c)[g] != quota.Borrows
		}
	}
	slices.SortFunc(running, func(a, b string) int {
		switch x, y := p.gang(a), p.gang(b); {
		case sure[a] != sure[b] && sure[a]:
			return -1
		case sure[a] != sure[b]:
			return 1
		case x.Priority != y.Priority:
			return int(y.Priority - x.Priority)
		case x.Since != y.Since:
			return int(x.Since - y.Since)
		}
		return strings.Compare(a, b)
	})
	rest := map[string]int64{}
	for _, g := range running {
		for r := range p.specs[of].Min {
			rest[r] += p.demand(g, of, r, false, true)
		}
	}
	for _, g := range slices.Backward(running) {
		leaves, takes := true, len(p.specs[of].Min) == 0
		for r := range p.specs[of].Min {
			if n := p.demand(g, of, r, false, true); n > 0 {
				leaves, takes = leaves && rest[r]-n >= p.least(of, r), true
			}
		}
		if leaves && takes && !kept[g] && !p.gang(g).Fixed {
			out[g] = quota.Borrows
			for r := range p.specs[of].Min {
				rest[r] -= p.demand(g, of, r, false, true)
			}
		}
	}
	has := map[string]int64{}
	for _, g := range running {
		if out[g] == quota.Borrows {
			continue
		}
		fits := len(p.specs[of].Min) > 0
		for r := range p.specs[of].Min {
			n := p.demand(g, of, r, false, true)
			fits = fits && (n == 0 || has[r]+n <= p.least(of, r))
		}
		if out[g] = quota.Straddling; !fits {
			continue
		}
		out[g] = quota.Guaranteed
		for r := range p.specs[of].Min {
			has[r] += p.demand(g, of, r, false, true)
		}
	}
	return out
}

// gang is the pod with its gang's priority and start.
func (p *plain) gang(name string) (is quota.Pod) {
	is.Priority, is.Since = math.MinInt32, math.MaxInt64
	for _, pod := range p.pods {
		if pod.Gang == name {
			is.Priority, is.Fixed = max(is.Priority, pod.Priority), is.Fixed || pod.Fixed
			if pod.State != quota.Waiting {
				is.Since = min(is.Since, pod.Since)
			}
		}
	}
	return is
}

// drawWorld makes a small tree.
func drawWorld(t *rapid.T) (*plain, *quota.Book) {
	p := &plain{
		specs: map[string]quota.Spec{root: {Name: root, Inner: true}}, totals: quota.List{}, pods: map[string]quota.Pod{},
		passed: map[string]bool{}, with: map[string][]string{}, since: map[string]int64{},
	}
	rich := rapid.Bool().Draw(t, "rich")
	p.rich = rich
	amounts := func(label string, odds int) quota.List {
		l := quota.List{}
		for _, r := range resources {
			if rich && label == "max" && r == "cpu" || !rich && rapid.IntRange(0, 9).Draw(t, label+r) < odds {
				l[r] = int64(rapid.IntRange(0, 24).Draw(t, label+"of"+r))
				if rich {
					l[r] += 16
				}
			}
		}
		return l
	}
	for _, r := range resources {
		p.totals[r] = int64(among(t, 0, 3, "total"+r) * among(t, 4, 14, "times"+r))
		if rich {
			p.totals[r] = int64(among(t, 16, 32, "much"+r))
		}
	}
	above := []string{root}
	quotas := among(t, 1, 7, "quotas")
	if rich {
		quotas = 2 + quotas%3
	}
	for i := range quotas {
		name := fmt.Sprintf("q%d", i)
		s := quota.Spec{
			Name: name, Parent: rapid.SampledFrom(above).Draw(t, "parent"), Min: amounts("min", 4), Max: amounts("max", 6),
			NotLent: among(t, 0, 3, "keeps") == 0, Inner: !rich && among(t, 0, 3, "inner") == 0,
		}
		if among(t, 0, 2, "weighs") == 0 {
			s.Weight = amounts("weight", 6)
		}
		for r, n := range s.Min {
			if most, ok := s.Max[r]; ok && n > most {
				s.Min[r] = most
			}
		}
		if s.Parent == root && among(t, 0, 5, "apart") == 0 {
			s.Detached, s.Inner = true, false
		}
		p.specs[name] = s
		if s.Inner && len(above) < 4 {
			above = append(above, name)
		}
	}
	var specs []quota.Spec
	for _, name := range slices.Sorted(keysOf(p.specs)) {
		specs = append(specs, p.specs[name])
	}
	tree, problems := quota.NewTree(specs)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	b := quota.NewBook(tree)
	b.Total(root, p.totals)
	return p, b
}

// among draws a number from low to high, all equally often.
func among(t *rapid.T, low, high int, label string) int {
	return low + worlds.Even(t, high-low+1, label)
}

func keysOf[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// After any history a Book answers as its twin, which recomputes everything.
func TestBook(t *testing.T) {
	kinds := []string{
		"admitted", "max", "min", "runtime", "not next", "guaranteed", "borrows", "own", "by min", "by shares", "enough", "not enough", "leaving",
	}
	worlds.Check(t, 10000, kinds, func(t *rapid.T, y worlds.Tally) {
		p, b := drawWorld(t)
		var leaves []string
		for name, s := range p.specs {
			if !s.Inner {
				leaves = append(leaves, name)
			}
		}
		if slices.Sort(leaves); len(leaves) == 0 {
			return
		}
		for step := range among(t, 1, 14, "steps") {
			b = history(t, p, b, leaves, int64(step+1))
		}
		var leaving []string
		if among(t, 0, 3, "a gang ends") == 0 {
			for _, name := range slices.Sorted(keysOf(p.pods)) {
				if among(t, 0, 3, "leaves") == 0 {
					leaving = append(leaving, name)
				}
			}
		}
		if len(leaving) > 0 {
			y["leaving"]++
			compare(t, p.gone(leaving), b.Without(leaving...), worlds.Tally{})
		}
		compare(t, p, b, y) // as if no question came before
	})
}

// gone is the twin of a book without some pods, except for when quotas were served.
func (p *plain) gone(pods []string) *plain {
	is := p.without(pods...)
	is.begin, is.passed, is.with = nil, map[string]bool{}, map[string][]string{}
	for _, g := range is.gangs() {
		if is.passed[g] = p.passed[g]; p.with[g] != nil {
			is.with[g] = p.with[g]
		}
	}
	return is
}

// together makes gangs start together.
func (p *plain) together(b *quota.Book, names []string) {
	b.SetStartTogether(names...)
	for _, name := range names {
		for _, was := range p.with[name] {
			delete(p.with, was)
		}
	}
	for _, name := range names {
		if len(names) > 1 && slices.Contains(p.gangs(), name) {
			p.with[name] = names
		}
	}
}

// history is one change. It returns the book to go on with.
func history(t *rapid.T, p *plain, b *quota.Book, leaves []string, now int64) *quota.Book {
	gang := rapid.SampledFrom([]string{"A", "B", "C", "D", "E"}).Draw(t, "gang")
	switch among(t, 0, 9, "what") {
	case 0:
		for name, pod := range p.pods {
			if pod.Gang == gang {
				delete(p.pods, name)
				b.Remove(name)
			}
		}
		delete(p.passed, gang)
		delete(p.with, gang)
	case 1:
		is := rapid.Bool().Draw(t, "passed")
		p.passed[gang] = is && slices.Contains(p.gangs(), gang)
		b.SetPassedOver(gang, is)
		if among(t, 0, 1, "together") == 0 {
			p.together(b, rapid.SampledFrom([][]string{{"A", "B"}, {"B", "C", "D"}, {"C", "E"}, {"D"}}).Draw(t, "who"))
		}
	default:
		quotaName := rapid.SampledFrom(leaves).Draw(t, "quota")
		asks := quota.List{}
		for _, r := range resources {
			if n := among(t, -4, 8, r); n > 0 {
				asks[r] = int64(n)
			}
		}
		if p.rich {
			asks = quota.List{"cpu": int64(among(t, 3, 8, "much"))}
		}
		states := []quota.State{quota.Waiting, quota.Waiting, quota.Reserved, quota.Bound}
		if p.rich {
			states = append(states, quota.Waiting, quota.Waiting, quota.Waiting, quota.Waiting)
		}
		state := rapid.SampledFrom(states).Draw(t, "state")
		fixed := among(t, 0, 9, "fixed") == 0
		for i := range among(t, 1, 3, "members") {
			pod := quota.Pod{
				Name: fmt.Sprintf("%s-%d", gang, i+3*among(t, 0, 1, "slot")), Gang: gang, Quota: quotaName, Asks: asks, State: state, Fixed: fixed,
				Since: now, Priority: int32(among(t, 0, 1, "priority")),
			}
			p.pods[pod.Name] = pod
			b.Set(pod)
			if state != quota.Waiting {
				for _, q := range p.path(quotaName) {
					p.since[q] = max(p.since[q], now)
				}
			}
		}
	}
	if among(t, 0, 9, "replant") == 0 {
		b = b.Replant(b.Tree()) // removed pods no longer count for when a quota was served
		p.since = map[string]int64{}
		for _, pod := range p.pods {
			if pod.State != quota.Waiting {
				for _, q := range p.path(pod.Quota) {
					p.since[q] = max(p.since[q], pod.Since)
				}
			}
		}
	}
	return b
}

func compare(t *rapid.T, p *plain, b *quota.Book, y worlds.Tally) {
	for name := range p.specs {
		is, _ := b.Balance(name)
		for _, r := range resources {
			most, named := p.limit(name, r)
			if got, want := is.Used[r]+is.Reserved[r], p.taken(name, r); got != want && named {
				t.Fatalf("%s has taken %d %s, and not %d", name, got, r, want)
			}
			if got, want := is.Request[r], p.request(name, r); got != want && named {
				t.Fatalf("%s asks for %d %s, and not %d", name, got, r, want)
			}
			if got, want := is.FairShare[r], p.entitled(name, r); named && want != math.MaxInt64 && got != want {
				t.Fatalf("%s is entitled to %d %s, and not %d (max %d)", name, got, r, want, most)
			}
		}
		if got, want := fmt.Sprint(uint64(is.Share)), p.share(name).String(); got != want {
			t.Fatalf("the share of %s is %s, and not %s", name, got, want)
		}
		sure := p.guaranteed(name)
		for _, g := range is.Guaranteed {
			y["guaranteed"]++
			if !sure[g] {
				t.Fatalf("%s is not guaranteed in %s", g, name)
			}
		}
		if y["borrows"] += len(is.Borrowing); len(is.Guaranteed) != len(sure) {
			t.Fatalf("guaranteed in %s: %v, and not %v", name, is.Guaranteed, sure)
		}
	}
	var late, next []string
	for _, g := range p.gangs() {
		if len(p.paths(g)) == 0 {
			continue
		}
		want := p.admit(g)
		if want == quota.NotNext {
			late = append(late, g)
		} else if !p.passed[g] {
			next = append(next, g)
		}
		ask := askOf(p, g)
		_, refusal := b.Admit(ask)
		got := quota.Cause("")
		if refusal != nil {
			got = refusal.Cause
		}
		if got != want {
			t.Fatalf("%s is refused for %q, and not %q", g, got, want)
		}
		if y.Count(string(want), want != ""); want == "" {
			y["admitted"]++
		}
		compareReclaim(t, p, b, ask, y)
	}
	if len(late) > 0 && len(next) == 0 {
		t.Fatalf("%v wait for one another, and none is next", late)
	}
}

func askOf(p *plain, gang string) quota.Request {
	a := quota.Request{Gang: gang, Priority: p.gang(gang).Priority}
	for _, name := range slices.Sorted(keysOf(p.pods)) {
		if pod := p.pods[name]; pod.Gang == gang && pod.State == quota.Waiting {
			a.Need = append(a.Need, quota.Want{Quota: pod.Quota, Asks: pod.Asks, Fixed: pod.Fixed, Count: 1})
		}
	}
	return a
}
