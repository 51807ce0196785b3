package mutants

const (
	tree    = "pkg/topology/topology.go"
	natural = "pkg/topology/natural.go"
	offers  = "pkg/offer/offer.go"
	curve   = "pkg/offer/curve.go"
	search  = "pkg/plan/search.go"
	tails   = "pkg/plan/tails.go"
	refusal = "pkg/plan/refusal.go"
	choose  = "pkg/evict/evict.go"
	options = "pkg/evict/options.go"
	cost    = "pkg/evict/cost.go"
)

var all = []mutant{
	{"unnamed domains are shared by everybody", tree, `		default:
			k[l] = below`, `		default:
			k[l], below = key{}, below`, "TestBuild TestPictures"},
	{"an unnamed domain is known by a name of any layer", tree, `below = key{below: n.Path[l], layer: l}`, `below = key{below: n.Path[l], layer: depth}`, "TestBuild TestPictures"},
	{"unnamed domains come first", tree, `		case a[l].name == "" && b[l].name != "":
			return 1`, `		case a[l].name == "" && b[l].name != "":
			return -1`, "TestBuild TestPictures"},
	{"a range ends one node early", tree, `ID(len(t.domain)), int32(i)
	}
}`, `ID(len(t.domain)), int32(i-1)
	}
}`, "TestBuild TestPictures"},
	{"names are strings", natural, `if isDigit(x[0]) && isDigit(y[0]) {`, `if false {`, "TestCompareNames TestPictures"},
	{"numbers of any length are equal", natural, `	if c := cmp.Compare(len(a), len(b)); c != 0 {`, `	if c := cmp.Compare(len(b), len(a)); c != 0 {`, "TestCompareNames TestPictures"},
	{"leading zeros do not count", natural, `		return c
	}
	return strings.Compare(a, b)
}

func isDigit`, `		return c
	}
	return 0
}

func isDigit`, "TestCompareNames"},

	{"a multiple is its own step", offers, `step = lcm(step, m[l])`, `step = m[l]`, "TestRoll TestPictures"},
	{"a multiple holds below its layer", offers, `for l := layers - 1; l >= 0; l-- {`, `for l := 0; l < layers; l++ {`, "TestRoll TestPictures"},
	{"sums are not rounded", offers, `		sum[d] -= sum[d] % steps[t.Layer(d)]
`, `		_ = steps
`, "TestRoll TestPictures"},
	{"rounding by the parent's step", offers, `steps[t.Layer(d)]`, `steps[t.Layer(t.Parent(d))]`, "TestRoll TestPictures"},
	{"a merge keeps what was offered first", curve, `!t.known[sum] || lessSum(price, more, row)`, `!t.known[sum]`, "TestCurves"},
	{"a merge forgets its limit", curve, `sum := min(n+m, t.most)`, `sum := (n + m) % (t.most + 1)`, "TestCurves"},
	{"a price is enough for one less", curve, `return c.upTo[i] >= n })`, `return c.upTo[i] > n })`, "TestCurves"},
	{"nobody is charged, too", curve, `	out := Free(0, c.width)
	for i, n := range c.upTo {
		row := slices.Clone`, `	out := Curve{width: c.width, upTo: []Slots{-1}, price: make([]int64, c.width)}
	for i, n := range c.upTo {
		row := slices.Clone`, "TestCurves"},

	{"the must layer is one too high", search, `if s.Tree.Layer(d) < s.Must {`, `if s.Tree.Layer(d)+1 < s.Must {`, "TestChoose TestPictures"},
	{"bound members bind nobody", search, `return s.bound[d] == 0 })`, `return false })`, "TestChoose TestPictures"},
	{"split gangs are placed", search, `s.split = len(s.roots) > 1`, `s.split = false`, "TestChoose TestPictures"},
	{"more than wanted", search, `n = max(n, min(s.offer[d], s.limit()))`, `n = max(n, s.offer[d])`, "TestChoose TestPictures"},
	{"the least that suffices is placed", search, `func (s *Search) limit() offer.Slots { return s.Want`, `func (s *Search) limit() offer.Slots { return max(s.Min, s.steps[0])`, "TestChoose TestPictures"},
	{"a wrong count for the cluster", search, `	return n - n%s.steps[0]
}

// limit`, `	return n
}

// limit`, "TestChoose"},
	{"the shallowest domain", search, `l > deepest {`, `deepest < 0 || l < deepest {`, "TestChoose TestPictures"},
	{"any domain that fits", search, `if s.Tree.Layer(d) == deepest {`, `if true {`, "TestChoose TestPictures"},
	{"away from those already bound", search, `p.Compare(least) != 0 || !s.holdsBound(d) {`, `p.Compare(least) != 0 {`, "TestChoose TestPictures"},
	{"wishes from the bottom up", search, `		s.columns = append(s.columns, l)
`, `		s.columns = append([]int{l}, s.columns...)
`, "TestWishes"},
	{"wishes are not compared", search, `if cmp.Or(s.compareTouched(d, best, n), s.compareDomains(d, best)) < 0 {`, `if s.compareDomains(d, best) < 0 {`, "TestWishes TestPictures"},
	{"wishes for the domain's own layer", search, `if l > r.Must {`, `if l >= r.Must+2 {`, "TestChoose"},
	{"bound members' domains are new", search, `i >= 0 && (s.bound == nil || s.bound[d] == 0) {`, `i >= 0 {`, "TestChoose TestPictures"},
	{"repelled by friends", search, `-s.compareUpwards(s.attract, a, b),`, `s.compareUpwards(s.attract, a, b),`, "TestChoose TestPictures"},
	{"the emptiest domain", search, `		s.compareUpwards(s.room, a, b),`, `		-s.compareUpwards(s.room, a, b),`, "TestChoose TestPictures"},
	{"room before friends", search, `		-s.compareUpwards(s.attract, a, b),
		s.compareUpwards(s.room, a, b),`, `		s.compareUpwards(s.room, a, b),
		-s.compareUpwards(s.attract, a, b),`, "TestChoose TestPictures"},
	{"parents do not decide", search, `	for a != b {
		if o`, `	if a != b {
		if o`, "TestChoose TestPictures"},
	{"rounded slots are compared", search, `s.room = offer.Sum(w.Tree, s.Room)`, `s.room = s.offer`, "TestPictures"},
	{"the last by name", search, `		cmp.Compare(a, b),
	)`, `		cmp.Compare(b, a),
	)`, "TestChoose TestPictures"},
	{"smallest first", search, `return cmp.Compare(s.offer[b], s.offer[a]) })`, `return cmp.Compare(s.offer[a], s.offer[b]) })`, "TestChoose TestPictures"},
	{"the largest is the last one, too", search, `		if ok && s.offer[d] == s.offer[best] {
			continue`, `		if ok {
			continue`, "TestChoose TestPictures"},
	{"the last of equals takes the rest", search, `if ok && s.offer[d] == s.offer[best] {`, `if false {`, "TestChoose TestPictures"},
	{"as few as possible each", search, `		if p, ok := others.Price(n - x); ok && price`, `		if p, ok := others.Price(n - x); most == 0 && ok && price`, "TestChoose"},
	{"wishes do not hold inside", search, `price.Add(p).Compare(due) == 0 {
			most = x`, `price.Add(p).Compare(due) >= 0 {
			most = x`, "TestChoose TestPictures"},
	{"a tail of its own", tails, `t.extend(b, t.kept[b+1])`, `t.extend(b, t.kept[b])`, "TestManyChildren"},
	{"the block's tail for all of it", tails, `return t.at[i%block]`, `return t.at[0]`, "TestChoose"},
	{"eleven domains", refusal, `i == listed ||`, `i == listed+1 ||`, "TestPictures"},
	{"worst first", refusal, `return cmp.Compare(b.Slots, a.Slots) })`, `return cmp.Compare(a.Slots, b.Slots) })`, "TestChoose TestPictures"},
	{"unnamed domains are listed", refusal, `if s.Tree.Named(d) {`, `if true {`, "TestChoose TestPictures"},
	{"long messages", refusal, `listedBytes = 768`, `listedBytes = 76800`, "TestPictures"},

	{"room now, not room as if all had gone", choose, `w.Room[i] = n.Room`, `w.Room[i] = n.free()`, "TestChoose TestPictures"},
	{"all that are wanted are needed", choose, `need := (max(r.Min, 1) + step - 1) / step * step`, `need := (max(r.Want, 1) + step - 1) / step * step`, "TestChoose TestPictures"},
	{"need rounded down", choose, `need := (max(r.Min, 1) + step - 1) / step * step`, `need := max(r.Min, 1) / step * step`, "TestChoose"},
	{"the highest priority does not matter", choose, `	lowest := sort.Search(highest, `, `	lowest := sort.Search(0, `, "TestChoose TestPictures"},
	{"a lower ceiling at any price", choose, `if !ok || !slices.Equal(counts(price), counts(least)) {`, `if !ok {`, "TestChoose TestPictures"},
	{"no more than are needed", choose, `found.Plan(found.Most(least))`, `found.Plan(s.need)`, "TestChoose TestPictures"},
	{"the first draft is the plan", choose, `	p, _ = plan.Choose(after, s.request)
	after, gone :=`, `	_ = after
	after, gone :=`, "TestPictures"},
	{"the victims of the first draft", choose, `	after, _ := s.after(p, ceiling)
	p, _ = plan.Choose(after, s.request)
	after, gone := s.after(p, ceiling)
`, `	after, gone := s.after(p, ceiling)
	p, _ = plan.Choose(after, s.request)
`, "TestPictures"},
	{"nobody is put back", choose, `p.Domain] < s.need {`, `p.Domain] < 1<<30 {`, "TestPutBack"},
	{"one too many is put back", choose, `p.Domain] < s.need {`, `p.Domain] < s.need-1 {`, "TestManyVictims"},

	{"pods before budgets", cost, `cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Pods, o.Pods))`, `cmp.Compare(c.Pods, o.Pods), cmp.Compare(c.Violations, o.Violations))`, "TestChoose"},
	{"prices of pods before budgets", cost, `offer.Price{int64(c.Violations), int64(c.Pods), c.Sum}`, `offer.Price{int64(c.Pods), int64(c.Violations), c.Sum}`, "TestChoose TestPictures"},
	{"the highest sum", cost, `int64(c.Pods), c.Sum}`, `int64(c.Pods), -c.Sum}`, "TestChoose TestPictures"},
	{"budgets are for nothing", cost, `	if v.Violates {
		c.Violations = 1
	}
`, ``, "TestChoose TestPictures"},
	{"the lowest is the highest", cost, `max(c.Highest, o.Highest), c.Sum`, `min(c.Highest, o.Highest), c.Sum`, "TestChoose TestPictures"},
	{"negative priorities are zero", cost, `	case c.Pods == 0:
		sum.Highest = o.Highest
`, ``, "TestChoose TestPictures"},

	{"oldest first", options, `cmp.Compare(b.Started, a.Started)`, `cmp.Compare(a.Started, b.Started)`, "TestChoose TestPictures"},
	{"names do not decide", options, `cmp.Compare(a.Name, b.Name))`, `0)`, "TestOrderOfInput"},
	{"age does not decide", options, `cmp.Or(a.Cost.comparePrice(b.Cost), slices.Compare(a.age, b.age))`, `a.Cost.comparePrice(b.Cost)`, "TestChoose"},
	{"more slots beat everything", options, `return kept.Slots >= o.Slots &&
			(`, `return kept.Slots >= o.Slots && (true ||
			`, "TestPictures"},
	{"dominated whatever the highest", options, `(kept.Cost.compareCount(o.Cost) < 0 || kept.Cost.Highest <= o.Cost.Highest)`, `kept.Cost.compareCount(o.Cost) <= 0`, "TestPictures"},
	{"a node's pods are all of one shape", options, `if !known || v.Shape == "" {`, `if !known {`, "TestChoose"},
	{"the dearest of a shape", options, `	for _, g := range groups {
		sortByCost(victims, g)
	}
`, ``, "TestChoose"},
	{"one of a shape stays", options, `for n := range alike {`, `for n := range len(alike) - 1 {`, "TestChoose TestPictures"},
	{"pods above the ceiling", options, `return o.Slots >= members && o.Cost.under(ceiling) })`, `return o.Slots >= members })`, "TestPictures"},
	{"room is what is free", options, `	n.Room = slots(indexes(len(victims)))
	if n.free()`, `	if n.Room = slots(indexes(len(victims))); n.free()+1`, "TestChoose TestPictures"},
	{"guesses need not suffice", options, `if slots(sorted(without)) < want {`, `if slots(sorted(without)) < want-1 {`, "TestManyVictims"},
	{"small sets only", options, `		sets = append(sets, needed(reversed(order[:n])`, `		_ = append(sets, needed(reversed(order[:n])`, "TestManyVictims"},
}
