package fit_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// things is a ledger of things per node; each pod with the label takes one. Things of node "" are for all nodes.
type things struct {
	free  map[string]int
	lent  map[types.UID]string // of which node
	asked int
}

const wants = "wants"

func (*things) Plugins() []string { return []string{"Things"} }
func (*things) Frees() bool       { return true }

func (l *things) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	for _, d := range members {
		if l.Entry(d.Pod) != "" {
			return l, nil
		}
	}
	return nil, nil
}
func (*things) Entry(pod *v1.Pod) string         { return pod.Labels[wants] }
func (l *things) Far(*v1.Pod) bool               { return l.free[""] > 0 }
func (l *things) State(node fwk.NodeInfo) string { return fmt.Sprint(l.free[node.Node().Name]) }

func (l *things) Rehearse() fit.Rehearsal {
	l.asked++
	return &lending{things: l, taken: map[string]int{}}
}

type lending struct {
	*things
	taken map[string]int
	turns []string
}

func (r *lending) Release(pod *v1.Pod) {
	if node, ok := r.lent[pod.UID]; ok {
		r.taken[node]--
	}
}

func (r *lending) Take(_ context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if r.Entry(pod) == "" {
		r.turns = append(r.turns, "nothing")
		return nil
	}
	for _, of := range []string{node.Node().Name, ""} {
		if r.taken[of] < r.free[of] {
			r.taken[of]++
			r.turns = append(r.turns, of)
			return nil
		}
	}
	return fwk.NewStatus(fwk.Unschedulable, "nothing is left").WithPlugin("Things")
}

func (r *lending) Undo() {
	r.taken[r.turns[len(r.turns)-1]]--
	r.turns = r.turns[:len(r.turns)-1]
}

func wanting(name string) *v1.Pod { return pod(name).Req(cpu("1")).Label(wants, "one").Obj() }

// TestLedger: a node takes as many as both its Filters and the ledger say.
func TestLedger(t *testing.T) {
	f := profile(t, []*v1.Node{node("n", "8").Obj()}, pod("low").Node("n").Req(cpu("2")).Obj())
	low := info(t, f, "n").GetPods()[0].GetPod()
	for name, c := range map[string]struct {
		free   int
		others []*v1.Pod
		gone   []*v1.Pod
		want   offer.Slots
		why    []string
	}{
		"the ledger has less":          {free: 2, want: 2},
		"the ledger has more":          {free: 9, want: 6},
		"nothing":                      {free: 0, want: 0, why: []string{"nothing is left"}},
		"others take first":            {free: 3, others: []*v1.Pod{wanting("a"), pod("b").Obj()}, want: 2},
		"victims release":              {free: 2, gone: []*v1.Pod{low}, want: 3},
		"other members and victims":    {free: 2, gone: []*v1.Pod{low}, others: []*v1.Pod{wanting("a")}, want: 2},
		"no member fits beside others": {free: 1, others: []*v1.Pod{wanting("a"), wanting("b")}, want: 0, why: []string{"nothing is left"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &things{free: map[string]int{"n": c.free}, lent: map[types.UID]string{low.UID: "n"}}
			pages, err := fit.Open(t.Context(), []fit.Ledger{l}, []fit.Demand{{Pod: wanting("m"), Members: 4}})
			require.NoError(t, err)
			counter, err := fit.NewCounter(t.Context(), f, wanting("m"), pages...)
			require.NoError(t, err)
			got, why := counter.CountWithout(t.Context(), info(t, f, "n"), infos(t, c.others), c.gone)
			require.Equal(t, c.want, got)
			require.Equal(t, c.why, why)
			status := counter.FitsWithout(t.Context(), info(t, f, "n"), infos(t, c.others), c.gone)
			require.Equal(t, c.want > 0, status.IsSuccess())
			require.False(t, counter.Local(), "a ledger is not on the node")
		})
	}
}

// TestLedgerUnused: members that take nothing of a ledger are counted without it.
func TestLedgerUnused(t *testing.T) {
	f := profile(t, []*v1.Node{node("n", "8").Obj()})
	l := &things{free: map[string]int{}}
	plain := pod("m").Req(cpu("1")).Obj()
	pages, err := fit.Open(t.Context(), []fit.Ledger{l}, []fit.Demand{{Pod: plain, Members: 4}})
	require.NoError(t, err)
	require.Nil(t, pages)
	pages, err = fit.Open(t.Context(), []fit.Ledger{l}, []fit.Demand{{Pod: plain, Members: 4}, {Pod: wanting("w"), Members: 1}})
	require.NoError(t, err)
	for _, pages := range []fit.Pages{nil, pages} {
		counter, err := fit.NewCounter(t.Context(), f, plain, pages...)
		require.NoError(t, err)
		got, _ := counter.Count(t.Context(), info(t, f, "n"), nil)
		require.Equal(t, offer.Slots(8), got)
		require.True(t, counter.Local())
	}
	require.Zero(t, l.asked)
}

// TestLedgerRemembered: what a ledger said is kept until it has changed or the node has.
func TestLedgerRemembered(t *testing.T) {
	f := profile(t, []*v1.Node{node("n0", "8").Obj(), node("n1", "8").Obj()})
	nodes, err := f.SnapshotSharedLister().NodeInfos().List()
	require.NoError(t, err)
	slices.SortFunc(nodes, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	l := &things{free: map[string]int{"n0": 2, "n1": 3}}
	memory := fit.NewMemory(f)
	count := func() []offer.Slots {
		pages, err := fit.Open(t.Context(), []fit.Ledger{l}, []fit.Demand{{Pod: wanting("m"), Members: 4}})
		require.NoError(t, err)
		counter, err := fit.NewCounter(t.Context(), f, wanting("m"), pages...)
		require.NoError(t, err)
		require.True(t, counter.Remembered())
		return memory.Count(t.Context(), counter, nodes, nil).Slots
	}
	require.Equal(t, []offer.Slots{2, 3}, count())
	require.Equal(t, []offer.Slots{2, 3}, count())
	require.Equal(t, 2, l.asked, "each node once")
	l.free["n1"] = 1
	require.Equal(t, []offer.Slots{2, 1}, count())
	require.Equal(t, 3, l.asked, "and the changed one once more")
}

// TestLedgerOnTrial: what is taken on one node is missing on another, until it is undone.
func TestLedgerOnTrial(t *testing.T) {
	nodes := []*v1.Node{node("n0", "8").Obj(), node("n1", "8").Obj()}
	there := pod("there").Node("n0").Req(cpu("1")).Obj()
	f := newProfile(t, internalcache.NewSnapshot([]*v1.Pod{there}, nodes))
	l := &things{free: map[string]int{"n1": 1, "": 2}, lent: map[types.UID]string{"there": ""}}
	pages, err := fit.Open(t.Context(), []fit.Ledger{l}, []fit.Demand{{Pod: wanting("m"), Members: 4}})
	require.NoError(t, err)
	counter, err := fit.NewCounter(t.Context(), f, wanting("m"), pages...)
	require.NoError(t, err)
	require.True(t, counter.Dependent(true))

	s, err := fit.NewTrial(t.Context(), f, []*v1.Pod{wanting("m"), pod("plain").Obj()}, []string{"n0", "n1"}, pages...)
	require.NoError(t, err)
	s.Remove(there)
	s.Add("n0", infos(t, []*v1.Pod{wanting("beside")})[0]) // takes what was given back
	s.Put(1, 0)
	s.Put(0, 0)
	s.Put(0, 0)
	require.False(t, s.Fits(0, 0))
	require.True(t, s.Fits(0, 1), "it has one of its own")
	s.Put(0, 1)
	require.False(t, s.Fits(0, 1))
	require.True(t, s.Fits(1, 1), "a member without requests")
	s.Undo()
	require.True(t, s.Fits(0, 1))
	s.Undo()
	require.True(t, s.Fits(0, 0))
	require.Equal(t, []string{"Things"}, s.RejectingPlugins())
	require.NoError(t, s.Close())
}

// parts is a ledger that tells members apart by a label.
type parts struct {
	things
	label string
}

func (l *parts) Apart(pod *v1.Pod) string {
	if pod.Labels[l.label] == "" {
		return ""
	}
	return " " + l.label + "=" + pod.Labels[l.label]
}

// TestApart: what all ledgers say that tells members apart, in their order, is put together.
func TestApart(t *testing.T) {
	silent, volume, device := &things{}, &parts{label: "volume"}, &parts{label: "device"}
	for name, c := range map[string]struct {
		ledgers []fit.Ledger
		labels  map[string]string
		want    string
	}{
		"no ledger is asked":           {nil, map[string]string{"volume": "v"}, ""},
		"a ledger without differences": {[]fit.Ledger{silent}, map[string]string{"volume": "v"}, ""},
		"a member that has nothing":    {[]fit.Ledger{volume, device}, nil, ""},
		"one that has its volume":      {[]fit.Ledger{silent, volume, device}, map[string]string{"volume": "v"}, " volume=v"},
		"one that has something else":  {[]fit.Ledger{silent, volume, device}, map[string]string{"device": "v"}, " device=v"},
		"one that has both": {
			[]fit.Ledger{volume, silent, device}, map[string]string{"volume": "v", "device": "d"}, " volume=v device=d",
		},
		"what only ledgers not asked know": {[]fit.Ledger{volume}, map[string]string{"device": "d"}, ""},
		"they are asked in their order":    {[]fit.Ledger{device, volume}, map[string]string{"volume": "v", "device": "d"}, " device=d volume=v"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			pod.Labels = c.labels
			require.Equal(t, c.want, fit.MemberKey(c.ledgers, pod))
		})
	}
}
