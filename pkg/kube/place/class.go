package place

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Class returns a key for what a counted group requests. Groups with equal keys have the same result on the same cluster.
// "" means that the group is unique: members run or have a reservation, nodes are excluded or limited, or the group is starving.
func (a *Attempt) Class() string {
	g := a.Group
	if !a.counted || a.partial() || g.Starving || len(g.Bound)+len(g.Places)+g.Held > 0 {
		return ""
	}
	var b strings.Builder
	a.writeRequest(&b)
	return b.String()
}

// RequestKey returns a key for all that decides whether an eviction helps the group, except nodes, pods beside the snapshot and running
// gangs. It returns "" if there is no such key: a Filter depends on other nodes, or nodes are excluded, reserved or limited.
func (a *Attempt) RequestKey() string {
	g := a.Group
	if !a.counted || a.partial() || g.Held+len(g.Places) > 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range a.kinds {
		if !k.counter.Local() {
			return ""
		}
		if k.counter.Key() == "" { // pods keep other pods off their nodes, by labels
			fmt.Fprintln(&b, a.namespaceOf(k.pod))
		}
	}
	fmt.Fprintln(&b, a.Net.Tree.LayerNames())
	a.writeRequest(&b)
	if len(g.Bound) > 0 {
		fmt.Fprintln(&b, g.Key)
	}
	for _, m := range g.Bound {
		fmt.Fprintln(&b, m.Gang, m.Node)
	}
	return b.String()
}

// partial returns whether the group may not use all free capacity: nodes are excluded, reserved or limited.
func (a *Attempt) partial() bool { return a.excluded || len(a.reservedFor) > 0 || a.Limited() }

// namespaceOf returns the labels of a pod's namespace.
func (a *Attempt) namespaceOf(pod *v1.Pod) map[string]string {
	ns, err := a.profile.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(pod.Namespace)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// writeRequest writes the part that the keys of groups share: the profile, the lowest priority, the topology constraints, the pod
// templates, the need of each gang, and the pending members in order. It names no pods or gangs, so that equal groups have equal keys.
func (a *Attempt) writeRequest(b *strings.Builder) {
	g := a.Group
	fmt.Fprintln(b, a.profile.ProfileName(), a.planner.cache.Priority(a.Lowest()), a.All, a.Sets)
	if a.maintained.announced { // for how long decides which nodes are open
		fmt.Fprintln(b, a.maintained.run)
	}
	for _, k := range a.kinds {
		key := k.counter.Key()
		if key == "" {
			key = convert.Template(k.pod)
		}
		fmt.Fprintln(b, key)
	}
	gangs := map[gang.Ref]int{}
	for i, entry := range g.Gangs {
		gangs[entry.Ref] = i
		fmt.Fprint(b, entry.Need, " ")
	}
	if g.Choice.Any() {
		levels := map[string]int{} // index by name
		for _, entry := range g.Choice.Gangs {
			fmt.Fprint(b, entry.Open, entry.Total)
			for _, l := range entry.Above {
				if _, ok := levels[l.Name]; !ok {
					levels[l.Name] = len(levels)
				}
				fmt.Fprint(b, "/", levels[l.Name], "≥", l.Least)
			}
			b.WriteByte(' ')
		}
		fmt.Fprintln(b, g.Choice.Totals)
	}
	for i := 0; i < len(g.Pending); { // runs of equal members
		gangOf, kindOf, neverPreempts := a.memberKey(gangs, g.Pending[i])
		n := 1
		for ; i+n < len(g.Pending); n++ {
			if o, k, v := a.memberKey(gangs, g.Pending[i+n]); o != gangOf || k != kindOf || v != neverPreempts {
				break
			}
		}
		fmt.Fprint(b, gangOf, ":", kindOf, "×", n)
		if neverPreempts {
			b.WriteString(" never preempts")
		}
		b.WriteByte(' ')
		i += n
	}
}

// memberKey returns all that distinguishes a member from others in a request: the index of its gang, its kind, and whether it preempts.
func (a *Attempt) memberKey(gangs map[gang.Ref]int, m gang.Member) (gangIndex, kind int, neverPreempts bool) {
	return gangs[m.Gang], a.kindOf[m.Pod], a.Group.NeverPreempts(m)
}
