package mutants

var all = []mutant{
	{
		"a gang of a group terminates alone although the group is not sustainable", "pkg/bundle", "(*Group).lostLevels",
		`if !tree.Holds(sustainable) {`,
		`if false {`, "TestEvictedIsAClosure",
	},
	{
		"an indivisible group is divided", "pkg/bundle", "(*Group).lostLevels",
		`if !g.divisible {`,
		`if true {`, "TestEvictedIsAClosure",
	},
	{
		"a lost level evicts the whole group", "pkg/bundle", "(*Group).lostLevels",
		`if !tree.Holds(sustainable) {`,
		`if !tree.Holds(running) {`, "TestEvictedAndApart",
	},
	{
		"pods below a lost level stay", "pkg/bundle", "(*Group).Evicted",
		`if broken(i) || slices.ContainsFunc(`,
		`if broken(i) || false && slices.ContainsFunc(`, "TestEvictedIsAClosure",
	},
	{
		"a level that did not run before counts as lost", "pkg/bundle", "(*Group).lostLevels",
		`broken(i) && !alive[l.Name] &&`,
		`!alive[l.Name] &&`, "TestEvictedIsAClosure",
	},

	{
		"equal gangs are distinguished", "pkg/choice", "(*Choice).classes",
		`if !ok || g.Like == "" {`,
		`if !ok || g.Like != "?" {`, "TestAlike",
	},
	{
		"a branch starts with fewer gangs than its minimum", "pkg/choice", "(*Choice).Holds",
		`if n := len(l.running); n < l.least && (n > 0 || l.top) {`,
		`if n := len(l.running); n < l.least && l.top {`, "TestSets",
	},
	{
		"a level's total adds no members to a gang's need", "pkg/choice", "(*Choice).Needs",
		`needs[i] += max(0, more)`,
		`needs[i] += 0`, "TestNeeds",
	},
	{
		"the smallest set comes first", "pkg/choice", "queue.Less",
		`cmp.Compare(q[j].members, q[i].members)`,
		`cmp.Compare(q[i].members, q[j].members)`, "TestSets",
	},

	{
		"memory in bytes takes no percent of a card", "pkg/device", "Amount.complete",
		`a.Ratio = a.Memory * 100 / has.Memory`,
		`a.Ratio = 0`, "TestSlots TestFit",
	},
	{
		"percent of memory take no bytes", "pkg/device", "Amount.complete",
		`a.Memory = a.Ratio * has.Memory / 100`,
		`a.Memory = 0`, "TestSlots TestFit",
	},
	{
		"a member gets a card twice", "pkg/device", "maxMembers",
		`sum += min(caps[i], k)`,
		`sum += caps[i]`, "TestPictures",
	},
	{
		"several partitions are counted by their GPUs", "pkg/device", "(*Solver).boundByType",
		`exact = !d.partitionOnly`,
		`exact = true`, "TestSlots",
	},
	{
		"a switch is shared although a user has it exclusively", "pkg/device", "(*need).available",
		`case u.exclusiveSwitch > 0 || u.users > 0 && d.exclusive == PCIeLevel:`,
		`case u.users > 0 && d.exclusive == PCIeLevel:`, "TestSlots TestFit TestPictures",
	},
	{
		"a shared device goes to a pod that needs it exclusively", "pkg/device", "(*need).available",
		`case u.exclusive > 0 || u.users > 0 && d.exclusive == DeviceLevel:`,
		`case u.exclusive > 0:`, "TestSlots",
	},
	{
		"unhealthy devices are used", "pkg/device", "(*need).available",
		`s := d.match & d.kind.healthy`,
		`s := d.match`, "TestSlots TestPictures",
	},
	{
		"the Restricted policy takes the lowest score", "pkg/device", "(*need).usable",
		`if i == 0 || p.score > best {`,
		`if i == 0 || p.score < best {`, "TestPictures",
	},
	{
		"partitions may lie outside of the scope", "pkg/device", "(*need).usable",
		`|| !d.inScope(p.gpus):`,
		`:`, "TestSlots TestPictures",
	},
	{
		"members on several switches are counted by switch", "pkg/device", "(*Solver).boundBySwitches",
		`exact = first.count == 1 && n.roots != nil`,
		`exact = first.count > 0 && n.roots != nil`, "TestSlots",
	},
	{
		"the result of an incomplete search is exact", "pkg/device", "(*Solver).Slots",
		`return Count{Slots: k, Exact: exact}`,
		`return Count{Slots: k, Exact: true}`, "TestWork",
	},
	{
		"the explanation keeps the members that it placed", "pkg/device", "(*Solver).why",
		`defer x.release(); if reason`,
		`if reason`, "TestFit",
	},
	{
		"a failed search keeps a VF", "pkg/device", "(*search).takeOrFree",
		`if p.group >= 0 {`,
		`if p.group >= 0 && sign > 0 {`, "TestSlots TestFit",
	},
	{
		"a member with an exclusive switch is counted by its devices", "pkg/device", "(*Solver).boundByType",
		`upTo = min(upTo, d.kind.switchCount(can))`,
		`_ = d.kind.switchCount(can)`, "TestSlots",
	},
	{
		"there are no spare NICs", "pkg/device", "(*search).addSpare",
		`x.addSpareOf(i)`,
		`_ = i`, "TestPictures",
	},
	{
		"GPUs with different use are equal", "pkg/device", "(*search).alike",
		`if p.Amount != q.Amount || (p.users`,
		`if (p.users`, "TestPictures",
	},
	{
		"GPUs of different partitions are equal", "pkg/device", "(*search).alike",
		`if n.deviceType == GPU && x.byPosition || u.class`,
		`if u.class`, "TestPictures",
	},
	{
		"the largest partitions are split first", "pkg/device", "(*search).inPartitions",
		`slices.Compare(b.freeAfter, a.freeAfter)`,
		`slices.Compare(a.freeAfter, b.freeAfter)`, "TestPictures",
	},
	{
		"the best partition comes last", "pkg/device", "(*search).inPartitions",
		`cmp.Compare(b.score, a.score),`,
		`cmp.Compare(a.score, b.score),`, "TestSlots TestPictures",
	},
	{
		"the least busy switches come first", "pkg/device", "(*search).busiest",
		`return cmp.Compare(x.busy(n, b), x.busy(n, a)) })`,
		`return cmp.Compare(x.busy(n, a), x.busy(n, b)) })`, "TestPictures",
	},
	{
		"shared GPUs are spread over switches", "pkg/device", "(*search).sharedInTree",
		`return cmp.Or(cmp.Compare(busy[b], busy[a]),`,
		`return cmp.Or(0*cmp.Compare(busy[b], busy[a]),`, "TestSlots TestFit",
	},
	{
		"NICs may be on other switches than the GPUs", "pkg/device", "(*search).sameSwitches",
		`order := x.sorted(n, can&onSwitches,`,
		`order := x.sorted(n, can,`, "TestSlots",
	},
	{
		"a NIC for each GPU, though there are fewer switches", "pkg/device", "(*search).sameSwitches",
		`count = max(count, switches.len())`,
		`count = max(count, 2)`, "TestSlots TestPictures",
	},
	{
		"packing takes the emptiest cards first", "pkg/device", "(*search).score",
		`if x.Packed {`,
		`if !x.Packed {`, "TestPictures",
	},
	{
		"the key ignores switches", "pkg/device", "(*keyWriter).branch",
		`c.branches.all = append(c.branches.all, mark)`,
		`_ = mark`, "TestKey",
	},
	{
		"the key ignores used VFs", "pkg/device", "(*keyWriter).device",
		`out = appendNumber(out, int64(s.vfUsed[g]))`,
		`out = appendNumber(out, 0)`, "TestKey",
	},
	{
		"the key ignores exclusive use", "pkg/device", "(*keyWriter).device",
		`|b2i(u.exclusive > 0)<<1|`,
		`|`, "TestKey",
	},
	{
		"a VF that was given twice is free after one release", "pkg/device", "(*State).useVF",
		`s.vfUsed[group] += b2i(s.vfs[vf] > 0) - b2i(former > 0)`,
		`s.vfUsed[group] += sign + 0*former`, "TestGivenTwice",
	},
	{
		"the class of a device ignores its labels", "pkg/device", "(*Node).classify",
		`u.Type, u.Healthy, u.Has, labelText(u.Labels))`,
		`u.Type, u.Healthy, u.Has, "")`, "TestKey",
	},
	{
		"any share of a GPU is accepted", "pkg/device", "gpuWant",
		`(v%sums[SharedGPU] != 0 || v/sums[SharedGPU] > 100)`,
		`v/sums[SharedGPU] > 100`, "TestAsk",
	},
	{
		"RequestsAsCount needs whole devices", "pkg/device", "unitWant",
		`w.count, w.perDevice.Core = int(v), 1`,
		`w.count, w.perDevice.Core = int(v), 100`, "TestAsk TestPictures",
	},

	{
		"capacity is the free capacity, not the capacity after evictions", "pkg/evict", "Choose",
		`w.Capacity[i] = n.Capacity`,
		`w.Capacity[i] = n.free()`, "TestChoose TestPictures",
	},
	{
		"all wanted members are needed", "pkg/evict", "Choose",
		`offer.Up(max(r.Min, 1),`,
		`offer.Up(max(r.Want, 1),`, "TestChoose TestPictures",
	},
	{
		"the need is rounded down", "pkg/evict", "Choose",
		`need, ok := offer.Up(max(r.Min, 1), r.Multiple.Steps(w.Tree.Depth() + 1)[0])`,
		`need, ok := max(r.Min, 1), true`, "TestChoose",
	},
	{
		"the ceiling ignores the highest priority", "pkg/evict", "(*tariffSearch).choose",
		`lowest := sort.Search(highest,`,
		`lowest := highest + sort.Search(0,`, "TestExplanationNamesDecidingRule TestPictures",
	},
	{
		"the ceiling is lowered at any cost", "pkg/evict", "(*tariffSearch).choose",
		`if !ok || !slices.Equal(counts(price), counts(least)) {`,
		`if !ok {`, "TestChoose TestPictures",
	},
	{
		"only the needed members are placed", "pkg/evict", "(*tariffSearch).choose",
		`found.Plan(found.Most(least))`,
		`found.Plan(s.need)`, "TestChoose TestPictures",
	},
	{
		"the first plan is the result", "pkg/evict", "(*tariffSearch).evict",
		`p, _ = plan.Choose(world, s.request); world, gone :=`,
		`_ = world; world, gone :=`, "TestPictures",
	},
	{
		"the victims are the first plan's victims", "pkg/evict", "(*tariffSearch).evict",
		`world, _ := s.worldAfter(p, ceiling); p, _ = plan.Choose(world, s.request); world, gone := s.worldAfter(p, ceiling)`,
		`world, gone := s.worldAfter(p, ceiling); p, _ = plan.Choose(world, s.request)`, "TestPictures",
	},
	{
		"no victim is put back", "pkg/evict", "(*tariffSearch).putBack",
		`p.Domain] < s.need {`,
		`p.Domain] < 1<<30 {`, "TestPutBack",
	},
	{
		"one victim too many is put back", "pkg/evict", "(*tariffSearch).putBack",
		`p.Domain] < s.need {`,
		`p.Domain] < s.need-1 {`, "TestManyVictims",
	},
	{
		"the number of pods decides before disruption budgets", "pkg/evict", "Cost.compareCount",
		`cmp.Compare(c.Violations, o.Violations), cmp.Compare(c.Pods, o.Pods),`,
		`cmp.Compare(c.Pods, o.Pods), cmp.Compare(c.Violations, o.Violations),`, "TestChoose",
	},
	{
		"the number of pods is charged before disruption budgets", "pkg/evict", "Cost.price",
		`offer.Price{int64(c.Violations), int64(c.Pods)<<32 + int64(c.Requeued), c.Sum}`,
		`offer.Price{int64(c.Pods)<<32 + int64(c.Requeued), int64(c.Violations), c.Sum}`, "TestChoose TestPictures",
	},
	{
		"the highest sum of priorities wins", "pkg/evict", "Cost.price",
		`int64(c.Requeued), c.Sum}`,
		`int64(c.Requeued), -c.Sum}`, "TestChoose TestPictures",
	},
	{
		"a violated disruption budget costs nothing", "pkg/evict", "Victim.cost",
		`if v.Violates { c.Violations = 1 }`,
		``, "TestChoose TestPictures",
	},
	{
		"the highest priority is the lowest one", "pkg/evict", "Cost.Add",
		`max(c.Highest, o.Highest),`,
		`min(c.Highest, o.Highest),`, "TestChoose TestPictures",
	},
	{
		"the highest of negative priorities is zero", "pkg/evict", "Cost.Add",
		`case c.victims() == 0: sum.Highest = o.Highest`,
		``, "TestChoose TestPictures",
	},
	{
		"the oldest pod is evicted first", "pkg/evict", "compareVictims",
		`cmp.Compare(b.Started, a.Started)`,
		`cmp.Compare(a.Started, b.Started)`, "TestChoose TestPictures",
	},
	{
		"a tie is not decided by name", "pkg/evict", "compareVictims",
		`cmp.Compare(a.Name, b.Name))`,
		`0)`, "TestInputOrderDoesNotChangeVictims",
	},
	{
		"a tie is not decided by age", "pkg/evict", "(*Node).keep",
		`cmp.Compare(a.Cost.Released, b.Cost.Released), slices.Compare(a.age, b.age))`,
		`cmp.Compare(a.Cost.Released, b.Cost.Released))`, "TestChoose",
	},
	{
		"an option with more slots beats each other option", "pkg/evict", "(*Node).beats",
		`return kept.Slots >= o.Slots && (`,
		`return kept.Slots >= o.Slots && (true ||`, "TestPictures",
	},
	{
		"an option beats others whatever its highest priority", "pkg/evict", "(*Node).beats",
		`(kept.Cost.compareCount(o.Cost) < 0 || kept.Cost.Highest <= o.Cost.Highest)`,
		`kept.Cost.compareCount(o.Cost) <= 0`, "TestPictures",
	},
	{
		"victims without a shape have the same shape", "pkg/evict", "shapes",
		`if !known || v.Shape == "" {`,
		`if !known {`, "TestChoose",
	},
	{
		"the most expensive victims of a shape come first", "pkg/evict", "shapes",
		`for _, g := range groups { sortByCost(victims, g) }`,
		``, "TestChoose",
	},
	{
		"one victim of a shape always stays", "pkg/evict", "everySet",
		`for n := range shape {`,
		`for n := range len(shape) - 1 {`, "TestChoose",
	},
	{
		"options above the ceiling are taken", "pkg/evict", "Node.cheapest",
		`return o.Slots >= members && o.Cost.under(ceiling) })`,
		`return o.Slots >= members })`, "TestPictures",
	},
	{
		"the capacity is the free capacity", "pkg/evict", "(*nodeMaker).fill",
		`n.Capacity = slots(indexes(len(victims))); if n.free()`,
		`if n.Capacity = slots(indexes(len(victims))); n.free()+1`, "TestChoose TestPictures",
	},
	{
		"an estimated victim set may free too little", "pkg/evict", "minimal",
		`if slots(sorted(without)) < want {`,
		`if slots(sorted(without)) < want-1 {`, "TestManyVictims",
	},
	{
		"only small victim sets are options", "pkg/evict", "someSets",
		`sets = append(sets, minimal(reversed(order[:n])`,
		`_ = append(sets, minimal(reversed(order[:n])`, "TestManyVictims",
	},
	{
		"the higher priority is evicted first", "pkg/evict", "costRules",
		`cmp.Compare(a.Highest, b.Highest) }},`,
		`cmp.Compare(b.Highest, a.Highest) }},`, "TestCompareCosts TestChoose",
	},
	{
		"the sum of priorities decides before the highest priority", "pkg/evict", "costRules",
		`{ByHighest, func(a, b Cost) int { return cmp.Compare(a.Highest, b.Highest) }},`,
		`{BySum, func(a, b Cost) int { return cmp.Compare(a.Sum, b.Sum) }},`, "TestCompareCosts",
	},
	{
		"an exhausted budget costs nothing", "pkg/evict", "Victim.cost",
		`c.Violations += exhausted(v.Budgets)`,
		``, "TestCheapest",
	},
	{
		"each victim of a budget violates it", "pkg/evict", "budgetCounts.violations",
		`n += max(0, many-b.Allowed)`,
		`n += many + 0*b.Allowed`, "TestCheapest",
	},
	{
		"a budget allows one eviction more", "pkg/evict", "budgetCounts.violations",
		`n += max(0, many-b.Allowed)`,
		`n += max(0, many-b.Allowed-1)`, "TestCheapest",
	},
	{
		"an exhausted budget counts twice", "pkg/evict", "budgetCounts.add",
		`if b.Allowed > 0 {`,
		`if b.Allowed >= 0 {`, "TestCheapest",
	},
	{
		"domains without the bound members are considered", "pkg/evict", "(*considering).choice",
		`|| c.bound[d] < c.bound[topology.Root] {`,
		`{`, "TestConsider",
	},
	{
		"the lowest layer is never considered", "pkg/evict", "(*considering).layer",
		`if d++; t.End(d) < topology.ID(t.Len()) {`,
		`if d++; t.Layer(d) == t.Depth()-1 {`, "TestConsider TestConsiderLayers",
	},
	{
		"the runner-up is the first domain by name", "pkg/evict", "(*considering).choice",
		`if a.Outcome != b.Outcome || a.Outcome != Possible {`,
		`if true {`, "TestConsider",
	},
	{
		"the first cost rule always decides", "pkg/evict", "(*considering).decidingRule",
		`return rule; case o > 0`,
		`_ = rule; return costRules[0].name; case o > 0`, "TestConsider TestExplanationNamesDecidingRule",
	},
	{
		"the search has no time limit", "pkg/evict", "(*considering).choice",
		`if c.more != nil && !c.more() {`,
		`if false {`, "TestDomainsBeyondTheTimeAreUntried",
	},
	{
		"the first domain wins", "pkg/evict", "(*search).overDomains",
		`s.stepsSpent || best != nil && b.known && b.cost.compareCount(best.set.cost) > 0`,
		`best != nil`, "TestPictures",
	},
	{
		"no victim of a domain is put back", "pkg/evict", "(*domain).putBack",
		`for changed := true; changed; {`,
		`for changed := false; changed; {`, "TestCheapestForTwoKindsOfMembers",
	},
	{
		"no victim set is searched exhaustively", "pkg/evict", "mostExhausted",
		`mostExhausted = 12`,
		`mostExhausted = 0`, "TestCheapest",
	},
	{
		"gangs that may not be evicted are evicted", "pkg/evict", "(*bundles).closure",
		`if !b.gangs[g-1].Whole {`,
		`if false {`, "TestCheapest",
	},
	{
		"shared budgets are never violated", "pkg/evict", "(*bundles).cost",
		`sum.Violations += b.counts(picks, whole).violations()`,
		`sum.Violations += 0`, "TestCheapest",
	},
	{
		"more than the surplus of a quota is evicted", "pkg/evict", "(*domain).mayInTurn",
		`d.surplus, d.blocked = surplus, blocked`,
		`_ = blocked`, "kube/preempt.TestVictimsFreeCapacityAndQuota",
	},

	{
		"gated members count as existing", "pkg/gang", "(*counts).add",
		`note(&c.exist, m.runs() || pending(m))`,
		`note(&c.exist, true)`, "TestDerivedStateMatchesRecount",
	},
	{
		"members that passed the barrier count as waiting", "pkg/gang", "(*counts).add",
		`m.held && !m.allowed`,
		`m.held`, "TestDerivedStateMatchesRecount",
	},
	{
		"gated members count as in flight", "pkg/gang", "(*counts).add",
		`note(&c.assumed, m.assumed && pending(m))`,
		`note(&c.assumed, m.assumed)`, "TestDerivedStateMatchesRecount",
	},
	{
		"only one gang of a group counts", "pkg/gang", "(*Book).count",
		`all.plus(g.counts)`,
		`all = g.counts`, "TestDerivedStateMatchesRecount",
	},
	{
		"the planned members of other gangs count as in flight", "pkg/gang", "(*counts).plus",
		`c.arrived += o.arrived`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"a member is uncounted after its change", "pkg/gang", "(*Book).change",
		`g.counts.add(m, -1); update(m)`,
		`update(m); g.counts.add(m, -1)`, "TestDerivedStateMatchesRecount",
	},
	{
		"a member with a new rank keeps its position in the queue", "pkg/gang", "(*Book).change",
		`g.pending.update(m, m.Rank != previous.Rank || m.Row != previous.Row)`,
		`g.pending.update(m, false)`, "TestDerivedStateMatchesRecount",
	},
	{
		"a member with a new row keeps its position in the queue", "pkg/gang", "(*Book).change",
		`|| m.Row != previous.Row`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"members with equal ranks ignore their rows", "pkg/gang", "(*Member).CompareRanks",
		`if m.Row == o.Row ||`,
		`if true ||`, "TestMembersSortByRow",
	},
	{
		"the rows of members without a rank count", "pkg/gang", "(*Member).CompareRanks",
		`|| m.Rank == NoRank || o.Rank == NoRank`,
		``, "TestMembersSortByRow",
	},
	{
		"a removed member stays in the queue", "pkg/gang", "(*Book).deleteMember",
		`g.pending.remove(m)`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"a removed member stays counted", "pkg/gang", "(*Book).deleteMember",
		`g.counts.add(m, -1); g.countOwner(m, -1)`,
		`g.countOwner(m, -1)`, "TestDerivedStateMatchesRecount",
	},
	{
		"the highest rank is the representative", "pkg/gang", "ordering.members",
		`x.CompareRanks(&y.Member, names)`,
		`y.CompareRanks(&x.Member, names)`, "TestAGangFromFirstMemberToBound",
	},
	{
		"gated members are pending", "pkg/gang", "pending",
		`m.Node == "" && m.Gate == "" }`,
		`m.Node == "" }`, "TestDerivedStateMatchesRecount",
	},
	{
		"bound members are pending", "pkg/gang", "pending",
		`m.Node == "" && m.Gate == "" }`,
		`m.Gate == "" }`, "TestDerivedStateMatchesRecount",
	},
	{
		"bound members stay in the queue", "pkg/gang", "(*pendingQueue).update",
		`if moved || !pending(m) {`,
		`if moved {`, "TestDerivedStateMatchesRecount",
	},
	{
		"a member keeps its position in the queue when its rank changes", "pkg/gang", "(*pendingQueue).update",
		`if moved || !pending(m) {`,
		`if !pending(m) {`, "TestDerivedStateMatchesRecount",
	},
	{
		"members that left the queue count as queued", "pkg/gang", "(*pendingQueue).remove",
		`m.queued = false`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"the first listed gang has the representative", "pkg/gang", "(*Book).representative",
		`(first == nil || b.names.members(m, first) < 0)`,
		`first == nil`, "TestDerivedStateMatchesRecount",
	},
	{
		"an assumed member has its turn again", "pkg/gang", "(*Book).advance",
		`&& !m.assumed {`,
		`{`, "TestDerivedStateMatchesRecount TestInterdependentMembersBindInOrder",
	},
	{
		"a member without an assignment has its turn", "pkg/gang", "(*Book).advance",
		`m != nil && g.plan[pod] != "" && !m.assumed`,
		`m != nil && !m.assumed`, "TestDerivedStateMatchesRecount",
	},
	{
		"each member may enter at any time", "pkg/gang", "(*group).mayEnter",
		`next != m.Pod && !m.assumed`,
		`!m.assumed`, "TestInterdependentMembersBindInOrder",
	},
	{
		"the next member is never activated", "pkg/gang", "(*group).wakeNext",
		`pod != "" && !g.unconfirmed`,
		`false`, "TestInterdependentMembersBindInOrder",
	},
	{
		"a one-sided list makes a group", "pkg/gang", "(*Book).agree",
		`b.listedBy[x][y] && b.listedBy[y][x]`,
		`b.listedBy[y][x]`, "TestForeignGangStartsThoughAnotherListsIt",
	},
	{
		"only the changed gang moves to another group", "pkg/gang", "(*Book).regroup",
		`for _, other := range group {`,
		`for _, other := range []Ref{start} {`, "TestDerivedStateMatchesRecount",
	},
	{
		"assignments of another group's plan stay counted", "pkg/gang", "(*Book).regroup",
		`b.change(m, b.notePlanned)`,
		`_ = m`, "TestDerivedStateMatchesRecount",
	},
	{
		"a gang stays listed for ever", "pkg/gang", "(*Book).setListed",
		`delete(b.listedBy[other], ref)`,
		``, "TestConsentComesAndGoes",
	},
	{
		"the size of a group is unlimited", "pkg/gang", "(*Book).connected",
		`len(group) > MaxGroupSize {`,
		`len(group) > 1<<30 {`, "TestGroupSizeIsLimited",
	},
	{
		"a member without an assignment keeps its turn", "pkg/gang", "(*Book).unassign",
		`b.advance(g)`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"a node stays occupied after an unassignment", "pkg/gang", "(*Book).unassign",
		`b.vacate(g.plan[pod], pod)`,
		``, "TestHistories",
	},
	{
		"a member stays planned after its unassignment", "pkg/gang", "(*Book).unassign",
		`if m := b.pods[pod]; m != nil && m.planned {`,
		`if m := b.pods[pod]; m != nil && false {`, "TestDerivedStateMatchesRecount",
	},
	{
		"an assigned member is not counted as planned", "pkg/gang", "(*Book).assign",
		`b.change(m, b.notePlanned)`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"a pod occupies a node twice", "pkg/gang", "(*Book).occupy",
		`pods, pod, b.names); !found {`,
		`pods, pod, b.names); !found || true {`, "TestHistories",
	},
	{
		"one complete gang opens the group's barrier", "pkg/gang", "(*Book).mayOpen",
		`if !b.satisfiesPolicy(ref) {`,
		`if ref == key && !b.satisfiesPolicy(ref) {`, "TestHistories TestAGroupWaitsForEveryGang",
	},
	{
		"only the latest member passes the barrier", "pkg/gang", "(*Book).atBarrier",
		`case n == 1 && latest`,
		`case latest`, "TestAGangFromFirstMemberToBound",
	},
	{
		"bound members count for OnlyWaiting", "pkg/gang", "(*Book).satisfiesPolicy",
		`return n.held >= g.spec.Min ||`,
		`return n.held+n.bound >= g.spec.Min ||`, "TestMatchPolicies",
	},
	{
		"a started gang waits for itself", "pkg/gang", "(*Book).satisfiesPolicy",
		`return n.held >= g.spec.Min || g.allStarted()`,
		`return n.held >= g.spec.Min`, "TestBoundOnlyWaitingGangDoesNotDelayGroup",
	},
	{
		"members in multiples pass before the last one", "pkg/gang", "(*Book).mayOpen",
		`return n.waiting == n.planned`,
		`return n.waiting <= n.planned`, "TestMembersInMultiplesWaitForAllMembers TestHistories",
	},
	{
		"a plan in multiples continues without a member", "pkg/gang", "(*Book).mayViolate",
		`return len(g.plan) > 0 && !g.unconfirmed`,
		`return false && !g.unconfirmed`, "TestMembersInMultiplesWaitForAllMembers",
	},
	{
		"a NonStrict plan in multiples continues without a member", "pkg/gang", "(*Book).release",
		`nonStrict() && !b.hasMultiples(key) {`,
		`nonStrict() {`, "TestPlanInMultiplesIsDroppedWhenNodeRejectsMember",
	},
	{
		"arrived members count as in flight", "pkg/gang", "(*Book).inFlight",
		`return n.assumed - n.arrived`,
		`return n.assumed`, "TestDerivedStateMatchesRecount",
	},
	{
		"members of an unconfirmed reservation are not in flight", "pkg/gang", "(*Book).inFlight",
		`g.unconfirmed || len(g.plan) == 0 {`,
		`len(g.plan) == 0 {`, "TestDerivedStateMatchesRecount",
	},
	{
		"an assumed member keeps its turn", "pkg/gang", "(*Book).noteAssumed",
		`b.advance(g)`,
		``, "TestDerivedStateMatchesRecount TestInterdependentMembersBindInOrder",
	},
	{
		"an assumed member occupies its node twice", "pkg/gang", "(*Book).noteAssumed",
		`b.vacate(g.plan[m.Pod], m.Pod)`,
		``, "TestHistories",
	},
	{
		"a requeued member counts as terminating", "pkg/gang", "(*Book).startEviction",
		`m == nil || !m.runs()`,
		`m == nil`, "TestEvictedGangGetsNoReplacementUntilItTerminates",
	},
	{
		"the plan of an evicted group stays", "pkg/gang", "(*Book).startEviction",
		`out = append(out, b.forget(key, "the gang is being evicted")...)`,
		``, "TestEvictedGangGetsNoReplacementUntilItTerminates TestHistories",
	},
	{
		"a group is not retried when its eviction is cancelled", "pkg/gang", "(*Book).cancelEviction",
		`!done[key] && !b.terminating(key)`,
		`!done[key] && b.terminating(key)`, "TestEvictedGangGetsNoReplacementUntilItTerminates",
	},
	{
		"an evicted gang stays satisfied", "pkg/gang", "(*gang).resetIdle",
		`g.satisfied = false`,
		``, "TestEvictedGangGetsNoReplacementUntilItTerminates",
	},
	{
		"evicted members are not counted", "pkg/gang", "(*counts).add",
		`note(&c.evicted, m.evicted && m.runs())`,
		``, "TestDerivedStateMatchesRecount",
	},
	{
		"a retry never becomes due", "pkg/gang", "(*group).due",
		`passed(g.deadline, now) || passed(g.retryAt, now)`,
		`passed(g.deadline, now)`, "TestFailedGangIsRequeuedAndRetriedLater",
	},
	{
		"a deadline never becomes due", "pkg/gang", "(*group).due",
		`passed(g.deadline, now) || passed(g.retryAt, now)`,
		`passed(g.retryAt, now)`, "TestWaitAtBarrierTimesOut TestHistories",
	},
	{
		"a node is avoided for ever", "pkg/gang", "(*group).readmitNodes",
		`a.until = time.Time{}`,
		``, "TestNodeThatRejectedMemberIsAvoidedForAWhile",
	},
	{
		"a deadline is due one moment late", "pkg/gang", "passed",
		`!t.IsZero() && !now.Before(t)`,
		`!t.IsZero() && now.After(t)`, "TestWaitAtBarrierTimesOut",
	},
	{
		"the barrier waits for optional gangs outside of the plan", "pkg/gang", "(*Book).mayOpen",
		`if hasOptional = true; !g.inPlan() {`,
		`if hasOptional = true; false {`, "TestOptionalGangsStartWithoutIncompleteGang",
	},
	{
		"a plan stays that is broken for one of its gangs", "pkg/gang", "(*Book).removeMember",
		`b.obstacle(key).Exists() || b.planBroken(key)`,
		`b.obstacle(key).Exists()`, "TestPlanIsDroppedWhenItsGangIsIncomplete",
	},
	{
		"an excluded gang has the representative", "pkg/gang", "(*Book).representative",
		`g != nil && !b.excluded(g) {`,
		`g != nil {`, "TestIncompleteBranchDoesNotDelayOthers",
	},
	{
		"a partially bound gang is first only until it is planned", "pkg/gang", "(*Book).adoptPlan",
		`b.startResumed(ev.Group)`,
		`delete(b.resumed, ev.Group)`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced",
	},
	{
		"a partially bound gang with a confirmed reservation is not first", "pkg/gang", "(*Book).startPlan",
		`b.startResumed(key)`,
		`delete(b.resumed, key)`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced",
	},
	{
		"a partially bound gang stays first for ever after its placement", "pkg/gang", "(*Book).endPlacedResumptions",
		`progress == placing && n.planned == n.arrived`,
		`false && n.planned == n.arrived && progress == placing`, "TestPartiallyBoundGroupIsTriedFirstUntilItIsPlaced",
	},

	{
		"a former leader continues beside a new leader", "pkg/kube/command", "(*lock).Get",
		`l.deposed(record.HolderIdentity)`,
		`_ = record`, "TestDeposedLeaderEnds",
	},
	{
		"a process that never led stops when another one leads", "pkg/kube/command", "(*lock).Get",
		`err == nil && l.led &&`,
		`err == nil &&`, "TestDeposedLeaderEnds",
	},
	{
		"a process that released the Lease stops when another one leads", "pkg/kube/command", "(*lock).record",
		`l.led = record.HolderIdentity == l.Identity()`,
		`l.led = true`, "TestDeposedLeaderEnds",
	},

	{
		"trimming changes a shared node", "pkg/kube/connect", "copyEach",
		`do(&copies[i])`,
		`do(&list[i]); copies[i] = list[i]`, "TestNodesShareTheirWords",
	},
	{
		"the number of remembered words is unlimited", "pkg/kube/connect", "(*stringPool).intern",
		`len(w.copies) >= maxStrings`,
		`false`, "TestWordsAreBounded",
	},

	{
		"terminating pods on other nodes are not waited for", "pkg/kube/departure", "(*Victims).Leaving",
		`if l.everywhere = l.own; !a.Dependent() {`,
		`if l.everywhere = l.own; true {`, "preempt.TestReservationWaitsForVictimOnOtherNode",
	},
	{
		"the reservation never waits for its own victims alone", "pkg/kube/departure", "Terminating.Fit",
		`stillWhy != "" {`,
		`true || stillWhy != "" {`, "preempt.TestReservationSurvivesTerminationOfNearPod",
	},

	{
		"a gang that lacks only its turn gets no turn", "pkg/kube/elasticquota", "(*Manager).Admit",
		`turnRefusal := r.turnRefusal(group, needed, refusalShown)`,
		`turnRefusal := refusalShown`, "TestGangWaitsForTurnIfOnlyTheTurnIsMissing",
	},
	{
		"the waiting pods of a partially running gang are forgotten", "pkg/kube/elasticquota", "(*Manager).update",
		`state != quota.Waiting && (p.state == quota.Waiting || source.GangOf(p.Pod).IsZero() && !place.Reserved)`,
		`state != quota.Waiting`, "TestPartlyRunningGangIsRetriedWhenVictimsGrow",
	},
	{
		"a gang is not retried when another gang needs less", "pkg/kube/elasticquota", "(*Manager).recordNeeds",
		`r.book.Changes() != before`,
		`r.book.Changes() < before`, "TestGangIsRetriedWhenAnotherGangNeedsLess",
	},
	{
		"eligible victims of an older quota configuration count", "pkg/kube/elasticquota", "(*Manager).activate",
		`victimChecks{scheduled: r.victimChecks.scheduled}`,
		`r.victimChecks`, "TestVictimCheckBeforeNewQuotasDoesNotCount",
	},
	{
		"many retries do not make victim checks rarer", "pkg/kube/elasticquota", "(*Manager).scheduleCheck",
		`time.Duration(1+r.victimChecks.retriedKinds/retriesPerCheck)`,
		`time.Duration(1+r.victimChecks.retriedKinds/retriesPerCheck*0)`, "TestManyRetriesMakeVictimChecksRarer",
	},
	{
		"a pod is checked for its former quota", "pkg/kube/elasticquota", "(*Manager).gangsWithNewVictims",
		`if w.treeVersion != r.treeVersion &&`,
		`if false &&`, "TestPodIsRetriedWhenItChangesQuota",
	},
	{
		"bound claims are interchangeable", "pkg/kube/elasticquota", "(*Manager).unboundSpec",
		`v.Spec.VolumeName == "" &&`,
		``, "TestOwnClaims",
	},
	{
		"shared claims are interchangeable", "pkg/kube/elasticquota", "(*Manager).templates",
		`if n == 1 {`,
		`if n > 0 {`, "TestOwnClaims",
	},
	{
		"other victims are eligible only after all own pods", "pkg/kube/elasticquota", "(*VictimSearch).OwnFirst",
		`c.searchWithout(own), c.reclaim.Freed(own...)}`,
		`c.searchWithout(own)}`, "TestSomeOwnPodsAreEvictedBeforeBorrowers",
	},
	{
		"borrowers stay that are eligible after own pods", "pkg/kube/elasticquota", "(*VictimSearch).right",
		`right = first.Right(name)`,
		`_ = first`, "TestOwnPodsAreEvictedBeforeBorrowers",
	},
	{
		"victims are eligible for the lowest ranks only", "pkg/kube/elasticquota", "(*Manager).evictionHelps",
		`len(minimal) > 0 {`,
		`false {`, "plugin.TestVictimsOfAnyChoiceRetryGang",
	},

	{
		"a changed node is not counted again", "pkg/kube/fit", "(*template).changed",
		`case t.generation[i] != Generation(n),`,
		`case t.generation[i] == 0,`, "TestMemory",
	},
	{
		"changed pods beside a node are not counted again", "pkg/kube/fit", "(*template).changed",
		`Generation(n), anyBeside && t.beside[i] != beside[i]:`,
		`n.GetGeneration(), anyBeside && false:`, "TestMemory",
	},
	{
		"a template with anti-affinity to others reuses counts", "pkg/kube/fit", "(*Memory).Count",
		`if c.reads.checksAntiAffinity {`,
		`if false {`, "TestMemory",
	},
	{
		"counts with nearby pods that keep the template off are stored", "pkg/kube/fit", "(*Memory).Count",
		`if !c.reads.checksAntiAffinity || !hasAntiAffinity(nodes[i]) {`,
		`if true {`, "TestMemory",
	},
	{
		"counts do not move with their nodes", "pkg/kube/fit", "(*template).move",
		`t.generation[previous], t.slots[previous], t.why[previous]`,
		`t.generation[previous], t.slots[i], t.why[i]`, "TestMemory",
	},
	{
		"pods beside a node do not move with the node", "pkg/kube/fit", "(*template).move",
		`if b := t.beside[previous]; b != "" { beside[i] = b }`,
		``, "TestMemory",
	},
	{
		"the first pods beside a node are kept for ever", "pkg/kube/fit", "(*template).forget",
		`t.beside = beside`,
		``, "TestMemory",
	},
	{
		"no node has slots", "pkg/kube/fit", "(*template).counts",
		`c.Slots[i] = 0`,
		`_ = i`, "TestMemory",
	},
	{
		"the returned counts share the memory", "pkg/kube/fit", "(*template).counts",
		`Slots: slices.Clone(t.slots)`,
		`Slots: t.slots`, "TestMemory",
	},
	{
		"all templates have the same counts", "pkg/kube/fit", "(*Memory).template",
		`t := m.templates[c.reads.key]`,
		`c.reads.key = "x"; t := m.templates[c.reads.key]`, "TestMemory",
	},
	{
		"interdependent members ignore closed domains", "pkg/kube/fit", "(*Trial).Fits",
		`; isClosed {`,
		`; isClosed && false {`, "TestClosedDomainsAreNotCounted",
	},
	{
		"counts of open nodes hold in closed domains", "pkg/kube/fit", "(*Counter).openNodes",
		`if n != nil && c.closedStatus(n) != nil {`,
		`if n != nil && false {`, "TestClosedDomainsAreNotCounted",
	},
	{
		"a template that a pod of another node rejects is remembered", "pkg/kube/fit", "(*Counter).keptOffFrom",
		`return t.TopologyKey != v1.LabelHostname && mayMatch(&t, c.member.GetPod())`,
		`return false`, "TestMemory",
	},
	{
		"members with affinity terms are remembered", "pkg/kube/fit", "(*Counter).readsOf",
		`hasNoTerms(c.member) &&`,
		``, "TestMemory",
	},
	{
		"the key ignores tolerations", "pkg/kube/fit", "nodeKey",
		`, Tolerations: spec.Tolerations`,
		``, "TestMemory",
	},
	{
		"a trial does not count the node of a bound volume", "pkg/kube/fit", "(*Trial).preFilter",
		`s.pages.withoutFreeing(pre.state)`,
		`s.pages.without(pre.state)`, "ledger.TestTrialOfBoundVolumes",
	},

	{
		"a chosen volume is always the one that is bound", "pkg/kube/ledger", "(*volumeRehearsal).substitutes",
		`if r.page.hopeful && !r.replaying || pv.Spec.ClaimRef != nil {`,
		`if true {`, "TestVolumesOfWhichEitherMayBeTaken",
	},

	{
		"a binding that a policy rejects is retried on the same node for ever", "pkg/kube/pace", "rejects",
		`return code >= http.StatusBadRequest && code < http.StatusInternalServerError`,
		`return false`, "TestFailedBindingSaysWhetherNodeIsAtFault",
	},
	{
		"a pod with a lost binding response is not read again", "pkg/kube/pace", "(*answers).RunBindPlugins",
		`unanswered && a.bound(ctx, pod, node)`,
		`unanswered && false`, "TestFailedBindingSaysWhetherNodeIsAtFault",
	},
	{
		"a recreated pod counts as bound", "pkg/kube/pace", "(*answers).bound",
		`err == nil && current.UID == pod.UID && current.Spec`,
		`err == nil && current.Spec`, "TestFailedBindingSaysWhetherNodeIsAtFault",
	},
	{
		"a pod on another node counts as bound", "pkg/kube/pace", "(*answers).bound",
		`current.Spec.NodeName == node`,
		`current.Spec.NodeName != ""`, "TestFailedBindingSaysWhetherNodeIsAtFault",
	},
	{
		"a webhook's rejection with another code is ignored", "pkg/kube/pace", "rejects",
		`answer.Status().Message, denied)`,
		`"", denied)`, "TestFailedBindingSaysWhetherNodeIsAtFault",
	},
	{
		"plugins without work run before each binding", "pkg/kube/pace", "preFlight",
		`return f.RunPreBindPreFlights(ctx, state, pod, node)`,
		`return nil`, "TestOnlyPluginsWithWorkRunBeforeBind",
	},

	{
		"reservations keep no pod out of their domains", "pkg/kube/place", "(*Planner).reservedMembers",
		`len(reserved) == 0 {`,
		`true {`, "preempt.TestRecreatedVictimStaysOffReservedDomains",
	},
	{
		"a kind in a closed domain excludes the node for all kinds", "pkg/kube/place", "(*Attempt).applyClosedDomains",
		`if all {`,
		`if reservedFor[i] != "" {`, "preempt.TestWorkersUseFreeNodesWhenLauncherIsKeptOff",
	},
	{
		"kinds with different closed domains are equal", "pkg/kube/place", "(*Attempt).groupIntoKinds",
		`key := kindKey{c.Key(), c.ClosedDomains().Key(), ""}`,
		`key := kindKey{c.Key(), "", ""}`, "preempt.TestWorkersUseFreeNodesWhenLauncherIsKeptOff",
	},
	{
		"attempts share nodes", "pkg/kube/place", "(*Attempt).Replace",
		`a.Nodes = slices.Clone(a.Nodes); for i, n := range states {`,
		`for i, n := range states {`, "TestAttemptsAreValues departure.TestVictimsAreRememberedAcrossChoices",
	},
	{
		"a group with reserved nodes counts as having seen all capacity", "pkg/kube/place", "(*Attempt).partial",
		`len(a.reservedFor) > 0 ||`,
		``, "preempt.TestGangKeptOffByReservationDoesNotBlockSimilarGang",
	},
	{
		"a preemptor needs no members beyond minMember", "pkg/kube/place", "(*Attempt).InMultiples",
		`entry.Need, count = entry.Need+more, count+more`,
		`_ = more`, "TestInMultiples",
	},
	{
		"members use victims of other quotas' members", "pkg/kube/place", "(*Attempt).capacityByOwner",
		`if len(usableByAll) > len(own) {`,
		`if false {`, "TestTakeOwned",
	},
	{
		"members of different quotas are equal", "pkg/kube/place", "(*Attempt).groupIntoKinds",
		`key.owner = a.owners.Of(d.Pod)`,
		`_ = d`, "TestOwnedAlike",
	},

	{
		"nominations of the same gang stay", "pkg/kube/plugin", "(*Shared).suspendNominations",
		`|| s.Cache.Siblings(other, pod)`,
		``, "TestLaterSiblingsDoNotBlockMember",
	},
	{
		"a rejected member receives no events", "pkg/kube/plugin", "(*Shared).Complete",
		`s.listeners.note(pod.Pod, true, s.mayBeQueued)`,
		``, "TestOnlyTriedMembersReceiveEvents",
	},
	{
		"a claim that stays allocated blames the node", "pkg/kube/plugin", "(*Plugin).dropPlan",
		`p.allocations.RecordLeftover([]*v1.Pod{pod}) || p.planner`,
		`p.planner`, "simulate.TestLeftoverClaimDoesNotExcludeNode",
	},
	{
		"the plugins of one choice are the plugins of all choices", "pkg/kube/plugin", "(*alternatives).add",
		`s.plugins = append(s.plugins, plugins...)`,
		``, "TestObstacleOfAnyChoiceRetriesGang",
	},
	{
		"a gang with several choices follows another gang", "pkg/kube/plugin", "(*Plugin).recordRefusal",
		`case c.alternatives != nil:`,
		`case false:`, "TestGangWithChoicesFollowsNoGang",
	},
	{
		"a gang with several choices may always fit later", "pkg/kube/plugin", "(*Plugin).noChoice",
		`c.partial = c.partial || !all; !c.partial`,
		`c.partial = true; !c.partial`, "TestNeverFitsOnlyIfNoChoiceFits",
	},
	{
		"a gang that never fits ignores changed quotas", "pkg/kube/plugin", "(*Plugin).noChoice",
		`c.alternatives.limits = limits`,
		`_ = limits`, "TestNeverFitsOnlyIfNoChoiceFits",
	},

	{
		"the search memory ignores which victims are eligible", "pkg/kube/preempt", "(*states).domain",
		`s.hash.WriteByte(s.check(pod))`,
		`_ = pod`, "TestFailedSearchIsNotRepeatedUntilQuotasChange",
	},
	{
		"the number of searched nodes is unlimited", "pkg/kube/preempt", "(*Preemptor).overChoices",
		`nodes > 0 && nodes+onAttempt > p.among`,
		`nodes < 0`, "TestSearchOfManyAttemptsIsBounded",
	},
	{
		"the search memory holds for several quotas", "pkg/kube/preempt", "(*Preemptor).searchChanged",
		`|| search.SeveralQuotas())`,
		`)`, "TestFailedSearchOfSeveralQuotasIsRepeated",
	},

	{
		"a nomination is not written again after it was cleared", "pkg/kube/status", "(*Reporter).Nominate",
		`podCopy.Status.NominatedNodeName = ""`,
		`_ = podCopy`, "TestANominationIsWrittenAfterItWasCleared",
	},

	{
		"a member counts for another gang of its group", "pkg/mixed", "Job.forSet",
		`if slices.Equal(members, needs) && len(j.Sets) == 0 {`,
		`if p.job.members() == p.job.need() && len(j.Sets) == 0 {`,
		"TestMemberCountsForItsOwnGang",
	},
	{
		"all members gather in the layer of one set", "pkg/mixed", "newOutline",
		`m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.All.Must, nil)`,
		`m.Ground = plan.NewGround(m.World.World, j.All.Multiple.Steps(w.Tree.Depth()+1), j.Sets[0].Must, nil)`, "TestChooseJob TestJobs",
	},
	{
		"sizes are rounded to the multiples of one set", "pkg/mixed", "newOutline",
		`NewGround(m.World.World, j.All.Multiple.Steps(`,
		`NewGround(m.World.World, j.Sets[0].Multiple.Steps(`, "TestChooseJob",
	},
	{
		"the preferences of sets come before the job's preferences", "pkg/mixed", "(*search).addColumns",
		`slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })`,
		`slices.Reverse(m.columns); slices.SortStableFunc(m.columns, func(a, b column) int { return cmp.Compare(a.Layer, b.Layer) })`,
		"TestJobPreferences",
	},
	{
		"the first class has the lowest rank", "pkg/mixed", "(*search).rank",
		`return cmp.Compare(rank[a], rank[b])`,
		`return cmp.Compare(a.class, b.class)`, "TestChooseJob",
	},
	{
		"any number of members is enough for a gang", "pkg/mixed", "(*search).enough",
		`if m.countInGang(v, g) < gang.Need {`,
		`if false && m.countInGang(v, g) < gang.Need {`, "TestChooseJob TestJobs",
	},
	{
		"the domains above need no multiples", "pkg/mixed", "(*search).enough",
		`if !m.multiples(d, v) {`,
		`if false {`, "TestChooseJob",
	},
	{
		"lower ranks decide before more members", "pkg/mixed", "(*search).better",
		`if x, y := m.total(a), m.total(b); x != y {`,
		`if x, y := m.total(a), m.total(b); x != y && (x == 0 || y == 0) {`, "TestChooseJob",
	},
	{
		"higher ranks come first", "pkg/mixed", "(*search).better",
		`return inA`,
		`return inB`, "TestChooseJob",
	},
	{
		"a node takes each class as if it were alone", "pkg/mixed", "(*search).leaf",
		`if remaining > 0 && v != 0 {`,
		`if false {`, "TestChooseJob TestJobs",
	},
	{
		"classes of the same gang share no slots", "pkg/mixed", "(*search).leaf",
		`add(i+1, v+m.tables.vecOf(c, n), remaining-n)`,
		`add(i+1, v+m.tables.vecOf(c, n), remaining)`, "TestChooseJob TestJobs",
	},
	{
		"multiples are ignored", "pkg/mixed", "(*search).applyRules",
		`if !m.multiples(d, v) || !m.gathers`,
		`if !m.gathers`, "TestChooseJob TestJobs",
	},
	{
		"sets gather one layer up", "pkg/mixed", "(*search).gathers",
		`if set.Must != layer ||`,
		`if set.Must-1 != layer ||`, "TestChooseJob",
	},
	{
		"sets may gather without their bound members", "pkg/mixed", "(*search).gathers",
		`if m.boundInSet(i, d) != m.boundInSet(i, topology.Root) {`,
		`if false {`, "TestChooseJob TestJobs",
	},
	{
		"multiples ignore the job's bound members", "pkg/mixed", "(*search).multiples",
		`(n+m.BoundIn(d))%m.All.Multiple.At(l) != 0 {`,
		`n%m.All.Multiple.At(l) != 0 {`, "TestChooseJob TestJobs",
	},
	{
		"multiples ignore the set's bound members", "pkg/mixed", "(*search).multiples",
		`n > 0 && (n+m.boundInSet(i, d))%multiple != 0 {`,
		`n > 0 && n%multiple != 0 {`, "TestChooseJob",
	},
	{
		"a set is charged for domains that it already uses", "pkg/mixed", "(*search).columnCharge",
		`n += c.Charge.Of(m.boundInSet(i, d), m.countInSet(v, i))`,
		`n += c.Charge.Of(0, m.countInSet(v, i))`, "TestChooseJob",
	},
	{
		"the job is charged for domains that it already uses", "pkg/mixed", "(*search).columnCharge",
		`return c.Charge.Of(m.BoundIn(d), m.total(v))`,
		`return c.Charge.Of(0, m.total(v))`, "TestChooseJob",
	},
	{
		"all layers have the same rules", "pkg/mixed", "(*search).ruledTable",
		`key := tableAtLayer{t, m.Tree.Layer(d)}`,
		`key := tableAtLayer{t, 0}`, "TestChooseJob",
	},
	{
		"domains with and without bound members have the same rules", "pkg/mixed", "(*search).ruledTable",
		`m.BoundIn(d) > 0 || m.Tree.IsNode(d) && m.penalised(d)`,
		`m.Tree.IsNode(d) && m.penalised(d)`, "TestChooseJob",
	},
	{
		"soft preferences charge heterogeneous members nothing", "pkg/mixed", "(*search).applyRules",
		`price[len(price)-1] += m.penaltyIn(d, v)`,
		``, "TestChooseJob",
	},
	{
		"each child takes as few members of a job as possible", "pkg/mixed", "(*search).share",
		`!m.better(x, most) {`,
		`most != 0 && m.better(x, most) {`, "TestChooseJob",
	},
	{
		"a child ignores the preferences of a job", "pkg/mixed", "(*search).share",
		`t.row(i).Add(p).Compare(due) == 0 {`,
		`t.row(i).Add(p).Compare(due) >= 0 {`, "TestChooseJob",
	},
	{
		"a set is split inside", "pkg/mixed", "(*search).share",
		`m.tables.setsIn(v-x)&unsplittable != 0 {`,
		`m.tables.setsIn(v-x)&unsplittable&0 != 0 {`, "TestChooseJob",
	},
	{
		"several gangs of a set have the set's multiple each", "pkg/mixed", "(*search).gangMultiple",
		`if set := m.Sets[i]; len(set.Gangs) == 1 {`,
		`if set := m.Sets[i]; len(set.Gangs) > 0 {`, "TestChooseJob",
	},
	{
		"only sets of the next layer are unsplittable", "pkg/mixed", "(*search).unsplittable",
		`if m.Sets[i].Must > layer {`,
		`if m.Sets[i].Must == layer+1 {`, "TestChooseJob",
	},
	{
		"an unsplittable set is in two domains", "pkg/mixed", "(*tables).merge",
		`if !ok || a.sets[i]&b.sets[k]&unsplittable != 0 {`,
		`if !ok {`, "TestChooseJob",
	},
	{
		"merged tables ignore which sets are unsplittable", "pkg/mixed", "(*tables).merge",
		`ts.merged[pair{a, b, unsplittable}] = t`,
		`ts.merged[pair{a, b, 0}], ts.merged[pair{a, b, 3}] = t, t`, "TestJobs",
	},
	{
		"more members are placed than there are", "pkg/mixed", "(*codec).add",
		`return sum, (c.limit-sum)&c.spare == c.spare`,
		`return sum, true`, "TestChooseJob",
	},
	{
		"a sum keeps the first price", "pkg/mixed", "(*tables).merge",
		`} else if !lessSum(a.row(i), b.row(k), row) {`,
		`} else {`, "TestChooseJob",
	},
	{
		"tables with one equal price are equal", "pkg/mixed", "(*tables).intern",
		`for _, p := range row(entry.position) {`,
		`for _, p := range row(ts.order[0].position) {`, "TestChooseJob",
	},
	{
		"sums of prices are compared from the last column", "pkg/mixed", "lessSum",
		`for i := range r {`,
		`for i := range slices.Backward(r) {`, "TestChooseJob",
	},
	{
		"no optimistic search follows", "pkg/mixed", "(*trials).choose",
		`s.optimistic, s.cut = true, false`,
		``, "TestJobInTrial",
	},
	{
		"only the largest target is tried", "pkg/mixed", "(*trials).targets",
		`return s.everyTarget()`,
		`return s.everyTarget()[:1]`, "TestChooseJobOneByOne TestJobInTrial",
	},
	{
		"members that fit nowhere stay in the targets", "pkg/mixed", "(*trials).targets",
		`!s.optimistic && counts[c] > int(slots)`,
		`s.optimistic && counts[c] > int(slots)`, "TestLargeJobs",
	},
	{
		"a class continues at another class's node", "pkg/mixed", "(*trials).lastNode",
		`return p.Node, p.Class == class`,
		`return p.Node, true`, "TestChooseJobOneByOne",
	},
	{
		"no candidate is before the first node", "pkg/mixed", "(*trials).candidates",
		`s.spread[first:], s.spread[:first]}`,
		`s.spread[first:]}`, "TestBackToTheFirstNode",
	},
	{
		"all near nodes come before far nodes", "pkg/mixed", "(*trials).candidates",
		`near[:min(2, len(near))], s.spread`,
		`near, s.spread`, "TestLargeJobs",
	},
	{
		"a class is complete before the next class starts", "pkg/mixed", "(*trials).placeNext",
		`if !s.dependent { return false }`,
		`return false`, "TestJobInTrial",
	},
	{
		"a set gathers in any domain", "pkg/mixed", "(*trials).mayGather",
		`case s.homes[set] != homeless || home == *small: return false`,
		``, "TestChooseJobOneByOne TestJobInTrial TestLargeJobs",
	},
	{
		"a home domain is not checked for the whole set", "pkg/mixed", "(*trials).mayGather",
		`case !s.takesSet(home, set):`,
		`case false:`, "TestLargeJobs",
	},
	{
		"the hash of a member set ignores the nodes", "pkg/mixed", "scramble",
		`uint64(kind)<<32 + uint64(node) + 1`,
		`uint64(kind)<<32 + 1`, "TestJobInTrial",
	},
	{
		"failed member sets are forgotten", "pkg/mixed", "(*trials).tryNode",
		`if s.failed[s.putsHash.with(class, node)] {`,
		`if false {`, "TestRefusalsInTrial",
	},
	{
		"there is no greedy plan", "pkg/mixed", "(*trials).searchTargets",
		`if len(targets) > 1 || s.dependent && len(targets) == 1 {`,
		`if false {`, "TestElasticInTrial",
	},
	{
		"only the order of the scarcest class is tried", "pkg/mixed", "(*trials).placeGreedily",
		`for _, order := range s.orders() {`,
		`for _, order := range s.orders()[:1] {`, "TestElasticInTrial",
	},
	{
		"a greedy plan may lack needed members", "pkg/mixed", "(*trials).placeGreedily",
		`&& s.meetsNeeds(placed) && s.valid()`,
		`&& s.valid()`, "TestJobInTrial",
	},
	{
		"a greedy plan may be invalid", "pkg/mixed", "(*trials).placeGreedily",
		`&& s.meetsNeeds(placed) && s.valid()`,
		`&& s.meetsNeeds(placed)`, "TestJobInTrial",
	},
	{
		"no target is tried after a greedy plan", "pkg/mixed", "(*trials).searchTargets",
		`return !s.before(t, part) })`,
		`return true })`, "TestChooseJobOneByOne",
	},
	{
		"answers ignore the placed members", "pkg/mixed", "(*memory).Put",
		`m.hash = m.hash.with(kind, node)`,
		``, "TestJobInTrial",
	},
	{
		"members of the former trial stay in the trial", "pkg/mixed", "(*memory).catchUp",
		`for range m.placed[same:] { m.trial.Undo() }`,
		``, "TestJobInTrial TestLargeJobs",
	},
	{
		"no answer is remembered", "pkg/mixed", "(*memory).Fits",
		`fits, ok := m.answers[q]`,
		`fits, ok := false, false`, "TestRefusalsInTrial",
	},
	{
		"a set loses its home with its last member", "pkg/mixed", "(*trials).tryNode",
		`s.homes[i] = homes[k]`,
		`_, s.homes[i] = homes[k], homeless`, "TestChooseJobOneByOne",
	},
	{
		"trials ignore multiples", "pkg/mixed", "(*trials).descend",
		`return s.valid()`,
		`return true`, "TestChooseJobOneByOne TestJobInTrial",
	},
	{
		"trials place split sets", "pkg/mixed", "(*trials).valid",
		`if s.splitSet(i) && slices.ContainsFunc(s.puts, isIn) {`,
		`if false && slices.ContainsFunc(s.puts, isIn) {`, "TestSplitGangGetsNoMember",
	},
	{
		"multiples in trials ignore bound members", "pkg/mixed", "(*trials).areMultiples",
		`if n > 0 && (n+bound(d))%multiples.At`,
		`if n > 0 && n%multiples.At`, "TestChooseJobOneByOne TestJobInTrial",
	},
	{
		"the plan's domain ignores bound members", "pkg/mixed", "(*trials).plan",
		`if n > 0 && !yield(i) {`,
		`if n < 0 && !yield(i) {`, "TestChooseJobOneByOne TestJobInTrial",
	},
	{
		"the number of tries is unlimited", "pkg/mixed", "triesInAll",
		`triesInAll = 40_000`,
		`triesInAll = 400_000`, "TestLargeJobs",
	},
	{
		"the number of questions is unlimited", "pkg/mixed", "fitsCallsInAll",
		`fitsCallsInAll = 4_000`,
		`fitsCallsInAll = 40_000`, "TestRefusalsInTrial",
	},
	{
		"a cut search is reported as complete", "pkg/mixed", "(*search).refuse",
		`r.Incomplete = cut`,
		`r.Incomplete = false`, "TestLargeJobs",
	},
	{
		"valid totals ignore bound members", "pkg/mixed", "complement",
		`rest: -bound % step}`,
		`rest: 0 * bound}`, "TestPossible TestChooseJob",
	},
	{
		"valid totals use the multiples of each layer", "pkg/mixed", "(*search).validTotals",
		`return complement(m.BoundIn(topology.Root), m.All.Multiple.Common(m.All.Must))`,
		`return complement(m.BoundIn(topology.Root), m.All.Multiple.Common(m.Tree.Depth()))`, "TestSums TestChooseJob",
	},
	{
		"a gang's valid counts ignore multiples", "pkg/mixed", "(*search).validCounts",
		`return extent{step: m.gangMultiple(g, m.Tree.Depth())}`,
		`return extent{step: 1}`, "TestPossible",
	},
	{
		"a gang takes what all domains take together", "pkg/mixed", "(*search).mostOf",
		`layer := max(m.gatherLayer(g), m.Tree.Layer(root))`,
		`layer := m.Tree.Layer(root)`, "TestPossible",
	},
	{
		"a gang gathers in a domain without its bound members", "pkg/mixed", "(*search).mostOf",
		`if m.boundInGang(g, d) != m.boundInGang(g, topology.Root) {`,
		`if m.boundInGang(g, d) != 0 {`, "TestSums TestChooseJob",
	},
	{
		"a gang without need makes the job impossible", "pkg/mixed", "(*search).gangIn",
		`return extent{}, true`,
		`return extent{}, false`, "TestSums TestChooseJob",
	},
	{
		"the sums are not checked", "pkg/mixed", "(*search).choose",
		`if m.impossible || !m.possible() {`,
		`if m.Split {`, "TestRefusedByTheSums",
	},
	{
		"a plan may gather away from bound members", "pkg/mixed", "broken",
		`range [][]offer.Slots{bound, places} {`,
		`range [][]offer.Slots{places} {`, "TestHolds TestJobPlansHold",
	},
	{
		"a plan may gather one layer up", "pkg/mixed", "broken",
		`if t.Layer(domain) < g.Must {`,
		`if t.Layer(domain) < g.Must-1 {`, "TestHolds TestJobPlansHold",
	},
	{
		"a gang without new members breaks its constraint", "pkg/mixed", "broken",
		`if total(places) == 0 { return nil }`,
		``, "TestHolds",
	},
	{
		"a plan's multiples ignore bound members", "pkg/mixed", "broken",
		`(n+boundInDomain[d])%m != 0`,
		`n%m != 0`, "TestHolds TestJobPlansHold",
	},
	{
		"a plan may lack one needed member", "pkg/mixed", "Job.Holds",
		`n < gang.Need && !(optional`,
		`n+1 < gang.Need && !(optional`, "TestHolds TestJobPlansHold",
	},
	{
		"a search with preferences is reported as complete", "pkg/mixed", "(*trials).choose",
		`p.NotAll = s.cut || len(s.columns) > 0`,
		`p.NotAll = s.cut`, "TestChooseJobOneByOne",
	},
	{
		"the first gang set with a plan wins", "pkg/mixed", "(*setSearch).try",
		`if s.best == nil || s.before(p, set) {`,
		`if s.best == nil {`, "TestSomeGangs",
	},
	{
		"other gang sets with as many members are not searched", "pkg/mixed", "chooseOptional",
		`c.Members(set) < len(s.best.Puts)`,
		`c.Members(set) <= len(s.best.Puts)`, "TestSomeGangs",
	},
	{
		"all members are of the first gang", "pkg/mixed", "part.translate",
		`next[c]++`,
		`next[c] += 0`, "TestSomeGangs",
	},
	{
		"no trial checks the plan", "pkg/mixed", "chooseAll",
		`if p != nil && !m.passesTrial(p) {`,
		`if false {`, "TestJobInTrial",
	},
	{
		"the members of a checked plan stay in the trial", "pkg/mixed", "(*search).passesTrial",
		`for range order { m.Trial.Undo() }`,
		``, "TestJobInTrial",
	},
	{
		"the members of a checked plan keep their old order", "pkg/mixed", "(*search).passesTrial",
		`p.Puts, p.InOrder = order, true`,
		`p.InOrder = true`, "TestPlanOfTablesIsInOrder",
	},
	{
		"a plan is final although more members fit beside its members", "pkg/mixed", "chooseAll",
		`case w.Trial != nil && len(p.Puts) < int(j.members()):`,
		`case false:`, "TestJobInTrial",
	},
	{
		"a rejection by tables is final", "pkg/mixed", "chooseAll",
		`case p == nil && (m.impossible || exact && w.Trial == nil):`,
		`case p == nil && (m.impossible || exact):`, "TestJobInTrial",
	},

	{
		"an overflowing common multiple counts as valid", "pkg/offer", "Common",
		`if a /= x; a > overflow/b {`,
		`if a /= x; a > overflow {`, "TestRoll TestCommon plan.TestChoose plan.TestPictures",
	},
	{
		"no number is rounded up", "pkg/offer", "Up",
		`return n - rest + step,`,
		`return n - rest,`, "TestCommon evict.TestChoose",
	},
	{
		"a layer's step ignores the layers below", "pkg/offer", "Multiples.Steps",
		`step = Common(step, m.At(l))`,
		`step = m.At(l)`, "TestRoll TestPictures",
	},
	{
		"steps start at the top layer", "pkg/offer", "Multiples.Steps",
		`for l := layers - 1; l >= 0; l-- {`,
		`for l := 0; l < layers; l++ {`, "TestRoll TestPictures",
	},
	{
		"sums are not rounded", "pkg/offer", "Roll",
		`sum[d] -= sum[d] % steps[t.Layer(d)]`,
		`_ = steps`, "TestRoll TestPictures",
	},
	{
		"sums are rounded by the parent's step", "pkg/offer", "Roll",
		`steps[t.Layer(d)]`,
		`steps[t.Layer(t.Parent(d))]`, "TestRoll TestPictures",
	},
	{
		"runs of different lengths are merged", "pkg/offer", "run.compatible",
		`return r.length == o.length || r.length == 0`,
		`return r.length >= o.length || r.length == 0`, "TestLongCurves",
	},
	{
		"a merge keeps the first price", "pkg/offer", "(*table).merge",
		`!t.known[sum] || lessSum(p, q, row)`,
		`!t.known[sum]`, "TestLongCurves TestCurves",
	},
	{
		"a merge exceeds its limit", "pkg/offer", "(*table).merge",
		`sum := min(n+m, most)`,
		`sum := (n + m) % (most + 1)`, "TestCurves",
	},
	{
		"a run has decreasing price increases", "pkg/offer", "Curve.appendRuns",
		`(length != r.length || increase < lastIncrease) {`,
		`(length != r.length || false && increase < lastIncrease) {`, "TestLongCurves",
	},
	{
		"a run has steps of two lengths", "pkg/offer", "Curve.appendRuns",
		`(length != r.length || increase < lastIncrease) {`,
		`increase < lastIncrease {`, "TestLongCurves",
	},
	{
		"the more expensive step comes first", "pkg/offer", "(*Merger).eachStep",
		`a.price[i+1]-a.price[i] <= b.price[j+1]-b.price[j]:`,
		`a.price[i+1]-a.price[i] >= b.price[j+1]-b.price[j]:`, "TestLongCurves",
	},
	{
		"the highest price of interest is too high", "pkg/offer", "(*Merger).eachStep",
		`if price > m.Dearest {`,
		`if price >= m.Dearest {`, "TestMerger",
	},
	{
		"one domain fewer may be used", "pkg/offer", "(*Aim).Useful",
		`remaining := a.Price>>a.Shift - c.price[i]>>a.Shift`,
		`remaining := a.Price>>a.Shift - c.price[i]>>a.Shift - 1`, "plan.TestPreferFewNodes",
	},
	{
		"the aim ignores the members beyond", "pkg/offer", "(*Aim).Useful",
		`+a.Beyond.upTo[entry] >= a.Members {`,
		`>= a.Members {`, "plan.TestPreferFewNodes",
	},
	{
		"a price is sufficient for one member too few", "pkg/offer", "Curve.Price",
		`return c.upTo[i] >= n })`,
		`return c.upTo[i] > n })`, "TestCurves",
	},
	{
		"zero members are charged", "pkg/offer", "Curve.Raise",
		`out := Free(0, c.width)`,
		`out := Curve{width: c.width, upTo: []Slots{-1}, price: make([]int64, c.width)}`, "TestCurves",
	},
	{
		"a merge starts with the prices of the former merge", "pkg/offer", "(*Merger).Merge",
		`for i := range m.lowest { m.lowest[i] = math.MaxInt64 }`,
		``, "plan.TestChooseForNothing",
	},
	{
		"curves share the merger's memory", "pkg/offer", "(*Merger).curve",
		`upTo: slices.Clone(m.upTo)`,
		`upTo: m.upTo`, "plan.TestChooseForNothing",
	},
	{
		"counts between multiples are charged", "pkg/offer", "Curve.Charge",
		`from := out.Most() + step; from <= n; from += step {`,
		`from := out.Most() + 1; from <= n; from++ {`, "TestCurves plan.TestChoose",
	},

	{
		"preferences are ordered from the lowest layer up", "pkg/plan", "(*Search).newDigits",
		`d.columns = append(d.columns, p)`,
		`d.columns = append([]Preference{p}, d.columns...)`, "TestChoose",
	},
	{
		"digits overlap", "pkg/plan", "(*Search).newDigits",
		`used += size`,
		`used += size - 1`, "TestChooseForNothing TestPreferences TestChoose",
	},
	{
		"digits overlap with the world's charges", "pkg/plan", "(*Search).newDigits",
		`d.width, d.lift = 1, used`,
		`d.width, d.lift = 1, 1`, "TestWithin",
	},
	{
		"digits are too short for the number of domains", "pkg/plan", "(*Search).newDigits",
		`uint(max(s.limit(), 1))))`,
		`uint(max(s.limit(), 1)))) / 2`, "TestChooseForNothing",
	},
	{
		"the smallest domain comes first", "pkg/plan", "(*Ground).LargestFirst",
		`cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(a, b))`,
		`cmp.Or(cmp.Compare(g.size[a], g.size[b]), cmp.Compare(a, b))`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"the last of equal domains comes first", "pkg/plan", "(*Ground).LargestFirst",
		`cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(a, b))`,
		`cmp.Or(cmp.Compare(g.size[b], g.size[a]), cmp.Compare(b, a))`, "TestChoose TestManyChildren",
	},
	{
		"the last of the smallest sufficient domains takes the rest", "pkg/plan", "(*Search).spread",
		`s.spread(sufficient[len(s.takes(sufficient, least+1))], n)`,
		`s.spread(sufficient[len(sufficient)-1+0*int(least)], n)`, "TestChooseForNothing TestManyFreeOfCharge",
	},
	{
		"the bound of nodes is one too high", "pkg/plan", "(*Search).leastNodes",
		`int64(max(0, n-most+perNode-1) / perNode)`,
		`int64(max(0, n-most+perNode-1)/perNode) + 1`, "TestPreferFewNodes",
	},
	{
		"nodes with bound members count for the node bound", "pkg/plan", "(*Search).beyond",
		`node := s.tree.Node(i); s.BoundIn(node) > 0 {`,
		`node := s.tree.Node(i); false {`, "TestPreferFewNodes",
	},
	{
		"domains with as many nodes as the best are skipped", "pkg/plan", "(*Search).fewest",
		`if nodes(domains[i]) > best {`,
		`if nodes(domains[i]) >= best {`, "TestPreferFewNodes",
	},
	{
		"any price is within the aim", "pkg/plan", "(*Search).searchAimed",
		`; ok && p[0] <= s.aim.Price {`,
		`; ok || p != nil {`, "TestPreferFewNodes",
	},
	{
		"curves for fewer members are kept", "pkg/plan", "(*Search).Plan",
		`if n != s.members {`,
		`if s.members == 0 {`, "TestPreferFewNodes",
	},
	{
		"the required layer is one too high", "pkg/plan", "(*Ground).Below",
		`if g.tree.Layer(x) < layer {`,
		`if g.tree.Layer(x)+1 < layer {`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"bound members do not restrict the domain", "pkg/plan", "NewGround",
		`return g.bound[d] == 0 })`,
		`return false })`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"split gangs are placed", "pkg/plan", "NewGround",
		`g.Split = len(g.Roots) > 1`,
		`g.Split = false`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"more members are placed than wanted", "pkg/plan", "(*Search).Most",
		`n = max(n, min(s.size[d], s.limit()))`,
		`n = max(n, s.size[d])`, "TestChoose TestPictures",
	},
	{
		"only the needed members are placed", "pkg/plan", "(*Search).limit",
		`return s.Want`,
		`return max(s.Min, s.steps[0])`, "TestChoose TestPictures",
	},
	{
		"the cluster's count is not rounded", "pkg/plan", "(*Search).Most",
		`return n - n%s.steps[0]`,
		`return n`, "TestChoose",
	},
	{
		"the highest domain wins", "pkg/plan", "rules",
		`return cmp.Compare(g.tree.Layer(b), g.tree.Layer(a)) }`,
		`return cmp.Compare(g.tree.Layer(a), g.tree.Layer(b)) }`, "mixed.TestChooseJob",
	},
	{
		"each domain that fits is kept", "pkg/plan", "keepFirst",
		`out = append(out[:0], d)`,
		`out = append(out, d)`, "mixed.TestChooseJob",
	},
	{
		"domains without the bound members are kept", "pkg/plan", "First",
		`p.Compare(least) != 0 || !g.HoldsBound(d) {`,
		`p.Compare(least) != 0 {`, "mixed.TestChooseJob",
	},
	{
		"preferences are not compared", "pkg/plan", "Cheapest",
		`least, out = p, out[:0] }; if p.Compare(least) == 0 {`,
		`least = p }; if true {`, "TestPreferences mixed.TestChooseJob TestPictures",
	},
	{
		"the first layer below has no preference", "pkg/plan", "(*Search).newDigits",
		`if p.Layer > s.Must {`,
		`if p.Layer > s.Must+1 {`, "TestChoose",
	},
	{
		"domains with bound members are charged again", "pkg/plan", "(*Search).chargeFor",
		`case bound == 0:`,
		`default:`, "TestChoose TestPictures",
	},
	{
		"attraction repels", "pkg/plan", "(*Ground).CompareAttraction",
		`return -g.compareUpwards(g.attract, a, b)`,
		`return g.compareUpwards(g.attract, a, b)`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"the emptiest domain wins", "pkg/plan", "rules",
		`return g.compareUpwards(g.capacity, a, b)`,
		`return -g.compareUpwards(g.capacity, a, b)`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"names decide before capacity", "pkg/plan", "rules",
		`{name: ByBinpack, domains: func(g *Ground, a, b topology.ID) int { return g.compareUpwards(g.capacity, a, b) }},`,
		`{name: ByNames, domains: func(_ *Ground, a, b topology.ID) int { return cmp.Compare(a, b) }},`,
		"TestChoose mixed.TestChooseJob TestPictures TestRules",
	},
	{
		"attraction does not decide", "pkg/plan", "rules",
		`return g.attract == nil }`,
		`return g.attract != nil }`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"domains with more preferred domains are equal", "pkg/plan", "narrow",
		`case r.name == ByPreferences:`,
		`case r.name == ByMembers:`, "mixed.TestChooseJob",
	},
	{
		"the order continues after the last rule", "pkg/plan", "(*Ground).Order",
		`if r.name == last {`,
		`if r.name == last && false {`, "TestRules",
	},
	{
		"the distribution within a domain does not matter", "pkg/plan", "(*Ground).compareSpread",
		`if a.Domain != b.Domain || a.spread == nil {`,
		`if true {`, "TestRules",
	},
	{
		"parent domains do not decide", "pkg/plan", "(*Ground).compareUpwards",
		`for a != b {`,
		`if a != b {`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"rounded capacities are compared", "pkg/plan", "NewGround",
		`case steps[0] > 1:`,
		`case false:`, "TestPictures",
	},
	{
		"the last domain by name wins", "pkg/plan", "rules",
		`return cmp.Compare(a, b) }`,
		`return cmp.Compare(b, a) }`, "TestChoose mixed.TestChooseJob TestPictures",
	},
	{
		"the largest child counts as the last one, too", "pkg/plan", "smallest",
		`if ok && g.size[d] == g.size[best] {`,
		`if ok {`, "TestChoose mixed.TestChooseJob",
	},
	{
		"the last of equal children takes the rest", "pkg/plan", "smallest",
		`if ok && g.size[d] == g.size[best] {`,
		`if false {`, "TestChoose mixed.TestChooseJob",
	},
	{
		"each child takes as few members as possible", "pkg/plan", "(*Search).share",
		`if p, ok := rest(n - x); ok &&`,
		`if p, ok := rest(n - x); most == 0 && ok &&`, "TestChoose",
	},
	{
		"a child ignores preferences", "pkg/plan", "(*Search).share",
		`price.Add(p).Compare(due) == 0 {`,
		`price.Add(p).Compare(due) >= 0 {`, "TestChoose TestPictures",
	},
	{
		"a tail is computed from the wrong block", "pkg/plan", "(*Tails).From",
		`t.openBlock(b, t.stored[b+1])`,
		`t.openBlock(b, t.stored[b])`, "TestManyFreeOfCharge",
	},
	{
		"all results are the block's first tail", "pkg/plan", "(*Tails).From",
		`return t.results[i%block]`,
		`return t.results[0]`, "TestChoose",
	},
	{
		"a message lists one domain more", "pkg/plan", "(*Refusal).domains",
		`i == maxListed ||`,
		`i == maxListed+1 ||`, "TestPictures",
	},
	{
		"the domain with the fewest slots is listed first", "pkg/plan", "(*Ground).Refuse",
		`return cmp.Compare(b.Slots, a.Slots) })`,
		`return cmp.Compare(a.Slots, b.Slots) })`, "TestChoose TestPictures",
	},
	{
		"unnamed domains are listed", "pkg/plan", "(*Ground).Refuse",
		`if g.tree.Named(d) {`,
		`if true {`, "TestChoose TestPictures",
	},
	{
		"messages are too long", "pkg/plan", "maxListedBytes",
		`maxListedBytes = 768`,
		`maxListedBytes = 76800`, "TestPictures",
	},
	{
		"curves for too few nodes are kept", "pkg/plan", "(*Search).searchAimed",
		`s.forgetCurves(d)`,
		``, "TestPreferFewNodes",
	},
	{
		"domains with bound members are filled by size alone", "pkg/plan", "(*Search).put",
		`&& s.BoundIn(d) == 0)`,
		`)`, "TestChooseForNothing",
	},
	{
		"two preferred layers are filled by size alone", "pkg/plan", "(*Search).put",
		`below == 1 &&`,
		`below <= 2 &&`, "TestChooseForNothing",
	},
	{
		"preferences do not compare sufficient domains", "pkg/plan", "(*Search).largeEnough",
		`case l < lowest:`,
		`case l < lowest && false:`, "TestChooseForNothing",
	},
	{
		"the last of the sufficient domains wins", "pkg/plan", "(*Search).largeEnough",
		`case s.CompareDomains(d, out[0]) < 0:`,
		`case s.CompareDomains(d, out[0]) > 0:`, "TestChooseForNothing TestChoose TestPictures",
	},
	{
		"sufficient domains may lack bound members", "pkg/plan", "(*Search).largeEnough",
		`|| !s.HoldsBound(d) {`,
		`{`, "TestChooseForNothing TestChoose",
	},
	{
		"only the first layer has sufficient domains", "pkg/plan", "(*Search).largeEnough",
		`s.size[d] < n || l < layer ||`,
		`s.size[d] < n || layer >= 0 && l > layer || l < layer ||`, "TestChooseForNothing TestChoose TestPictures",
	},
	{
		"domains that are too small count as sufficient", "pkg/plan", "(*Search).largeEnough",
		`if s.size[d] < n || l < layer`,
		`if s.size[d] == 0 || l < layer`, "TestChooseForNothing TestChoose",
	},
	{
		"the largest domain comes first whatever its charges", "pkg/plan", "(*Search).put",
		`below == 1 && s.perDomain &&`,
		`below == 1 &&`, "TestChoose",
	},
	{
		"only the lowest of several preferences counts", "pkg/plan", "(*Search).uniform",
		`layer >= above &&`,
		`above >= 0 &&`, "TestChooseForNothing",
	},
	{
		"layers that round counts are uniform", "pkg/plan", "(*Search).uniform",
		`&& s.steps[layer+1] == s.steps[last]`,
		``, "TestChooseForNothing",
	},
	{
		"domains with bound members are charged as untouched", "pkg/plan", "(*Search).largest",
		`case s.BoundIn(k) > 0:`,
		`case false:`, "TestChooseForNothing",
	},
	{
		"the smallest domains come first", "pkg/plan", "(*Search).largest",
		`slices.Reverse(s.sizes)`,
		``, "TestChooseForNothing TestPreferences",
	},

	{
		"the remainder goes to the smallest rest", "pkg/quota", "apportion",
		`return cmp.Compare(remainder[y], remainder[x])`,
		`return cmp.Compare(remainder[x], remainder[y])`, "TestBook TestPictures",
	},
	{
		"a quota that lends gets its whole min", "pkg/quota", "fill",
		`if s.request < s.min && !s.keeps {`,
		`if false && s.request < s.min && !s.keeps {`, "TestBook TestPictures",
	},
	{
		"mins are not scaled", "pkg/quota", "scale",
		`if sum <= total || sum == math.MaxInt64 && total == math.MaxInt64 {`,
		`if sum >= 0 {`, "TestBook TestPictures",
	},
	{
		"a quota gets more than its request", "pkg/quota", "fill",
		`n = min(n, s.request-s.gets)`,
		`_ = s.request`, "TestBook TestPictures",
	},
	{
		"a tree's total ignores the use of quotas beside it", "pkg/quota", "(*Book).total",
		`out[r] = max(0, n-b.accounts[i].used[r]-b.accounts[i].reserved[r])`,
		`out[r] = n`, "TestBook TestPictures",
	},
	{
		"fair shares change only where a weight changed", "pkg/quota", "(*Book).divide",
		`if changed[c] || changedShare {`,
		`if changed[c] {`, "TestBook",
	},
	{
		"a quota with a new fair share keeps its version", "pkg/quota", "(*Book).divide",
		`if changedShare {`,
		`if false {`, "TestEvictionsEndWithoutNewGangs",
	},
	{
		"a quota with new use keeps its version", "pkg/quota", "(*Book).charge",
		`b.touch(i); if p.State == Bound {`,
		`if p.State == Bound {`, "TestEvictionsEndWithoutNewGangs",
	},
	{
		"a search continues with another tree", "pkg/quota", "(*Book).Replant",
		`replanted := NewBook(t)`,
		`replanted := b; replanted.plant(t)`, "TestSearchOutlivesTree",
	},
	{
		"a tree's capacity hold keeps gangs from their min", "pkg/quota", "(*load).overHeldTree",
		`c.free && b.mustRespect(l.gangRequest, c) && !l.exempt(c)`,
		`c.free && b.mustRespect(l.gangRequest, c)`, "TestPictures",
	},
	{
		"the latest capacity hold is first", "pkg/quota", "(*Book).mustRespect",
		`own == nil || own.turn > c.turn`,
		`own == nil || own.turn < c.turn`, "TestPictures",
	},
	{
		"a quota's capacity hold holds the whole tree's capacity", "pkg/quota", "(*load).overHeldTree",
		`c.free && b.mustRespect(l.gangRequest, c)`,
		`b.mustRespect(l.gangRequest, c)`, "TestPictures",
	},
	{
		"reserved capacity of a quota is idle", "pkg/quota", "(*Book).sumRequests",
		`a.idle[r] = max(a.idle[r], n.min[r]-a.used[r]-a.reserved[r])`,
		``, "TestBook TestPictures",
	},
	{
		"only the leaf quota's max is checked", "pkg/quota", "(*Book).everFits",
		`for i := p.node; i >= 0; i = b.tree.nodes[i].parent {`,
		`for i := p.node; i >= 0; i = -1 {`, "TestBook",
	},
	{
		"gangs that were passed over ask again", "pkg/quota", "(*Book).addToAccount",
		`if asks && !b.passedOver[p.gang.name] {`,
		`if asks {`, "TestBook",
	},
	{
		"the last start of a quota is forgotten", "pkg/quota", "(*Book).charge",
		`a.since = max(a.since, p.Since)`,
		``, "TestBook TestPictures",
	},
	{
		"reserved quota does not count", "pkg/quota", "(*View).taken",
		`n := a.used[r] + a.reserved[r]`,
		`n := a.used[r]`, "TestBook TestPictures",
	},
	{
		"the tree's capacity does not limit a gang", "pkg/quota", "(*load).lackingInTree",
		`if free < wants {`,
		`if false && free < wants {`, "TestBook TestPictures",
	},
	{
		"each quota is next", "pkg/quota", "(*load).overFairShare",
		`!v.before(s, r.node) || !l.anyPreceding(s)`,
		`true`, "TestBook TestPictures",
	},
	{
		"a gang of several quotas has the turn of the first quota", "pkg/quota", "(*load).precedes",
		`return l.view.earlier(leaf, otherLeaf)`,
		`return l.view.earlier(leaf, otherLeaf) || true`, "TestBook TestPictures",
	},
	{
		"gangs of a group have different turns", "pkg/quota", "(*Book).together",
		`if all := b.groups[name]; all != nil {`,
		`if all := b.groups[name]; false && all != nil {`, "TestBook TestPictures",
	},
	{
		"a gang that waits for node capacity blocks other gangs", "pkg/quota", "(*load).anyPreceding",
		`p.pods[Waiting] == 0 || b.passedOver[p.gang.name]`,
		`p.pods[Waiting] == 0`, "TestBook",
	},
	{
		"held capacity is free", "pkg/quota", "(*load).exceeds",
		`free -= held`,
		`_ = held`, "TestPictures",
	},
	{
		"a capacity hold binds gangs of higher priority", "pkg/quota", "(*Book).mustRespect",
		`c.gangRequest.Gang != a.Gang && c.gangRequest.Priority >= a.Priority`,
		`c.gangRequest.Gang != a.Gang`, "TestPictures",
	},
	{
		"optional members are not admitted", "pkg/quota", "(*load).addable",
		`return fits(more)`,
		`return omitted == count`, "TestPictures",
	},
	{
		"weights do not matter", "pkg/quota", "(*Book).relative",
		`mulDiv(part, w.sum, w.shifted(n.weight[r]))`,
		`mulDiv(part, w.sum, w.sum)`, "TestBook TestPictures",
	},
	{
		"what min covers counts as borrowed share", "pkg/quota", "(*View).share",
		`over := v.taken(i, r) - n.min[r]`,
		`over := v.taken(i, r)`, "TestBook TestPictures",
	},
	{
		"older gangs are guaranteed last", "pkg/quota", "(*classes).order",
		`cmp.Compare(x.gang.since, y.gang.since)`,
		`cmp.Compare(y.gang.since, x.gang.since)`, "TestBook TestPictures",
	},
	{
		"gangs that are guaranteed in a lower quota are not first", "pkg/quota", "(*classes).order",
		`first(x.guaranteed, y.guaranteed),`,
		``, "TestBook",
	},
	{
		"guaranteed gangs are evicted by fair share", "pkg/quota", "(*Reclaim).rightBetween",
		`r.book.class.at(victimQuota)[p.gang] == Borrows, r.withinMin(preemptorQuota); {`,
		`true, r.withinMin(preemptorQuota); {`, "TestBook TestPictures",
	},
	{
		"a quota within its min is not eligible to evict", "pkg/quota", "(*Reclaim).rightBetween",
		`case within:`,
		`case false:`, "TestBook TestPictures",
	},
	{
		"fixed gangs are evicted", "pkg/quota", "(*Reclaim).mayBeEvicted",
		`!p.gang.fixed && !n.NeverEvicted`,
		`!n.NeverEvicted`, "TestBook",
	},
	{
		"a giver is always over its limit", "pkg/quota", "(*Reclaim).overLimit",
		`return r.mayTakeBack(p.preemptorQuota, p.victimQuota, v)`,
		`return true`, "TestBook TestPictures",
	},
	{
		"a quota may lack as much as another victim set leaves", "pkg/quota", "(*Reclaim).MayEvict",
		`r.shortfall(t, v) >= r.below:`,
		`r.shortfall(t, v) > r.below:`, "TestSearchOutlivesTree",
	},
	{
		"a quota may lose its min", "pkg/quota", "(*Reclaim).MayEvict",
		`r.shortfall(t, v) >= r.below:`,
		`r.shortfall(t, v) == math.MaxUint64:`, "TestSearchOutlivesTree",
	},
	{
		"each turn ignores the victims before it", "pkg/quota", "(*Turns).May",
		`!t.reclaim.overLimit(right, t.view)`,
		`!t.reclaim.overLimit(right, t.reclaim.load.view)`, "TestBook",
	},
	{
		"victims that are eligible alone are eligible together", "pkg/quota", "(*Reclaim).MayEvict",
		`return r.inTurn(shares, victims, nil) &&`,
		`return`, "TestBook",
	},
	{
		"preemption policies do not matter", "pkg/quota", "(*Reclaim).rightBetween",
		`r.policy == Never || r.policy == LowerPriority && p.gang.priority >= r.preemptor.Priority`,
		`false`, "TestPictures",
	},
	{
		"the newest quota with a name counts", "pkg/quota", "(*treeBuilder).selectValid",
		`if s.Created < g.specs[j].Created {`,
		`if s.Created > g.specs[j].Created {`, "TestPictures",
	},
	{
		"a quota below a broken quota is valid", "pkg/quota", "(*Tree).addQuota",
		`t.nodes[p].broken != "" && n.broken == ""`,
		`false`, "TestPictures",
	},
	{
		"incomplete choices count", "pkg/quota", "(*chooser).descend",
		`s.exact || s.isMaximal(chosen, l)`,
		`true`, "TestChoices",
	},
	{
		"an exact choice has more members than needed", "pkg/quota", "(*chooser).descend",
		`if s.exact {`,
		`if false {`, "TestChoices",
	},
	{
		"choices have fewer members than needed", "pkg/quota", "(*chooser).suffices",
		`if n > 0 {`,
		`if false {`, "TestChoices",
	},
	{
		"members with the largest requests are chosen first in a bounded search", "pkg/quota", "Candidates.byNeed",
		`cmp.Compare(c.Kinds[x].Asks[resource], c.Kinds[y].Asks[resource])`,
		`cmp.Compare(c.Kinds[y].Asks[resource], c.Kinds[x].Asks[resource])`, "TestChoicesAreBounded",
	},
	{
		"only the lowest ranks wait for their turn", "pkg/quota", "(*Book).ChoiceMissingTurn",
		`return refusal == nil || refusal.Cause == NotNext`,
		`return refusal == nil`, "kube/elasticquota.TestGangWaitsForTurnIfOnlyTheTurnIsMissing",
	},
	{
		"more eligible victims in a quota retry no gang", "pkg/quota", "(*Book).markChanged",
		`if p == current || at != i {`,
		`if false {`, "TestAnySince",
	},
	{
		"a quota that uses less retries no gang", "pkg/quota", "(*Book).markChanged",
		`if p == previous {`,
		`if false {`, "TestAnySince",
	},
	{
		"a lower fair share retries no gang", "pkg/quota", "(*Book).divide",
		`if n < previous[at][r] {`,
		`if false {`, "TestAnySince",
	},
	{
		"an unchanged quota retries a gang", "pkg/quota", "(*Reclaim).AnySince",
		`old := accounts[sibling].grown <= moment && accounts[own].shrunk <= moment`,
		`old := false`, "TestAnySince",
	},
	{
		"a deleted waiting pod retries no gang", "pkg/quota", "(*Book).markChanged",
		`at >= 0 && share.pods[Bound]+share.pods[Reserved] > 0;`,
		`at < 0;`, "TestAnySince",
	},
	{
		"a member's victim is used by members without a right to it", "pkg/quota", "(*Reclaim).Check",
		`search.Admits(rest) && search.eachByRight(rest)`,
		`search.Admits(rest)`, "TestPictures",
	},
	{
		"a cut list of choices counts as complete", "pkg/quota", "(*Book).MinimalChoices",
		`s.checks < mostQuestions && len(s.found) <= most`,
		`true`, "TestChoicesAreBounded",
	},
	{
		"a found choice is not listed", "pkg/quota", "(*Book).MaximalChoices",
		`minimal != nil {`,
		`minimal == nil {`, "TestFoundChoiceIsListed",
	},

	{
		"all unnamed domains are one domain", "pkg/topology", "pathKey",
		`k[l] = below`,
		`k[l], below = key{}, below`, "TestBuild TestPictures",
	},
	{
		"unnamed domains have the key of another layer", "pkg/topology", "pathKey",
		`below = key{below: n.Path[l], layer: l}`,
		`below = key{below: n.Path[l], layer: depth}`, "TestBuild TestPictures",
	},
	{
		"unnamed domains come first", "pkg/topology", "compareKeys",
		`case a[l].name == "" && b[l].name != "": return 1`,
		`case a[l].name == "" && b[l].name != "": return -1`, "TestBuild TestPictures",
	},
	{
		"a range ends one node early", "pkg/topology", "(*builder).close",
		`ID(len(t.domain)), int32(len(t.nodes))`,
		`ID(len(t.domain)), int32(len(t.nodes)-1)`, "TestBuild TestPictures",
	},
	{
		"unnamed domains have the key of the domain above", "pkg/topology", "(*Tree).keys",
		`path[l] = below`,
		`path[l] = key{below: below.below, layer: l}`, "TestChange",
	},
	{
		"copied domains keep their parents' numbers", "pkg/topology", "(*builder).copyRun",
		`d.parent = b.open[d.layer-1]`,
		`d.parent += 0`, "TestChange",
	},
	{
		"the first node's domains end with it", "pkg/topology", "(*builder).copyRun",
		`moved.end, moved.hi = old.domain[d].end+shift, old.domain[d].hi+nodes`,
		`moved.hi = old.domain[d].hi+nodes`, "TestChange",
	},
	{
		"the last node's domains are not open", "pkg/topology", "(*builder).copyRun",
		`if first != last {`,
		`if false {`, "TestChange",
	},
	{
		"a name takes a used slot", "pkg/topology", "(*Tree).fillTable",
		`for t.slots[slot] != 0 {`,
		`for false {`, "TestChange TestNodeIndex",
	},
	{
		"the last node decides the enclosing domain", "pkg/topology", "(*Tree).Enclosing",
		`min(first, i), max(last, i)`,
		`min(first, i), i`, "TestEnclosing",
	},
	{
		"the first node does not count for the enclosing domain", "pkg/topology", "(*Tree).Enclosing",
		`min(first, i), max(last, i)`,
		`min(i, len(t.nodes)), max(last, i)`, "TestEnclosing",
	},
	{
		"names are compared as strings", "pkg/topology", "CompareNames",
		`if isDigit(x[0]) && isDigit(y[0]) {`,
		`if false {`, "TestCompareNames TestPictures",
	},
	{
		"shorter numbers are larger", "pkg/topology", "compareNumbers",
		`if c := cmp.Compare(len(a), len(b)); c != 0 {`,
		`if c := cmp.Compare(len(b), len(a)); c != 0 {`, "TestCompareNames TestPictures",
	},
	{
		"leading zeros do not count", "pkg/topology", "CompareNames",
		`return strings.Compare(a, b)`,
		`return 0`, "TestCompareNames",
	},
}
