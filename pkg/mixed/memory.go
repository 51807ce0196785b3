package mixed

// memory is a trial that asks another one nothing twice: the same members on the same
// nodes are met on many ways. Members are put on the other trial only when it is asked.
type memory struct {
	trial   Trial
	there   []seen // who is on the other trial
	puts    []seen // who is to be
	set     set    // of puts
	answers map[question]bool
}

// seen is a member of a kind on a node.
type seen struct{ kind, node int }

type question struct {
	set set
	seen
}

// set is the same for equal sets of members on nodes, in whatever order they came, and
// as good as never for others.
type set uint64

func (s set) with(what, node int) set { return s + scramble(what, node) }

func (s set) without(what, node int) set { return s - scramble(what, node) }

// scramble is the finalizer of splitmix64.
func scramble(what, node int) set {
	x := (uint64(what)<<32 + uint64(node) + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return set(x ^ x>>31)
}

func newMemory(s Trial) *memory { return &memory{trial: s, answers: map[question]bool{}} }

// knows says whether the answer is known.
func (m *memory) knows(kind, node int) bool {
	_, ok := m.answers[question{m.set, seen{kind, node}}]
	return ok
}

func (m *memory) Fits(kind, node int) bool {
	q := question{m.set, seen{kind, node}}
	fits, ok := m.answers[q]
	if !ok {
		m.catchUp()
		fits = m.trial.Fits(kind, node)
		m.answers[q] = fits
	}
	return fits
}

// catchUp puts on the other trial who is to be there, and nobody else.
func (m *memory) catchUp() {
	same := 0
	for same < min(len(m.there), len(m.puts)) && m.there[same] == m.puts[same] {
		same++
	}
	for range m.there[same:] {
		m.trial.Undo()
	}
	for _, p := range m.puts[same:] {
		m.trial.Put(p.kind, p.node)
	}
	m.there = append(m.there[:same], m.puts[same:]...)
}

func (m *memory) Put(kind, node int) {
	m.puts = append(m.puts, seen{kind, node})
	m.set = m.set.with(kind, node)
}

func (m *memory) Undo() {
	last := m.puts[len(m.puts)-1]
	m.puts = m.puts[:len(m.puts)-1]
	m.set = m.set.without(last.kind, last.node)
}
