package topology

// The names of nodes are found by their hashes, in a table of at least twice as many slots as there are nodes: each
// holds the index of a node and one more, 0 if it is empty, and a name is in the first slot after its own that was empty.
// A map would have to be written anew for all the nodes behind one that came; this is filled from the hashes, which are
// kept, without a look at any name.

// fill makes the table.
func (t *Tree) fill() {
	size := 4
	for size < 2*len(t.nodes) {
		size *= 2
	}
	t.slots = make([]int32, size)
	mask := uint32(size - 1)
	for i, h := range t.hashes {
		at := h & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = int32(i + 1)
	}
}

// NodeIndex returns the index of a node by name.
func (t *Tree) NodeIndex(name string) (int, bool) {
	h, mask := hash(name), uint32(len(t.slots)-1)
	for at := h & mask; t.slots[at] != 0; at = (at + 1) & mask {
		if i := int(t.slots[at] - 1); t.hashes[i] == h && t.NodeName(i) == name {
			return i, true
		}
	}
	return 0, false
}

// hash is the same in every process: eight bytes at a time are mixed in, and at last those that are left and how many.
func hash(s string) uint32 {
	h := uint64(len(s))
	for ; len(s) >= 8; s = s[8:] {
		h = mix(h ^ (uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56))
	}
	var rest uint64
	for i := range len(s) {
		rest = rest<<8 | uint64(s[i])
	}
	return uint32(mix(h ^ rest))
}

// mix spreads each bit over all.
func mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio
	return h ^ h>>32
}
