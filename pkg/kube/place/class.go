package place

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Class says what a group asks for, once its members were counted. Of two groups of one class
// either both have a plan on a cluster, or an eviction that makes one, or neither has. "" is
// for a group like which there is no other: some of its members have places, or something is
// remembered of it.
func (a *Attempt) Class() string {
	g := a.Group
	if !a.counted || a.partly() || g.Starving || len(g.Bound)+len(g.Places)+g.Held > 0 {
		return ""
	}
	var b strings.Builder
	a.ask(&b)
	return b.String()
}

// Asks is all that decides, beside the nodes themselves, who is counted on them besides and
// which gangs run there, whether an eviction makes a plan for the group. It is "" if that
// cannot be said: the Filters look beyond the node, or something is remembered of the group
// that ends with time.
func (a *Attempt) Asks() string {
	g := a.Group
	if !a.counted || a.partly() || g.Held+len(g.Places) > 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range a.kinds {
		if !k.counter.Local() {
			return ""
		}
		if k.counter.Key() == "" { // pods keep others off their nodes, by labels
			fmt.Fprintln(&b, a.namespaceOf(k.pod))
		}
	}
	fmt.Fprintln(&b, a.Net.Tree.LayerNames())
	a.ask(&b)
	if len(g.Bound) > 0 {
		fmt.Fprintln(&b, g.Key)
	}
	for _, m := range g.Bound {
		fmt.Fprintln(&b, m.Gang, m.Node)
	}
	return b.String()
}

// partly says whether the group does not see all that nodes have room for: some are left out for it, or kept from it by a reservation that means
// its labels, or something is remembered of how many they take.
func (a *Attempt) partly() bool { return a.leftOut || len(a.kept) > 0 || a.Limited() }

// namespaceOf is the labels of a pod's namespace.
func (a *Attempt) namespaceOf(pod *v1.Pod) map[string]string {
	ns, err := a.profile.SharedInformerFactory().Core().V1().Namespaces().Lister().Get(pod.Namespace)
	if err != nil {
		return nil
	}
	return ns.Labels
}

// ask writes down what the pending members ask for.
func (a *Attempt) ask(b *strings.Builder) {
	g := a.Group
	fmt.Fprintln(b, a.profile.ProfileName(), a.planner.cache.Priority(a.Lowest()), a.All, a.Sets)
	for _, k := range a.kinds {
		key := k.counter.Key()
		if key == "" {
			key = convert.Template(k.pod)
		}
		fmt.Fprintln(b, key)
	}
	gangs := map[gang.Ref]int{}
	for i, of := range g.Gangs {
		gangs[of.Ref] = i
		fmt.Fprint(b, of.Need, " ")
	}
	if g.Choice.Any() {
		levels := map[string]int{} // by any name
		for _, of := range g.Choice.Gangs {
			fmt.Fprint(b, of.Open, of.Total)
			for _, l := range of.Above {
				if _, ok := levels[l.Name]; !ok {
					levels[l.Name] = len(levels)
				}
				fmt.Fprint(b, "/", levels[l.Name], "≥", l.Least)
			}
			b.WriteByte(' ')
		}
		fmt.Fprintln(b, g.Choice.Totals)
	}
	for i := 0; i < len(g.Pending); { // runs of members that are alike
		gangOf, kindOf, never := a.asks(gangs, g.Pending[i])
		n := 1
		for ; i+n < len(g.Pending); n++ {
			if o, k, v := a.asks(gangs, g.Pending[i+n]); o != gangOf || k != kindOf || v != never {
				break
			}
		}
		fmt.Fprint(b, gangOf, ":", kindOf, "×", n)
		if never {
			b.WriteString(" never preempts")
		}
		b.WriteByte(' ')
		i += n
	}
}

// asks is what makes a difference of one member.
func (a *Attempt) asks(gangs map[gang.Ref]int, m gang.Member) (of, kind int, neverPreempts bool) {
	return gangs[m.Gang], a.kindOf[m.Pod], a.Group.NeverPreempts(m)
}
