package fit

import (
	"context"
	"slices"
	"strings"
	"sync"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Memory keeps the Filters' answers per node for the latest templates of one profile, until the node changes.
// It applies only to templates for which the Filters read nothing beyond the node; see reads.
//
// Invariant: an answer is valid for one generation, the unique number that the scheduler assigns to each state of each node.
// So answers stay valid when nodes appear, disappear or move in the tree.
type Memory struct {
	profile framework.Framework

	mu        sync.Mutex
	asked     int64 // number of questions, to find the least recently used template
	templates map[string]*template
	reasons   reasons
}

// Limits of the memory: about 40 bytes per node and template, so 80 MB up to 65,000 nodes.
// Gangs retry in the order of the queue, so with one template too few, each would be evicted before its reuse.
const (
	fewestTemplates = 32
	mostTemplates   = 512
	mostAnswers     = 1 << 21
)

// maxTemplates returns the number of templates remembered for so many nodes.
func maxTemplates(nodes int) int {
	return min(max(mostAnswers/max(nodes, 1), fewestTemplates), mostTemplates)
}

// NewMemory returns an empty memory for a profile.
func NewMemory(profile framework.Framework) *Memory {
	return &Memory{profile: profile, templates: map[string]*template{}}
}

// template is what is known of one template. Slices are by node index.
type template struct {
	asked      int64
	generation []int64        // generation of the node when asked; 0 if never
	beside     map[int]string // keys of pods that counted beside the node, if any
	slots      []offer.Slots
	why        []*Reasons
	fills      *fills
	rejectedBy *pluginSet // plugins that rejected the template since it is known
}

// Reasons are why a node takes no member, without duplicates. Equal ones are one object.
type Reasons struct{ list []string }

// All lists the reasons, sorted. It returns nil for a nil receiver.
func (r *Reasons) All() []string {
	if r == nil {
		return nil
	}
	return r.list
}

// Counts are the answers for one template by node index.
type Counts struct {
	Slots []offer.Slots
	why   []*Reasons
	nodes []fwk.NodeInfo // the nodes asked
}

// Why returns why a node takes no member; nil if it does, or its domain is closed. Call it before the next question to the memory.
func (c Counts) Why(node int) *Reasons {
	if c.nodes[node] == nil {
		return nil
	}
	return c.why[node]
}

// Count is Counter.Count for many nodes, by index; nil is no node. beside are pods that count there beside the snapshot.
// It asks only nodes that changed since the last question about such a template.
func (m *Memory) Count(ctx context.Context, c *Counter, nodes []fwk.NodeInfo, beside map[int]Pods) Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes = c.openNodes(nodes) // answers of closed nodes stay valid for other templates
	t := m.template(c, len(nodes))
	keys := make(map[int]string, len(beside))
	for i, pods := range beside {
		keys[i] = pods.Key()
	}
	for i, n := range nodes {
		if len(c.pages) > 0 && n != nil {
			keys[i] += c.pages.state(n)
		}
	}
	todo := t.changed(nodes, keys)
	if len(todo) > len(nodes)/16 && t.move(nodes) {
		todo = t.changed(nodes, keys)
	}
	if c.reads.apart {
		todo = withApart(nodes, todo)
	}
	t.forget(todo, keys)
	m.forEach(ctx, todo, func(i int) {
		slots, why := c.Count(ctx, nodes[i], beside[i])
		t.slots[i], t.why[i] = slots, m.reasons.intern(why)
		if !c.reads.apart || !keepsOff(nodes[i]) {
			t.generation[i] = nodes[i].GetGeneration()
		}
	})
	return t.counts(nodes)
}

// openNodes returns the nodes without the ones in closed domains.
func (c *Counter) openNodes(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	if c.off == nil {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		if n != nil && c.closedStatus(n) != nil {
			nodes[i] = nil
		}
	}
	return nodes
}

// fewNodes is the number of nodes up to which asking in sequence is faster than waking workers.
const fewNodes = 64

// forEach calls do for some nodes.
func (m *Memory) forEach(ctx context.Context, nodes []int, do func(node int)) {
	if len(nodes) <= fewNodes {
		for _, i := range nodes {
			do(i)
		}
		return
	}
	m.profile.Parallelizer().Until(ctx, len(nodes), func(k int) { do(nodes[k]) }, "Coscheduling")
}

// template returns what is known of a counter's template; an empty one if nothing can be.
func (m *Memory) template(c *Counter, nodes int) *template {
	m.asked++
	if c.reads.key == "" {
		return &template{}
	}
	t := m.templates[c.reads.key]
	if t == nil {
		m.makeSpace(nodes)
		t = &template{fills: &fills{}, rejectedBy: &pluginSet{}}
		m.templates[c.reads.key] = t
	}
	t.asked = m.asked
	t.rejectedBy.add(c.rejectedBy.list()...)
	c.rejectedBy = t.rejectedBy
	if c.fills != nil {
		c.fills = t.fills
	}
	return t
}

// makeSpace forgets the least recently used templates, if there are too many for so many nodes.
func (m *Memory) makeSpace(nodes int) {
	for len(m.templates) >= maxTemplates(nodes) {
		oldest := ""
		for key, t := range m.templates {
			if oldest == "" || t.asked < m.templates[oldest].asked {
				oldest = key
			}
		}
		delete(m.templates, oldest)
	}
}

// changed lists the nodes without a valid answer.
func (t *template) changed(nodes []fwk.NodeInfo, beside map[int]string) (todo []int) {
	if len(t.generation) != len(nodes) {
		t.resize(len(nodes))
	}
	anyBeside := len(beside)+len(t.beside) > 0
	for i, n := range nodes {
		switch {
		case n == nil && anyBeside && t.beside[i] != beside[i]:
			t.generation[i] = 0 // the answer was given beside other pods
		case n == nil:
		case t.generation[i] != Generation(n), anyBeside && t.beside[i] != beside[i]:
			todo = append(todo, i)
		}
	}
	return todo
}

// Generation returns the generation of a node. It is inlined for thousands of nodes: a call would serialize the cache misses.
func Generation(n fwk.NodeInfo) int64 {
	if info, ok := n.(*framework.NodeInfo); ok {
		return info.Generation
	}
	return n.GetGeneration()
}

// resize keeps the answers at their indexes. These may be wrong now, which the generations reveal.
func (t *template) resize(n int) {
	t.generation = resized(t.generation, n)
	t.slots = resized(t.slots, n)
	t.why = resized(t.why, n)
}

func resized[T any](s []T, n int) []T {
	return append(slices.Clip(s[:min(len(s), n)]), make([]T, max(0, n-len(s)))...)
}

// move moves answers to the new indexes of their nodes, and returns whether any has moved.
func (t *template) move(nodes []fwk.NodeInfo) (moved bool) {
	indexOf := make(map[int64]int, len(t.generation))
	for i, g := range t.generation {
		if g != 0 {
			indexOf[g] = i
		}
	}
	reordered := &template{}
	reordered.resize(len(nodes))
	beside := map[int]string{}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		previous, ok := indexOf[Generation(n)]
		if !ok {
			continue
		}
		reordered.generation[i], reordered.slots[i], reordered.why[i] = t.generation[previous], t.slots[previous], t.why[previous]
		if b := t.beside[previous]; b != "" {
			beside[i] = b
		}
		moved = moved || previous != i
	}
	if moved {
		t.generation, t.slots, t.why, t.beside = reordered.generation, reordered.slots, reordered.why, beside
	}
	return moved
}

// keepsOff returns whether some pod of a node has required anti-affinity.
func keepsOff(node fwk.NodeInfo) bool { return len(node.GetPodsWithRequiredAntiAffinity()) > 0 }

// withApart adds the nodes with anti-affinity pods: their answers are not valid for every pod of the template, and are not kept.
func withApart(nodes []fwk.NodeInfo, todo []int) []int {
	for i, n := range nodes {
		if n != nil && keepsOff(n) {
			todo = append(todo, i)
		}
	}
	slices.Sort(todo)
	return slices.Compact(todo)
}

// forget clears answers before they are asked again. A canceled question then leaves no answer.
func (t *template) forget(todo []int, beside map[int]string) {
	for _, i := range todo {
		t.generation[i], t.slots[i], t.why[i] = 0, 0, nil
	}
	t.beside = beside
}

// counts returns the answers. Slots are copied because the next question changes them.
func (t *template) counts(nodes []fwk.NodeInfo) Counts {
	c := Counts{Slots: slices.Clone(t.slots), why: t.why, nodes: nodes}
	for i, n := range nodes {
		if n == nil {
			c.Slots[i] = 0
		}
	}
	return c
}

// Key returns a key for the pods.
func (p Pods) Key() string {
	var b strings.Builder
	for _, info := range p {
		pod := info.GetPod()
		b.WriteString(string(pod.UID))
		b.WriteByte(' ')
		b.WriteString(pod.ResourceVersion)
		b.WriteByte('\n')
	}
	return b.String()
}

// reasons holds one object for equal reasons.
type reasons struct{ known memo.Map[string, *Reasons] }

// mostReasons bounds the reasons: some Filters name the node in theirs.
const mostReasons = 4096

func (r *reasons) intern(list []string) *Reasons {
	if len(list) == 0 {
		return nil
	}
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	return r.known.Share(strings.Join(list, "\n"), &Reasons{list}, mostReasons)
}
