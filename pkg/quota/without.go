package quota

import (
	"maps"
	"slices"
)

// Without is the book as it will be when some pods have gone, which are on their way out: for whoever searches for others to evict, as long as
// this book does not change. It is only read: what nobody of them has is shared with this book, so that it costs little where they are few.
func (b *Book) Without(pods ...string) *Book {
	is := *b
	is.gangs, is.passed, is.groups = maps.Clone(b.gangs), maps.Clone(b.passed), maps.Clone(b.groups)
	is.claims, is.away = maps.Clone(b.claims), maps.Clone(b.away)
	if is.away == nil {
		is.away = map[string]bool{}
	}
	is.class = &classes{&is, maps.Clone(b.class.of)}
	is.accounts = slices.Clone(b.accounts)
	for i := range is.accounts {
		a := &is.accounts[i]
		a.parts = slices.Clone(a.parts)
		for _, v := range []*vector{&a.used, &a.reserved, &a.fixed, &a.asked, &a.request, &a.idle, &a.entitled} {
			*v = slices.Clone(*v)
		}
	}
	own := map[string]bool{}
	for _, name := range pods {
		p := is.pods[name]
		if p == nil || is.away[name] {
			continue
		}
		if !own[p.Gang] {
			own[p.Gang] = true
			is.unshare(p.Gang)
		}
		is.away[name] = true
		is.tidy(is.count(p, -1))
	}
	return &is
}

// unshare has a book of its own what it knows of a gang.
func (b *Book) unshare(name string) {
	was := b.gangs[name]
	if was == nil {
		return
	}
	g := *was
	g.pods, g.parts = maps.Clone(was.pods), slices.Clone(was.parts)
	b.gangs[name] = &g
	b.class.forget(was)
	for at, p := range was.parts {
		of := *p
		of.gang = &g
		of.waits, of.keeps, of.hold, of.fixed = slices.Clone(p.waits), slices.Clone(p.keeps), slices.Clone(p.hold), slices.Clone(p.fixed)
		g.parts[at] = &of
		parts := b.accounts[p.node].parts
		parts[slices.Index(parts, p)] = &of
	}
}
