package mixed

// memory is a trial that asks another trial each question once. It places members there only before a question.
type memory struct {
	trial   Trial
	placed  []placement // members placed on the other trial
	puts    []placement // members to be placed there
	set     set         // hash of puts
	answers map[question]bool
}

// placement is a member of a kind on a node.
type placement struct{ kind, node int }

type question struct {
	set set
	placement
}

// set is a hash of placements, independent of their order. Collisions are negligible.
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

// knows returns whether the answer is remembered.
func (m *memory) knows(kind, node int) bool {
	_, ok := m.answers[question{m.set, placement{kind, node}}]
	return ok
}

func (m *memory) Fits(kind, node int) bool {
	q := question{m.set, placement{kind, node}}
	fits, ok := m.answers[q]
	if !ok {
		m.catchUp()
		fits = m.trial.Fits(kind, node)
		m.answers[q] = fits
	}
	return fits
}

// catchUp makes the placements of the other trial equal to puts.
func (m *memory) catchUp() {
	same := 0
	for same < min(len(m.placed), len(m.puts)) && m.placed[same] == m.puts[same] {
		same++
	}
	for range m.placed[same:] {
		m.trial.Undo()
	}
	for _, p := range m.puts[same:] {
		m.trial.Put(p.kind, p.node)
	}
	m.placed = append(m.placed[:same], m.puts[same:]...)
}

func (m *memory) Put(kind, node int) {
	m.puts = append(m.puts, placement{kind, node})
	m.set = m.set.with(kind, node)
}

func (m *memory) Undo() {
	last := m.puts[len(m.puts)-1]
	m.puts = m.puts[:len(m.puts)-1]
	m.set = m.set.without(last.kind, last.node)
}
