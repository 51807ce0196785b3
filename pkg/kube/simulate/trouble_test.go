package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// trouble is an additional kind of failure. Each kind is drawn into a history with random numbers of its own:
// without it the history of a seed is unchanged.
type trouble struct {
	percent int // of the worlds that have it
	draw    func(d *drawer)
}

var troubles = map[string]trouble{
	"requests":  {percent: 50, draw: (*drawer).failingRequests},
	"foreign":   {percent: 35, draw: (*drawer).foreignPods},
	"anew":      {percent: 50, draw: (*drawer).gangsAnew},
	"finished":  {percent: 50, draw: (*drawer).finishedMembers},
	"groups":    {percent: 40, draw: (*drawer).runningGroups},
	"strangers": {percent: 30, draw: (*drawer).strangers},
	"by hand":   {percent: 25, draw: (*drawer).boundByHand},
}

// off are the troubles and rules with known faults: they are skipped unless -sim.with names them.
var off = map[string]bool{}

// Rules that can be skipped.
const (
	leftInPart = "left in part"
	surplus    = "surplus"
)

// on says whether a trouble is drawn, or a rule is asked.
func on(name string) bool {
	with := strings.Split(*simWith, ",")
	return !off[name] || slices.Contains(with, name) || slices.Contains(with, "all")
}

// Kinds of events that belong to troubles.
const (
	requestsFail     = "requests fail"
	foreignPut       = "pod of another scheduler made"
	foreignGang      = "gang of another scheduler made"
	foreignNominated = "pod of another scheduler nominated"
	foreignBound     = "pod of another scheduler bound"
	foreignTold      = "gang of another scheduler told"
	runningAnew      = "PodGroup made again while members run"
	memberFinished   = "member finished"
	memberReplaced   = "member replaced"
	memberRuns       = "member of a GangGroup that runs made"
	strangerPut      = "stranger made"
	memberByHand     = "member bound by hand"
)

// What comes of them.
const (
	requestsLost   = "requests lost"
	bindingsLost   = "bindings lost"
	evictionsLost  = "evictions lost"
	placesKeptLost = "members bound where their binding was lost"
	foreignSeen    = "worlds with another scheduler"
	lateBound      = "replacements bound"
	groupsLeft     = "GangGroups evicted whole"
	gangsLeft      = "gangs evicted whole"
	strangersWait  = "strangers that wait"
	handLeft       = "members bound by hand that are alone"
)

// troublesDrawn says how often they must happen in 200 worlds, if they are on.
var troublesDrawn = map[string]map[string]int{
	"requests":  {requestsFail: 150, requestsLost: 150, bindingsLost: 40, evictionsLost: 20, placesKeptLost: 20},
	"foreign":   {foreignPut: 100, foreignGang: 40, foreignNominated: 80, foreignBound: 30, foreignTold: 20, foreignSeen: 40},
	"anew":      {runningAnew: 100, memberReplaced: 60, lateBound: 40},
	"finished":  {memberFinished: 50, memberReplaced: 30, lateBound: 20},
	"groups":    {memberRuns: 150, groupsLeft: 10},
	"strangers": {strangerPut: 40, strangersWait: 25},
	"by hand":   {memberByHand: 25, handLeft: 4},
}

// failSpec says which requests are lost, until everything has settled: of each
// so many attempts, of so many objects out of three.
type failSpec struct {
	What, How    string
	Times, Share int
	Salt         uint64
}

// What is lost, and how.
const (
	bindings    = "bindings"
	evictions   = "evictions"
	podStatus   = "status of pods"
	gangStatus  = "status of gangs"
	anyRequest  = "everything"
	timedOut    = "504"
	answerLost  = "504 when it is done"
	conflict    = "409"
	tooMany     = "429"
	unavailable = "503"
)

// Ways in which a member is replaced by another one.
const (
	goneAtOnce   = "is gone at once"
	hasSucceeded = "has succeeded"
	hasFailed    = "has failed"
	isLeaving    = "is leaving"
)

// withTroubles adds the enabled troubles.
func withTroubles(seed uint64, h history) history {
	for _, name := range sortedKeys(troubles) {
		t := troubles[name]
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, nameHash(name))), h: slices.Clone(h)}
		if on(name) && d.chance(t.percent) {
			t.draw(d)
			h = d.h
		}
	}
	return h
}

func nameHash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// insert puts events into the history.
func (d *drawer) insert(at int, e ...event) { d.h = slices.Insert(d.h, at, e...) }

// somewhere returns an index in the history after the first gang.
func (d *drawer) somewhere() int {
	first := slices.IndexFunc(d.h, func(e event) bool { return e.kind == gangPut })
	return d.upTo(first+1, len(d.h)-1)
}

// places returns sorted indices, the last first: an insertion moves later events.
func (d *drawer) places(n int) (at []int) {
	for range n {
		at = append(at, d.somewhere())
	}
	slices.Sort(at)
	slices.Reverse(at)
	return at
}

// whenTimePasses returns an index right before time passes.
func (d *drawer) whenTimePasses() int {
	at := d.somewhere()
	for !slices.Contains([]string{turnsGiven, timePassed, settledDown, longTimeLeft}, d.h[at].kind) {
		at++
	}
	return at
}

// gangsBefore returns the gangs made before an index.
func (d *drawer) gangsBefore(at int) (out []*gangSpec) {
	for _, e := range d.h[:at] {
		if e.kind == gangPut {
			out = append(out, e.gang)
		}
	}
	return out
}

func (d *drawer) nodesAtFirst() (out []*nodeSpec) {
	for _, e := range d.h {
		if e.kind == gangPut {
			break
		}
		if e.kind == nodePut {
			out = append(out, e.node)
		}
	}
	return out
}

func (d *drawer) failingRequests() {
	for range d.upTo(2, 6) {
		at := d.whenTimePasses()
		if d.chance(60) { // when members come
			for at = d.somewhere(); d.h[at].kind != memberPut && at < len(d.h)-1; at++ {
			}
		}
		d.insert(at, event{kind: requestsFail, fail: &failSpec{
			What:  pick(d, []string{bindings, bindings, bindings, evictions, evictions, podStatus, gangStatus, anyRequest}),
			How:   pick(d, []string{timedOut, timedOut, answerLost, conflict, tooMany, unavailable}),
			Times: d.upTo(1, 3), Share: d.upTo(1, 3), Salt: d.Uint64(),
		}})
	}
}

// otherScheduler serves foreign pods.
const otherScheduler = "other-scheduler"

// foreignPods draws pods of another scheduler, some of a gang of its own, which it
// nominates and binds.
func (d *drawer) foreignPods() {
	for i := range d.upTo(1, 2) {
		g := &gangSpec{name: fmt.Sprintf("f%d", i), timeout: 10, rules: d.rules()}
		priority := pick(d, []int{1, 5, 9})
		var all []*podSpec
		for k := range d.upTo(1, 4) {
			p := &podSpec{name: fmt.Sprintf("f%d-%d", i, k), room: d.someRoom(), priority: priority, rank: -1, scheduler: otherScheduler}
			all = append(all, p)
		}
		if d.chance(70) {
			for _, p := range all {
				p.gang = g.name
			}
			g.min = d.upTo(1, len(all)+1)
		}
		nodes := d.nodesAtFirst()
		at := d.places(5)
		d.insert(at[0], event{kind: podDeleted, name: pick(d, all).name})
		for _, p := range all {
			if d.chance(60) {
				d.insert(at[1], event{kind: foreignBound, name: p.name})
			}
		}
		if g.min > 0 {
			d.insert(at[2], event{kind: foreignTold, name: g.name})
		}
		for _, p := range all {
			if d.chance(80) {
				d.insert(at[3], event{kind: foreignNominated, name: p.name, how: pick(d, nodes).name})
			}
		}
		// The scheduler of a PodGroup without members is unknown.
		if g.min > 0 {
			d.insert(at[4], event{kind: foreignGang, gang: g})
		}
		for _, p := range all {
			spec := g
			if p.gang == "" {
				spec = nil
			}
			d.insert(at[4], event{kind: foreignPut, pod: p, gang: spec})
		}
	}
}

// gangsAnew has PodGroups made again while members run, and members replaced then, some
// under another process.
func (d *drawer) gangsAnew() {
	for _, at := range d.late(3) {
		e := []event{{kind: runningAnew, n: d.IntN(100)}}
		if d.chance(50) {
			e = append(e, event{kind: timePassed, n: 2})
		}
		if d.chance(20) {
			e = append(e, event{kind: restarted})
		}
		d.insert(at, append(e, d.replacement())...)
	}
}

// finishedMembers lets members finish, like members of Jobs, and replaces other members.
func (d *drawer) finishedMembers() {
	for _, at := range d.late(3) {
		var e []event
		for range d.upTo(1, 2) {
			e = append(e, event{kind: memberFinished, n: d.IntN(100), how: pick(d, []string{hasSucceeded, hasSucceeded, hasFailed})})
		}
		if d.chance(40) {
			e = append(e, event{kind: restarted})
		}
		d.insert(at, append(e, d.replacement())...)
	}
}

// replacement has a member replaced of the group that was chosen last.
func (d *drawer) replacement() event {
	return event{kind: memberReplaced, n: d.IntN(100), how: pick(d, []string{goneAtOnce, hasFailed, isLeaving})}
}

// late returns indices at which gangs may run, the last first; one of them right before the end, where
// nothing else happens.
func (d *drawer) late(n int) []int {
	at := append(d.places(n-1), len(d.h)-1)
	slices.Sort(at)
	slices.Reverse(at)
	return at
}

// runningGroups draws running GangGroups of low priority, and groups that may need their nodes.
func (d *drawer) runningGroups() {
	nodes := d.nodesAtFirst()
	left := map[string]int{}
	for _, n := range nodes {
		left[n.name] = n.cpu
	}
	var e []event
	for i := range d.upTo(1, 2) {
		var names []string
		for k := range d.upTo(2, 3) {
			names = append(names, fmt.Sprintf("r%d%c", i, 'a'+k))
		}
		for _, name := range names {
			n := d.upTo(1, 2)
			g := &gangSpec{name: name, min: d.upTo(1, n), timeout: 30, group: names}
			e = append(e, event{kind: gangPut, gang: g})
			for m := range n {
				p := &podSpec{name: fmt.Sprintf("%s-%d", name, m), gang: name, room: room{cpu: 1}, priority: 1, rank: m}
				for _, k := range d.Perm(len(nodes)) {
					if at := nodes[k].name; left[at] > 0 && p.node == "" {
						p.node = at
						left[at]--
					}
				}
				if d.chance(40) {
					p.grace = d.upTo(3, 30)
				}
				if p.node != "" {
					e = append(e, event{kind: memberRuns, pod: p})
				}
			}
		}
	}
	for i, at := range d.places(d.upTo(1, 3)) {
		p := d.plain()
		p.name, p.priority, p.cpu = fmt.Sprintf("big-%d", i), 9, d.upTo(2, 5)
		d.insert(at, event{kind: podPut, pod: p})
	}
	first := slices.IndexFunc(d.h, func(e event) bool { return e.kind != topologySet && e.kind != nodePut })
	d.insert(first, e...)
}

// strangers draws gangs that list gangs without being listed by them.
func (d *drawer) strangers() {
	for i, at := range d.places(d.upTo(1, 2)) {
		name := fmt.Sprintf("x%d", i)
		n := d.upTo(0, 4)
		g := &gangSpec{
			name: name, min: max(1, n+d.upTo(-1, 3)), timeout: d.upTo(5, 60), rules: d.rules(), nonStrict: d.chance(30),
			group: []string{name, pick(d, d.gangsBefore(at)).name},
		}
		priority := pick(d, []int{1, 5, 9})
		like := d.someRoom()
		e := []event{{kind: strangerPut, gang: g}}
		for k := range n {
			e = append(e,
				event{kind: memberPut, pod: &podSpec{name: fmt.Sprintf("%s-%d", name, k), gang: name, room: like, priority: priority, rank: -1}})
		}
		d.insert(at, e...)
	}
}

// anyNode is any node with capacity at that time.
const anyNode = "any"

// boundByHand draws a gang with one member that is bound by hand, and pods that take the nodes of its other
// members; sometimes the other members are made, too.
func (d *drawer) boundByHand() {
	at := d.places(2)
	n := d.upTo(2, 6)
	g := &gangSpec{name: "h", min: n, timeout: d.upTo(5, 60), rules: []ruleSpec{{layer: scheduling.NodeTopologyLayer, multiple: 1}}}
	if d.chance(50) {
		g.rules = nil
	}
	member := func(k int) *podSpec {
		return &podSpec{name: fmt.Sprintf("h-%d", k), gang: "h", room: room{cpu: 1}, priority: 5, rank: k}
	}
	if d.chance(40) {
		for k := range n - 1 {
			d.insert(at[0], event{kind: memberPut, pod: member(k + 1)})
		}
	}
	first := member(0)
	first.node = anyNode
	e := []event{{kind: gangPut, gang: g}, {kind: memberByHand, pod: first}, {kind: timePassed, n: d.upTo(1, 20)}}
	for i := range d.upTo(1, 5) {
		p := d.plain()
		p.name, p.priority = fmt.Sprintf("guest-%d", i), pick(d, []int{5, 9})
		e = append(e, event{kind: podPut, pod: p})
	}
	d.insert(at[1], e...)
}
