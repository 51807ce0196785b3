package quota

import (
	"maps"
	"slices"
)

// Without returns a copy of the book without some pods, as if they had terminated, for a search for victims. Invariant: neither book
// changes while the copy is in use. Parts of unaffected gangs are shared, so that few pods cost little.
func (b *Book) Without(pods ...string) *Book {
	reduced := *b
	reduced.gangs = maps.Clone(b.gangs)
	reduced.passedOver = maps.Clone(b.passedOver)
	reduced.groups = maps.Clone(b.groups)
	reduced.holds, reduced.removed = maps.Clone(b.holds), maps.Clone(b.removed)
	if reduced.removed == nil {
		reduced.removed = map[string]bool{}
	}
	reduced.class = &classes{&reduced, maps.Clone(b.class.byQuota)}
	reduced.accounts = slices.Clone(b.accounts)
	for i := range reduced.accounts {
		a := &reduced.accounts[i]
		a.parts = slices.Clone(a.parts)
		for _, v := range []*vector{&a.used, &a.reserved, &a.fixed, &a.requested, &a.request, &a.idle, &a.fairShare} {
			*v = slices.Clone(*v)
		}
	}
	own := map[string]bool{}
	for _, name := range pods {
		p := reduced.pods[name]
		if p == nil || reduced.removed[name] {
			continue
		}
		if !own[p.Gang] {
			own[p.Gang] = true
			reduced.unshare(p.Gang)
		}
		reduced.removed[name] = true
		reduced.removeEmpty(reduced.count(p, -1))
	}
	return &reduced
}

// unshare replaces the record of a gang and its parts by copies that b may change.
func (b *Book) unshare(name string) {
	shared := b.gangs[name]
	if shared == nil {
		return
	}
	g := *shared
	g.pods, g.parts = maps.Clone(shared.pods), slices.Clone(shared.parts)
	b.gangs[name] = &g
	b.class.forget(shared)
	for at, p := range shared.parts {
		copied := *p
		copied.gang = &g
		copied.waiting, copied.reserved = slices.Clone(p.waiting), slices.Clone(p.reserved)
		copied.bound, copied.fixed = slices.Clone(p.bound), slices.Clone(p.fixed)
		g.parts[at] = &copied
		parts := b.accounts[p.node].parts
		parts[slices.Index(parts, p)] = &copied
	}
}
