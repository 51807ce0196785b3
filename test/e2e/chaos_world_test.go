package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// In the world of these tests each node has 8 CPU, and each pod needs all of them or
// half of them: so it is easy to say what fits.
const (
	wholeNode = 8000 // millicores
	halfNode  = 4000
)

// job is gangs that start together, each a PodGroup. All members must be there.
type job struct {
	name     string
	teams    []team
	rule     rule
	priority string
	exposed  bool // it may be evicted.
	devices  bool // members have a card each, or a half, by claims that are made for them.
	net      bool // all members share a claim for a device that every node reaches.

	submitted atomic.Bool
	finished  bool
	reduced   bool // it has lost members with their node.
}

// team is one gang of a job.
type team struct {
	name        string
	whole, half int // members that need a whole node, and half a node
}

// rule says how a job's members gather.
type rule int

const (
	anywhere  rule = iota
	preferred      // in one block and one spine, if that goes
	oneSpine
	oneBlock
	teamBlocks // one spine for all, and in it a block for each team
	rules
)

// spec is the rule as users write it.
func (r rule) spec() string {
	strategy := map[rule]string{
		preferred: `{"layer":"SpineLayer","strategy":"PreferGather"},{"layer":"BlockLayer","strategy":"PreferGather"}`,
		oneSpine:  `{"layer":"SpineLayer","strategy":"MustGather"}`,
		oneBlock:  `{"layer":"BlockLayer","strategy":"MustGather"}`,
		teamBlocks: `{"layer":"SpineLayer","strategy":"MustGather"},` +
			`{"layer":"BlockLayer","strategy":"MustGather","scope":"PodGroup"}`,
	}[r]
	return `{"gatherStrategy":[` + strategy + `]}`
}

func (r rule) String() string {
	return []string{"anywhere", "preferred", "oneSpine", "oneBlock", "teamBlocks"}[r]
}

func (j *job) String() string {
	exposed := ""
	if j.exposed {
		exposed = ", exposed"
	}
	for what, is := range map[string]bool{", devices": j.devices, ", net": j.net} {
		if is {
			exposed += what
		}
	}
	return fmt.Sprintf("%s (%s, %s, %v%s)", j.name, j.priority, j.rule, j.teams, exposed)
}

func (t team) size() int { return t.whole + t.half }

// members are the names of a team's pods.
func (t team) members() (names []string) {
	for i := range t.size() {
		names = append(names, t.name+"-"+strconv.Itoa(i))
	}
	return names
}

// size is how many members a job has.
func (j *job) size() (n int) {
	for _, t := range j.teams {
		n += t.size()
	}
	return n
}

// randomJobs makes jobs of all sorts. The last one never fits.
func randomJobs(r *rand.Rand, n int) (jobs []*job) {
	between := func(low, high int) int { return low + r.IntN(high-low+1) }
	for i := range n - 1 {
		j := &job{name: fmt.Sprintf("job%d", i), rule: rule(i % int(rules)), priority: "normal"}
		if r.IntN(3) == 0 {
			j.priority = "high"
		}
		teams := 1
		if j.rule == teamBlocks {
			teams = between(2, 3)
		}
		for k := range teams {
			t := team{name: fmt.Sprintf("%s-%c", j.name, 'a'+k)}
			switch r.IntN(3) {
			case 0: // like members
				t.whole = between(2, 4)
			case 1:
				t.half = between(2, 6)
			case 2: // a launcher and its workers
				t.half, t.whole = 1, between(1, 3)
			}
			j.teams = append(j.teams, t)
		}
		j.exposed = len(j.teams) == 1 && r.IntN(2) == 0
		if i%10 == 7 { // waits for long: a spine with this much room is rare
			j.rule, j.teams = oneSpine, []team{{name: j.name + "-a", whole: 12}}
		}
		jobs = append(jobs, j)
	}
	r.Shuffle(len(jobs), func(i, k int) { jobs[i], jobs[k] = jobs[k], jobs[i] })
	return append(jobs, &job{name: "never", rule: oneBlock, priority: "high", teams: []team{{name: "never-a", whole: 5}}})
}

// podGroups are the PodGroups of a job.
func (j *job) podGroups() (out []*sigs.PodGroup) {
	var names []string
	for _, t := range j.teams {
		names = append(names, t.name)
	}
	for _, t := range j.teams {
		pg := &sigs.PodGroup{}
		pg.APIVersion, pg.Kind = sigs.GroupVersion.String(), "PodGroup"
		pg.Name, pg.Namespace, pg.Annotations = t.name, metav1.NamespaceDefault, map[string]string{}
		pg.Spec.MinMember = int32(t.size())
		if len(j.teams) > 1 {
			pg.Annotations[scheduling.AnnotationGroups] = groupsOf(names)
		}
		if j.rule != anywhere {
			pg.Annotations[scheduling.AnnotationTopologySpec] = j.rule.spec()
		}
		out = append(out, pg)
	}
	return out
}

// groupsOf lists gangs as users write it.
func groupsOf(gangs []string) string {
	names := make([]string, len(gangs))
	for i, name := range gangs {
		names[i] = metav1.NamespaceDefault + "/" + name
	}
	out, _ := json.Marshal(names)
	return string(out)
}

// alike says whether all members need the same.
func (j *job) alike() bool {
	return len(j.teams) == 1 && (j.teams[0].whole == 0 || j.teams[0].half == 0)
}

// pods are the members of a job. Most jobs are protected.
func (j *job) pods() (out []*v1.Pod) {
	for _, t := range j.teams {
		for i, name := range t.members() {
			size := int64(wholeNode)
			if i < t.half {
				size = halfNode
			}
			p := newPod(name, size, j.priority)
			p.Labels = map[string]string{scheduling.LabelPodGroup: t.name}
			if !j.exposed {
				p.Labels[scheduling.LabelDisablePreemptible] = "true"
			}
			p.Annotations = map[string]string{scheduling.AnnotationTopologyIndex: strconv.Itoa(i)}
			j.claim(p)
			out = append(out, p)
		}
	}
	return out
}

func newPod(name string, size int64, priority string) *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace = name, metav1.NamespaceDefault
	p.Spec.SchedulerName, p.Spec.PriorityClassName = scheduling.SchedulerName, priority
	requests := v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(size, resource.DecimalSI)}
	p.Spec.Containers = []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Requests: requests}}}
	return p
}

func sizeOf(p *v1.Pod) int64 { return p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }

func priorityOf(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// place is where a node stands.
type place struct{ spine, block string }

func placeOf(n *v1.Node) place {
	return place{n.Labels[localcluster.SpineLabel], n.Labels[localcluster.BlockLabel]}
}

// room is what is free in a domain: whole nodes, and halves of nodes.
type room struct{ whole, half int }

func (r room) plus(o room) room { return room{r.whole + o.whole, r.half + o.half} }

// take says what is left when a team has moved in, if it can. Halves are taken first.
func (r room) take(t team) (room, bool) {
	r.whole -= t.whole
	halves := t.half - min(t.half, r.half)
	r.half -= min(t.half, r.half)
	r.whole -= (halves + 1) / 2
	r.half += halves % 2
	return r, r.whole >= 0
}

// rooms is the room of each block, by spine.
type rooms map[string]map[string]room

func newRooms(nodes map[string]place, used map[string]int64) rooms {
	out := rooms{}
	for node, at := range nodes {
		if out[at.spine] == nil {
			out[at.spine] = map[string]room{}
		}
		free := room{}
		switch left := wholeNode - used[node]; {
		case left >= wholeNode:
			free.whole = 1
		case left >= halfNode:
			free.half = 1
		}
		out[at.spine][at.block] = out[at.spine][at.block].plus(free)
	}
	return out
}

func (r rooms) spine(name string) (all room) {
	for _, free := range r[name] {
		all = all.plus(free)
	}
	return all
}

func (r rooms) all() (all room) {
	for spine := range r {
		all = all.plus(r.spine(spine))
	}
	return all
}

// fits says whether a job without a bound member fits.
func (r rooms) fits(j *job) bool {
	total := team{}
	for _, t := range j.teams {
		total.whole += t.whole
		total.half += t.half
	}
	takes := func(free room) bool { _, ok := free.take(total); return ok }
	switch j.rule {
	case oneSpine:
		return slices.ContainsFunc(slices.Collect(maps.Keys(r)), func(s string) bool { return takes(r.spine(s)) })
	case oneBlock:
		for _, blocks := range r {
			if slices.ContainsFunc(slices.Collect(maps.Values(blocks)), takes) {
				return true
			}
		}
		return false
	case teamBlocks:
		for _, blocks := range r {
			if settle(slices.Collect(maps.Values(blocks)), j.teams) {
				return true
			}
		}
		return false
	}
	return takes(r.all())
}

// settle tries to give each team a block, in every way.
func settle(blocks []room, teams []team) bool {
	if len(teams) == 0 {
		return true
	}
	for i, free := range blocks {
		if left, ok := free.take(teams[0]); ok {
			rest := slices.Clone(blocks)
			rest[i] = left
			if settle(rest, teams[1:]) {
				return true
			}
		}
	}
	return false
}
