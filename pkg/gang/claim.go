package gang

import (
	"cmp"
	"time"
)

// Claims keep a large group from being overtaken for ever. A group that was refused for
// as long as Book.Starve gets one: of the places that it needs, those that are free now
// are kept for it, and more as they become free, until all are there. One group at a
// time has a claim, the first by priority, then creation. A claim that has not grown for
// three times as long ends, and its group waits for the next from the start.

// patienceOfClaims is for how many times Starve a claim may stand still.
const patienceOfClaims = 3

// claimed keeps places for the group whose turn it is.
func (b *Book) claimed(ev Claimed, now time.Time) []Effect {
	g := b.groups[ev.Group]
	if g == nil || b.claimant != ev.Group || len(g.plan) > 0 {
		return nil
	}
	before := len(g.claim)
	b.unclaimAll(g)
	g.claim = make(map[string]string, len(ev.Places))
	for _, p := range ev.Places {
		if m := b.pods[p.Pod]; m != nil && m.Node == "" && !m.assumed {
			g.claim[p.Pod] = p.Node
			b.occupy(p.Node, p.Pod)
		}
	}
	if len(g.claim) > before {
		g.grown = now
	}
	return nil
}

// unclaimAll gives the places of a claim back.
func (b *Book) unclaimAll(g *group) {
	for pod := range g.claim {
		b.unclaim(g, pod)
	}
}

func (b *Book) unclaim(g *group, pod string) {
	if node, ok := g.claim[pod]; ok {
		delete(g.claim, pod)
		b.vacate(node, pod)
	}
}

// fed ends a group's hunger: it has a plan, or nobody waits.
func (b *Book) fed(key string, g *group) {
	b.unclaimAll(g)
	g.since, g.grown, g.claim = time.Time{}, time.Time{}, nil
	if b.claimant == key {
		b.claimant = ""
	}
}

// starving ends a claim that stands still, and gives the next one.
func (b *Book) starving(now time.Time) (out []Effect) {
	if b.Starve <= 0 {
		return nil
	}
	if g := b.groups[b.claimant]; b.claimant != "" && (g == nil || !now.Before(g.grown.Add(patienceOfClaims*b.Starve))) {
		key := b.claimant
		b.claimant = ""
		if g != nil {
			b.fed(key, g)
			g.since = now // the end of the line
			out = append(out, b.report(key)...)
		}
	}
	if b.claimant != "" {
		return out
	}
	next := b.hungriest(now)
	if next == "" {
		return out
	}
	b.claimant, b.groups[next].grown = next, now
	return append(out, Effect{Verb: Wake, Pod: b.representative(next).Pod})
}

// hungry is a group that was refused for long enough to get a claim.
type hungry struct {
	key      string
	priority int32
	created  time.Time
}

// compare says which of two groups is served first: higher priority, then created first.
func (h hungry) compare(o hungry) int {
	return cmp.Or(cmp.Compare(o.priority, h.priority), h.created.Compare(o.created), cmp.Compare(h.key, o.key))
}

// hungriest is the group that gets the next claim, "" if none is due.
func (b *Book) hungriest(now time.Time) string {
	var first hungry
	for key, g := range b.groups {
		if g.since.IsZero() || now.Before(g.since.Add(b.Starve)) || len(g.plan) > 0 || b.waitsFor(key) != "" {
			continue
		}
		if b.representative(key) == nil {
			continue
		}
		if h := (hungry{key, b.priority(key), b.created(key)}); first.key == "" || h.compare(first) < 0 {
			first = h
		}
	}
	return first.key
}

// priority is the lowest of a group's pending members.
func (b *Book) priority(key string) (least int32) {
	any := false
	for _, name := range gangsOf(key) {
		g := b.gangs[name]
		if g == nil {
			continue
		}
		for _, m := range g.pending.members {
			if !any || m.Priority < least {
				any, least = true, m.Priority
			}
		}
	}
	return least
}

// created is when the first of a group's gangs was.
func (b *Book) created(key string) (first time.Time) {
	for _, name := range gangsOf(key) {
		if g := b.gangs[name]; g != nil && g.spec != nil && (first.IsZero() || g.spec.Created.Before(first)) {
			first = g.spec.Created
		}
	}
	return first
}
