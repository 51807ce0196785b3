// Package eligible decides which running pods may be victims, and which of them are evicted together. It reads the
// gang book and the pods; it evicts no pods and searches no nodes.
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

// Gang is a running gang as a victim, or a sub-group of a gang that may be evicted without the rest of the gang.
//
// Invariant: a gang with joining members is not split into sub-groups.
type Gang struct {
	bundle.Gang
	Ref     gang.Ref
	Pods    []*v1.Pod          // members that run, or have a node assignment
	Joining map[types.UID]bool // by UID, members at Permit that may be requeued while the others run on
	Min     int                // how many members the gang needs
}

// Members is a function that returns the members of a gang that run or have a node assignment, and its minMember. cache.Cache.Placed is
// one.
type Members func(gang.Ref) (pods []*v1.Pod, minMember int)

// Gangs returns the gangs of a gang group as victims: each one whole, or split into its sub-groups if it can spare some of them.
func Gangs(c *cache.Cache, group []gang.Ref, members Members) (gangs []Gang) {
	for _, ref := range group {
		gangs = append(gangs, NewGang(c, ref, members).split(c)...)
	}
	return gangs
}

// NewGang returns a gang as a victim, not split into sub-groups.
func NewGang(c *cache.Cache, ref gang.Ref, members Members) Gang {
	pods, minMember := members(ref)
	g := Gang{Ref: ref, Pods: pods, Min: minMember, Joining: joiningMembers(c, ref, pods, minMember)}
	g.Above = c.Above(ref)
	g.Short = len(pods) < minMember
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
	g.Spare = bundle.Spare(running, waiting, minMember)
	return g
}

// joiningMembers returns the members of a started gang that wait at Permit to join the running ones. They may be requeued, and are not
// counted as members that the gang can spare. It returns nil if there are none, or if they may complete a sub-group.
func joiningMembers(c *cache.Cache, ref gang.Ref, pods []*v1.Pod, minMember int) map[types.UID]bool {
	if !c.Started(ref) {
		return nil // the members at Permit are part of the gang's start
	}
	waiting := map[types.UID]bool{}
	for _, pod := range pods {
		if !c.Bound(pod) {
			waiting[pod.UID] = true
		}
	}
	running := len(pods) - len(waiting)
	if len(waiting) == 0 || running == 0 || running >= minMember && c.SubGroups(ref, pods) != nil { // they may complete a sub-group
		return nil
	}
	return waiting
}

// split returns the sub-groups of a gang, if the gang can spare whole sub-groups. Otherwise it returns the gang itself. Spare then counts
// the members that the gang can spare one by one. A gang with joining members is not split.
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
	parts, spare := bundle.Split(g.Ref.ID(), counts, g.Spare)
	if parts == nil {
		g.Spare = spare
		return []Gang{g}
	}
	gangs := make([]Gang, len(parts))
	for i, part := range parts {
		gangs[i] = Gang{Gang: part, Ref: subGroups[i].Part, Pods: subGroups[i].Pods}
	}
	return gangs
}

// IsPart returns whether g is a sub-group of a gang.
func (g Gang) IsPart() bool { return g.Ref != g.Ref.Whole() }

// withoutMembers returns the gang for package bundle after the eviction of some members, and a number of lost members. For a whole gang
// lost is 1 if the gang must be evicted whole, else 0. Members may have changed since the victims were chosen.
func (g Gang) withoutMembers(evicted map[types.UID]bool) (rest bundle.Gang, lost int) {
	rest = bundle.Gang{Group: 1, Above: g.Above, Spare: g.Spare, Short: g.Short}
	members, running := 0, 0
	for _, pod := range g.Pods {
		switch isJoining := g.Joining[pod.UID]; {
		case !evicted[pod.UID]:
			members++
			if !isJoining {
				running++
			}
		case !isJoining:
			lost++
		}
	}
	if g.IsPart() {
		return rest, lost
	}
	rest.Short = members < g.Min
	rest.Spare = 0 // lost is 1 or 0 below
	switch {
	case lost > 0 && (g.Spare == 0 || running < g.Min), lost == 0 && len(g.Joining) == 0 && len(evicted) > 0 && rest.Short:
		return rest, 1
	}
	return rest, 0
}

// WholeBundles returns the bundles of gangs of a group that must be evicted whole if the members in evicted are. evicted has the UIDs by
// gang.
func WholeBundles(gangs []Gang, evicted map[gang.Ref]map[types.UID]bool) (bundles [][]gang.Ref) {
	rest := make([]bundle.Gang, len(gangs))
	lost := make([]int, len(gangs))
	for i, g := range gangs {
		rest[i], lost[i] = g.withoutMembers(evicted[g.Ref])
	}
	for _, indexes := range bundle.SeparateBundles(rest, bundle.Evicted(rest, lost)) {
		var refs []gang.Ref
		for _, i := range indexes {
			refs = append(refs, gangs[i].Ref)
		}
		bundles = append(bundles, refs)
	}
	return bundles
}

// Bundles are the gangs that must be evicted whole because of some victims.
type Bundles struct {
	// Of is the bundle of each victim in such a gang, by UID. A bundle is named by its first gang.
	Of map[types.UID]gang.Ref
	// Gangs are the gangs and sub-groups that are evicted whole, and the bundle of each.
	Gangs map[gang.Ref]gang.Ref
}

// BundlesOf returns the bundles of some victims. It ignores pods that terminate already.
func BundlesOf(c *cache.Cache, victims []*v1.Pod) Bundles {
	evicted := map[gang.Ref]map[types.UID]bool{}
	for _, pod := range victims {
		if ref := source.GangOf(pod); !ref.IsZero() && pod.DeletionTimestamp == nil {
			addEvicted(evicted, ref, pod)
		}
	}
	b := Bundles{Of: map[types.UID]gang.Ref{}, Gangs: map[gang.Ref]gang.Ref{}}
	visitedGroups := map[gang.Ref]bool{} // groups, by their first gang
	for _, ref := range slices.Collect(maps.Keys(evicted)) {
		group := c.Together(ref)
		if visitedGroups[group[0]] {
			continue
		}
		visitedGroups[group[0]] = true
		gangs := Gangs(c, group, c.Placed)
		for _, g := range gangs {
			for _, pod := range g.Pods {
				if gangVictims := evicted[g.Ref.Whole()]; g.IsPart() && gangVictims[pod.UID] {
					addEvicted(evicted, g.Ref, pod)
					delete(gangVictims, pod.UID)
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

func addEvicted(evicted map[gang.Ref]map[types.UID]bool, ref gang.Ref, pod *v1.Pod) {
	if evicted[ref] == nil {
		evicted[ref] = map[types.UID]bool{}
	}
	evicted[ref][pod.UID] = true
}

// WithBundles returns pods and all other bound pods of their bundles, and the gangs that are evicted whole, sorted by name.
func WithBundles(c *cache.Cache, pods []*v1.Pod) (victims []*v1.Pod, wholeGangs []gang.Ref) {
	b := BundlesOf(c, pods)
	victims = slices.Clone(pods)
	victimUIDs := UIDs([][]*v1.Pod{pods})
	for _, ref := range SortedRefs(b.Gangs) {
		ref = ref.Whole()
		if slices.Contains(wholeGangs, ref) {
			continue
		}
		survives := false
		for _, g := range Gangs(c, []gang.Ref{ref}, c.Placed) {
			if _, evicted := b.Gangs[g.Ref]; !evicted {
				survives = true
				continue
			}
			for _, pod := range g.Pods {
				if pod.Spec.NodeName != "" && !victimUIDs[pod.UID] {
					victimUIDs[pod.UID], victims = true, append(victims, pod)
				}
			}
		}
		if !survives {
			wholeGangs = append(wholeGangs, ref)
		}
	}
	return victims, wholeGangs
}

// SortedRefs returns the keys of a map, sorted by name.
func SortedRefs[V any](byRef map[gang.Ref]V) []gang.Ref {
	return slices.SortedFunc(maps.Keys(byRef), func(a, b gang.Ref) int { return a.Compare(b, topology.CompareNames) })
}
