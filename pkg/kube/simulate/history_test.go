package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// history is the events in one simulated cluster: values only, drawn from a seed before the run, so that it
// can be printed, repeated and shortened.
type history []event

// event is one event. An event that is impossible at its time, such as the deletion of a missing pod, does
// nothing.
type event struct {
	kind   string
	node   *nodeSpec
	gang   *gangSpec
	pod    *podSpec
	name   string
	layers []string // of the topology; nil if there is none, from the top down
	n      int
	how    string // how a member ends
	fail   *failSpec
	quota  *quotaSpec
}

// Kinds of events.
const (
	nodePut      = "node made or changed"
	nodeDeleted  = "node deleted"
	nodeCleared  = "pods of a node that is gone deleted"
	gangPut      = "gang made"
	gangDeleted  = "gang deleted"
	gangAnew     = "gang made anew"
	gangMin      = "minMember changed"
	memberPut    = "member made"
	podPut       = "pod made"
	podDeleted   = "pod deleted"
	podFinished  = "pod finished"
	topologySet  = "topology changed"
	restarted    = "scheduler restarted"
	turnsGiven   = "a few turns"
	timePassed   = "time passes"
	settledDown  = "settles"
	longTimeLeft = "long time passes"
)

// What comes of them.
const (
	podsBound       = "pods bound"
	gangsWhole      = "gangs made whole"
	gangsUnfit      = "gangs that do not fit"
	podsLeft        = "pods left waiting"
	gangEvictions   = "evictions by gangs"
	gangVictims     = "pods evicted by gangs"
	podEvictions    = "pods evicted by single pods"
	memoryEvictions = "pods evicted before they were bound"
	placesKept      = "places held in Permit"
	placesAwaited   = "settled with places held"
	restartedMidway = "scheduler restarted while members held places"
	multiplesKept   = "gangs in multiples"
	tooManyWays     = "too many ways to fit"
	sameAgain       = "the same again"
)

type nodeSpec struct {
	name, spine, block string // "" without a label
	cpu, gpu           int
	cordoned           bool
	suspect            bool // it has a PreferNoSchedule taint
}

// room is the capacity of a node, or the requests of a pod.
type room struct{ cpu, gpu int }

type podSpec struct {
	name, gang string
	room
	priority  int
	rank      int // -1 without
	protected bool
	never     bool // preemptionPolicy
	grace     int  // seconds
	stuck     bool // stays long after its grace
	node      string
	scheduler string // "" is ours
	quota     string // that it names
}

type ruleSpec struct {
	layer    string
	must     bool
	multiple int
	each     bool // scope PodGroup
}

type gangSpec struct {
	name         string
	min, timeout int
	policy       string // "" is the default, once-satisfied
	nonStrict    bool
	byPods       bool   // no PodGroup: its members describe it
	api          string // API of the object that declares it; "" is Muster's own
	group        []string
	least        int // of the gangs of the group, where it is a tree, or of the parts; 0 if it has none
	part         int // so many members make a sub-group; 0 if none do
	rules        []ruleSpec
}

func (e event) String() string {
	switch {
	case e.node != nil:
		return fmt.Sprintf("%s: %s", e.kind, e.node)
	case e.gang != nil:
		return fmt.Sprintf("%s: %s", e.kind, e.gang)
	case e.pod != nil:
		return fmt.Sprintf("%s: %s", e.kind, e.pod)
	case e.kind == topologySet:
		return fmt.Sprintf("%s: %q", e.kind, e.layers)
	case e.kind == gangMin:
		return fmt.Sprintf("%s: %s %d", e.kind, e.name, e.n)
	case e.fail != nil:
		return fmt.Sprintf("%s: %+v", e.kind, *e.fail)
	case e.quota != nil:
		return fmt.Sprintf("%s: %s", e.kind, e.quota)
	case e.how != "":
		return fmt.Sprintf("%s: %s %d %s", e.kind, e.name, e.n, e.how)
	case e.name != "":
		return e.kind + ": " + e.name
	case e.n > 0:
		return fmt.Sprintf("%s: %d", e.kind, e.n)
	}
	return e.kind
}

func (h history) String() string {
	var lines []string
	for i, e := range h {
		lines = append(lines, fmt.Sprintf("%3d %s", i, e))
	}
	return strings.Join(lines, "\n")
}

func flags(names map[string]bool) string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(names)) {
		if names[n] {
			out = append(out, " "+n)
		}
	}
	return strings.Join(out, "")
}

func (r room) String() string {
	if r.gpu > 0 {
		return fmt.Sprintf("cpu %d gpu %d", r.cpu, r.gpu)
	}
	return fmt.Sprintf("cpu %d", r.cpu)
}

func (n *nodeSpec) String() string {
	return fmt.Sprintf("%s in %q/%q %s%s", n.name, n.spine, n.block, room{n.cpu, n.gpu},
		flags(map[string]bool{"cordoned": n.cordoned, "suspect": n.suspect}))
}

func (p *podSpec) String() string {
	s := fmt.Sprintf("%s %s priority %d", p.name, p.room, p.priority)
	if p.gang != "" {
		s += " of " + p.gang
	}
	if p.node != "" {
		s += " on " + p.node
	}
	if p.grace > 0 {
		s += fmt.Sprintf(" grace %d", p.grace)
	}
	if p.quota != "" {
		s += " of quota " + p.quota
	}
	return s + flags(map[string]bool{"protected": p.protected, "never": p.never, "stuck": p.stuck})
}

func (g *gangSpec) String() string {
	s := fmt.Sprintf("%s min %d timeout %d %s", g.name, g.min, g.timeout, g.policy)
	if len(g.group) > 0 {
		s += fmt.Sprintf(" group %v", g.group)
	}
	if g.least > 0 {
		s += fmt.Sprintf(" least %d", g.least)
	}
	if g.part > 0 {
		s += fmt.Sprintf(" in parts of %d", g.part)
	}
	for _, r := range g.rules {
		s += fmt.Sprintf(" [%s must=%t ×%d each=%t]", r.layer, r.must, r.multiple, r.each)
	}
	if g.api != "" {
		s += " of " + g.api
	}
	return s + flags(map[string]bool{"NonStrict": g.nonStrict, "by annotation": g.byPods})
}

// The objects as users write them.

func written(kind, version, name string, meta, more map[string]any) string {
	meta["name"] = name
	more["kind"], more["apiVersion"], more["metadata"] = kind, version, meta
	out, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func labelled(values ...string) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(values); i += 2 {
		if values[i+1] != "" {
			out[values[i]] = values[i+1]
		}
	}
	return out
}

func (r room) resources() map[string]any {
	out := map[string]any{"cpu": r.cpu}
	if r.gpu > 0 {
		out[gpu] = r.gpu
	}
	return out
}

const gpu = "example.com/gpu"

// withSuspects has a third of the nodes be suspect: members avoid them where nothing else decides.
func withSuspects(h history) history {
	for _, e := range h {
		if e.node != nil && e.node.name[len(e.node.name)-1]%3 == 0 {
			e.node.suspect = true
		}
	}
	return h
}

func (n *nodeSpec) object() string {
	capacity := room{n.cpu, n.gpu}.resources()
	capacity["memory"] = "64Gi"
	spec := map[string]any{"unschedulable": n.cordoned}
	if n.suspect {
		spec["taints"] = []any{map[string]any{"key": "suspect", "effect": "PreferNoSchedule"}}
	}
	return written("Node", "v1", n.name, map[string]any{"labels": labelled("spine", n.spine, "block", n.block)},
		map[string]any{"spec": spec, "status": map[string]any{"capacity": capacity}})
}

// annotations are what a PodGroup and members of a gang without one have in common.
func (g *gangSpec) annotations() map[string]any {
	mode := ""
	if g.nonStrict {
		mode = "NonStrict"
	}
	a := labelled(scheduling.AnnotationMatchPolicy, g.policy, scheduling.AnnotationMode, mode)
	if len(g.group) > 0 && !g.inTree() {
		var names []string
		for _, n := range g.group {
			names = append(names, `"default/`+n+`"`)
		}
		a[scheduling.AnnotationGroups] = "[" + strings.Join(names, ",") + "]"
	}
	var rules []string
	for _, r := range g.rules {
		rule := map[string]any{"layer": r.layer, "strategy": "PreferGather"}
		if r.must {
			rule["strategy"] = "MustGather"
		}
		if r.multiple > 1 {
			rule["podCountMultiple"] = r.multiple
		}
		if r.each {
			rule["scope"] = "PodGroup"
		}
		text, _ := json.Marshal(rule)
		rules = append(rules, string(text))
	}
	if len(rules) > 0 {
		a[scheduling.AnnotationTopologySpec] = `{"gatherStrategy":[` + strings.Join(rules, ",") + "]}"
	}
	return a
}

func (g *gangSpec) object() string {
	if api := apis[g.api]; api != nil {
		return api.object(g)
	}
	return written("PodGroup", "scheduling.sigs.k8s.io/v1alpha1", g.name, map[string]any{"annotations": g.annotations()},
		map[string]any{"spec": map[string]any{"minMember": g.min, "scheduleTimeoutSeconds": g.timeout}})
}

// byLabels says that its members describe a gang by the deprecated labels.
func (g *gangSpec) byLabels() bool { return g.byPods && nameHash(g.name)%3 == 1 }

// object writes a pod, of a gang that may have no PodGroup.
func (p *podSpec) object(g *gangSpec) string {
	labels, annotations := map[string]any{}, map[string]any{}
	if g != nil && g.byPods {
		annotations = g.annotations()
		if g.byLabels() {
			labels[scheduling.LabelGangName], labels[scheduling.LabelMinAvailable] = g.name, fmt.Sprint(g.min)
		} else {
			annotations[scheduling.AnnotationGangName], annotations[scheduling.AnnotationMinAvailable] = g.name, fmt.Sprint(g.min)
		}
		annotations[scheduling.AnnotationWaitingTime] = fmt.Sprintf("%ds", g.timeout)
	} else if g != nil && g.api != "" {
		apis[g.api].member(g, labels, annotations)
	} else if g != nil {
		labels[scheduling.LabelPodGroup] = g.name
	}
	if g != nil && g.part > 0 {
		labels["part"] = partOf(g, p.name)
	}
	if p.rank >= 0 {
		annotations[scheduling.AnnotationTopologyIndex] = fmt.Sprint(p.rank)
	}
	if p.quota != "" {
		labels[scheduling.LabelQuotaName] = p.quota
	}
	if p.protected {
		labels[scheduling.LabelDisablePreemptible] = "true"
	}
	if p.stuck {
		annotations[stuck] = "true"
	}
	spec := map[string]any{
		"schedulerName": cmp.Or(p.scheduler, "muster-scheduler"), "priority": p.priority, "terminationGracePeriodSeconds": p.grace,
		"containers": []any{map[string]any{
			"name": "c", "image": "i", "resources": map[string]any{"requests": p.resources(), "limits": p.resources()},
		}},
	}
	if g != nil && g.api == nativeAPI {
		spec["schedulingGroup"] = map[string]any{"podGroupName": g.name}
	}
	if p.never {
		spec["preemptionPolicy"] = "Never"
	}
	if p.node != "" {
		spec["nodeName"] = p.node
	}
	return written("Pod", "v1", p.name, map[string]any{"labels": labels, "annotations": annotations}, map[string]any{"spec": spec})
}

// stuck marks pods that terminate for much too long.
const stuck = "example.com/stuck"

func topologyObject(layers []string) string {
	var out []any
	parent := ""
	for _, l := range append(slices.Clone(layers), scheduling.NodeTopologyLayer) {
		layer := map[string]any{"topologyLayer": l}
		if l != scheduling.NodeTopologyLayer {
			layer["labelKey"] = []any{labelOf[l]}
		}
		if parent != "" {
			layer["parentTopologyLayer"] = parent
		}
		parent = l
		out = append(out, layer)
	}
	if slices.Contains(layers, invalidLayer) {
		out = out[:len(out)-1] // no NodeTopologyLayer
	}
	return written("ClusterNetworkTopology", "scheduling.koordinator.sh/v1alpha1", scheduling.TopologyName, map[string]any{},
		map[string]any{"spec": map[string]any{"networkTopologySpec": out}})
}

const (
	spineLayer   = "SpineLayer"
	blockLayer   = "BlockLayer"
	invalidLayer = "InvalidLayer"
)

var labelOf = map[string]string{spineLayer: "spine", blockLayer: "block", invalidLayer: "invalid"}

// drawer draws a history. What it remembers is what it has drawn, not what came of it.
type drawer struct {
	*rand.Rand
	h     history
	nodes []*nodeSpec
	gangs []*gangSpec
	// waiting are members that were not made yet, in the order of their gangs.
	waiting []*podSpec
	pods    []*podSpec
	number  int
}

func (d *drawer) upTo(lo, hi int) int     { return lo + d.IntN(hi-lo+1) }
func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }
func pick[T any](d *drawer, from []T) T   { return from[d.IntN(len(from))] }
func (d *drawer) add(e event)             { d.h = append(d.h, e) }

// draw makes the history of a seed.
func draw(seed uint64) history { return withQuotas(seed, drawPlain(seed)) }

// drawPlain is draw without quotas.
func drawPlain(seed uint64) history {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x6d75737465720000))}
	d.topology(100)
	for i := range d.upTo(2, 8) {
		d.node(i)
	}
	for i := range d.upTo(0, 8) {
		p := d.plain()
		p.name = fmt.Sprintf("run-%d", i)
		p.node = pick(d, d.nodes).name
		d.add(event{kind: podPut, pod: p})
	}
	d.job()
	for range d.upTo(6, 12) {
		for range d.upTo(1, 4) {
			d.happen()
		}
		switch d.IntN(10) {
		case 0, 1, 2, 3:
			d.add(event{kind: turnsGiven, n: d.upTo(1, 6)})
			if d.chance(15) { // in the middle of things
				d.add(event{kind: restarted})
			}
		case 4, 5, 6:
			d.add(event{kind: timePassed, n: d.upTo(1, 40)})
		default:
			d.add(event{kind: settledDown})
		}
	}
	for _, p := range d.waiting {
		d.add(event{kind: memberPut, pod: p})
	}
	d.add(event{kind: longTimeLeft})
	return withTroubles(seed, withAPIs(seed, d.h))
}

// happen draws one event.
func (d *drawer) happen() {
	switch n := d.IntN(100); {
	case n < 30 && len(d.waiting) > 0:
		for range d.upTo(1, 4) {
			d.member()
		}
	case n < 42:
		d.job()
	case n < 54:
		p := d.plain()
		d.pods = append(d.pods, p)
		d.add(event{kind: podPut, pod: p})
	case n < 62 && len(d.pods) > 0:
		d.add(event{kind: podDeleted, name: pick(d, d.pods).name})
	case n < 67 && len(d.pods) > 0:
		d.add(event{kind: podFinished, name: pick(d, d.pods).name})
	case n < 71 && len(d.pods) > 0: // as a controller does
		if p := pick(d, d.pods); p.gang != "" {
			d.add(event{kind: memberPut, pod: p})
		}
	case n < 74:
		d.node(len(d.nodes))
	case n < 78:
		d.add(event{kind: nodeDeleted, name: pick(d, d.nodes).name})
		if d.chance(70) {
			d.add(event{kind: nodeCleared, name: d.h[len(d.h)-1].name})
		}
	case n < 80:
		d.add(event{kind: nodeCleared, name: pick(d, d.nodes).name})
	case n < 86:
		d.change(pick(d, d.nodes))
	case n < 89 && len(d.gangs) > 0:
		d.add(event{kind: gangDeleted, name: pick(d, d.gangs).name})
	case n < 92 && len(d.gangs) > 0:
		d.add(event{kind: gangAnew, gang: pick(d, d.gangs)})
	case n < 95 && len(d.gangs) > 0:
		d.add(event{kind: gangMin, name: pick(d, d.gangs).name, n: d.upTo(1, 6)})
	case n < 97:
		d.topology(40)
	default:
		d.add(event{kind: restarted})
	}
}

// topology draws the usual layers with this chance, else other ones.
func (d *drawer) topology(usual int) {
	layers := []string{spineLayer, blockLayer}
	if !d.chance(usual) {
		layers = pick(d, [][]string{{spineLayer}, {blockLayer}, {blockLayer, spineLayer}, {invalidLayer}, nil})
	}
	d.add(event{kind: topologySet, layers: layers})
}

func (d *drawer) node(i int) {
	n := &nodeSpec{name: fmt.Sprintf("n%d", i), cpu: d.upTo(1, 6)}
	if d.chance(30) {
		n.gpu = d.upTo(1, 4)
	}
	d.place(n)
	first := *n
	d.nodes = append(d.nodes, n)
	d.add(event{kind: nodePut, node: &first})
}

func (d *drawer) place(n *nodeSpec) {
	n.spine, n.block = "", ""
	if !d.chance(10) {
		n.spine = fmt.Sprintf("s%d", d.upTo(0, 2))
	}
	if !d.chance(10) {
		n.block = fmt.Sprintf("b%d", d.upTo(0, 1))
	}
}

// change relabels, cordons or uncordons a node, or makes it again.
func (d *drawer) change(old *nodeSpec) {
	n := *old
	if d.chance(50) {
		n.cordoned = !n.cordoned
	} else {
		d.place(&n)
	}
	*old = n
	d.add(event{kind: nodePut, node: &n})
}

func (d *drawer) someRoom() (r room) {
	r.cpu = d.upTo(1, 3)
	if d.chance(15) {
		r.gpu = d.upTo(1, 2)
	}
	return r
}

func (d *drawer) plain() *podSpec {
	d.number++
	p := &podSpec{
		name: fmt.Sprintf("p%d", d.number), room: d.someRoom(), priority: pick(d, []int{1, 1, 5, 9}), rank: -1, protected: d.chance(15),
	}
	switch d.IntN(10) {
	case 0, 1, 2:
		p.grace = d.upTo(3, 40)
	case 3:
		p.grace, p.stuck = 10, true
	}
	return p
}

// job draws a gang or a GangGroup. Its members come later, one by one, some before the
// next event.
func (d *drawer) job() {
	gangs, most := 1, 6
	if d.chance(30) {
		gangs, most = d.upTo(2, 3), 3
	}
	rules := d.rules()
	priority, never := pick(d, []int{1, 5, 5, 9}), d.chance(10)
	policy, nonStrict := pick(d, []string{"", "", "only-waiting", "waiting-and-running", "once-satisfied"}), d.chance(20)
	var names []string
	for range gangs {
		d.number++
		names = append(names, fmt.Sprintf("g%d", d.number))
	}
	var members [][]*podSpec
	for _, name := range names {
		n := d.upTo(1, most)
		g := &gangSpec{
			name: name, min: d.upTo(max(1, n-2),
				n), timeout: d.upTo(5, 60), policy: policy, nonStrict: nonStrict, rules: rules, byPods: d.chance(15),
		}
		if gangs > 1 {
			g.group = names
		}
		like, alike, ranked := d.someRoom(), d.chance(70), d.chance(50)
		var own []*podSpec
		for i := range n {
			p := &podSpec{name: fmt.Sprintf("%s-%d", name, i), gang: name, room: like, priority: priority, rank: -1, never: never}
			if !alike {
				p.room = d.someRoom()
			}
			if ranked {
				p.rank = i
			}
			if d.chance(30) {
				p.grace = d.upTo(3, 40)
			}
			own = append(own, p)
		}
		members = append(members, own)
		d.gangs = append(d.gangs, g)
		d.add(event{kind: gangPut, gang: g})
	}
	for _, own := range members {
		d.waiting = append(d.waiting, own...)
	}
	if d.chance(50) {
		for len(d.waiting) > 0 {
			d.member()
		}
	}
}

// member has the next member that waits made.
func (d *drawer) member() {
	if len(d.waiting) == 0 {
		return
	}
	p := d.waiting[0]
	d.waiting = d.waiting[1:]
	d.pods = append(d.pods, p)
	d.add(event{kind: memberPut, pod: p})
}

func (d *drawer) rules() (rules []ruleSpec) {
	if d.chance(25) {
		return nil
	}
	for _, layer := range []string{spineLayer, blockLayer, scheduling.NodeTopologyLayer} {
		for _, each := range []bool{false, true} {
			if !d.chance(25) {
				continue
			}
			r := ruleSpec{layer: layer, must: d.chance(50), multiple: 1, each: each}
			if d.chance(15) {
				r.multiple = 2
			}
			if layer == scheduling.NodeTopologyLayer {
				r.must = d.chance(15)
			}
			rules = append(rules, r)
		}
	}
	return rules
}
