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

// Memory remembers for the latest templates of one profile how many members each node takes, until the node changes. It remembers only
// templates for which the Filters read nothing except the node; see reads.
//
// Invariant: a result is valid for one generation, the unique number that the scheduler assigns to each state of each node.
// So results remain valid when nodes are added, removed or moved in the tree.
type Memory struct {
	profile framework.Framework

	mu        sync.Mutex
	asked     int64 // counts calls of Count, to find the least recently used template
	templates map[string]*template
	reasons   reasons
}

// Limits of the memory: about 40 bytes per node and template, so 80 MB up to 65,000 nodes. With too few templates none would be reused,
// because gangs are retried in the order of the queue.
const (
	fewestTemplates = 32
	mostTemplates   = 512
	mostAnswers     = 1 << 21
)

// maxTemplates returns how many templates are remembered with the given number of nodes.
func maxTemplates(nodes int) int {
	return min(max(mostAnswers/max(nodes, 1), fewestTemplates), mostTemplates)
}

// NewMemory returns an empty memory for a profile.
func NewMemory(profile framework.Framework) *Memory {
	return &Memory{profile: profile, templates: map[string]*template{}}
}

// template has the results for one template. Slices are by node index.
type template struct {
	asked      int64          // Memory.asked at the last use
	generation []int64        // generation of the node when it was counted; 0 without a result
	beside     map[int]string // by node index, a key of the pods and ledger states with which it was counted, if any
	slots      []offer.Slots
	why        []*Reasons
	fills      *fills
	rejectedBy *pluginSet // all plugins that rejected a member of the template
}

// Reasons are the distinct messages why a node takes no member. Equal Reasons are one object.
type Reasons struct{ list []string }

// All returns the messages, sorted. It returns nil for a nil receiver.
func (r *Reasons) All() []string {
	if r == nil {
		return nil
	}
	return r.list
}

// Counts are the results for one template, by node index.
type Counts struct {
	Slots []offer.Slots // how many members each node takes
	why   []*Reasons
	nodes []fwk.NodeInfo // the counted nodes; nil for other ones
}

// Why returns why a node takes no member; nil if it takes some, or was not counted. Call it before the next Memory.Count.
func (c Counts) Why(node int) *Reasons {
	if c.nodes[node] == nil {
		return nil
	}
	return c.why[node]
}

// Count returns Counter.Count for many nodes, by index; nil is no node. beside are the further pods of each node.
// It counts only nodes that changed since the last call for such a template.
func (m *Memory) Count(ctx context.Context, c *Counter, nodes []fwk.NodeInfo, beside map[int]Pods) Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes = c.openNodes(nodes) // results of closed nodes remain for other templates
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
	if c.reads.checksAntiAffinity {
		todo = withAntiAffinityNodes(nodes, todo)
	}
	t.forget(todo, keys)
	m.forEach(ctx, todo, func(i int) {
		slots, why := c.Count(ctx, nodes[i], beside[i])
		t.slots[i], t.why[i] = slots, m.reasons.intern(why)
		if !c.reads.checksAntiAffinity || !hasAntiAffinity(nodes[i]) {
			t.generation[i] = nodes[i].GetGeneration()
		}
	})
	return t.counts(nodes)
}

// openNodes returns the nodes, with nil instead of nodes in closed domains.
func (c *Counter) openNodes(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	if c.closed == nil {
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

// fewNodes is the number of nodes up to which counting in sequence is faster than in parallel.
const fewNodes = 64

// forEach calls do for each of the nodes, in parallel if there are many.
func (m *Memory) forEach(ctx context.Context, nodes []int, do func(node int)) {
	if len(nodes) <= fewNodes {
		for _, i := range nodes {
			do(i)
		}
		return
	}
	m.profile.Parallelizer().Until(ctx, len(nodes), func(k int) { do(nodes[k]) }, "Coscheduling")
}

// template returns the remembered results for a counter's template and this number of nodes; a new one if nothing may be remembered.
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

// makeSpace removes the least recently used templates until one more is allowed for so many nodes.
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

// changed returns the indexes of the nodes without a valid result: their generation, or their key in beside, has changed. A nil node is not
// counted now, and keeps its result unless its key has changed.
func (t *template) changed(nodes []fwk.NodeInfo, beside map[int]string) (todo []int) {
	if len(t.generation) != len(nodes) {
		t.resize(len(nodes))
	}
	anyBeside := len(beside)+len(t.beside) > 0
	for i, n := range nodes {
		switch {
		case n == nil && anyBeside && t.beside[i] != beside[i]:
			t.generation[i] = 0 // the result is for other pods beside the node
		case n == nil:
		case t.generation[i] != Generation(n), anyBeside && t.beside[i] != beside[i]:
			todo = append(todo, i)
		}
	}
	return todo
}

// Generation returns the generation of a node. The compiler can inline it, which is faster for thousands of nodes.
func Generation(n fwk.NodeInfo) int64 {
	if info, ok := n.(*framework.NodeInfo); ok {
		return info.Generation
	}
	return n.GetGeneration()
}

// resize changes the number of nodes to n. Results keep their index, even if another node has that now: then the generations differ.
func (t *template) resize(n int) {
	t.generation = resized(t.generation, n)
	t.slots = resized(t.slots, n)
	t.why = resized(t.why, n)
}

func resized[T any](s []T, n int) []T {
	return append(slices.Clip(s[:min(len(s), n)]), make([]T, max(0, n-len(s)))...)
}

// move moves results to the new indexes of their nodes, and returns whether any index has changed.
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

// hasAntiAffinity returns whether any pod of a node has required anti-affinity.
func hasAntiAffinity(node fwk.NodeInfo) bool { return len(node.GetPodsWithRequiredAntiAffinity()) > 0 }

// withAntiAffinityNodes returns todo with the nodes that have pods with anti-affinity, because their results depend on a member's labels.
func withAntiAffinityNodes(nodes []fwk.NodeInfo, todo []int) []int {
	for i, n := range nodes {
		if n != nil && hasAntiAffinity(n) {
			todo = append(todo, i)
		}
	}
	slices.Sort(todo)
	return slices.Compact(todo)
}

// forget removes the results of nodes that are to be counted again, so that a canceled count leaves no result.
func (t *template) forget(todo []int, beside map[int]string) {
	for _, i := range todo {
		t.generation[i], t.slots[i], t.why[i] = 0, 0, nil
	}
	t.beside = beside
}

// counts returns the results. Slots is a copy, because the next count changes the original.
func (t *template) counts(nodes []fwk.NodeInfo) Counts {
	c := Counts{Slots: slices.Clone(t.slots), why: t.why, nodes: nodes}
	for i, n := range nodes {
		if n == nil {
			c.Slots[i] = 0
		}
	}
	return c
}

// Key returns a text that is equal for equal versions of the same pods.
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

// reasons has one object for equal Reasons.
type reasons struct{ known memo.Map[string, *Reasons] }

// mostReasons bounds the different Reasons: some Filters name the node in their message.
const mostReasons = 4096

// intern returns the Reasons for these messages; nil if there are none.
func (r *reasons) intern(list []string) *Reasons {
	if len(list) == 0 {
		return nil
	}
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	return r.known.Share(strings.Join(list, "\n"), &Reasons{list}, mostReasons)
}
