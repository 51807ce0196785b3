package place_test

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestPictures runs the files in testdata. The commands:
//
//	cluster                 creates a cluster; newWorld describes the input.
//	try a avoid=n1,n2       plans gang a without some nodes.
//	plan a                  plans gang a, and the book keeps the node assignment.
//	reserve a a-0=n1        reserves nodes with terminating victims; order= is the binding order of members.
//	fits a gone=x           reports whether the reserved nodes fit once pod x has terminated.
//	limit a-0 n1 Plugin     lets a plugin reject a member on its node in its own cycle.
//	cured Plugin            sends an event to a plugin that may free capacity.
//	hindered a avoid=n1     reports whether only remembered limits of nodes prevent a plan.
//	capable a kept=n1       returns the free capacity in a domain that is large enough for the whole gang.
//	alike a b               reports whether the gangs are of one class.
//	bind p n1, leave p      binds a pod to a node, or deletes it.
//
// Run with -rewrite to write new answers; then read the diff.
func TestPictures(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &scene{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.do(t, d) + "\n" })
		})
	}
}

type scene struct{ *world }

func (s *scene) do(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "cluster" {
		s.world = newWorld(t, d.Input)
		return "ok"
	}
	s.t = t
	var words []string
	options := map[string][]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
		} else {
			options[a.Key] = strings.Split(strings.Join(a.Vals, ","), ",")
		}
	}
	switch d.Cmd {
	case "try":
		return s.try(s.attempt(words[0], options["avoid"]...), nil)
	case "plan":
		return s.try(s.attempt(words[0]), func(a *place.Attempt, o place.Outcome) {
			s.cache.Handle(gang.Planned{Group: a.Group.Key, Places: o.Places, InOrder: o.InOrder})
		})
	case "reserve":
		return s.reserve(words[0], options)
	case "fits":
		return s.fits(s.attempt(words[0], options["avoid"]...), options["gone"])
	case "limit":
		a := s.attempt(gangOf(words[0]))
		known := s.planner.Limit(a.Group, s.get(words[0]), words[1], fwk.NewStatus(fwk.Unschedulable, "no room for it").WithPlugin(words[2]))
		return fmt.Sprint(known)
	case "cured":
		s.planner.ForgetLimits(words[0])
		return "ok"
	case "hindered":
		a := s.attempt(words[0], options["avoid"]...)
		_, refusal, err := a.Plan(t.Context())
		require.NoError(t, err)
		require.NotNil(t, refusal)
		return fmt.Sprint(a.OnlyLimitsPreventPlan(t.Context()))
	case "capable":
		return s.capable(s.attempt(words[0]), options["kept"])
	case "alike":
		return s.alike(words)
	case "bind":
		s.bind(words[0], words[1])
		return "ok"
	case "leave":
		s.leave(words[0])
		return "ok"
	}
	d.Fatalf(t, "what is %s?", d.Cmd)
	return ""
}

func gangOf(member string) string { return member[:strings.LastIndex(member, "-")] }

// name is a pod's without its namespace.
func name(key string) string { _, n := convert.SplitKey(key); return n }

// try makes an attempt and says what came of it.
func (s *scene) try(a *place.Attempt, keep func(*place.Attempt, place.Outcome)) string {
	found, refusal, err := a.Plan(s.t.Context())
	require.NoError(s.t, err)
	require.True(s.t, a.CapacityKnown())
	if refusal != nil {
		says := refused(refusal)
		if held := a.Shortage(s.t.Context(), refusal, true).ReservedNodes; held.Nodes > 0 {
			says += fmt.Sprintf("\n%d held for %s and %d more", held.Nodes, held.Holder, held.OtherHolders)
		}
		return says
	}
	if keep != nil {
		keep(a, found)
	}
	return "in " + cmp.Or(a.Domain(found.Places), "the cluster") + drawn(found.Places, found.InOrder)
}

// drawn writes the assignments: by node, or in order if that matters.
func drawn(places []gang.Assignment, inOrder bool) string {
	if inOrder {
		out := ", in this order:"
		for _, at := range places {
			out += " " + name(at.Pod) + "=" + at.Node
		}
		return out
	}
	on := map[string][]string{}
	for _, at := range places {
		on[at.Node] = append(on[at.Node], name(at.Pod))
	}
	out := ""
	for _, node := range slices.SortedFunc(maps.Keys(on), topology.CompareNames) {
		out += "\n" + node + ": " + strings.Join(on[node], " ")
	}
	return out
}

// refused is a refusal, a line for each of its parts.
func refused(r *place.Refusal) string {
	var domains []string
	for _, d := range r.Plan.Domains {
		domains = append(domains, fmt.Sprint(cmp.Or(d.Path, "/"), " ", d.Slots))
	}
	lines := []string{fmt.Sprintf("refused: wants %d in one %s; %s", r.Plan.Want, r.Plan.Layer, strings.Join(domains, ", "))}
	for _, m := range r.Plan.Multiple {
		lines = append(lines, fmt.Sprintf("multiples of %d in %s", m.Count, m.Layer))
	}
	if r.Plan.Split {
		lines = append(lines, "those who run are in several")
	}
	for _, d := range r.Plan.Deeper {
		lines = append(lines, fmt.Sprintf("%d sets of %d gangs, each in one %s", d.Sets, d.Gangs, d.Layer))
	}
	for _, t := range r.Plan.TooLarge {
		lines = append(lines, t.String())
	}
	if r.Plan.Dependent {
		lines = append(lines, "they depend on one another")
	}
	for _, what := range slices.Sorted(maps.Keys(r.Diagnosis.Lacks)) {
		lines = append(lines, fmt.Sprintf("%d of %d: %s", r.Diagnosis.Lacks[what], r.Diagnosis.Nodes, what))
	}
	by := "by " + cmp.Or(strings.Join(r.Plugins, " "), "nobody")
	if r.Everywhere {
		by += ", on all nodes"
	}
	return strings.Join(append(lines, by), "\n")
}

func (s *scene) reserve(gangName string, options map[string][]string) string {
	a := s.attempt(gangName)
	var places []gang.Assignment
	for _, m := range a.Group.Pending {
		if at := options[name(m.Pod)]; at != nil {
			places = append(places, gang.Assignment{Pod: m.Pod, Node: at[0]})
		}
	}
	order, inOrder := options["order"]
	if inOrder {
		slices.SortFunc(places, func(x, y gang.Assignment) int {
			return cmp.Compare(slices.Index(order, name(x.Pod)), slices.Index(order, name(y.Pod)))
		})
	}
	s.cache.Handle(gang.Planned{
		Group: a.Group.Key, Places: places, Reserved: true, InOrder: inOrder, Until: s.cache.Clock.Now().Add(s.cache.Leave),
	})
	return "ok"
}

// fits says whether a reservation still stands, and whether its places can be taken.
func (s *scene) fits(a *place.Attempt, gone []string) string {
	if lost := cmp.Or(a.Missing(), place.BrokenConstraint(a.Group, a.Net.Tree)); lost != "" {
		return "lost: " + lost
	}
	left := make([][]*v1.Pod, len(a.Nodes))
	for _, who := range gone {
		p := s.get(who)
		i, ok := a.Net.Tree.NodeIndex(p.Spec.NodeName)
		require.True(s.t, ok)
		left[i] = append(left[i], p)
	}
	turn, why := a.PlacesFit(s.t.Context(), left)
	switch {
	case why != "":
		return "no: " + why
	case turn != nil:
		for i := range turn {
			turn[i] = name(turn[i])
		}
		return "yes, in this order: " + strings.Join(turn, " ")
	}
	return "yes"
}

// capable first finds out that there is no plan, as the gang does that waits for one.
func (s *scene) capable(a *place.Attempt, kept []string) string {
	a.Group.HeldNodes = map[string]string{}
	for i, node := range kept {
		a.Group.HeldNodes[a.Group.Pending[i].Pod] = node
	}
	_, refusal, err := a.Plan(s.t.Context())
	require.NoError(s.t, err)
	require.NotNil(s.t, refusal)
	places, where := a.FreeWhereCapable(s.t.Context())
	if len(places) == 0 {
		return "nowhere"
	}
	return "in " + cmp.Or(where, "the cluster") + drawn(places, false)
}

// alike compares what two gangs ask for, once they were counted.
func (s *scene) alike(gangs []string) string {
	var classes []string
	for _, g := range gangs {
		a := s.attempt(g)
		require.Empty(s.t, a.Class(), "the class is unknown before its members are counted")
		_, _, err := a.Plan(s.t.Context())
		require.NoError(s.t, err)
		classes = append(classes, a.Class())
	}
	if slices.Contains(classes, "") {
		return "one is like no other"
	}
	return fmt.Sprint(classes[0] == classes[1])
}
