package place

import (
	"slices"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// withStandIns returns the group with stand-ins for members not yet created as further pending members.
// A gang without running members then needs all its members: otherwise the first ones could be placed where the others find no capacity.
// For a gang with running members the stand-ins are optional.
func withStandIns(group *cache.Group) *cache.Group {
	if len(group.LeaderFirst) == 0 {
		return group
	}
	all := *group
	all.Pending = slices.Concat(group.Pending, group.Future)
	all.Gangs = slices.Clone(group.Gangs)
	for i := range all.Gangs {
		g := &all.Gangs[i]
		inGang := func(m gang.Member) bool { return m.Gang == g.Ref }
		if g.Need == 0 || !slices.Contains(group.LeaderFirst, g.Ref) || slices.ContainsFunc(group.Bound, inGang) {
			continue
		}
		g.Need = 0
		for _, m := range all.Pending {
			if inGang(m) {
				g.Need++
			}
		}
	}
	return &all
}

// Split returns the assignments of existing members (own) and of members not yet created (ahead).
func (a *Attempt) Split(places []gang.Assignment) (own, ahead []gang.Assignment) {
	if len(a.Group.Future) == 0 {
		return places, nil
	}
	standIn := make(map[string]bool, len(a.Group.Future))
	for _, m := range a.Group.Future {
		standIn[m.Pod] = true
	}
	for _, place := range places {
		if standIn[place.Pod] {
			ahead = append(ahead, place)
		} else {
			own = append(own, place)
		}
	}
	return own, ahead
}
