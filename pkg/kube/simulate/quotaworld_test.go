package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// What quotas add to histories. Worlds that have none are what they were.

// Kinds of events, and what comes of them.
const (
	quotaPut     = "quota made"
	quotaLess    = "max of a quota lowered"
	quotaMore    = "max of a quota raised"
	quotaDeleted = "quota deleted"
	quotaAnew    = "quota made again"

	quotaWorlds    = "worlds with quotas"
	quotaWorldsX   = "worlds with quotas of scheduler-plugins"
	quotaDeep      = "worlds with quotas three deep"
	quotaBound     = "pods bound within quotas"
	quotaRefused   = "gangs that quotas keep waiting"
	quotaReclaimed = "pods evicted for another quota"
)

// leastQuotas says how often they must happen in 200 worlds.
var leastQuotas = map[string]int{
	quotaPut: 60, quotaLess: 10, quotaMore: 10, quotaDeleted: 5, quotaAnew: 5, quotaWorlds: 20, quotaWorldsX: 3, quotaDeep: 3,
	quotaBound: 30, quotaRefused: 5, quotaReclaimed: 1,
}

// quotaTrouble is what worlds with quotas are called.
const quotaTrouble = "quotas"

// percentQuotas is how many of a hundred worlds have quotas.
const percentQuotas = 20

// quotaSpec is an ElasticQuota of a history. What has no min or max names none.
type quotaSpec struct {
	name, parent string
	inner        bool
	x            bool // it is one of scheduler-plugins
	min, max     *room
	gpu          bool // min and max name them, too
	keeps        bool // and lends nothing
}

func (q *quotaSpec) String() string {
	amounts := func(r *room) string {
		if r == nil {
			return "-"
		}
		return r.String()
	}
	return fmt.Sprintf("%s below %q min %s max %s%s", q.name, q.parent, amounts(q.min), amounts(q.max),
		flags(map[string]bool{"parent": q.inner, "x": q.x, "gpu": q.gpu, "keeps": q.keeps}))
}

func (q *quotaSpec) object() string {
	labels := labelled(scheduling.LabelQuotaParent, q.parent)
	if q.inner {
		labels[scheduling.LabelQuotaIsParent] = "true"
	}
	if q.keeps {
		labels[scheduling.LabelQuotaLends] = "false"
	}
	spec := map[string]any{}
	for name, r := range map[string]*room{"min": q.min, "max": q.max} {
		if r == nil {
			continue
		}
		amounts := map[string]any{"cpu": r.cpu}
		if q.gpu {
			amounts[gpu] = r.gpu
		}
		spec[name] = amounts
	}
	version := "scheduling.sigs.k8s.io/v1alpha1"
	if q.x {
		version = "scheduling.x-k8s.io/v1alpha1"
	}
	return written("ElasticQuota", version, q.name, map[string]any{"labels": labels}, map[string]any{"spec": spec})
}

// amounts returns the amounts in the units of quotas.
func (q *quotaSpec) amounts(r *room) quota.List {
	if r == nil {
		return nil
	}
	l := quota.List{"cpu": int64(r.cpu) * 1000}
	if q.gpu {
		l[gpu] = int64(r.gpu)
	}
	return l
}

// inTree is what the quota is called in the tree.
func (q *quotaSpec) inTree() string {
	if q.x {
		return "default/" + q.name
	}
	return q.name
}

// withQuotas adds quotas to some histories. They are a tree of Koordinator's, up to three deep, or the quota of a
// namespace for scheduler-plugins, or both. They are created before everything else, and change.
func withQuotas(seed uint64, h history) history {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, nameHash("quotas"))), h: slices.Clone(h)}
	if !on(quotaTrouble) || !d.chance(percentQuotas) {
		return h
	}
	all := d.tree()
	var leaves []string
	for _, q := range all {
		if !q.inner && !q.x {
			leaves = append(leaves, q.name)
		}
	}
	d.nameQuotas(leaves)
	for range d.upTo(2, 5) {
		at, q := d.somewhere(), pick(d, all)
		is := *q
		switch n := d.IntN(10); {
		case n < 4 && q.max != nil:
			is.max = &room{cpu: max(0, q.max.cpu-d.upTo(1, 4)), gpu: q.max.gpu}
			d.insert(at, event{kind: quotaLess, quota: &is})
		case n < 8 && q.max != nil:
			is.max = &room{cpu: q.max.cpu + d.upTo(1, 6), gpu: q.max.gpu + d.upTo(0, 2)}
			d.insert(at, event{kind: quotaMore, quota: &is})
		default:
			again := d.upTo(at, len(d.h)-1)
			d.insert(again, event{kind: quotaAnew, quota: &is})
			d.insert(at, event{kind: quotaDeleted, quota: &is})
		}
	}
	var first []event
	for _, q := range all {
		first = append(first, event{kind: quotaPut, quota: q})
	}
	d.insert(0, first...)
	return d.h
}

// tree draws quotas, parents first.
func (d *drawer) tree() (all []*quotaSpec) {
	if which := d.IntN(10); which < 3 {
		all = append(all, d.quota("x", "", true))
		if which < 2 {
			return all
		}
	}
	number := 0
	var below func(parent string, depth int)
	below = func(parent string, depth int) {
		for range d.upTo(2-depth/2, 3-depth/2) {
			number++
			q := d.quota(fmt.Sprintf("q%d", number), parent, false)
			all = append(all, q)
			if q.inner = depth < 2 && d.chance(40); q.inner {
				below(q.name, depth+1)
			}
		}
	}
	below("", 0)
	return all
}

func (d *drawer) quota(name, parent string, x bool) *quotaSpec {
	q := &quotaSpec{name: name, parent: parent, x: x, gpu: d.chance(20), keeps: !x && d.chance(15)}
	if d.chance(80) || x {
		q.min = &room{cpu: d.upTo(0, 8), gpu: d.upTo(0, 2)}
	}
	if d.chance(80) {
		q.max = &room{cpu: d.upTo(4, 24), gpu: d.upTo(1, 6)}
		if q.min != nil {
			q.max.cpu, q.max.gpu = max(q.max.cpu, q.min.cpu), max(q.max.gpu, q.min.gpu)
		}
	}
	return q
}

// nameQuotas assigns quotas to pods, mostly one quota to all pods of a gang.
func (d *drawer) nameQuotas(leaves []string) {
	of := map[string]string{}
	choose := func(key string, percent int) string {
		name, known := of[key]
		if !known {
			if len(leaves) > 0 && d.chance(percent) {
				name = pick(d, leaves)
			}
			of[key] = name
		}
		return name
	}
	for i, e := range d.h {
		if e.pod == nil || e.pod.scheduler != "" {
			continue
		}
		p := *e.pod
		if p.quota = choose(cmp.Or(p.gang, p.name), 85); p.gang != "" && nameHash(p.gang)%8 == 0 {
			p.quota = choose(p.name, 85)
		}
		d.h[i].pod = &p
	}
}

// putQuota writes, or deletes, a quota.
func (w *world) putQuota(e event) (bool, error) {
	w.quotaMoves()
	name := e.quota.inTree()
	if _, there := w.quotas[name]; there == (e.kind == quotaPut || e.kind == quotaAnew) {
		return false, nil
	}
	if e.kind == quotaDeleted {
		gvr := convert.ElasticQuotas
		if e.quota.x {
			gvr = convert.ElasticQuotasX
		}
		delete(w.quotas, name)
		return w.removeObject(gvr, key{"default", e.quota.name}, nil)
	}
	if w.quotas == nil {
		w.quotas = map[string]*quotaSpec{}
	}
	w.quotas[name] = e.quota
	return true, w.put(e.quota.object())
}

// quotaMoves records the pods whose reservations quotas have admitted: later changes do not revoke these.
func (w *world) quotaMoves() {
	if w.admittedBefore == nil {
		w.admittedBefore = map[string]bool{}
	}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" || convert.Finished(p) {
			continue
		}
		if place, _ := w.s.shared.Cache.Place(p); place != "" || w.s.shared.Cache.Counted(p) ||
			p.Status.NominatedNodeName != "" && w.members[p.Name] == "" {
			w.admittedBefore[string(p.UID)] = true
		}
	}
	w.permits(func(p fwk.WaitingPod) { w.admittedBefore[string(p.GetPod().UID)] = true })
}

// hasQuotas says whether rules apply.
func (w *world) hasQuotas() bool { return len(w.quotas) > 0 }

// quotaOf is the quota of a pod; "" if it has none.
func (w *world) quotaOf(p *v1.Pod) string {
	koordinators, x := false, ""
	for _, name := range sortedKeys(w.quotas) {
		if w.quotas[name].x {
			x = name
		} else {
			koordinators = true
		}
	}
	named := p.Labels[scheduling.LabelQuotaName]
	switch {
	case named != "" && w.quotas[named] != nil:
		return named
	case named == "" && x != "":
		return x
	case koordinators:
		return scheduling.DefaultQuota
	}
	return ""
}

// admittedWith returns the key of the pods that are admitted together with a pod.
func (w *world) admittedWith(p *v1.Pod) string { return cmp.Or(w.members[p.Name], p.Name) }

// quotaBook returns the current use of quotas, from the objects and the scheduler's reservations. The group
// waits as if it had no reservation, and no other group starts.
func (w *world) quotaBook(group []string, alone *v1.Pod) *quota.Book {
	specs := []quota.Spec{
		{Name: scheduling.RootQuota, Inner: true},
		{Name: scheduling.DefaultQuota, Parent: scheduling.RootQuota, Detached: true, NeverEvicted: true},
	}
	top := quota.Spec{Name: "x", Inner: true, Max: quota.List{}}
	for _, name := range sortedKeys(w.quotas) {
		q := w.quotas[name]
		s := quota.Spec{
			Name: name, Parent: cmp.Or(q.parent, scheduling.RootQuota), Inner: q.inner, NotLent: q.keeps, Min: q.amounts(q.min),
			Max: q.amounts(q.max),
		}
		if q.x { // there is one
			s.Parent, top.Max = top.Name, s.Min
		}
		specs = append(specs, s)
	}
	tree, _ := quota.NewTree(append(specs, top))
	b := quota.NewBook(tree)
	total := quota.List{"cpu": 0, gpu: 0}
	add := func(r room) { total["cpu"], total[gpu] = total["cpu"]+int64(r.cpu)*1000, total[gpu]+int64(r.gpu) }
	for _, n := range w.nodes {
		add(amount(n.Status.Allocatable))
	}
	permits := map[string]bool{}
	w.permits(func(p fwk.WaitingPod) { permits[string(p.GetPod().UID)] = true })
	for _, p := range w.sorted() {
		if convert.Finished(p) && p.DeletionTimestamp == nil || done(p) {
			continue
		}
		is := quota.Pod{
			Name: p.Name, Gang: w.admittedWith(p), Quota: w.quotaOf(p), Asks: convert.Requests(p), Priority: convert.Priority(p),
			Since: convert.Started(p),
		}
		place, _ := w.s.shared.Cache.Place(p)
		own := alone == p || w.members[p.Name] != "" && slices.Contains(group, w.members[p.Name])
		switch {
		case p.Spec.NodeName != "":
			is.State = quota.Bound
			if w.nodes[p.Spec.NodeName] == nil {
				add(needs(p))
			}
		case !own && (place != "" || permits[string(p.UID)] || w.s.shared.Cache.Counted(p)):
			is.State = quota.Reserved
		case foreign(p) || p.DeletionTimestamp != nil:
			continue
		}
		b.Set(is)
		if is.State == quota.Waiting {
			b.SetPassedOver(is.Gang, !own)
		}
	}
	b.Total(scheduling.RootQuota, total)
	return b
}

// quotaAsk is what some pods ask for.
func (w *world) quotaAsk(some []*v1.Pod) quota.Request {
	a := quota.Request{Gang: w.admittedWith(some[0]), Priority: math.MaxInt32}
	for _, p := range some {
		a.Priority = min(a.Priority, convert.Priority(p))
		a.Need = append(a.Need, quota.Want{Quota: w.quotaOf(p), Asks: convert.Requests(p), Count: 1})
	}
	return a
}

// admits reports whether quotas would admit all waiting members of a group, or a pod without a gang, without
// the gone pods.
func (w *world) admits(group []string, alone *v1.Pod, gone ...*v1.Pod) bool {
	return w.admitsBeside(nil, group, alone, gone...)
}

// admitsFirst is admits with any other group starting: the group need not expect that gangs which the queue
// has just admitted will be rejected.
func (w *world) admitsFirst(group []string, gone ...*v1.Pod) bool {
	return w.admitsBeside(w.sorted(), group, nil, gone...)
}

// admitsBeside is admits when some waiting pods may start.
func (w *world) admitsBeside(starters []*v1.Pod, group []string, alone *v1.Pod, gone ...*v1.Pod) bool {
	if !w.hasQuotas() {
		return true
	}
	var all []*v1.Pod
	for _, name := range group {
		pending, _ := w.membersOf(name)
		all = append(all, pending...)
	}
	if alone != nil {
		all = []*v1.Pod{alone}
	}
	if len(all) == 0 {
		return true
	}
	b := w.quotaBook(group, alone)
	w.holdStarving(b)
	for _, p := range starters {
		b.SetPassedOver(w.admittedWith(p), false)
	}
	admitted := func() bool {
		v := b.View()
		for _, p := range gone {
			v.Leave(p.Name)
		}
		_, refusal := v.Admit(w.quotaAsk(all))
		return refusal == nil
	}
	if !admitted() {
		return false
	}
	w.fewest(b, nil)
	if !admitted() {
		return false
	}
	w.fewest(b, func(x, y *v1.Pod) int { return cmp.Compare(needs(x).gpu, needs(y).gpu) })
	return admitted()
}

// holdStarving holds capacity for the group whose message says that it starves. Messages of groups in its way may be older than the hold:
// such a group is tried again only when quotas would admit it (world 901251).
func (w *world) holdStarving(b *quota.Book) {
	for _, group := range w.groups() {
		var all []*v1.Pod
		for _, name := range group {
			pending, _ := w.membersOf(name)
			all = append(all, pending...)
		}
		for _, p := range all {
			_, c := podutil.GetPodCondition(&p.Status, v1.PodScheduled)
			if c != nil && strings.Contains(c.Message, "is held for it") && w.s.shared.Cache.Starves(w.s.shared.Cache.GroupKey(p)) {
				b.Hold(w.quotaAsk(all), strings.Contains(c.Message, ", runtime: "))
			}
		}
	}
}

// fewest reduces the requests of gangs with optional waiting members to the minimum. Scheduler and judge may
// differ there: the scheduler learns this when it has tried such a gang. A quota's max may allow only some members, such as the first by
// order (world 1424146771).
func (w *world) fewest(b *quota.Book, order func(x, y *v1.Pod) int) {
	for _, name := range sortedKeys(w.gangs) {
		pending, bound := w.membersOf(name)
		if order != nil {
			slices.SortStableFunc(pending, order)
		}
		var all []quota.Want
		for _, p := range pending[:min(len(pending), max(0, w.gangs[name].min-len(bound)))] {
			all = append(all, quota.Want{Quota: w.quotaOf(p), Asks: convert.Requests(p), Count: 1})
		}
		b.SetNeeds(name, all)
	}
}

// judgeQuotas: no pod is bound above the max of a quota that was known when its node was chosen.
func (w *world) judgeQuotas(fresh map[string][]*v1.Pod) error {
	if !w.hasQuotas() {
		return nil
	}
	var b *quota.Book
	for _, node := range sortedKeys(fresh) {
		for _, p := range fresh[node] {
			of := w.quotaOf(p)
			if of == "" || foreign(p) || w.losses > 0 || w.admittedBefore[string(p.UID)] {
				continue
			}
			w.counts[quotaBound]++
			if b == nil {
				b = w.quotaBook(nil, nil)
			}
			asks := convert.Requests(p)
			for _, above := range b.Tree().Path(of) {
				is, _ := b.Sums(above)
				for name, most := range is.Max {
					if has := is.Used[name]; asks[name] > 0 && has > most {
						return wrong("above max", "%s is bound, and %s has %s %d of %d", p.Name, above, name, has, most)
					}
				}
			}
		}
	}
	return nil
}

// judgeRight: a victim of another quota is outside of that quota's guarantee, and the preemptor's quota stays
// within its fair share. A terminating pod uses no quota, or still uses it if the scheduler has not seen the
// deletion. So does a victim of another preemptor whose eviction was lost: a preemptor that may evict it
// counts on it, and evicts it too.
func (w *world) judgeRight(group []string, alone *v1.Pod, victim *v1.Pod, lowest int32) error {
	b := w.quotaBook(group, alone)
	var leave, late []string
	for _, p := range w.leaving() {
		if !w.victims[p.Name] {
			leave = append(leave, p.Name)
		}
	}
	for _, p := range w.sorted() {
		if w.postponed[p.UID] && p.UID != victim.UID && !slices.Contains(leave, p.Name) {
			late = append(late, p.Name)
		}
	}
	w.backWith(b, victim)
	// Victims of the own quota may be evicted first: that quota may then be within its min. The needed members have an own quota if those of
	// one quota are enough: the group may start without the other ones (worlds 752237, 757700).
	waiting := map[string]map[string]int{} // by quota and gang
	for _, p := range w.sorted() {
		if p == alone || p.Spec.NodeName == "" && w.members[p.Name] != "" && slices.Contains(group, w.members[p.Name]) {
			byGang := waiting[w.quotaOf(p)]
			if byGang == nil {
				byGang = map[string]int{}
				waiting[w.quotaOf(p)] = byGang
			}
			byGang[w.members[p.Name]]++
		}
	}
	enough := func(byGang map[string]int) bool {
		start := 0
		for _, name := range group {
			if _, bound := w.membersOf(name); w.gangs[name] != nil && byGang[name]+len(bound) >= w.gangs[name].min {
				start++
			}
		}
		return start >= w.least(group)
	}
	var own []string
	for _, p := range w.leaving() {
		byGang := waiting[w.quotaOf(p)]
		if w.victims[p.Name] && byGang != nil && (len(waiting) == 1 || enough(byGang)) && convert.Priority(p) < lowest {
			own = append(own, p.Name)
		}
	}
	err := w.judgeRightBy(b, group, alone, victim, lowest)
	for _, otherwise := range []func(){
		func() { w.fewest(b, nil) },              // the members beyond minMember may exceed a max (world 865139)
		func() { w.reserve(b, w.requeued()...) }, // they are victims of this preemptor, too (world 948542)
		func() {},
	} {
		for _, gone := range [][]string{nil, leave, slices.Concat(leave, late), slices.Concat(leave, own)} {
			if err != nil && w.judgeRightBy(b.Without(gone...), group, alone, victim, lowest) == nil {
				return nil
			}
		}
		otherwise()
	}
	if w.anyUntold() { // that pod may have victims, which count as terminating from the moment when they are chosen
		return nil
	}
	return err
}

// givesRight reports whether the planned members may take back from another victim's quota only because this victim of their own quota is
// evicted, too: without it their quota would use more than its fair share (world 701744).
func (w *world) givesRight(group []string, planned []*v1.Pod, victim *v1.Pod, gone []*v1.Pod) bool {
	if !w.hasQuotas() || len(planned) == 0 {
		return false
	}
	mine, total := w.quotaOf(planned[0]), quota.List{}
	for _, p := range planned {
		for name, n := range convert.Requests(p) {
			total[name] += n
		}
		if w.quotaOf(p) != mine {
			return false
		}
	}
	var own []string
	for _, p := range w.leaving() {
		if p != victim && w.quotaOf(p) == mine {
			own = append(own, p.Name)
		}
	}
	b := w.quotaBook(group, nil)
	rest := b.Without(own...)
	return w.quotaOf(victim) == mine && slices.ContainsFunc(gone, func(p *v1.Pod) bool {
		above, below, ok := apart(b.Tree().Path(mine), b.Tree().Path(w.quotaOf(p)))
		return ok && !(takesBack(b, rest, below, above, total) && takesBack(rest, rest, below, above, total)) // terminating pods may still ask
	})
}

// forOne reports whether some planned members may use this victim of a quota, and not another one: the members of each quota must be admitted
// with the victims that may be evicted for that quota (world 720302).
func (w *world) forOne(group []string, planned []*v1.Pod, victim *v1.Pod, gone []*v1.Pod) bool {
	return w.quotaOf(victim) != "" && slices.ContainsFunc(planned, func(m *v1.Pod) bool {
		own := slices.DeleteFunc(slices.Clone(planned), func(p *v1.Pod) bool { return w.quotaOf(p) != w.quotaOf(m) })
		return w.mayUse(group, own, victim) && slices.ContainsFunc(gone, func(p *v1.Pod) bool { return p != victim && !w.mayUse(group, own, p) })
	})
}

// takesBack reports whether a quota may take back what another one borrows: it stays within its min, or it stays within its fair share and
// the other exceeds its own. The fair shares are those of one book, and the use is that of another.
func takesBack(shares, use *quota.Book, theirs, mine string, asks quota.List) bool {
	if sure(use, theirs, mine, asks) != "" && sure(shares, theirs, mine, asks) != "" {
		return false
	}
	my, _ := use.Sums(mine)
	their, _ := use.Sums(theirs)
	myShares, _ := shares.Sums(mine)
	theirShares, _ := shares.Sums(theirs)
	within, named, entitled, exceeds := true, false, true, false
	for name, n := range asks {
		used := my.Used[name] + my.Reserved[name] + n
		if least, ok := my.Min[name]; ok && n > 0 {
			named, within = true, within && used <= least
		}
		if most, ok := myShares.FairShare[name]; ok && n > 0 {
			entitled = entitled && used <= most
			most, ok = theirShares.FairShare[name]
			exceeds = exceeds || ok && their.Used[name]+their.Reserved[name] > most
		}
	}
	return within && named || entitled && exceeds
}

// backWith gives the waiting members of a victim's group in the victim's quota their reservations back if their bindings were lost:
// they were being bound, and were requeued when the group was evicted. The group borrowed as a whole, also if enough members for
// minMember are bound now (world 913262). Members in other quotas, such as the preemptor's, may never have had nodes (world 940464).
func (w *world) backWith(b *quota.Book, victim *v1.Pod) {
	group := w.groupOf(w.members[victim.Name])
	if key := groupKey(group); w.members[victim.Name] == "" || !w.halfway[key] && !w.uneven[key] {
		return
	}
	for _, name := range group {
		pending, _ := w.membersOf(name)
		for _, p := range pending {
			if w.quotaOf(p) == w.quotaOf(victim) {
				w.reserve(b, p)
			}
		}
	}
}

// reserve has waiting members use their quotas.
func (w *world) reserve(b *quota.Book, members ...*v1.Pod) {
	for _, p := range members {
		b.Set(quota.Pod{
			Name: p.Name, Gang: w.admittedWith(p), Quota: w.quotaOf(p), Asks: convert.Requests(p), Priority: convert.Priority(p),
			State: quota.Reserved,
		})
	}
}

func (w *world) judgeRightBy(b *quota.Book, group []string, alone *v1.Pod, victim *v1.Pod, lowest int32) error {
	theirs := w.quotaOf(victim)
	var all []*v1.Pod
	for _, name := range group {
		pending, _ := w.membersOf(name)
		all = append(all, pending...)
	}
	if alone != nil {
		all = append(all, alone)
	}
	lower := convert.Priority(victim) < lowest
	var why string
	for _, p := range all {
		mine := w.quotaOf(p)
		if mine == theirs {
			if why = "its priority is not lower"; lower {
				return nil
			}
			continue
		}
		above, below, ok := apart(b.Tree().Path(mine), b.Tree().Path(theirs))
		if !ok {
			why = "their quotas have nothing in common"
			continue
		}
		if why = sure(b, below, above, convert.Requests(p)); why == "" {
			w.counts[quotaReclaimed]++
			return nil
		}
	}
	if len(all) == 0 {
		return nil
	}
	return wrong("right", "%s of quota %q is evicted for %s of %q: %s", victim.Name, theirs, all[0].Name, w.quotaOf(all[0]), why)
}

// mayUse reports whether members may use the quota that a victim releases: what it releases in other members'
// quotas does not count.
func (w *world) mayUse(group []string, members []*v1.Pod, victim *v1.Pod) bool {
	if !w.hasQuotas() {
		return true
	}
	b, theirs := w.quotaBook(group, nil), w.quotaOf(victim)
	return !slices.ContainsFunc(members, func(m *v1.Pod) bool {
		asks := quota.List{} // of all these members of one quota together (world 787587)
		for _, o := range members {
			if w.quotaOf(o) == w.quotaOf(m) {
				for name, n := range convert.Requests(o) {
					asks[name] += n
				}
			}
		}
		mine, _, ok := apart(b.Tree().Path(w.quotaOf(m)), b.Tree().Path(theirs))
		return w.quotaOf(m) != theirs && (!ok || sure(b, theirs, mine, asks) != "")
	})
}

// givesBack reports whether a terminating pod releases quota of the group's waiting members, or of a parent.
func (w *world) givesBack(p *v1.Pod, group []string) bool {
	if !w.hasQuotas() {
		return false
	}
	tree := w.quotaBook(nil, nil).Tree()
	path := tree.Path(w.quotaOf(p))
	for _, name := range group {
		pending, _ := w.membersOf(name)
		for _, m := range pending {
			if slices.ContainsFunc(tree.Path(w.quotaOf(m)), func(above string) bool { return slices.Contains(path, above) }) {
				return true
			}
		}
	}
	return false
}

// apart returns the quotas next below the lowest common parent.
func apart(a, b []string) (mine, others string, ok bool) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i], b[i], i > 0
		}
	}
	return "", "", false
}

// sure says why no pod of a quota may be evicted for another quota; "" if one may be. It is a lower bound:
// one pod's request stands for all.
func sure(b *quota.Book, theirs, mine string, asks quota.List) string {
	is, _ := b.Sums(theirs)
	spec, broken := b.Tree().Spec(theirs)
	if broken != "" || spec.NeverEvicted {
		return "its quota cannot be used, or spares it"
	}
	above := len(spec.Min) == 0
	for name, least := range is.Min {
		above = above || is.Used[name]+is.Reserved[name] > least
	}
	if !above {
		return fmt.Sprintf("%s has no more than its min, and all there are guaranteed", theirs)
	}
	my, _ := b.Sums(mine)
	within, named := true, false
	for name, least := range my.Min {
		if asks[name] > 0 {
			named, within = true, within && my.Used[name]+my.Reserved[name]+asks[name] <= least
		}
	}
	entitled := true
	for name, most := range my.FairShare {
		entitled = entitled && (asks[name] == 0 || my.Used[name]+my.Reserved[name]+asks[name] <= most)
	}
	if !(within && named) && !entitled {
		return fmt.Sprintf("%s would have more than its min, and than it is entitled to", mine)
	}
	return ""
}

// countQuotas counts what kind of world it was.
func (w *world) countQuotas(h history) {
	depth := map[string]int{}
	for _, e := range h {
		if e.kind != quotaPut {
			continue
		}
		depth[e.quota.name] = depth[e.quota.parent] + 1
		w.counts[quotaWorlds] = 1
		if e.quota.x {
			w.counts[quotaWorldsX] = 1
		}
		if depth[e.quota.name] > 2 {
			w.counts[quotaDeep] = 1
		}
	}
}

// TestQuotaWithOptionalGangOfATree: members of an optional gang are neither needed nor beyond minMember. With
// quotas the scheduler crashed when no other pod waited.
func TestQuotaWithOptionalGangOfATree(t *testing.T) {
	quietLogs(t)
	for most, want := range map[int]int{8: 4, 3: 2} {
		h := history{{kind: quotaPut, quota: &quotaSpec{name: "q", max: &room{cpu: most}}}, {kind: topologySet, layers: []string{blockLayer}}}
		for i := range 4 {
			h = append(h, event{kind: nodePut, node: &nodeSpec{name: fmt.Sprint("n", i), spine: "s", block: "b", cpu: 1}})
		}
		for _, name := range []string{"a", "b"} {
			h = append(h,
				event{kind: gangPut, gang: &gangSpec{name: name, min: 2, timeout: 600, group: []string{"a", "b"}, least: 1, api: nativeAPI}})
			for i := range 2 {
				h = append(h,
					event{
						kind: memberPut, pod: &podSpec{name: fmt.Sprint(name, "-", i), gang: name, room: room{cpu: 1}, priority: 5, rank: i, quota: "q"},
					})
			}
			h = append(h, event{kind: settledDown})
		}
		w, err := playFor(t, h)
		require.NoError(t, err)
		bound := 0
		for _, p := range w.pods {
			if p.Spec.NodeName != "" {
				bound++
			}
		}
		require.Equal(t, want, bound, "of max %d", most)
	}
}

// TestGangThatCannotStartReservesNoQuota: a gang that cannot be complete reserves no idle quota, though its
// quota has the smaller share.
func TestGangThatCannotStartReservesNoQuota(t *testing.T) {
	quietLogs(t)
	h := history{
		{kind: quotaPut, quota: &quotaSpec{name: "a", max: &room{cpu: 8}}},
		{kind: quotaPut, quota: &quotaSpec{name: "b", max: &room{cpu: 8}}},
		{kind: nodePut, node: &nodeSpec{name: "n", cpu: 8}},
		{kind: podPut, pod: &podSpec{name: "runs", room: room{cpu: 4}, priority: 5, rank: -1, node: "n", quota: "a"}},
		{kind: gangPut, gang: &gangSpec{name: "w", min: 2, timeout: 600, policy: "only-waiting"}},
		{kind: gangPut, gang: &gangSpec{name: "g", min: 2, timeout: 600}},
	}
	member := func(gang, quotaName string, i int) event {
		return event{
			kind: memberPut, pod: &podSpec{name: fmt.Sprint(gang, "-", i), gang: gang, room: room{cpu: 1}, priority: 5, rank: i, quota: quotaName},
		}
	}
	h = append(h, member("w", "b", 0), member("w", "b", 1), event{kind: settledDown}, member("w", "b", 2), event{kind: turnsGiven, n: 2})
	w, err := playFor(t, append(h, member("g", "a", 0), member("g", "a", 1), event{kind: longTimeLeft}))
	require.NoError(t, err)
	require.NotEmpty(t, w.pods["default/g-0"].Spec.NodeName)
	require.Empty(t, w.pods["default/w-2"].Spec.NodeName)
}
