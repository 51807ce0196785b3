// Package eligible says which running pods may be victims, and which of them are evicted together. It reads the
// gang book and the pods; it evicts nothing and looks for no node.
package eligible

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Gang is a running gang, or a sub-group of one that may be evicted without the rest.
//
// Invariant: a gang that has joining members is not split.
type Gang struct {
	bundle.Gang
	Ref     gang.Ref
	Pods    []*v1.Pod          // members that run, or have a node assignment
	Joining map[types.UID]bool // of Pods, by UID: members at Permit that may be requeued while the rest runs on
	Min     int                // how many members the gang needs
}

// Members returns the members of a gang that run or have a node assignment, and how many of them it needs.
// cache.Cache.Placed is one.
type Members func(gang.Ref) (pods []*v1.Pod, least int)

// Gangs returns the gangs of a gang group as victims: whole, or split into their sub-groups.
func Gangs(c *cache.Cache, group []gang.Ref, members Members) (gangs []Gang) {
	for _, ref := range group {
		gangs = append(gangs, NewGang(c, ref, members).split(c)...)
	}
	return gangs
}

// NewGang returns a gang that is not split.
func NewGang(c *cache.Cache, ref gang.Ref, members Members) Gang {
	pods, least := members(ref)
	g := Gang{Ref: ref, Pods: pods, Min: least, Joining: joining(c, ref, pods, least)}
	g.Above = c.Above(ref)
	g.Short = len(pods) < least
	running, waiting := 0, 0
	for _, pod := range pods {
		switch {
		case g.Joining[pod.UID]:
		case pod.Spec.NodeName != "":
			running++
		default:
			waiting++
		}
	}
	g.Spare = bundle.Spare(running, waiting, least)
	return g
}

// joining returns the members of a started gang that wait at Permit to join the running ones: they may be requeued,
// and do not count as members that the gang can spare.
func joining(c *cache.Cache, ref gang.Ref, pods []*v1.Pod, least int) map[types.UID]bool {
	if !c.Started(ref) {
		return nil // the running members are what is left of its start
	}
	waiting := map[types.UID]bool{}
	for _, pod := range pods {
		if !c.Bound(pod) {
			waiting[pod.UID] = true
		}
	}
	running := len(pods) - len(waiting)
	if len(waiting) == 0 || running == 0 || running >= least && c.SubGroups(ref, pods) != nil { // they may complete a sub-group
		return nil
	}
	return waiting
}

// split returns the sub-groups of a gang that can spare some of them; else the gang.
func (g Gang) split(c *cache.Cache) []Gang {
	if g.Spare == 0 {
		return []Gang{g}
	}
	subGroups := c.SubGroups(g.Ref, g.Pods)
	if subGroups == nil || len(g.Joining) > 0 {
		return []Gang{g}
	}
	counts := make([]bundle.SubGroup, len(subGroups))
	for i, s := range subGroups {
		counts[i] = bundle.SubGroup{Policy: s.Policy, Size: s.Size, Least: s.Least, Members: len(s.Pods)}
	}
	parts, single := bundle.Split(g.Ref.ID(), counts, g.Spare)
	if parts == nil {
		g.Spare = single
		return []Gang{g}
	}
	gangs := make([]Gang, len(parts))
	for i, part := range parts {
		gangs[i] = Gang{Gang: part, Ref: subGroups[i].Part, Pods: subGroups[i].Pods}
	}
	return gangs
}

// IsPart returns whether a gang is a sub-group of one.
func (g Gang) IsPart() bool { return g.Ref != g.Ref.Whole() }

// without returns the gang without some evicted members, as bundle sees it, and how many members it loses. Members may have changed since
// the victims were chosen: a gang with too few members is lost.
func (g Gang) without(evicted map[types.UID]bool) (left bundle.Gang, lost int) {
	left = bundle.Gang{Group: 1, Above: g.Above, Spare: g.Spare, Short: g.Short}
	stay, running := 0, 0
	for _, pod := range g.Pods {
		switch joins := g.Joining[pod.UID]; {
		case !evicted[pod.UID]:
			stay++
			if !joins {
				running++
			}
		case !joins:
			lost++
		}
	}
	if g.IsPart() {
		return left, lost
	}
	left.Short = stay < g.Min
	left.Spare = 0 // lost is 1 or 0 below
	switch {
	case lost > 0 && (g.Spare == 0 || running < g.Min), lost == 0 && len(g.Joining) == 0 && len(evicted) > 0 && left.Short:
		return left, 1
	}
	return left, 0
}

// WholeBundles returns the bundles of gangs of a group that are evicted whole with some of their members, by their refs.
// evicted is by gang.
func WholeBundles(gangs []Gang, evicted map[gang.Ref]map[types.UID]bool) (bundles [][]gang.Ref) {
	left := make([]bundle.Gang, len(gangs))
	lost := make([]int, len(gangs))
	for i, g := range gangs {
		left[i], lost[i] = g.without(evicted[g.Ref])
	}
	for _, indexes := range bundle.SeparateBundles(left, bundle.Evicted(left, lost)) {
		var refs []gang.Ref
		for _, i := range indexes {
			refs = append(refs, gangs[i].Ref)
		}
		bundles = append(bundles, refs)
	}
	return bundles
}

// Bundles are the gangs that are evicted whole with some victims.
type Bundles struct {
	// Of is the bundle of each victim in a bundle of several pods, by UID. A bundle is named by its first gang.
	Of map[types.UID]gang.Ref
	// Gangs are the gangs and sub-groups that are evicted whole, and the bundle of each.
	Gangs map[gang.Ref]gang.Ref
}

// BundlesOf returns the bundles of some victims. Terminating pods are no victims any more.
func BundlesOf(c *cache.Cache, victims []*v1.Pod) Bundles {
	evicted := map[gang.Ref]map[types.UID]bool{}
	for _, pod := range victims {
		if ref := source.GangOf(pod); !ref.IsZero() && pod.DeletionTimestamp == nil {
			note(evicted, ref, pod)
		}
	}
	b := Bundles{Of: map[types.UID]gang.Ref{}, Gangs: map[gang.Ref]gang.Ref{}}
	seen := map[gang.Ref]bool{} // groups, by their first gang
	for _, ref := range slices.Collect(maps.Keys(evicted)) {
		group := c.Together(ref)
		if seen[group[0]] {
			continue
		}
		seen[group[0]] = true
		gangs := Gangs(c, group, c.Placed)
		for _, g := range gangs {
			for _, pod := range g.Pods {
				if whole := evicted[g.Ref.Whole()]; g.IsPart() && whole[pod.UID] {
					note(evicted, g.Ref, pod)
					delete(whole, pod.UID)
				}
			}
		}
		for _, refs := range WholeBundles(gangs, evicted) {
			for _, ref := range refs {
				b.Gangs[ref] = refs[0]
				for uid := range evicted[ref] {
					b.Of[uid] = refs[0]
				}
			}
		}
	}
	return b
}

func note(evicted map[gang.Ref]map[types.UID]bool, ref gang.Ref, pod *v1.Pod) {
	if evicted[ref] == nil {
		evicted[ref] = map[types.UID]bool{}
	}
	evicted[ref][pod.UID] = true
}

// WithBundles returns pods with all running pods of their bundles, and the gangs that are evicted whole, by name.
func WithBundles(c *cache.Cache, pods []*v1.Pod) (all []*v1.Pod, whole []gang.Ref) {
	b := BundlesOf(c, pods)
	all = slices.Clone(pods)
	listed := UIDs([][]*v1.Pod{pods})
	for _, ref := range SortedRefs(b.Gangs) {
		ref = ref.Whole()
		if slices.Contains(whole, ref) {
			continue
		}
		runs := false
		for _, g := range Gangs(c, []gang.Ref{ref}, c.Placed) {
			if _, evicted := b.Gangs[g.Ref]; !evicted {
				runs = true
				continue
			}
			for _, pod := range g.Pods {
				if pod.Spec.NodeName != "" && !listed[pod.UID] {
					listed[pod.UID], all = true, append(all, pod)
				}
			}
		}
		if !runs {
			whole = append(whole, ref)
		}
	}
	return all, whole
}

// SortedRefs returns the keys of a map by name.
func SortedRefs[V any](byRef map[gang.Ref]V) []gang.Ref {
	return slices.SortedFunc(maps.Keys(byRef), func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) })
}
