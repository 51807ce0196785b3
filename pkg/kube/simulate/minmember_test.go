package simulate

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// finishedOf returns the finished members of a gang that count for it. When all members with a node have
// finished and further members wait, the gang is a new run: succeeded members count, unless they are as many
// as the gang needs.
func (w *world) finishedOf(name string) []*v1.Pod {
	all := w.doneOf(name)
	pending, bound := w.membersOf(name)
	if g := w.gangs[name]; g == nil || len(bound) > 0 || len(pending) == 0 {
		return all
	}
	succeeded := slices.DeleteFunc(slices.Clone(all), func(p *v1.Pod) bool { return p.Status.Phase != v1.PodSucceeded })
	if len(succeeded) == len(all) && len(all) >= w.gangs[name].min {
		return nil
	}
	return succeeded
}

// doneOf are the members of a gang that have run on a node to their end.
func (w *world) doneOf(name string) (out []*v1.Pod) {
	for _, p := range w.sorted() {
		if w.members[p.Name] == name && done(p) && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// noteReached notes which gangs have started, as objects say (spec 5.9). It is asked when
// the scheduler had time to see and to write it down.
func (w *world) noteReached() {
	for name, g := range w.gangs {
		_, bound := w.membersOf(name)
		if n := len(bound) + len(w.finishedOf(name)); n >= g.min && n > 0 {
			w.reached[name], w.unwritten[name] = true, g.forgets()
		}
	}
}

// forgetReached drops state that no object reports any more: the last member with a node is gone, or all have
// finished and new members exist. A gang of which all running members were evicted starts as a whole, whichever members had finished
// (world 865446).
func (w *world) forgetReached() {
	for name := range w.reached {
		pending, bound := w.membersOf(name)
		if len(bound) == 0 && (len(pending) > 0 || len(w.doneOf(name)) == 0 || w.evictedWhole[name]) {
			delete(w.reached, name)
		}
	}
	for name := range w.evictedWhole {
		if _, bound := w.membersOf(name); len(bound) == 0 || len(w.stay([]string{name})) > 0 {
			delete(w.evictedWhole, name)
		}
	}
}

// forgetUnwritten drops what only a process knew that has ended.
func (w *world) forgetUnwritten() {
	for name := range w.reached {
		if !w.unwritten[name] {
			continue
		}
		_, bound := w.membersOf(name)
		if g := w.gangs[name]; g == nil || len(bound)+len(w.finishedOf(name)) < g.min {
			delete(w.reached, name)
		}
	}
}

// choose returns a gang that runs: for a replacement one of the group that was chosen last,
// if it still does.
func (w *world) choose(e event) string {
	var all []string
	for _, name := range sortedKeys(w.gangs) {
		if _, bound := w.membersOf(name); len(bound) > 0 && w.declared(w.gangs[name]) {
			all = append(all, name)
		}
	}
	last := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(w.groupOf(w.chosen), name) })
	if e.kind == memberReplaced && len(last) > 0 {
		all = last
	}
	if e.kind == runningAnew {
		all = slices.DeleteFunc(all, func(name string) bool { return w.gangs[name].byPods })
	}
	if len(all) == 0 {
		return ""
	}
	w.chosen = all[e.n%len(all)]
	return w.chosen
}

// leave lets a bound member of a gang finish or be deleted, and may replace it by an equal one.
func (w *world) leave(e event) (bool, error) {
	name := w.choose(e)
	_, bound := w.membersOf(name)
	if name == "" || len(bound) == 0 {
		return false, nil
	}
	old := bound[e.n%len(bound)]
	w.stirPod(old.Name)
	spec := w.specs[old.Name]
	_, err := w.remove("Pod", old.Name, func(o runtime.Object) runtime.Object {
		out := o.(*v1.Pod).DeepCopy()
		switch e.how {
		case goneAtOnce:
			return nil
		case isLeaving:
			return terminating(o.(*v1.Pod), w.s.clock.Now())
		case hasSucceeded:
			out.Status.Phase = v1.PodSucceeded
		default:
			out.Status.Phase = v1.PodFailed
		}
		return out
	})
	if err != nil || e.kind == memberFinished {
		return true, err
	}
	if err := w.look(); err != nil {
		return true, err
	}
	w.replaced++
	next := *spec
	next.name, next.node = fmt.Sprintf("%s-again-%d", name, w.replaced), ""
	w.late[next.name] = true
	return w.putPod(&next)
}

// judgeLeaving (spec 6, case 50): if evictions bring a gang below its minMember, the whole gang is evicted,
// and all of its GangGroup.
//
// An eviction that waits for a member that is being bound goes on by itself.
func (w *world) judgeLeaving() error {
	if w.s.shared.ChecksProgress() {
		w.seen = -1
		return nil
	}
	fresh := map[types.UID]bool{}
	groups := map[string][]string{}
	for uid, p := range w.s.cluster.evictedPods() {
		if w.gone[uid] {
			continue
		}
		w.gone[uid], fresh[uid] = true, true
		if name := w.members[p.Name]; name != "" && p.Spec.NodeName != "" {
			groups[groupKey(w.groupOf(name))] = w.groupOf(name)
		}
	}
	for _, key := range sortedKeys(groups) {
		broken, staying, members := "", map[string][]string{}, 0
		for _, name := range groups[key] {
			stay, left := 0, 0
			for _, p := range w.sorted() {
				switch {
				case w.members[p.Name] != name || p.Spec.NodeName == "" || done(p):
				case fresh[p.UID]:
					left++
				case p.DeletionTimestamp == nil:
					stay++
					staying[name] = append(staying[name], p.Name)
				}
			}
			members += left
			if stay == 0 && left > 0 {
				w.evictedWhole[name] = true
			}
			if g := w.gangs[name]; g != nil && stay < g.min && stay+left >= g.min {
				broken = name
			}
		}
		if broken == "" {
			if err := w.judgeParted(groups[key], fresh); err != nil {
				return err
			}
			continue
		}
		leave := w.leavesWith(groups[key], broken)
		for _, name := range leave {
			if len(staying[name]) > 0 && len(w.unasked) == 0 && !w.chosenBefore(groups[key]) && on(leftInPart) {
				return wrong(leftInPart, "%s falls below its minMember since members of it are evicted, and of %s stay %v", broken, key, staying)
			}
			delete(w.reached, name)
		}
		if len(leave) < len(groups[key]) {
			w.counts[treesParted]++
			continue
		}
		if len(groups[key]) > 1 {
			w.counts[groupsLeft]++
		} else {
			w.counts[gangsLeft]++
		}
	}
	return nil
}

// chosenBefore reports whether members of a group may have been chosen as victims before the group was changed: their
// eviction comes late, since a request was lost. It may leave others of the group running that it would take now.
func (w *world) chosenBefore(group []string) bool {
	return slices.ContainsFunc(group, func(name string) bool { return w.stirred[name] }) &&
		slices.ContainsFunc(w.groups(), func(by []string) bool {
			places, waiting := w.placesOf(by)
			return waiting && w.delayed[groupKey(by)] == fmt.Sprint(places)
		})
}

// judgeStranger (spec 5.8): a gang that lists a gang without being listed by it waits.
func (w *world) judgeStranger(name string) error {
	g := w.gangs[name]
	for _, other := range g.groupOrNil() {
		if o := w.gangs[other]; w.declared(g) && w.declared(o) && !slices.Contains(o.group, name) && other != name {
			return wrong("stranger", "members of %s are bound, which lists %s, which does not list it", name, other)
		}
	}
	return nil
}

func (g *gangSpec) groupOrNil() []string {
	if g == nil {
		return nil
	}
	return g.group
}

// agreed says whether all that a gang lists are there and list it.
func (w *world) agreed(name string) bool {
	if g := w.gangs[name]; g != nil && g.inTree() {
		return len(w.groupOf(name)) >= g.least
	}
	return !slices.ContainsFunc(w.gangs[name].groupOrNil(), func(other string) bool {
		o := w.gangs[other]
		return other != name && (!w.declared(o) || !slices.Contains(o.group, name))
	})
}

// countWaiting counts what came of troubles in the end.
func (w *world) countWaiting() {
	for name, g := range w.gangs {
		pending, bound := w.membersOf(name)
		if name[0] == 'x' && !w.agreed(name) && len(pending) > 0 && len(bound) == 0 {
			w.counts[strangersWait]++
		}
		if name == "h" && len(bound) == 1 && g.min > 1 && !convert.Finished(bound[0]) {
			w.counts[handLeft]++
		}
	}
	w.countTrees()
	if w.foreignSeen {
		w.counts[foreignSeen]++
	}
}
