package mutants

const (
	planAttempt = "pkg/mixed/attempt.go"
	cheapest    = "pkg/evict/cheapest.go"
	evPutBack   = "pkg/evict/putback.go"
	evExhaust   = "pkg/evict/exhaust.go"
	evBundles   = "pkg/evict/bundles.go"
	evQuotas    = "pkg/evict/quotas.go"
	outline     = "pkg/mixed/outline.go"
	chosen      = "pkg/mixed/choice.go"
	shortage    = "pkg/mixed/shortage.go"
	tree        = "pkg/topology/topology.go"
	change      = "pkg/topology/change.go"
	index       = "pkg/topology/index.go"
	natural     = "pkg/topology/natural.go"
	offers      = "pkg/offer/offer.go"
	curve       = "pkg/offer/curve.go"
	search      = "pkg/plan/search.go"
	few         = "pkg/plan/nodebound.go"
	digits      = "pkg/plan/digits.go"
	mixed       = "pkg/mixed/search.go"
	table       = "pkg/mixed/table.go"
	trial       = "pkg/mixed/trial.go"
	memory      = "pkg/mixed/memory.go"
	sums        = "pkg/mixed/sums.go"
	holds       = "pkg/mixed/breach.go"
	tails       = "pkg/plan/tails.go"
	refusal     = "pkg/plan/refusal.go"
	choose      = "pkg/evict/evict.go"
	options     = "pkg/evict/options.go"
	cost        = "pkg/evict/cost.go"
	targets     = "pkg/mixed/targets.go"
	budget      = "pkg/evict/budget.go"
	consider    = "pkg/evict/consider.go"
	merger      = "pkg/offer/merger.go"
	aims        = "pkg/offer/aim.go"
	rules       = "pkg/plan/rules.go"
	counts      = "pkg/gang/counts.go"
	pending     = "pkg/gang/pending.go"
	gangFile    = "pkg/gang/gang.go"
	turn        = "pkg/gang/turn.go"
	together    = "pkg/gang/grouping.go"
	places      = "pkg/gang/assignments.go"
	barrier     = "pkg/gang/barrier.go"
	tick        = "pkg/gang/tick.go"
	evicted     = "pkg/gang/eviction.go"
	members     = "pkg/gang/members.go"
	gangPlan    = "pkg/gang/plan.go"
	gangResume  = "pkg/gang/resume.go"
	nominate    = "pkg/kube/status/nominate.go"
	choices     = "pkg/choice/choice.go"
	choiceSets  = "pkg/choice/sets.go"
	leave       = "pkg/bundle/bundle.go"
	known       = "pkg/kube/fit/memory.go"
	reads       = "pkg/kube/fit/reads.go"
	trials      = "pkg/kube/fit/trial.go"
	aside       = "pkg/kube/plugin/nominations.go"
	listeners   = "pkg/kube/plugin/listeners.go"
	rehearsal   = "pkg/kube/ledger/volumerehearsal.go"
	leavingNow  = "pkg/kube/departure/terminating.go"
	vainly      = "pkg/kube/preempt/searchmemory.go"
	preempts    = "pkg/kube/preempt/evict.go"
	pluChoices  = "pkg/kube/plugin/quotas.go"
	pluEvents   = "pkg/kube/plugin/events.go"
	roomChoose  = "pkg/kube/elasticquota/choices.go"
	roomClaim   = "pkg/kube/elasticquota/claim.go"
	answered    = "pkg/kube/pace/answer.go"
	elected     = "pkg/kube/command/leader.go"
	trimmed     = "pkg/kube/connect/trim.go"
	nominated   = "pkg/kube/place/nominated.go"
	classOf     = "pkg/kube/place/class.go"
	attempt     = "pkg/kube/place/place.go"
	attempts    = "pkg/kube/place/attempt.go"
	surplus     = "pkg/kube/place/surplus.go"
	ownersFile  = "pkg/kube/place/owners.go"
	devAsk      = "pkg/device/ask.go"
	devNode     = "pkg/device/node.go"
	devState    = "pkg/device/state.go"
	devSolver   = "pkg/device/solver.go"
	devSearch   = "pkg/device/search.go"
	devOptions  = "pkg/device/options.go"
	devTypes    = "pkg/device/device.go"
	quAdmit     = "pkg/quota/admit.go"
	quChoices   = "pkg/quota/choices.go"
	quBook      = "pkg/quota/book.go"
	quEntitle   = "pkg/quota/fairshare.go"
	quShare     = "pkg/quota/share.go"
	quClasses   = "pkg/quota/classes.go"
	quReclaim   = "pkg/quota/reclaim.go"
	quTree      = "pkg/quota/tree.go"
	roomAdmit   = "pkg/kube/elasticquota/admit.go"
	roomRights  = "pkg/kube/elasticquota/rights.go"
	roomPods    = "pkg/kube/elasticquota/pods.go"
	roomMain    = "pkg/kube/elasticquota/elasticquota.go"
	afterFilter = "pkg/kube/plugin/postfilter.go"
)

var all = []mutant{
	{"unnamed domains are shared by everybody", tree, `		default:
			k[l] = below`, `		default:
			k[l], below = key{}, below`, "TestBuild TestPictures"},
	{"an unnamed domain is known by a name of any layer", tree, `below = key{below: n.Path[l], layer: l}`, `below = key{below: n.Path[l], layer: depth}`, "TestBuild TestPictures"},
	{"unnamed domains come first", tree, `		case a[l].name == "" && b[l].name != "":
			return 1`, `		case a[l].name == "" && b[l].name != "":
			return -1`, "TestBuild TestPictures"},
	{"a range ends one node early", change, `ID(len(t.domain)), int32(len(t.nodes))`, `ID(len(t.domain)), int32(len(t.nodes)-1)`, "TestBuild TestPictures"},
	{"domains without a name are known by those above", change, `default:
			path[l] = below`, `default:
			path[l] = key{below: below.below, layer: l}`, "TestChange"},
	{"domains keep their parents' numbers", change, `d.parent = b.open[d.layer-1] // shared with the first node`, `d.parent += 0`, "TestChange"},
	{"the first node's domains end with it", change, `moved.end, moved.hi = old.domain[d].end+shift, old.domain[d].hi+nodes`, `moved.hi = old.domain[d].hi+nodes`, "TestChange"},
	{"the last node's domains are not open", change, `if first != last {`, `if false {`, "TestChange"},
	{"a name takes a slot that is taken", index, `for t.slots[slot] != 0 {
			slot`, `for false {
			slot`, "TestChange TestNodeIndex"},
	{"the last node says it all", tree, `min(first, i), max(last, i)`, `min(first, i), i`, "TestEnclosing"},
	{"the first node says it all", tree, `min(first, i), max(last, i)`, `min(i, len(t.nodes)), max(last, i)`, "TestEnclosing"},
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

	{"a common multiple beyond all numbers is some number", offers, `if a /= x; a > overflow/b {`, `if a /= x; a > overflow {`, "TestRoll TestCommon plan.TestChoose plan.TestPictures"},
	{"no number is rounded up", offers, `	return n - rest + step, `, `	return n - rest, `, "TestCommon evict.TestChoose"},
	{"a multiple is its own step", offers, `step = Common(step, m.At(l))`, `step = m.At(l)`, "TestRoll TestPictures"},
	{"a multiple holds below its layer", offers, `for l := layers - 1; l >= 0; l-- {`, `for l := 0; l < layers; l++ {`, "TestRoll TestPictures"},
	{"sums are not rounded", offers, `		sum[d] -= sum[d] % steps[t.Layer(d)]
`, `		_ = steps
`, "TestRoll TestPictures"},
	{"rounding by the parent's step", offers, `steps[t.Layer(d)]`, `steps[t.Layer(t.Parent(d))]`, "TestRoll TestPictures"},
	{"runs of two lengths follow one another", merger, `return r.length == o.length || r.length == 0`, `return r.length >= o.length || r.length == 0`, "TestLongCurves"},
	{"a run keeps what was offered first", merger, `!t.known[sum] || lessSum(p, q, row)`, `!t.known[sum]`, "TestLongCurves"},
	{"a merge keeps what was offered first", merger, `!t.known[sum] || lessSum(p, q, row)`, `!t.known[sum]`, "TestCurves"},
	{"a merge forgets its limit", merger, `sum := min(n+m, most)`, `sum := (n + m) % (most + 1)`, "TestCurves"},
	{"a run whose steps add less", merger, `(length != r.length || increase < lastIncrease) {`, `(length != r.length || false && increase < lastIncrease) {`, "TestLongCurves"},
	{"a run of steps of two lengths", merger, `(length != r.length || increase < lastIncrease) {`, `increase < lastIncrease {`, "TestLongCurves"},
	{"the dearer step first", merger, `a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:`, `a.price[i+1]-a.price[i] >= b.price[j+1]-b.price[j]:`, "TestLongCurves"},
	{"the dearest price of interest is too dear", merger, `		if price > m.Dearest {`, `		if price >= m.Dearest {`, "TestMerger"},
	{"preferences from the bottom up", digits, `			d.columns = append(d.columns, p)
`, `			d.columns = append([]Preference{p}, d.columns...)
`, "TestChoose"},
	{"digits run into one another", digits, `		used += size
`, `		used += size - 1
`, "TestChooseForNothing TestPreferences TestChoose"},
	{"digits reach into what the world charges", digits, `d.width, d.lift = 1, used`, `d.width, d.lift = 1, 1`, "TestWithin"},
	{"digits for fewer domains than there are", digits, `uint(max(s.limit(), 1))))`, `uint(max(s.limit(), 1)))) / 2`, "TestChooseForNothing"},
	{"smallest first", rules, `cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(a, b))`, `cmp.Or(cmp.Compare(g.size[a], g.size[b]), cmp.Compare(a, b))`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"the last of equals first", rules, `cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(a, b))`, `cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(b, a))`, "TestChoose TestManyChildren"},
	{"the last of the smallest takes the rest", search, `s.spread(sufficient[len(s.takes(sufficient, least+1))], n)`, `s.spread(sufficient[len(sufficient)-1+0*int(least)], n)`, "TestChooseForNothing TestManyFreeOfCharge"},
	{"one domain fewer may be touched", aims, `remaining := a.Price>>a.Shift - c.price[i]>>a.Shift`, `remaining := a.Price>>a.Shift - c.price[i]>>a.Shift - 1`, "plan.TestPreferFewNodes"},
	{"whoever touches many nodes has more beyond each", aims, `+a.Beyond.upTo[entry] >= a.Members {`, ` >= a.Members {`, "plan.TestPreferFewNodes"},
	{"more nodes must be touched than must", few, `int64(max(0, n-most+perNode-1) / perNode)`, `int64(max(0, n-most+perNode-1)/perNode) + 1`, "TestPreferFewNodes"},
	{"bound members' nodes are measured", few, `node := s.tree.Node(i); s.BoundIn(node) > 0 {`, `node := s.tree.Node(i); false {`, "TestPreferFewNodes"},
	{"what touches as many as the best is not looked at", few, `if nodes(domains[i]) > best {`, `if nodes(domains[i]) >= best {`, "TestPreferFewNodes"},
	{"as few nodes as must be are always enough", few, `; ok && p[0] <= s.aim.Price {`, `; ok || p != nil {`, "TestPreferFewNodes"},
	{"curves for fewer members are kept", search, `if n != s.members {`, `if s.members == 0 {`, "TestPreferFewNodes"},
	{"a price is enough for one less", curve, `return c.upTo[i] >= n })`, `return c.upTo[i] > n })`, "TestCurves"},
	{"nobody is charged, too", curve, `	out := Free(0, c.width)
	out.grow(len(c.upTo))
	for i, n := range c.upTo {
		last`, `	out := Curve{width: c.width, upTo: []Slots{-1}, price: make([]int64, c.width)}
	out.grow(len(c.upTo))
	for i, n := range c.upTo {
		last`, "TestCurves"},

	{"the must layer is one too high", rules, `if g.tree.Layer(x) < layer {`, `if g.tree.Layer(x)+1 < layer {`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"bound members bind nobody", rules, `return g.bound[d] == 0 })`, `return false })`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"split gangs are placed", rules, `g.Split = len(g.Roots) > 1`, `g.Split = false`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"more than wanted", search, `n = max(n, min(s.size[d], s.limit()))`, `n = max(n, s.size[d])`, "TestChoose TestPictures"},
	{"the least that suffices is placed", search, `func (s *Search) limit() offer.Slots { return s.Want`, `func (s *Search) limit() offer.Slots { return max(s.Min, s.steps[0])`, "TestChoose TestPictures"},
	{"a wrong count for the cluster", search, `	return n - n%s.steps[0]
}

// Possible`, `	return n
}

// Possible`, "TestChoose"},
	{"the shallowest domain", rules, `return cmp.Compare(g.tree.Layer(b), g.tree.Layer(a)) }`, `return cmp.Compare(g.tree.Layer(a), g.tree.Layer(b)) }`, "mixed.TestChooseJob"},
	{"any domain that fits", rules, `		case o < 0:
			out = append(out[:0], d)`, `		case o < 0:
			out = append(out, d)`, "mixed.TestChooseJob"},
	{"away from those already bound", rules, `p.Compare(least) != 0 || !g.HoldsBound(d) {`, `p.Compare(least) != 0 {`, "mixed.TestChooseJob"},
	{"preferences are not compared", rules, `		if len(out) == 0 || p.Compare(least) < 0 {
			least, out = p, out[:0]
		}
		if p.Compare(least) == 0 {
			out`, `		if len(out) == 0 || p.Compare(least) < 0 {
			least = p
		}
		if true {
			out`, "TestPreferences mixed.TestChooseJob TestPictures"},
	{"no preference for the layer below", digits, `if p.Layer > s.Must {`, `if p.Layer > s.Must+1 {`, "TestChoose"},
	{"bound members' domains are new", search, `		case bound == 0:
`, `		default:
`, "TestChoose TestPictures"},
	{"repelled by friends", rules, `return -g.compareUpwards(g.attract, a, b)`, `return g.compareUpwards(g.attract, a, b)`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"the emptiest domain", rules, `return g.compareUpwards(g.room, a, b)`, `return -g.compareUpwards(g.room, a, b)`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"names before room", rules, `	{name: ByBinpack, domains: func(g *Ground, a, b topology.ID) int { return g.compareUpwards(g.room, a, b) }},
`, `	{name: ByNames, domains: func(_ *Ground, a, b topology.ID) int { return cmp.Compare(a, b) }},
`, "TestChoose mixed.TestChooseJob TestPictures TestRules"},
	{"attraction does not decide", rules, `return g.attract == nil }`, `return g.attract != nil }`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"domains that touch more are as good", rules, `		case r.name == ByPreferences:
`, `		case r.name == ByMembers:
`, "mixed.TestChooseJob"},
	{"the last rule is one of many", rules, `		if r.name == last {`, `		if r.name == last && false {`, "TestRules"},
	{"how plans fill a domain is all the same", rules, `	if a.Domain != b.Domain || a.spread == nil {`, `	if true {`, "TestRules"},
	{"parents do not decide", rules, `	for a != b {
		if o`, `	if a != b {
		if o`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"rounded slots are compared", rules, `	case steps[0] > 1:
		g.room`, `	case false:
		g.room`, "TestPictures"},
	{"the last by name", rules, `return cmp.Compare(a, b) }`, `return cmp.Compare(b, a) }`, "TestChoose mixed.TestChooseJob TestPictures"},
	{"the largest is the last one, too", rules, `		if ok && g.size[d] == g.size[best] {
			continue`, `		if ok {
			continue`, "TestChoose mixed.TestChooseJob"},
	{"the last of equals takes the rest", rules, `if ok && g.size[d] == g.size[best] {`, `if false {`, "TestChoose mixed.TestChooseJob"},
	{"as few as possible each", search, `		if p, ok := rest(n - x); ok && price`, `		if p, ok := rest(n - x); most == 0 && ok && price`, "TestChoose"},
	{"preferences do not hold inside", search, `price.Add(p).Compare(due) == 0 {
			most = x`, `price.Add(p).Compare(due) >= 0 {
			most = x`, "TestChoose TestPictures"},
	{"a tail of its own", tails, `t.openBlock(b, t.stored[b+1])`, `t.openBlock(b, t.stored[b])`, "TestManyFreeOfCharge"},
	{"the block's tail for all of it", tails, `return t.results[i%block]`, `return t.results[0]`, "TestChoose"},

	{"all members gather where each gang does", outline, `m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.All.Must, nil)`, `m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.Sets[0].Must, nil)`, "TestChooseJob TestJobs"},
	{"size by the multiples of each", outline, `NewGround(m.World.World, j.All.Multiple.Steps(`, `NewGround(m.World.World, j.Sets[0].Multiple.Steps(`, "TestChooseJob"},
	{"preferences of each before those of all", outline, `	slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })
`, `	slices.Reverse(m.columns)
	slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })
`, "TestJobPreferences"},
	{"the first class is the lowest rank", mixed, `return cmp.Compare(rank[a], rank[b])`, `return cmp.Compare(a.class, b.class)`, "TestChooseJob"},
	{"any number of members is enough", mixed, `		if m.countInGang(v, g) < gang.Need {`, `		if false && m.countInGang(v, g) < gang.Need {`, "TestChooseJob TestJobs"},
	{"the domains above need no multiples", mixed, `		d = m.Tree.Parent(d)
		if !m.multiples(d, v) {`, `		d = m.Tree.Parent(d)
		if false {`, "TestChooseJob"},
	{"lower ranks before more members", mixed, `if x, y := m.total(a), m.total(b); x != y {`, `if x, y := m.total(a), m.total(b); x != y && (x == 0 || y == 0) {`, "TestChooseJob"},
	{"higher ranks first", mixed, `			return inA
`, `			return inB
`, "TestChooseJob"},
	{"a node takes each kind as if it were alone", mixed, `			if remaining > 0 && v != 0 {`, `			if false {`, "TestChooseJob TestJobs"},
	{"gangs of one kind share no slots", mixed, `add(i+1, v+m.tables.one(c, n), remaining-n)`, `add(i+1, v+m.tables.one(c, n), remaining)`, "TestChooseJob TestJobs"},
	{"multiples are for nobody", mixed, `		if !m.multiples(d, v) || !m.gathers`, `		if !m.gathers`, "TestChooseJob TestJobs"},
	{"gangs gather one layer up", mixed, `if set.Must != layer || layer`, `if set.Must-1 != layer || layer`, "TestChooseJob"},
	{"gangs need not gather with their bound", mixed, `if m.boundInSet(i, d) != m.boundInSet(i, topology.Root) {`, `if false {`, "TestChooseJob TestJobs"},
	{"bound members do not count", mixed, `(n+m.BoundIn(d))%m.All.Multiple.At(l) != 0 {`, `n%m.All.Multiple.At(l) != 0 {`, "TestChooseJob TestJobs"},
	{"a gang's bound members do not count", mixed, `n > 0 && (n+m.boundInSet(i, d))%multiple != 0 {`, `n > 0 && n%multiple != 0 {`, "TestChooseJob"},
	{"old domains are new for gangs", mixed, `		n += c.Charge.Of(m.boundInSet(i, d), m.countInSet(v, i))
`, `		n += c.Charge.Of(0, m.countInSet(v, i))
`, "TestChooseJob"},
	{"old domains are new for all", mixed, `return c.Charge.Of(m.BoundIn(d), m.total(v))`, `return c.Charge.Of(0, m.total(v))`, "TestChooseJob"},
	{"one rule for all layers", mixed, `key := ruled{t, m.Tree.Layer(d)}`, `key := ruled{t, 0}`, "TestChooseJob"},
	{"one rule whoever is bound", mixed, `m.BoundIn(d) > 0 || m.Tree.IsNode(d) && m.penalised(d)`, `m.Tree.IsNode(d) && m.penalised(d)`, "TestChooseJob"},
	{"soft preferences charge unlike members nothing", mixed, `			price[len(price)-1] += m.penaltyIn(d, v)
`, ``, "TestChooseJob"},
	{"as few as possible each, of a job", mixed, `!m.better(x, most) {`, `most != 0 && m.better(x, most) {`, "TestChooseJob"},
	{"preferences do not hold inside a job", mixed, `t.row(i).Add(p).Compare(due) == 0 {`, `t.row(i).Add(p).Compare(due) >= 0 {`, "TestChooseJob"},
	{"gangs come apart inside", mixed, `m.tables.setsIn(v-x)&unsplittable != 0 {`, `m.tables.setsIn(v-x)&unsplittable&0 != 0 {`, "TestChooseJob"},
	{"a set of several makes counts of one", outline, `if set := m.Sets[i]; len(set.Gangs) == 1 {`, `if set := m.Sets[i]; len(set.Gangs) > 0 {`, "TestChooseJob"},
	{"sets of one layer only are apart", outline, `		if m.Sets[i].Must > layer {`, `		if m.Sets[i].Must == layer+1 {`, "TestChooseJob"},
	{"gangs may be in two domains", table, `if !ok || a.sets[i]&b.sets[k]&unsplittable != 0 {`, `if !ok {`, "TestChooseJob"},
	{"sums are made once, apart or not", table, `	ts.merged[pair{a, b, unsplittable}] = t`, `	ts.merged[pair{a, b, 0}], ts.merged[pair{a, b, 3}] = t, t`, "TestJobs"},
	{"more members than there are", table, `	return sum, (c.limit-sum)&c.spare == c.spare`, `	return sum, true`, "TestChooseJob"},
	{"a sum keeps the first price", table, `} else if !lessSum(a.row(i), b.row(k), row) {`, `} else {`, "TestChooseJob"},
	{"tables of one price are one", table, `		for _, p := range row(entry.position) {
			ts.key`, `		for _, p := range row(ts.order[0].position) {
			ts.key`, "TestChooseJob"},
	{"a sum of two prices is compared from the right", table, `	for i := range r {
		if s := p[i] + q[i]; s != r[i] {`, `	for i := range slices.Backward(r) {
		if s := p[i] + q[i]; s != r[i] {`, "TestChooseJob"},
	{"nobody hopes", targets, `	s.optimistic, s.cut = true, false
`, ``, "TestJobInTrial"},
	{"all or nothing", targets, `			return s.everyTarget()
`, `			return s.everyTarget()[:1]
`, "TestChooseJobOneByOne TestJobInTrial"},
	{"those who fit nowhere stay", targets, `!s.optimistic && counts[c] > int(slots)`, `s.optimistic && counts[c] > int(slots)`, "TestLargeJobs"},
	{"a class goes on where another stopped", trial, `	return p.Node, p.Class == class
`, `	return p.Node, true
`, "TestChooseJobOneByOne"},
	{"nobody comes back to the first node", trial, `s.spread[first:], s.spread[:first]}`, `s.spread[first:]}`, "TestBackToTheFirstNode"},
	{"neighbours before far nodes", trial, `near[:min(2, len(near))], s.spread`, `near, s.spread`, "TestLargeJobs"},
	{"one class after the other", trial, `		if !s.dependent {
			return false
		}
	}
	return false
}

// candidates`, `		return false
	}
	return false
}

// candidates`, "TestJobInTrial"},
	{"gangs gather anywhere", trial, `		case s.homes[set] != homeless || home == *small:
			return false
`, ``, "TestChooseJobOneByOne TestJobInTrial TestLargeJobs"},
	{"homes are not looked over", trial, `		case !s.takesSet(home, set):`, `		case false:`, "TestLargeJobs"},
	{"sets of members are known wherever they are", memory, `uint64(what)<<32 + uint64(node) + 1`, `uint64(what)<<32 + 1`, "TestJobInTrial"},
	{"failure is forgotten", trial, `	if s.failed[s.set.with(class, node)] {`, `	if false {`, "TestRefusalsInTrial"},
	{"nobody is left out", targets, `	if len(targets) > 1 || s.dependent && len(targets) == 1 {`, `	if false {`, "TestElasticInTrial"},
	{"only the scarcest come first", targets, `	for _, order := range s.orders() {`, `	for _, order := range s.orders()[:1] {`, "TestElasticInTrial"},
	{"those left out are not needed", targets, ` && s.needed(placed) && s.valid()`, ` && s.valid()`, "TestJobInTrial"},
	{"those left out make up no multiple", targets, ` && s.needed(placed) && s.valid()`, ` && s.needed(placed)`, "TestJobInTrial"},
	{"any better set is left untried", targets, `return !s.before(t, part) })
`, `return true })
`, "TestChooseJobOneByOne"},
	{"answers hold whoever is there", memory, `	m.set = m.set.with(kind, node)
`, ``, "TestJobInTrial"},
	{"nobody leaves the other trial", memory, `	for range m.placed[same:] {
		m.trial.Undo()
	}
`, ``, "TestJobInTrial TestLargeJobs"},
	{"every question is asked", memory, `	fits, ok := m.answers[q]
`, `	fits, ok := false, false
`, "TestRefusalsInTrial"},
	{"a gang leaves home when its last member does", trial, `		s.homes[i] = homes[k]
`, `		_, s.homes[i] = homes[k], homeless
`, "TestChooseJobOneByOne"},
	{"one by one, multiples are for nobody", trial, `		return s.valid()
`, `		return true
`, "TestChooseJobOneByOne TestJobInTrial"},
	{"one by one, split gangs are placed", trial, `		if s.splitSet(i) && slices.ContainsFunc(s.puts, isIn) {`, `		if false && slices.ContainsFunc(s.puts, isIn) {`, "TestChooseJobOneByOne TestJobInTrial"},
	{"one by one, bound members do not count", trial, `if n > 0 && (n+bound(d))%multiples.At`, `if n > 0 && n%multiples.At`, "TestChooseJobOneByOne TestJobInTrial"},
	{"the domain without those bound", trial, `			if n > 0 && !yield(i) {`, `			if n < 0 && !yield(i) {`, "TestChooseJobOneByOne TestJobInTrial"},
	{"no end of tries", trial, `triesInAll    = 40_000`, `triesInAll    = 400_000`, "TestLargeJobs"},
	{"no end of questions", trial, `askedInAll    = 4_000`, `askedInAll    = 40_000`, "TestRefusalsInTrial"},
	{"nobody says that there were more ways", shortage, `slices.ContainsFunc(m.Roots, m.fromTrials), cut
`, `slices.ContainsFunc(m.Roots, m.fromTrials), false
`, "TestLargeJobs"},

	{"counts are what they would be without those bound", sums, `rest: -bound % step}`, `rest: 0 * bound}`, "TestPossible TestChooseJob"},
	{"those bound are with the others in every layer", sums, `return complement(m.BoundIn(topology.Root), m.All.Multiple.Common(m.All.Must))`, `return complement(m.BoundIn(topology.Root), m.All.Multiple.Common(m.Tree.Depth()))`, "TestSums TestChooseJob"},
	{"a gang's counts know no multiples", sums, `	return extent{step: m.gangMultiple(g, m.Tree.Depth())}
`, `	return extent{step: 1}
`, "TestPossible"},
	{"a gang takes what all domains take", sums, `	layer := max(m.gatherLayer(g), m.Tree.Layer(root))
`, `	layer := m.Tree.Layer(root)
`, "TestPossible"},
	{"a gang gathers where nobody of it is", sums, `if m.boundInGang(g, d) != m.boundInGang(g, topology.Root) {`, `if m.boundInGang(g, d) != 0 {`, "TestSums TestChooseJob"},
	{"a gang that needs nobody needs somebody", sums, `		return extent{}, true // no member of it`, `		return extent{}, false`, "TestSums TestChooseJob"},
	{"the sums are not asked", mixed, `	if m.impossible || !m.possible() {
		return nil, true`, `	if m.Split {
		return nil, true`, "TestRefusedByTheSums"},
	{"places hold wherever those bound are", holds, `range [][]offer.Slots{bound, places} {`, `range [][]offer.Slots{places} {`, "TestHolds TestJobPlansHold"},
	{"places hold one layer up", holds, `if t.Layer(domain) < g.Must {`, `if t.Layer(domain) < g.Must-1 {`, "TestHolds TestJobPlansHold"},
	{"places of gangs that need nobody are asked for them", holds, `	if total(places) == 0 {
		return nil
	}
`, ``, "TestHolds"},
	{"places are multiples without those bound", holds, `(n+boundInDomain[d])%m != 0`, `n%m != 0`, "TestHolds TestJobPlansHold"},
	{"what is left is enough", holds, `n < gang.Need && !(optional`, `n+1 < gang.Need && !(optional`, "TestHolds TestJobPlansHold"},
	{"what was tried was all there is", targets, `p.NotAll = s.cut || len(s.columns) > 0`, `p.NotAll = s.cut`, "TestChooseJobOneByOne"},
	{"eleven domains", refusal, `i == maxListed ||`, `i == maxListed+1 ||`, "TestPictures"},
	{"worst first", refusal, `return cmp.Compare(b.Slots, a.Slots) })`, `return cmp.Compare(a.Slots, b.Slots) })`, "TestChoose TestPictures"},
	{"unnamed domains are listed", refusal, `if g.tree.Named(d) {`, `if true {`, "TestChoose TestPictures"},
	{"long messages", refusal, `maxListedBytes = 768`, `maxListedBytes = 76800`, "TestPictures"},

	{"room now, not room as if all had gone", choose, `w.Capacity[i] = n.Capacity`, `w.Room[i] = n.free()`, "TestChoose TestPictures"},
	{"all that are wanted are needed", choose, `offer.Up(max(r.Min, 1), `, `offer.Up(max(r.Want, 1), `, "TestChoose TestPictures"},
	{"need rounded down", choose, `need, ok := offer.Up(max(r.Min, 1), r.Multiple.Steps(w.Tree.Depth() + 1)[0])`, `need, ok := max(r.Min, 1), true`, "TestChoose"},
	{"the highest priority does not matter", choose, `	lowest := sort.Search(highest, `, `	lowest := highest + sort.Search(0, `, "TestExplanationNamesDecidingRule TestPictures"},
	{"a lower ceiling at any price", choose, `if !ok || !slices.Equal(counts(price), counts(least)) {`, `if !ok {`, "TestChoose TestPictures"},
	{"no more than are needed", choose, `found.Plan(found.Most(least))`, `found.Plan(s.need)`, "TestChoose TestPictures"},
	{"the first draft is the plan", choose, `	p, _ = plan.Choose(world, s.request)
	world, gone :=`, `	_ = world
	world, gone :=`, "TestPictures"},
	{"the victims of the first draft", choose, `	world, _ := s.worldAfter(p, ceiling)
	p, _ = plan.Choose(world, s.request)
	world, gone := s.worldAfter(p, ceiling)
`, `	world, gone := s.worldAfter(p, ceiling)
	p, _ = plan.Choose(world, s.request)
`, "TestPictures"},
	{"nobody is put back", choose, `p.Domain] < s.need {`, `p.Domain] < 1<<30 {`, "TestPutBack"},
	{"one too many is put back", choose, `p.Domain] < s.need {`, `p.Domain] < s.need-1 {`, "TestManyVictims"},

	{"pods before budgets", cost, `cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Pods, o.Pods), `, `cmp.Compare(c.Pods, o.Pods), cmp.Compare(c.Violations, o.Violations), `, "TestChoose"},
	{"prices of pods before budgets", cost, `offer.Price{int64(c.Violations), int64(c.Pods)<<32 + int64(c.Requeued), c.Sum}`, `offer.Price{int64(c.Pods)<<32 + int64(c.Requeued), int64(c.Violations), c.Sum}`, "TestChoose TestPictures"},
	{"the highest sum", cost, `int64(c.Requeued), c.Sum}`, `int64(c.Requeued), -c.Sum}`, "TestChoose TestPictures"},
	{"budgets are for nothing", cost, `	if v.Violates {
		c.Violations = 1
	}
`, ``, "TestChoose TestPictures"},
	{"the lowest is the highest", cost, `max(c.Highest, o.Highest), Sum`, `min(c.Highest, o.Highest), Sum`, "TestChoose TestPictures"},
	{"negative priorities are zero", cost, `	case c.victims() == 0:
		sum.Highest = o.Highest
`, ``, "TestChoose TestPictures"},

	{"oldest first", options, `cmp.Compare(b.Started, a.Started)`, `cmp.Compare(a.Started, b.Started)`, "TestChoose TestPictures"},
	{"names do not decide", options, `cmp.Compare(a.Name, b.Name))`, `0)`, "TestInputOrderDoesNotChangeVictims"},
	{"age does not decide", options, `cmp.Compare(a.Cost.Released, b.Cost.Released), slices.Compare(a.age, b.age))`, `cmp.Compare(a.Cost.Released, b.Cost.Released))`, "TestChoose"},
	{"more slots beat everything", options, `return kept.Slots >= o.Slots &&
			(`, `return kept.Slots >= o.Slots && (true ||
			`, "TestPictures"},
	{"dominated whatever the highest", options, `(kept.Cost.compareCount(o.Cost) < 0 || kept.Cost.Highest <= o.Cost.Highest)`, `kept.Cost.compareCount(o.Cost) <= 0`, "TestPictures"},
	{"a node's pods are all of one shape", options, `if !known || v.Shape == "" {`, `if !known {`, "TestChoose"},
	{"the dearest of a shape", options, `	for _, g := range groups {
		sortByCost(victims, g)
	}
`, ``, "TestChoose"},
	{"one of a shape stays", options, `for n := range shape {`, `for n := range len(shape) - 1 {`, "TestChoose TestPictures"},
	{"pods above the ceiling", options, `return o.Slots >= members && o.Cost.under(ceiling) })`, `return o.Slots >= members })`, "TestPictures"},
	{"room is what is free", options, `	n.Capacity = slots(indexes(len(victims)))
	if n.free()`, `	if n.Capacity = slots(indexes(len(victims))); n.free()+1`, "TestChoose TestPictures"},
	{"guesses need not suffice", options, `if slots(sorted(without)) < want {`, `if slots(sorted(without)) < want-1 {`, "TestManyVictims"},
	{"small sets only", options, `		sets = append(sets, needed(reversed(order[:n])`, `		_ = append(sets, needed(reversed(order[:n])`, "TestManyVictims"},

	{"the more important first", cost, `cmp.Compare(a.Highest, b.Highest) }},`, `cmp.Compare(b.Highest, a.Highest) }},`, "TestCompareCosts TestChoose"},
	{"the sum before the highest", cost, `	{ByHighest, func(a, b Cost) int { return cmp.Compare(a.Highest, b.Highest) }},
`, `	{BySum, func(a, b Cost) int { return cmp.Compare(a.Sum, b.Sum) }},
`, "TestCompareCosts"},
	{"budgets that allow nobody are for nothing", cost, `	c.Violations += exhausted(v.Budgets)
`, ``, "TestChooseAmongGangs TestChooseJobAmongGangs"},

	{"each victim of a budget violates it", budget, `n += max(0, many-b.Allowed)`, `n += many + 0*b.Allowed`, "TestChooseAmongGangs TestChooseJobAmongGangs"},
	{"one more than a budget allows", budget, `n += max(0, many-b.Allowed)`, `n += max(0, many-b.Allowed-1)`, "TestChooseAmongGangs TestChooseJobAmongGangs"},
	{"a budget that allows nobody counts twice", budget, `if b.Allowed > 0 {`, `if b.Allowed >= 0 {`, "TestChooseAmongGangs TestChooseJobAmongGangs"},

	{"domains without those bound are considered", consider, ` || c.bound[d] < c.bound[topology.Root] {
			continue`, ` {
			continue`, "TestConsider"},
	{"the lowest layer is considered", consider, `if d++; t.End(d) < topology.ID(t.Len()) {`, `if d++; t.Layer(d) == t.Depth()-1 {`, "TestConsider TestConsiderLayers"},
	{"the runner-up is the first by name", consider, `if a.Outcome != b.Outcome || a.Outcome != Possible {`, `if true {`, "TestConsider"},
	{"the winner is better by the first rule", consider, `		return rule
	case o > 0`, `		return costRules[0].name
	case o > 0`, "TestConsider TestExplanationNamesDecidingRule"},
	{"time is endless", consider, `if c.more != nil && !c.more() {`, `if false {`, "TestDomainsBeyondTheTimeAreUntried"},

	{"curves for too few nodes are kept", few, `		s.forgetCurves(d)
`, ``, "TestPreferFewNodes"},
	{"what was offered for another curve", merger, `	for i := range m.lowest {
		m.lowest[i] = math.MaxInt64
	}
`, ``, "plan.TestChooseForNothing"},
	{"curves share the merger's memory", merger, `upTo: slices.Clone(m.upTo)`, `upTo: m.upTo`, "plan.TestChooseForNothing"},
	{"domains with bound members are plain", search, ` && s.BoundIn(d) == 0)`, `)`, "TestChooseForNothing"},
	{"two wished-for layers are plain", search, `below == 1 &&`, `below <= 2 &&`, "TestChooseForNothing"},
	{"preferences do not compare what is large enough", search, `case l < lowest:`, `case false:`, "TestChooseForNothing"},
	{"the last of those that are large enough", search, `case s.CompareDomains(d, out[0]) < 0:`, `case s.CompareDomains(d, out[0]) > 0:`, "TestChooseForNothing TestChoose TestPictures"},
	{"large enough without those bound", search, ` || !s.HoldsBound(d) {`, ` {`, "TestChooseForNothing TestChoose"},
	{"no more than the first layer that is large enough", search, `s.size[d] < n || l < layer ||`, `s.size[d] < n || layer >= 0 && l > layer || l < layer ||`, "TestChooseForNothing TestChoose TestPictures"},
	{"too small domains are candidates", search, `if s.size[d] < n || l < layer`, `if s.size[d] == 0 || l < layer`, "TestChooseForNothing TestChoose"},
	{"charges are asked between multiples", curve, `from := out.Most() + step; from <= n; from += step {`, `from := out.Most() + 1; from <= n; from++ {`, "TestCurves plan.TestChoose"},
	{"the largest first, whatever they are charged", search, `below == 1 && s.perDomain && `, `below == 1 && `, "TestChoose"},
	{"only the lowest of several preferences", search, `layer >= above && layer`, `above >= 0 && layer`, "TestChooseForNothing"},
	{"what is rounded in between is alike", search, ` && s.steps[layer+1] == s.steps[last]`, ``, "TestChooseForNothing"},
	{"touched domains are touched again", search, `case s.BoundIn(k) > 0:`, `case false:`, "TestChooseForNothing"},
	{"the smallest are touched first", search, `	slices.Reverse(s.sizes)
`, ``, "TestChooseForNothing TestPreferences"},
	{"gated members exist", counts, `note(&c.exist, m.runs() || pending(m))`, `note(&c.exist, true)`, "TestDerivedStateMatchesRecount"},
	{"those who passed the barrier wait there", counts, `m.held && !m.allowed`, `m.held`, "TestDerivedStateMatchesRecount"},
	{"gated members are in flight", counts, `note(&c.assumed, m.assumed && pending(m))`, `note(&c.assumed, m.assumed)`, "TestDerivedStateMatchesRecount"},
	{"only one gang of a group counts", counts, `all.plus(g.counts)`, `all = g.counts`, "TestDerivedStateMatchesRecount"},
	{"the planned of other gangs are on their way back", counts, `	c.arrived += o.arrived
`, ``, "TestDerivedStateMatchesRecount"},
	{"counted when it has changed", counts, `	g.counts.add(m, -1)
	update(m)
`, `	update(m)
	g.counts.add(m, -1)
`, "TestDerivedStateMatchesRecount"},
	{"another rank, the same place in line", counts, `g.pending.update(m, m.Rank != was.Rank || m.Row != was.Row)`, `g.pending.update(m, false)`, "TestDerivedStateMatchesRecount"},
	{"another row, the same place in line", counts, ` || m.Row != was.Row`, ``, "TestDerivedStateMatchesRecount"},
	{"rows of those who have a rank do not count", gangFile, `if m.Row == o.Row || `, `if true || `, "TestMembersSortByRow"},
	{"rows of those who have none count", gangFile, ` || m.Rank == NoRank || o.Rank == NoRank`, ``, "TestMembersSortByRow"},
	{"those who leave stay in line", counts, `	g.pending.remove(m)
`, ``, "TestDerivedStateMatchesRecount"},
	{"those who leave are counted", counts, `	g.counts.add(m, -1)
	g.countOwner(m, -1)
	g.pending.remove`, `	g.countOwner(m, -1)
	g.pending.remove`, "TestDerivedStateMatchesRecount"},
	{"the highest rank speaks", pending, `x.CompareRanks(&y.Member, names)`, `y.CompareRanks(&x.Member, names)`, "TestAGangFromFirstMemberToBound"},
	{"gated members are pending", pending, `m.Node == "" && m.Gate == "" }`, `m.Node == "" }`, "TestDerivedStateMatchesRecount"},
	{"bound members are pending", pending, `m.Node == "" && m.Gate == "" }`, `m.Gate == "" }`, "TestDerivedStateMatchesRecount"},
	{"bound members stay in line", pending, `if moved || !pending(m) {`, `if moved {`, "TestDerivedStateMatchesRecount"},
	{"a member keeps its place in line when its rank changes", pending, `if moved || !pending(m) {`, `if !pending(m) {`, "TestDerivedStateMatchesRecount"},
	{"members that left the line count as being there", pending, `	m.queued = false
`, ``, "TestDerivedStateMatchesRecount"},
	{"the first gang speaks", pending, `(first == nil || b.names.members(m, first) < 0)`, `first == nil`, "TestDerivedStateMatchesRecount"},
	{"those who entered enter again", turn, ` && !m.assumed {
			return`, ` {
			return`, "TestDerivedStateMatchesRecount TestInterdependentMembersBindInOrder"},
	{"without a place it is their turn", turn, `m != nil && g.plan[pod] != "" && !m.assumed`, `m != nil && !m.assumed`, "TestDerivedStateMatchesRecount"},
	{"nobody has a turn", turn, `next != m.Pod && !m.assumed`, `!m.assumed`, "TestInterdependentMembersBindInOrder"},
	{"nobody wakes the next", turn, `pod != "" && !g.unconfirmed`, `false`, "TestInterdependentMembersBindInOrder"},
	{"listing is enough", together, `b.listedBy[x][y] && b.listedBy[y][x]`, `b.listedBy[y][x]`, "TestForeignGangStartsThoughAnotherListsIt"},
	{"only who changed is in another group", together, `		for _, other := range group {
`, `		for _, other := range []string{name} {
`, "TestDerivedStateMatchesRecount"},
	{"places of another group's plan", together, `		b.change(m, b.notePlanned)
`, `		_ = m
`, "TestDerivedStateMatchesRecount"},
	{"listed for ever", together, `		delete(b.listedBy[other], ref)
`, ``, "TestConsentComesAndGoes"},
	{"groups without an end", together, `len(group) > MaxGroupSize {`, `len(group) > 1<<30 {`, "TestGroupSizeIsLimited"},
	{"without a place, but with a turn", places, `	b.advance(g)
`, ``, "TestDerivedStateMatchesRecount"},
	{"places are kept of those who lost them", places, `	b.vacate(g.plan[pod], pod)
`, ``, "TestHistories"},
	{"the plan forgets and its members do not", places, `if m := b.pods[pod]; m != nil && m.planned {`, `if m := b.pods[pod]; m != nil && false {`, "TestDerivedStateMatchesRecount"},
	{"planned, and not counted so", places, `	b.occupy(node, m.Pod)
	b.change(m, b.notePlanned)
`, `	b.occupy(node, m.Pod)
`, "TestDerivedStateMatchesRecount"},
	{"one place twice", places, `pods, pod, b.names); !found {`, `pods, pod, b.names); !found || true {`, "TestHistories"},
	{"one gang is enough for the group", barrier, `if !b.satisfiesPolicy(ref) {`, `if ref == key && !b.satisfiesPolicy(ref) {`, "TestHistories TestAGroupWaitsForEveryGang"},
	{"only the latest passes", barrier, `case n == 1 && latest`, `case latest`, "TestAGangFromFirstMemberToBound"},
	{"those who run wait", barrier, `return n.held >= g.spec.Min ||`, `return n.held+n.bound >= g.spec.Min ||`, "TestMatchPolicies"},
	{"a gang that runs waits for itself", barrier, `return n.held >= g.spec.Min || g.allStarted()`, `return n.held >= g.spec.Min`, "TestBoundOnlyWaitingGangDoesNotDelayGroup"},
	{"the first go without the last", barrier, `return n.waiting == n.planned`, `return n.waiting <= n.planned`, "TestMembersInMultiplesWaitForAllMembers TestHistories"},
	{"a plan in multiples goes on without a member", barrier, `return len(g.plan) > 0 && !g.unconfirmed`, `return false && !g.unconfirmed`, "TestMembersInMultiplesWaitForAllMembers"},
	{"a NonStrict plan in multiples goes on without a member", barrier, `nonStrict() && !b.hasMultiples(key) {`, `nonStrict() {`, "TestPlanInMultiplesIsDroppedWhenNodeRejectsMember"},
	{"those who arrived are on their way back", barrier, `return n.assumed - n.arrived`, `return n.assumed`, "TestDerivedStateMatchesRecount"},
	{"nobody is on the way back to a reservation", barrier, `g.unconfirmed || len(g.plan) == 0 {`, `len(g.plan) == 0 {`, "TestDerivedStateMatchesRecount"},
	{"who has entered is next", barrier, `			b.advance(g)
`, ``, "TestDerivedStateMatchesRecount TestInterdependentMembersBindInOrder"},
	{"who has entered is counted twice on its node", barrier, `			b.vacate(g.plan[m.Pod], m.Pod)
`, ``, "TestHistories"},
	{"who is sent back to the queue is waited for like who leaves", evicted, `m == nil || !m.runs()`, `m == nil`, "TestEvictedGangGetsNoReplacementUntilItTerminates"},
	{"what is planned goes on while the group leaves", evicted, `			out = append(out, b.forget(key, "the gang is being evicted")...)
`, ``, "TestEvictedGangGetsNoReplacementUntilItTerminates TestHistories"},
	{"nobody is tried when all are spared", evicted, `!done[key] && !b.terminating(key)`, `!done[key] && b.terminating(key)`, "TestEvictedGangGetsNoReplacementUntilItTerminates"},
	{"a gang that was evicted goes on", "pkg/gang/progress.go", `		g.satisfied = false
`, ``, "TestEvictedGangGetsNoReplacementUntilItTerminates"},
	{"who is to leave is not counted", counts, `	note(&c.evicted, m.evicted && m.runs())
`, ``, "TestDerivedStateMatchesRecount"},
	{"nobody comes later", tick, `passed(g.deadline, now) || passed(g.retryAt, now)`, `passed(g.deadline, now)`, "TestFailedGangIsRequeuedAndRetriedLater"},
	{"holding does not end", tick, `passed(g.deadline, now) || passed(g.retryAt, now)`, `passed(g.retryAt, now)`, "TestWaitAtBarrierTimesOut TestHistories"},
	{"nodes are avoided for ever", tick, `			a.until = time.Time{}
`, ``, "TestNodeThatRejectedMemberIsAvoidedForAWhile"},
	{"time comes late", tick, `!t.IsZero() && !now.Before(t)`, `!t.IsZero() && now.After(t)`, "TestWaitAtBarrierTimesOut"},
	{"a node is as it was", known, `case t.generation[i] != Generation(n), anyBeside`, `case t.generation[i] == 0, anyBeside`, "TestMemory"},
	{"whoever is beside", known, `Generation(n), anyBeside && t.beside[i] != beside[i]:`, `n.GetGeneration(), anyBeside && false:`, "TestMemory"},
	{"apart is known from others", known, `	if c.reads.apart {
`, `	if false {
`, "TestMemory"},
	{"what is said of those apart is kept", known, `if !c.reads.apart || !keepsOff(nodes[i]) {`, `if true {`, "TestMemory"},
	{"answers do not move", known, `t.generation[previous], t.slots[previous], t.why[previous]`, `t.generation[previous], t.slots[i], t.why[i]`, "TestMemory"},
	{"those beside do not move", known, `		if b := t.beside[previous]; b != "" {
			beside[i] = b
		}
`, ``, "TestMemory"},
	{"those beside are the first ones", known, `	t.beside = beside
`, ``, "TestMemory"},
	{"no node has slots", known, `			c.Slots[i] = 0
`, `			_ = i
`, "TestMemory"},
	{"the answers are the memory", known, `Slots: slices.Clone(t.slots)`, `Slots: t.slots`, "TestMemory"},
	{"all templates are one", known, `t := m.templates[c.reads.key]`, `c.reads.key = "x"
	t := m.templates[c.reads.key]`, "TestMemory"},
	{"the volume that was chosen is the one that is given", rehearsal, `if r.page.hopeful && !r.replaying || pv.Spec.ClaimRef != nil {`, `if true {`, "TestVolumesOfWhichEitherMayBeTaken"},
	{"who leaves elsewhere is not waited for", leavingNow, `if l.everywhere = l.own; !a.Dependent() {`, `if l.everywhere = l.own; true {`, "preempt.TestReservationWaitsForVictimOnOtherNode"},
	{"whom members seek must not leave before a victim", leavingNow, `stillWhy != "" {`, `true || stillWhy != "" {`, "preempt.TestReservationSurvivesTerminationOfNearPod"},
	{"who has left elsewhere comes back", nominated, `len(reserved) == 0 {`, `true {`, "preempt.TestRecreatedVictimStaysOffReservedDomains"},
	{"who is kept off takes the others along", nominated, `if all {`, `if reservedFor[i] != "" {`, "preempt.TestWorkersUseFreeNodesWhenLauncherIsKeptOff"},
	{"members that are kept off are like the others", attempts, `key := likeness{c.Key(), c.ClosedDomains().Key(), ""}`, `key := likeness{c.Key(), "", ""}`, "preempt.TestWorkersUseFreeNodesWhenLauncherIsKeptOff"},
	{"who depends on others is not kept off", trials, `; closed {`, `; closed && false {`, "TestClosedDomainsAreNotCounted"},
	{"what is remembered of nodes goes for who is kept off", known, `if n != nil && c.closedStatus(n) != nil {`, `if n != nil && false {`, "TestClosedDomainsAreNotCounted"},
	{"attempts share nodes", attempt, `	a.Nodes = slices.Clone(a.Nodes)
	for i, n := range states {`, `	for i, n := range states {`, "TestAttemptsAreValues departure.TestVictimsAreRememberedAcrossChoices"},
	{"who is kept off speaks for others", classOf, `len(a.reservedFor) > 0 || `, ``, "preempt.TestGangKeptOffByReservationDoesNotBlockSimilarGang"},
	{"who is kept off from another node is remembered", reads, `return t.TopologyKey != v1.LabelHostname && mayMatch(&t, c.member.GetPod())`, `return false`, "TestMemory"},
	{"members with terms are remembered", reads, `hasNoTerms(c.member) && `, ``, "TestMemory"},
	{"tolerations do not matter", reads, `, Tolerations: spec.Tolerations`, ``, "TestMemory"},
	{"gangs are told apart that are alike", choiceSets, `if !ok || g.Like == "" {`, `if !ok || g.Like != "?" {`, "TestAlike"},
	{"a branch starts with too few", choices, `if n := len(l.running); n < l.least && (n > 0 || l.top) {`, `if n := len(l.running); n < l.least && l.top {`, "TestSets"},
	{"a total is asked of nobody", choices, `needs[i] += max(0, more)`, `needs[i] += 0`, "TestNeeds"},
	{"the smallest set comes first", choiceSets, `cmp.Compare(q[j].members, q[i].members)`, `cmp.Compare(q[i].members, q[j].members)`, "TestSets"},
	{"the first set of gangs that has a plan", chosen, `if s.best == nil || s.before(p, set) {`, `if s.best == nil {`, "TestSomeGangs"},
	{"other sets of as many members are not looked at", chosen, `c.Members(set) < len(s.best.Puts)`, `c.Members(set) <= len(s.best.Puts)`, "TestSomeGangs"},
	{"all members are of the first gang", chosen, `		next[c]++`, `		next[c] += 0`, "TestSomeGangs"},
	{"a gang leaves alone whoever else does", leave, `if !tree.Holds(lasting) {`, `if false {`, "TestEvictedIsAClosure"},
	{"no gang leaves alone", leave, `	if !g.divisible {
		return nil, false`, `	if true {
		return nil, false`, "TestEvictedIsAClosure"},
	{"where a level goes down all leave", leave, `if !tree.Holds(lasting) {`, `if !tree.Holds(running) {`, "TestEvictedIsAClosure"},
	{"who is below a level that goes down stays", leave, `if broken(i) || slices.ContainsFunc(`, `if broken(i) || false && slices.ContainsFunc(`, "TestEvictedIsAClosure"},
	{"a level that was down before goes down", leave, `broken(i) && !alive[l.Name] && k`, `!alive[l.Name] && k`, "TestEvictedIsAClosure"},
	{"the barrier waits for gangs without a place", barrier, `if hasOptional = true; !g.inPlan() {`, `if hasOptional = true; false {`, "TestOptionalGangsStartWithoutIncompleteGang"},
	{"a plan goes on that is none for a gang in it", members, `b.obstacle(key).Exists() || b.planBroken(key)`, `b.obstacle(key).Exists()`, "TestPlanIsDroppedWhenItsGangIsIncomplete"},
	{"a gang speaks that is not whole", pending, `g != nil && !b.excluded(g) {`, `g != nil {`, "TestIncompleteBranchDoesNotDelayOthers"},
	{"memory in bytes takes no percent of a card", devTypes, `a.Ratio = a.Memory * 100 / has.Memory`, `a.Ratio = 0`, "TestSlots TestFit"},
	{"percent of memory take no bytes", devTypes, `a.Memory = a.Ratio * has.Memory / 100`, `a.Memory = 0`, "TestSlots TestFit"},
	{"a member has a card twice", devSolver, `sum += min(caps[i], k)`, `sum += caps[i]`, "TestPictures"},
	{"several partitions are counted by their GPUs", devSolver, `exact = !d.partitionOnly
	if`, `exact = true
	if`, "TestSlots"},
	{"switches are shared with who shares with nobody", devSolver, `case u.exclusiveSwitch > 0 || u.users > 0 && d.exclusive == PCIeLevel:`, `case u.users > 0 && d.exclusive == PCIeLevel:`, "TestSlots TestFit TestPictures"},
	{"who shares with nobody comes to others", devSolver, `case u.exclusive > 0 || u.users > 0 && d.exclusive == DeviceLevel:`, `case u.exclusive > 0:`, "TestSlots"},
	{"the sick are used", devSolver, `s := d.match & d.kind.healthy`, `s := d.match`, "TestSlots TestPictures"},
	{"restricted partitions are of the lowest score", devSolver, `if i == 0 || p.score > best {`, `if i == 0 || p.score < best {`, "TestPictures"},
	{"partitions need not lie in the scope", devSolver, ` || !d.inScope(p.gpus):`, `:`, "TestSlots TestPictures"},
	{"members on several switches are counted by switch", devSolver, `exact = first.count == 1 && n.roots != nil`, `exact = first.count > 0 && n.roots != nil`, "TestSlots"},
	{"what a search promised is not tried again", devSolver, `return Count{Slots: k, Exact: exact}`, `return Count{Slots: k, Exact: true}`, "TestWork"},
	{"why leaves members where they were tried", devSolver, `		defer x.release()
		if reason`, `		if reason`, "TestFit"},
	{"a failed search leaves a VF behind", devSearch, `		if p.group >= 0 {
			x.st.useVF(p.group, p.vf, sign)
		}`, `		if p.group >= 0 && sign > 0 {
			x.st.useVF(p.group, p.vf, sign)
		}`, "TestSlots TestFit"},
	{"a switch of its own is counted by its devices", devSolver, `upTo = min(upTo, d.kind.switchCount(can))`, `_ = d.kind.switchCount(can)`, "TestSlots"},
	{"nobody has further NICs", devSearch, `		x.addSpareOf(i)`, `		_ = i`, "TestPictures"},
	{"alike are GPUs that differ in what is used", devOptions, `if p.Amount != q.Amount || (p.users`, `if (p.users`, "TestPictures"},
	{"alike are GPUs of different partitions", devOptions, `if n.deviceType == GPU && x.byPosition || u.class`, `if u.class`, "TestPictures"},
	{"the largest partitions are broken first", devOptions, `slices.Compare(b.leaves, a.leaves)`, `slices.Compare(a.leaves, b.leaves)`, "TestPictures"},
	{"the best partition comes last", devOptions, `cmp.Compare(b.score, a.score), slices`, `cmp.Compare(a.score, b.score), slices`, "TestSlots TestPictures"},
	{"quiet switches first", devOptions, `return cmp.Compare(x.busy(n, b), x.busy(n, a)) })`, `return cmp.Compare(x.busy(n, a), x.busy(n, b)) })`, "TestPictures"},
	{"shared GPUs are spread over switches", devOptions, `return cmp.Or(cmp.Compare(busy[b], busy[a]), `, `return cmp.Or(0*cmp.Compare(busy[b], busy[a]), `, "TestSlots TestFit"},
	{"NICs need not be where GPUs are", devOptions, `order := x.sorted(n, can&onSwitches,`, `order := x.sorted(n, can,`, "TestSlots"},
	{"a NIC for each GPU, though there are fewer switches", devOptions, `count = max(count, switches.len())`, `count = max(count, 2)`, "TestSlots TestPictures"},
	{"full cards first", devOptions, `	if x.Packed {
		return -sum`, `	if !x.Packed {
		return -sum`, "TestPictures"},
	{"switches do not matter for the key", devState, `	c.branches.all = append(c.branches.all, mark)`, `	_ = mark`, "TestKey"},
	{"what is used of VFs does not matter for the key", devState, `		out = number(out, int64(s.vfUsed[g]))`, `		out = number(out, 0)`, "TestKey"},
	{"who shares with nobody does not matter for the key", devState, `|b2i(u.exclusive > 0)<<1|`, `|`, "TestKey"},
	{"VFs in use twice are free when one leaves", devState, `s.vfUsed[group] += b2i(s.vfs[vf] > 0) - b2i(former > 0)`, `s.vfUsed[group] += sign + 0*former`, "TestGivenTwice"},
	{"selectors do not matter for alike devices", devNode, `u.Type, u.Healthy, u.Has, labelText(u.Labels))`, `u.Type, u.Healthy, u.Has, "")`, "TestKey"},
	{"parts of GPUs may be any", devAsk, `(v%sums[SharedGPU] != 0 || v/sums[SharedGPU] > 100)`, `v/sums[SharedGPU] > 100`, "TestAsk"},
	{"RequestsAsCount wants whole devices", devAsk, `w.count, w.perDevice.Core = int(v), 1
`, `w.count, w.perDevice.Core = int(v), 100
`, "TestAsk TestPictures"},
	{"the remainder goes to the smallest", quEntitle, `return cmp.Compare(rest[y], rest[x])`, `return cmp.Compare(rest[x], rest[y])`, "TestBook TestPictures"},
	{"who lends gets its min in any case", quEntitle, `if s.request < s.min && !s.keeps {`, `if false && s.request < s.min && !s.keeps {`, "TestBook TestPictures"},
	{"mins are not scaled", quEntitle, `	if sum <= total || sum == math.MaxInt64 && total == math.MaxInt64 {`, `	if sum >= 0 {`, "TestBook TestPictures"},
	{"nobody is held to what he asks for", quEntitle, `n = min(n, s.request-s.gets)`, `_ = s.request`, "TestBook TestPictures"},
	{"what a tree has others beside it do not take", quEntitle, `out[r] = max(0, n-b.accounts[i].used[r]-b.accounts[i].reserved[r])`, `out[r] = n`, "TestBook TestPictures"},
	{"entitlements change only where something has", quEntitle, `if changed[c] || changedShare {`, `if changed[c] {`, "TestBook"},
	{"who is entitled to something else has the version that he had", quEntitle, `		if changedShare {
`, `		if false {
`, "TestEvictionsEndWithoutNewGangs"},
	{"who has something else has the version that he had", quBook, `		b.touch(i)
		if p.State == Bound {`, `		if p.State == Bound {`, "TestEvictionsEndWithoutNewGangs"},
	{"a search goes on with a tree that it did not begin with", quBook, `	replanted := NewBook(t)
`, `	replanted := b
	replanted.plant(t)
`, "TestSearchOutlivesTree"},
	{"what is saved of a tree keeps others from their min", quAdmit, `c.free && b.respects(l.ask, c) && !l.spared(c)`, `c.free && b.respects(l.ask, c)`, "TestPictures"},
	{"who claims last goes first", quAdmit, `own == nil || own.turn > c.turn`, `own == nil || own.turn < c.turn`, "TestPictures"},
	{"what is saved of a quota is saved of the whole tree", quAdmit, `c.free && b.respects(l.ask, c)`, `b.respects(l.ask, c)`, "TestPictures"},
	{"what is kept for a quota is idle", quEntitle, `			a.idle[r] = max(a.idle[r], n.min[r]-a.used[r]-a.reserved[r])
`, ``, "TestBook TestPictures"},
	{"max is checked at the bottom only", quBook, `	for i := p.node; i >= 0; i = b.tree.nodes[i].parent {
		n := &b.tree.nodes[i]
		if n.broken`, `	for i := p.node; i >= 0; i = -1 {
		n := &b.tree.nodes[i]
		if n.broken`, "TestBook"},
	{"gangs that are passed start", quBook, `	if asks && !b.passed[p.gang.name] {`, `	if asks {`, "TestBook"},
	{"who was served is forgotten", quBook, `			a.since = max(a.since, p.Since)
`, ``, "TestBook TestPictures"},
	{"what is reserved does not count", quAdmit, `	n := a.used[r] + a.reserved[r]
`, `	n := a.used[r]
`, "TestBook TestPictures"},
	{"a free tree need not be asked", quAdmit, `		if free < wants {`, `		if false && free < wants {`, "TestBook TestPictures"},
	{"everybody is next", quAdmit, `!v.before(s, r.node) || !l.anyFirst(s)`, `true`, "TestBook TestPictures"},
	{"a gang of several quotas has its turn with the first", quAdmit, `return l.view.earlier(own, others)`, `return l.view.earlier(own, others) || true`, "TestBook TestPictures"},
	{"gangs of a group have turns of their own", quBook, `if all := b.groups[name]; all != nil {`, `if all := b.groups[name]; false && all != nil {`, "TestBook TestPictures"},
	{"who waits for room keeps others out", quAdmit, `p.pods[Waiting] == 0 || b.passed[p.gang.name]`, `p.pods[Waiting] == 0`, "TestBook"},
	{"what is saved for others is free", quAdmit, `				free -= claimed
`, `				_ = claimed
`, "TestPictures"},
	{"what is saved binds the more important", quAdmit, `c.ask.Gang != a.Gang && c.ask.Priority >= a.Priority`, `c.ask.Gang != a.Gang`, "TestPictures"},
	{"optional members come all or none", quAdmit, `		for low < high {`, `		for low < high && with(high) {`, "TestPictures"},
	{"shares do not weigh", quShare, `mulDiv(part, w.sum, w.shifted(n.weight[r]))`, `mulDiv(part, w.sum, w.sum)`, "TestBook TestPictures"},
	{"what min covers is a share", quShare, `over := v.taken(i, r) - n.min[r]`, `over := v.taken(i, r)`, "TestBook TestPictures"},
	{"older gangs are guaranteed last", quClasses, `cmp.Compare(x.gang.since, y.gang.since)`, `cmp.Compare(y.gang.since, x.gang.since)`, "TestBook TestPictures"},
	{"who is guaranteed below is not first", quClasses, `first(x.guaranteed, y.guaranteed), `, ``, "TestBook"},
	{"who is guaranteed may be evicted", quReclaim, `r.book.class.at(giver)[p.gang] == Borrows, r.within(taker); {`, `true, r.within(taker); {`, "TestBook TestPictures"},
	{"within min is no right", quReclaim, `	case within:
`, `	case false:
`, "TestBook TestPictures"},
	{"fixed gangs are evicted", quReclaim, `!p.gang.fixed && !n.NeverEvicted`, `!n.NeverEvicted`, "TestBook"},
	{"more is taken than is too much", quReclaim, `return r.mayTakeBack(p.taker, p.giver, v)`, `return true`, "TestBook TestPictures"},
	{"a quota may lack as much as another set leaves it short of", quReclaim, `r.shortfall(t, v) >= r.below:`, `r.shortfall(t, v) > r.below:`, "TestSearchOutlivesTree"},
	{"a quota may lose its min", quReclaim, `r.shortfall(t, v) >= r.below:`, `r.shortfall(t, v) == math.MaxUint64:`, "TestSearchOutlivesTree"},
	{"in turn is as if nobody had left", quReclaim, `!t.reclaim.overLimit(right, t.view)`, `!t.reclaim.overLimit(right, t.reclaim.load.view)`, "TestBook"},
	{"it is right that all leave who may alone", quReclaim, `return r.inTurn(shares, victims, nil) &&`, `return `, "TestBook"},
	{"policies do not matter", quReclaim, `r.policy == Never || r.policy == LowerPriority && p.gang.priority >= r.ask.Priority`, `false`, "TestPictures"},
	{"the youngest of a name counts", quTree, `if s.Created < g.specs[j].Created {`, `if s.Created > g.specs[j].Created {`, "TestPictures"},
	{"a quota below one that is broken is fine", quTree, `t.nodes[p].broken != "" && n.broken == ""`, `false`, "TestPictures"},
	{"choices to which somebody can be added count", quChoices, `s.exact || s.full(chosen, l)`, `true`, "TestChoices"},
	{"members beyond those who are needed are chosen for whom others leave", quChoices, `if s.exact {
		high`, `if false {
		high`, "TestChoices"},
	{"choices of fewer members than are needed", quChoices, `		if n > 0 {
			return false`, `		if false {
			return false`, "TestChoices"},
	{"who needs most is chosen first where not all ways are tried", quChoices, `cmp.Compare(c.Kinds[x].Asks[resource], c.Kinds[y].Asks[resource])`, `cmp.Compare(c.Kinds[y].Asks[resource], c.Kinds[x].Asks[resource])`, "TestChoicesAreBounded"},
	{"only those of the lowest ranks wait for their turn", quChoices, `return refusal == nil || refusal.Cause == NotNext`, `return refusal == nil`, "kube/elasticquota.TestGangWaitsForTurnIfOnlyTheTurnIsMissing"},
	{"who is refused has no turn for what nobody says of him", roomAdmit, `turnRefusal := r.turnRefusal(group, needed, refusalShown)`, `turnRefusal := refusalShown`, "TestGangWaitsForTurnIfOnlyTheTurnIsMissing"},
	{"who is to evict needs no more than minMember", surplus, `entry.Need, start = entry.Need+more, start+more`, `_ = more`, "TestInMultiples"},
	{"nobody hears that more of a quota may be evicted", quBook, `if p == current || at != i {`, `if false {`, "TestAnySince"},
	{"nobody hears that a quota has less", quBook, `				if p == previous {
					a.less`, `				if false {
					a.less`, "TestAnySince"},
	{"nobody hears that a quota is entitled to less", quEntitle, `if n < previous[at][r] {`, `if false {`, "TestAnySince"},
	{"a gang that waits is called for what is as it was", quReclaim, `old := accounts[sibling].more <= moment && accounts[own].less <= moment`, `old := false`, "TestAnySince"},
	{"a waiting pod that goes is not heard of", quBook, `at >= 0 && share.pods[Bound]+share.pods[Reserved] > 0; at`, `at < 0; at`, "TestAnySince"},
	{"who waits while some of his gang run is forgotten", roomPods, `state != quota.Waiting && (p.state == quota.Waiting || source.GangOf(p.Pod).IsZero() && !place.Reserved)`, `state != quota.Waiting`, "TestPartlyRunningGangIsRetriedWhenVictimsGrow"},
	{"nobody hears of what others need", roomAdmit, `r.book.Changes() != before`, `r.book.Changes() < before`, "TestGangIsRetriedWhenAnotherGangNeedsLess"},
	{"what was found counts when quotas are declared anew", roomMain, `rights{scheduled: r.rights.scheduled}`, `r.rights`, "TestVictimCheckBeforeNewQuotasDoesNotCount"},
	{"many are called as often as few", roomRights, `time.Duration(1+r.rights.retriedKinds/retriesPerCheck)`, `time.Duration(1+r.rights.retriedKinds/retriesPerCheck*0)`, "TestManyRetriesMakeVictimChecksRarer"},
	{"a pod asks of the quota that it was of", roomRights, `if w.treeVersion != r.treeVersion && `, `if false && `, "TestPodIsRetriedWhenItChangesQuota"},
	{"members have leave who may leave for others of their gang", quReclaim, `r.Admits(victims) && r.eachByRight(victims)`, `r.Admits(victims)`, "TestPictures"},
	{"members take the places of those who leave for others of their gang", ownersFile, `if len(usableByAll) > len(own) {`, `if false {`, "TestTakeOwned"},
	{"members of other quotas are alike", attempts, `key.owner = a.owners.Of(d.Pod)`, `_ = d`, "TestOwnedAlike"},
	{"a list that was cut is all", quChoices, `s.checks < mostQuestions && len(s.found) <= most`, `true`, "TestChoicesAreBounded"},

	{"nobody says on which nodes a volume is that is bound", trials, `s.pages.withoutFreeing(pre.state)`, `s.pages.without(pre.state)`, "ledger.TestTrialOfBoundVolumes"},
	{"members that follow keep one off their node", aside, ` || s.Cache.Siblings(other, pod)`, ``, "TestSiblingsThatFollowDoNotKeepAMemberOff"},
	{"a rejected member receives no events", listeners, `s.listeners.note(pod.Pod, true, s.mayBeQueued)`, ``, "TestOnlyTriedMembersReceiveEvents"},
	{"a choice that is found is not listed", quChoices, `minimal != nil {`, `minimal == nil {`, "TestFoundChoiceIsListed"},
	{"who may leave as quotas say is not asked again", vainly, `			s.hash.WriteByte(s.check(pod))
`, `			_ = pod
`, "TestFailedSearchIsNotRepeatedUntilQuotasChange"},
	{"who leaves is looked for without end", preempts, `nodes > 0 && nodes+onAttempt > p.among`, `nodes < 0`, "TestSearchOfManyAttemptsIsBounded"},
	{"claims that are bound may be anybody's", roomChoose, `v.Spec.VolumeName == "" && `, ``, "TestOwnClaims"},
	{"claims that are shared are one's own", roomChoose, `		if n == 1 {
`, `		if n > 0 {
`, "TestOwnClaims"},
	{"what a policy denies is tried on the same node for ever", answered, `return code >= http.StatusBadRequest && code < http.StatusInternalServerError`, `return false`, "TestFailedBindingSaysWhetherNodeIsAtFault"},
	{"a pod whose binding was not answered is not asked for", answered, `unanswered && a.bound(ctx, pod, node)`, `unanswered && false`, "TestFailedBindingSaysWhetherNodeIsAtFault"},
	{"a pod that was made anew counts as bound", answered, `err == nil && current.UID == pod.UID && current.Spec`, `err == nil && current.Spec`, "TestFailedBindingSaysWhetherNodeIsAtFault"},
	{"a pod on another node counts as bound", answered, `current.Spec.NodeName == node`, `current.Spec.NodeName != ""`, "TestFailedBindingSaysWhetherNodeIsAtFault"},
	{"a claim that is left blames the node", afterFilter, `p.allocations.RecordLeftover([]*v1.Pod{pod}) || p.planner`, `p.planner`, "simulate.TestAClaimThatIsLeftBlamesNoNode"},
	{"who has led goes on beside a new leader", elected, `l.deposed(record.HolderIdentity)`, `_ = record`, "TestWhoHasLedEndsWhenAnotherLeads"},
	{"who never led ends when another one leads", elected, `err == nil && l.led && record`, `err == nil && record`, "TestWhoHasLedEndsWhenAnotherLeads"},
	{"who has given up the Lease ends when another one leads", elected, `l.led = record.HolderIdentity == l.Identity()`, `l.led = true`, "TestWhoHasLedEndsWhenAnotherLeads"},
	{"a webhook's refusal with another code is none", answered, `answer.Status().Message, denied)`, `"", denied)`, "TestFailedBindingSaysWhetherNodeIsAtFault"},
	{"plugins run before a binding that have nothing to do", answered, `return f.RunPreBindPreFlights(ctx, state, pod, node)`, `return nil`, "TestOnlyPluginsWithWorkRunBeforeBind"},
	{"a node that others read is changed", trimmed, `		do(&own[i])
`, `		do(&list[i])
		own[i] = list[i]
`, "TestNodesShareTheirWords"},
	{"words are remembered without end", trimmed, `len(w.known) >= mostWords`, `false`, "TestWordsAreBounded"},
	{"rights are asked for only when all own pods have left", roomClaim, `c.searchWithout(own), c.reclaim.Freed(own...)}`, `c.searchWithout(own)}`, "TestSomeOwnPodsAreEvictedBeforeBorrowers"},
	{"who borrows stays though he need not when others have left", roomClaim, `right = first.Right(name)`, `_ = first`, "TestOwnPodsAreEvictedBeforeBorrowers"},
	{"others leave for the lowest ranks alone", roomClaim, `len(minimal) > 0 {
			choices = minimal`, `false {
			choices = minimal`, "plugin.TestVictimsOfAnyChoiceRetryGang"},
	{"what one choice lacks is what all lack", pluChoices, `		s.plugins = append(s.plugins, plugins...)
`, ``, "TestObstacleOfAnyChoiceRetriesGang"},
	{"who has several choices follows others", pluEvents, `case c.alternatives != nil:`, `case false:`, "TestGangWithChoicesFollowsNoGang"},
	{"who has several choices may always fit", pluChoices, `c.partial = c.partial || !all; !c.partial`, `c.partial = true; !c.partial`, "TestNeverFitsOnlyIfNoChoiceFits"},
	{"quotas that change have tried who never fits", pluChoices, `c.alternatives.limits = limits`, `_ = limits`, "TestNeverFitsOnlyIfNoChoiceFits"},
	{"what is remembered of one quota goes for several", vainly, ` || claim.SeveralQuotas())`, `)`, "TestFailedSearchOfSeveralQuotasIsRepeated"},
	{"a gang bound in part is first until it is planned", gangPlan, `	case !ev.Reserved:
		b.startResumed(ev.Group)
`, `	case !ev.Reserved:
		delete(b.resumed, ev.Group)
`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced"},
	{"a gang bound in part whose reservation is confirmed is not first", gangPlan, `	g.unconfirmed = false
	b.startResumed(key)
`, `	g.unconfirmed = false
	delete(b.resumed, key)
`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced"},
	{"a gang bound in part that is placed is first for ever", gangResume, `progress == placing && n.planned == n.arrived`, `false && n.planned == n.arrived && progress == placing`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced"},
	{"a node that seems to be written is not written again", nominate, `blank.Status.NominatedNodeName = ""`, `_ = blank`, "TestANominationIsWrittenAfterItWasCleared"},
	{"no trial is made", planAttempt, `if p != nil && !m.passesTrial(p) {`, `if false {`, "TestJobInTrial"},
	{"members are left in the trial", planAttempt, `	for range order {
		m.Trial.Undo()
	}
`, ``, "TestJobInTrial"},
	{"members pass in any order", planAttempt, `p.Puts, p.InOrder = order, true`, `p.InOrder = true`, "TestJobInTrial"},
	{"nobody makes room for others", planAttempt, `	case w.Trial != nil && len(p.Puts) < int(j.members()):`, `	case false:`, "TestJobInTrial"},
	{"a refusal by tables is final", planAttempt, `	case p == nil && (m.impossible || exact && w.Trial == nil):`, `	case p == nil && (m.impossible || exact):`, "TestJobInTrial"},
	{"the first domain is taken", cheapest, `s.stepsSpent || best != nil && b.known && b.cost.compareCount(best.set.cost) > 0`, `best != nil`, "TestCheapest"},
	{"nothing is put back", evPutBack, `	for changed := true; changed; {`, `	for changed := false; changed; {`, "TestCheapestForTwoKindsOfMembers"},
	{"not all sets of few bundles are tried", evExhaust, `var mostExhausted = 12`, `var mostExhausted = 0`, "TestCheapest"},
	{"gangs that may not be evicted are", evBundles, `if !b.gangs[g-1].Whole {`, `if false {`, "TestCheapest"},
	{"shared budgets are never exceeded", evBundles, `sum.Violations += b.counts(picks, whole).violations()`, `sum.Violations += 0`, "TestCheapest"},
	{"more of a quota is evicted than may be", evQuotas, `		d.surplus, d.blocked = surplus, blocked`, `		_ = blocked`, "kube/preempt.TestVictimsFreeCapacityAndQuota"},
}
