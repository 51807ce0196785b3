package plan

import (
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// This file is for members that cost nothing where no preference decides: rules 4 and 8 are
// then arithmetic on sizes, and only what is looked at takes time.

// plain says whether the members of d touch the fewest domains below if the largest
// come first: nothing below is charged, or only the children are, each as dear as any
// other.
func (s *Search) plain(d topology.ID) bool {
	below := s.lowest() - s.tree.Layer(d) // how far the last preference is
	return s.charges == nil && (below <= 0 || below == 1 && s.perDomain && s.boundIn(d) == 0)
}

// largeEnough is candidates for members that cost nothing, where only sizes are looked at:
// the deepest of them, and where no preference compares those, the
// one that comes first by the rules that look at domains.
func (s *Search) largeEnough(n offer.Slots) (out []topology.ID) {
	layer := -1
	for _, root := range s.roots {
		for d := root; d < s.tree.End(root); d++ {
			l := s.tree.Layer(d)
			if s.size[d] < n || l < layer || !s.holdsBound(d) {
				continue
			}
			switch {
			case l > layer:
				layer, out = l, append(out[:0], d)
			case l < s.lowest():
				out = append(out, d)
			case s.compareDomains(d, out[0]) < 0:
				out[0] = d
			}
		}
	}
	return out
}

// spread is fill for a plain domain: the largest child is filled first, until one is
// large enough for the rest; of those that are, the first of the smallest.
func (s *Search) spread(d topology.ID, n offer.Slots) {
	if lo, _ := s.tree.Nodes(d); s.tree.IsNode(d) {
		s.places = append(s.places, Place{Node: lo, Count: n})
		return
	}
	kids := newHeap(s.children(d), s.size)
	for ; n > s.size[kids.first()]; kids.drop() {
		k := kids.first()
		s.spread(k, s.size[k])
		n -= s.size[k]
	}
	s.spread(kids.smallest(n), n)
}

// heap has the largest of some domains at hand, of equals the first by name: few of
// many are asked for, so sorting them would be a waste.
type heap struct {
	domains []topology.ID // domains[i] comes before domains[2i+1] and domains[2i+2]
	size    []offer.Slots // by ID
}

func newHeap(domains []topology.ID, size []offer.Slots) heap {
	h := heap{domains, size}
	for i := len(domains)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
	return h
}

func (h *heap) before(a, b topology.ID) bool {
	return h.size[a] > h.size[b] || h.size[a] == h.size[b] && a < b
}

// sink moves a domain down to where it belongs.
func (h *heap) sink(i int) {
	d := h.domains
	for k := 2*i + 1; k < len(d); k = 2*i + 1 {
		if k+1 < len(d) && h.before(d[k+1], d[k]) {
			k++
		}
		if h.before(d[i], d[k]) {
			return
		}
		d[i], d[k] = d[k], d[i]
		i = k
	}
}

func (h *heap) first() topology.ID { return h.domains[0] }

// drop forgets the first.
func (h *heap) drop() {
	last := len(h.domains) - 1
	h.domains[0] = h.domains[last]
	h.domains = h.domains[:last]
	h.sink(0)
}

// smallest returns the smallest domain that is large enough for n, of equals the first
// by name. The first must be large enough.
func (h *heap) smallest(n offer.Slots) topology.ID {
	best := h.first()
	for _, d := range h.domains {
		size := h.size[d]
		if size >= n && (size < h.size[best] || size == h.size[best] && d < best) {
			best = d
		}
	}
	return best
}
