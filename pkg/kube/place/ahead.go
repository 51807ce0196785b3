package place

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// withAhead is a group with those who stand in for members that are still to be made. As long as
// nobody of a gang is placed all of them are needed: the first must not go where the others find no
// room. Later they are wanted, after those who exist.
func withAhead(group *cache.Group) *cache.Group {
	if len(group.Led) == 0 {
		return group
	}
	all := *group
	all.Pending = slices.Concat(group.Pending, group.Ahead)
	all.Gangs = slices.Clone(group.Gangs)
	for i := range all.Gangs {
		g := &all.Gangs[i]
		of := func(m gang.Member) bool { return m.Gang == g.Ref }
		if g.Need == 0 || !slices.Contains(group.Led, g.Ref) || slices.ContainsFunc(group.Bound, of) {
			continue
		}
		g.Need = 0
		for _, m := range all.Pending {
			if of(m) {
				g.Need++
			}
		}
	}
	return &all
}

// Split tells places of members that exist from those of members that are still to be made.
func (a *Attempt) Split(places []gang.Place) (own, ahead []gang.Place) {
	if len(a.Group.Ahead) == 0 {
		return places, nil
	}
	standIn := make(map[string]bool, len(a.Group.Ahead))
	for _, m := range a.Group.Ahead {
		standIn[m.Pod] = true
	}
	for _, at := range places {
		if standIn[at.Pod] {
			ahead = append(ahead, at)
		} else {
			own = append(own, at)
		}
	}
	return own, ahead
}
