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

// Memory keeps, for the templates that one profile was asked about last, what the Filters
// said of each node, until the node changes. It is only used for templates of which the
// Filters look at nothing beyond the node: see reads.
//
// That a node is as it was is known by its generation, a number that the scheduler gives
// to each state of each node and to no other, so answers stay true when nodes come, go
// or change places in the tree.
type Memory struct {
	profile framework.Framework

	mu        sync.Mutex
	asked     int64 // counts questions, to tell which template was not asked about for longest
	templates map[string]*template
	reasons   reasons
}

// What bounds the memory: about 40 bytes for each node and template, so 80 MB at the most unless there are more than 65,000 nodes.
// Who is tried at each change comes back in the order of the queue: with one template too few, none of them would be known.
const (
	fewestTemplates = 32
	mostTemplates   = 512
	mostAnswers     = 1 << 21
)

// remembered is how many templates are remembered where there are so many nodes.
func remembered(nodes int) int {
	return min(max(mostAnswers/max(nodes, 1), fewestTemplates), mostTemplates)
}

// NewMemory returns an empty memory for a profile.
func NewMemory(profile framework.Framework) *Memory {
	return &Memory{profile: profile, templates: map[string]*template{}}
}

// template is what is known of one template. Slices are by node index.
type template struct {
	asked      int64
	generation []int64        // the state of the node that was asked; 0 if none
	beside     map[int]string // who was counted there besides, where there was somebody
	slots      []offer.Slots
	why        []*Reasons
	fills      *fills
	by         *refusers // who has refused it somewhere since it is known
}

// Reasons are why a node takes nobody, without duplicates. Equal ones are one object.
type Reasons struct{ list []string }

// All lists them, sorted; nil has none.
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
	nodes []fwk.NodeInfo // that were asked about
}

// Why says why a node takes nobody; nil where there are slots, or where nobody was asked since the domain is closed. It is to
// be asked before the memory is asked the next question.
func (c Counts) Why(node int) *Reasons {
	if c.nodes[node] == nil {
		return nil
	}
	return c.why[node]
}

// Count is Counter.Count for many nodes, by index; nil is no node. beside says who is to
// be counted on a node besides, where there is somebody. Only nodes that have changed
// since the last question about such a template are asked.
func (m *Memory) Count(ctx context.Context, c *Counter, nodes []fwk.NodeInfo, beside map[int]Pods) Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	nodes = c.open(nodes) // what is known of the others goes for who is not kept off
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

// open are the nodes but for those in domains in which nobody is counted.
func (c *Counter) open(nodes []fwk.NodeInfo) []fwk.NodeInfo {
	if c.off == nil {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		if n != nil && c.closed(n) != nil {
			nodes[i] = nil
		}
	}
	return nodes
}

// few is how many nodes are asked about faster one after the other than by workers that
// must be woken.
const few = 64

// forEach calls do for some nodes.
func (m *Memory) forEach(ctx context.Context, nodes []int, do func(node int)) {
	if len(nodes) <= few {
		for _, i := range nodes {
			do(i)
		}
		return
	}
	m.profile.Parallelizer().Until(ctx, len(nodes), func(k int) { do(nodes[k]) }, "Coscheduling")
}

// template returns what is known of a counter's template; if nothing, or if nothing can
// be, an empty one.
func (m *Memory) template(c *Counter, nodes int) *template {
	m.asked++
	if c.reads.key == "" {
		return &template{}
	}
	t := m.templates[c.reads.key]
	if t == nil {
		m.makeRoom(nodes)
		t = &template{fills: &fills{}, by: &refusers{}}
		m.templates[c.reads.key] = t
	}
	t.asked = m.asked
	t.by.add(c.by.list()...)
	c.by = t.by
	if c.fills != nil {
		c.fills = t.fills
	}
	return t
}

// makeRoom forgets the templates that were not asked about for longest, if there are many for so many nodes.
func (m *Memory) makeRoom(nodes int) {
	for len(m.templates) >= remembered(nodes) {
		oldest := ""
		for key, t := range m.templates {
			if oldest == "" || t.asked < m.templates[oldest].asked {
				oldest = key
			}
		}
		delete(m.templates, oldest)
	}
}

// changed lists the nodes of which the answers are not known.
func (t *template) changed(nodes []fwk.NodeInfo, beside map[int]string) (todo []int) {
	if len(t.generation) != len(nodes) {
		t.resize(len(nodes))
	}
	somebody := len(beside)+len(t.beside) > 0
	for i, n := range nodes {
		switch {
		case n == nil && somebody && t.beside[i] != beside[i]:
			t.generation[i] = 0 // what is known of it was said beside others
		case n == nil:
		case t.generation[i] != Generation(n), somebody && t.beside[i] != beside[i]:
			todo = append(todo, i)
		}
	}
	return todo
}

// Generation is the node's. Of thousands of nodes it is all that is read, from memory that is cold: without a
// call between them, the processor waits for many at once.
func Generation(n fwk.NodeInfo) int64 {
	if info, ok := n.(*framework.NodeInfo); ok {
		return info.Generation
	}
	return n.GetGeneration()
}

// resize keeps what is known, at the same indices, which may be wrong ones: the
// generations tell.
func (t *template) resize(n int) {
	t.generation = sized(t.generation, n)
	t.slots = sized(t.slots, n)
	t.why = sized(t.why, n)
}

func sized[T any](s []T, n int) []T {
	return append(slices.Clip(s[:min(len(s), n)]), make([]T, max(0, n-len(s)))...)
}

// move brings answers to where their nodes are now, and says whether any has moved.
func (t *template) move(nodes []fwk.NodeInfo) (moved bool) {
	at := make(map[int64]int, len(t.generation))
	for i, g := range t.generation {
		if g != 0 {
			at[g] = i
		}
	}
	now := &template{}
	now.resize(len(nodes))
	beside := map[int]string{}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		was, ok := at[Generation(n)]
		if !ok {
			continue
		}
		now.generation[i], now.slots[i], now.why[i] = t.generation[was], t.slots[was], t.why[was]
		if b := t.beside[was]; b != "" {
			beside[i] = b
		}
		moved = moved || was != i
	}
	if moved {
		t.generation, t.slots, t.why, t.beside = now.generation, now.slots, now.why, beside
	}
	return moved
}

// keepsOff says whether some pod of a node keeps others off.
func keepsOff(node fwk.NodeInfo) bool { return len(node.GetPodsWithRequiredAntiAffinity()) > 0 }

// withApart adds the nodes with pods that keep others off: what is said of them is not
// true for every pod of the template, and is not kept.
func withApart(nodes []fwk.NodeInfo, todo []int) []int {
	for i, n := range nodes {
		if n != nil && keepsOff(n) {
			todo = append(todo, i)
		}
	}
	slices.Sort(todo)
	return slices.Compact(todo)
}

// forget makes room for new answers. An answer that does not come, since the caller has
// no more time, is none.
func (t *template) forget(todo []int, beside map[int]string) {
	for _, i := range todo {
		t.generation[i], t.slots[i], t.why[i] = 0, 0, nil
	}
	t.beside = beside
}

// counts returns the answers. Slots are copied: the next question changes them.
func (t *template) counts(nodes []fwk.NodeInfo) Counts {
	c := Counts{Slots: slices.Clone(t.slots), why: t.why, nodes: nodes}
	for i, n := range nodes {
		if n == nil {
			c.Slots[i] = 0
		}
	}
	return c
}

// Key tells apart who is counted on a node.
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

// mostReasons bounds them: some Filters name the node in what they say.
const mostReasons = 4096

func (r *reasons) intern(list []string) *Reasons {
	if len(list) == 0 {
		return nil
	}
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	return r.known.Share(strings.Join(list, "\n"), &Reasons{list}, mostReasons)
}
