package mixed

// memory is a Trial that caches the answers of another Trial. It changes the placements of the other trial only before it calls its Fits.
type memory struct {
	trial   Trial
	placed  []placement   // members placed on the other trial now
	puts    []placement   // members placed on this trial
	hash    placementHash // of puts
	answers map[fitsCall]bool
}

// placement is a member of a kind on a node.
type placement struct{ kind, node int }

// fitsCall is the key of a cached answer of Fits.
type fitsCall struct {
	puts placementHash // members placed before the call
	placement
}

// placementHash is a hash of placements (of kinds or of classes), independent of their order. Collisions are negligible.
type placementHash uint64

func (s placementHash) with(kind, node int) placementHash { return s + scramble(kind, node) }

func (s placementHash) without(kind, node int) placementHash { return s - scramble(kind, node) }

// scramble returns a hash of one placement. It is the finalizer of splitmix64.
func scramble(kind, node int) placementHash {
	x := (uint64(kind)<<32 + uint64(node) + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return placementHash(x ^ x>>31)
}

// knows returns whether the answer of Fits after the current puts is cached.
func (m *memory) knows(kind, node int) bool {
	_, ok := m.answers[fitsCall{m.hash, placement{kind, node}}]
	return ok
}

// Fits returns the cached answer, or the answer of the other trial, which it caches.
func (m *memory) Fits(kind, node int) bool {
	q := fitsCall{m.hash, placement{kind, node}}
	fits, ok := m.answers[q]
	if !ok {
		m.catchUp()
		fits = m.trial.Fits(kind, node)
		m.answers[q] = fits
	}
	return fits
}

// catchUp changes the other trial so that its placements equal puts, in the same order.
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

// Put records a placement. The other trial is changed later, by catchUp.
func (m *memory) Put(kind, node int) {
	m.puts = append(m.puts, placement{kind, node})
	m.hash = m.hash.with(kind, node)
}

func (m *memory) Undo() {
	last := m.puts[len(m.puts)-1]
	m.puts = m.puts[:len(m.puts)-1]
	m.hash = m.hash.without(last.kind, last.node)
}
