package topology

// fillTable fills the hash table of node names, with linear probing and at least twice as many slots as nodes.
// Each slot holds a node index plus 1; 0 is empty. Filling reads only the stored hashes, which is cheaper than updating a map.
func (t *Tree) fillTable() {
	size := 4
	for size < 2*len(t.nodes) {
		size *= 2
	}
	t.slots = make([]int32, size)
	mask := uint32(size - 1)
	for i, h := range t.hashes {
		slot := h & mask
		for t.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.slots[slot] = int32(i + 1)
	}
}

// NodeIndex returns the index of the node with that name; false if there is none.
func (t *Tree) NodeIndex(name string) (int, bool) {
	h, mask := hash(name), uint32(len(t.slots)-1)
	for slot := h & mask; t.slots[slot] != 0; slot = (slot + 1) & mask {
		if i := int(t.slots[slot] - 1); t.hashes[i] == h && t.NodeName(i) == name {
			return i, true
		}
	}
	return 0, false
}

// hash returns a hash of s that is equal in every process. It mixes eight bytes at a time, then the rest and the length.
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

// mix returns h with each bit spread over all bits.
func mix(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio
	return h ^ h>>32
}
