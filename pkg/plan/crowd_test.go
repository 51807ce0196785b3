package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/worlds"
)

// crowded says whether who waits beside the gang counts.
func (o oracle) crowded() bool {
	return len(o.Beside) > 0 && o.Must > 0 && o.Min >= o.Want && slices.Equal(o.Room, o.Free) &&
		!slices.ContainsFunc(o.Bound, func(n offer.Slots) bool { return n > 0 }) &&
		!slices.ContainsFunc(o.Multiple, func(n offer.Slots) bool { return n > 1 })
}

// holes is what is free in the domains in which gangs gather.
func (o oracle) holes(free []offer.Slots) (out []offer.Slots) {
	for d := topology.Root; int(d) < o.Tree.Len(); d++ {
		if o.Tree.Layer(d) == o.Must {
			out = append(out, worlds.Total(o.Tree, free, d))
		}
	}
	return out
}

// follow lets the others start one by one, each wherever it can, but where it just fits if there is such a place:
// of what can come of that it returns the best, members first, then who, as letters that rise.
func follow(holes, others []offer.Slots) (members offer.Slots, who string) {
	if len(others) == 0 {
		return 0, ""
	}
	n := others[0]
	ways := 0
	for i, free := range holes {
		if free < n || free > n && slices.Contains(holes, n) {
			continue
		}
		left := slices.Clone(holes)
		left[i] -= n
		m, w := follow(left, others[1:])
		if m, w = m+n, "b"+w; ways == 0 || m > members || m == members && w > who {
			members, who = m, w
		}
		ways++
	}
	if ways == 0 {
		members, who = follow(holes, others[1:])
		who = "a" + who
	}
	return members, who
}

// company leaves those ways with which most members of the others can start, and of them the first of the others;
// if there is one that leaves nothing of its domain, those with which it is as with that; and of these those that are least in
// the way of those who start nowhere.
func (o oracle) company(ways []counts) []counts {
	if o.anybody() {
		best := slices.MinFunc(ways, func(a, b counts) int {
			if o.exact(a) != o.exact(b) {
				return map[bool]int{true: -1, false: 1}[o.exact(a)]
			}
			return o.compareStarts(a, b)
		})
		ways = slices.DeleteFunc(slices.Clone(ways), func(c counts) bool { return o.compareStarts(c, best) != 0 })
	}
	return least(ways, func(a, b counts) int { return cmp.Compare(o.hinders(a), o.hinders(b)) })
}

func (o oracle) compareStarts(a, b counts) int {
	x, w := o.after(a)
	y, v := o.after(b)
	return cmp.Or(-cmp.Compare(x, y), -cmp.Compare(w, v))
}

// exact says whether a way leaves nothing of its domain.
func (o oracle) exact(c counts) bool {
	at := o.Tree.Ancestor(o.domain(c), o.Must)
	return worlds.Total(o.Tree, o.Free, at) == worlds.Total(o.Tree, c, at)
}

// anybody says whether any of the others can start.
func (o oracle) anybody() bool {
	return slices.ContainsFunc(o.Beside, func(n offer.Slots) bool { return n <= slices.Max(o.holes(o.Free)) })
}

func (o oracle) after(c counts) (offer.Slots, string) {
	free := slices.Clone(o.Free)
	for i := range free {
		free[i] -= c[i]
	}
	return follow(o.holes(free), o.Beside)
}

// hinders counts those who start nowhere and would be in this domain if nobody were there.
func (o oracle) hinders(c counts) (all int) {
	at := o.Tree.Ancestor(o.domain(c), o.Must)
	for _, n := range o.Beside {
		if n > slices.Max(o.holes(o.Free)) && worlds.Total(o.Tree, o.Bare, at) >= n {
			all++
		}
	}
	return all
}

// TestCompany: who waits beside a gang decides between domains that are equally good for it, and nothing before
// that.
func TestCompany(t *testing.T) {
	kinds := []string{"decided", "decided against binpack", "all can start", "nobody can start", "in the way", "attracted"}
	worlds.Check(t, 8000, kinds, func(t *rapid.T, y worlds.Tally) {
		w := drawLeafs(t)
		if worlds.Chance(t, 10, "any world") {
			w = drawWorld(t, worlds.Draw(t, rapid.SampledFrom([]int{4, 8, 12}).Draw(t, "most")))
		}
		w.Bare = slices.Clone(w.Free)
		for i := range w.Bare {
			w.Bare[i] += offer.Slots(rapid.IntRange(0, 2).Draw(t, "busy"))
		}
		r := drawRequest(t, w)
		r.Want = offer.Slots(rapid.IntRange(1, 2).Draw(t, "members"))
		r.Must = rapid.SampledFrom([]int{1, 2, 2, 2}).Draw(t, "layer")
		if r.Must = min(r.Must, w.Tree.Depth()); !worlds.Chance(t, 10, "elastic or in multiples") {
			r.Min, r.Multiple = r.Want, make(offer.Multiples, w.Tree.Depth()+1)
		}
		for range rapid.IntRange(0, 4).Draw(t, "others") {
			r.Beside = append(r.Beside, offer.Slots(rapid.IntRange(1, 5).Draw(t, "other")))
		}
		newOracle(w, r).compareBeside(t, y)
	})
}

// drawLeafs draws a cluster of spines and leafs of nodes that take one member or none.
func drawLeafs(t *rapid.T) plan.World {
	var nodes []topology.Node
	var free, attract []offer.Slots
	for leaf := range rapid.IntRange(3, 5).Draw(t, "leafs") {
		spine := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "spine")
		for range rapid.IntRange(1, 5).Draw(t, "nodes") {
			if len(nodes) == 11 {
				break
			}
			nodes = append(nodes, topology.Node{Name: fmt.Sprintf("n%d", len(nodes)), Path: []string{spine, fmt.Sprintf("%s%d", spine, leaf)}})
			free = append(free, offer.Slots(min(1, rapid.IntRange(0, 4).Draw(t, "free"))))
			attract = append(attract, 0)
		}
	}
	if worlds.Chance(t, 4, "attract") {
		attract[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")] = 1
	}
	w := plan.World{Tree: topology.Build([]string{"Spine", "Leaf"}, nodes), Bound: make([]offer.Slots, len(nodes))}
	w.Free, w.Attract = make([]offer.Slots, len(nodes)), make([]offer.Slots, len(nodes))
	for i, n := range nodes {
		at, _ := w.Tree.NodeIndex(n.Name)
		w.Free[at], w.Attract[at] = free[i], attract[i]
	}
	return w
}

// compareBeside compares with the twin, and with what the gang would get if it were alone.
func (o oracle) compareBeside(t *rapid.T, y worlds.Tally) {
	world := o.World
	if slices.Equal(world.Room, world.Free) {
		world.Room = nil
	}
	p, refusal := plan.Choose(world, o.Request)
	ways := o.all()
	if (refusal == nil) != (len(ways) > 0) {
		t.Fatalf("Choose says %v, the twin knows %d ways", refusal, len(ways))
	}
	if refusal != nil {
		return
	}
	domain, first := o.first(ways)
	if places := o.fill(domain, first); p.Domain != domain || !slices.Equal(p.Places, places) {
		t.Fatalf("%v in %d, the twin chose %v in %d\n%s\n%+v of %v", p.Places, p.Domain, places, domain, show(o.World, p), o.Request, o.Bare)
	}
	request := o.Request
	request.Beside = nil
	alone, _ := plan.Choose(world, request)
	j := plan.NewJudge(o.World, request)
	j.Last = plan.ByAttraction
	if rule, _ := j.Decide(alone, p); rule != "" {
		t.Fatalf("%v is worse than %v by %s\n%+v", p, alone, rule, o.Request)
	}
	if !o.crowded() {
		if p.Domain != alone.Domain {
			t.Fatalf("%v and not %v because of nobody\n%+v", p, alone, o.Request)
		}
		return
	}
	most, _ := o.after(o.countsOf(p))
	y.Count("decided", p.Domain != alone.Domain)
	y.Count("decided against binpack", worlds.Total(o.Tree, o.Free, p.Domain) > worlds.Total(o.Tree, o.Free, alone.Domain))
	y.Count("all can start", most > 0 && most == sumOf(o.Beside))
	y.Count("nobody can start", most == 0)
	y.Count("in the way", most == 0 && p.Domain != alone.Domain)
	y.Count("attracted", slices.Max(o.Attract) > 0)
}

func (o oracle) countsOf(p *plan.Plan) counts {
	c := make(counts, len(o.Free))
	for _, at := range p.Places {
		c[at.Node] = at.Count
	}
	return c
}

func sumOf(all []offer.Slots) (n offer.Slots) {
	for _, one := range all {
		n += one
	}
	return n
}
