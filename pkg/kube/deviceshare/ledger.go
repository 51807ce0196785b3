package deviceshare

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// ledger answers for several members as Filter does for one: the Filter would be right, too, if it were asked with each
// member more that is put there, but what it would say is said here at once.
type ledger struct {
	*Room
	profile framework.Framework
}

// Ledger is the room as planners of a profile read it. A profile that does not run the plugin has nothing in it.
func (r *Room) Ledger(profile framework.Framework) fit.Ledger { return &ledger{r, profile} }

// Plugins implements fit.Ledger.
func (*ledger) Plugins() []string { return []string{Name} }

// Frees implements fit.Ledger: Filter sees who has left.
func (*ledger) Frees() bool { return false }

// Open implements fit.Ledger.
func (l *ledger) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	wants := func(d fit.Demand) bool { return l.asks(d.Pod) != nil }
	if l.devices.never() || !slices.ContainsFunc(members, wants) || !l.runs() {
		return nil, nil
	}
	return page{l.Room}, nil
}

// runs says whether the profile asks the plugin where pods may go.
func (l *ledger) runs() bool {
	for _, p := range l.profile.ListPlugins().Filter.Enabled {
		if p.Name == Name {
			return true
		}
	}
	return false
}

// asks is what a pod wants, nil if nothing, or nothing that can be meant.
func (r *Room) asks(pod *v1.Pod) *wanted {
	if w := r.readPod(pod); w != nil && w.request != nil {
		return w
	}
	return nil
}

// page is what nodes have and pods hold now. What is written of a node changes with Device objects only, beside the
// pods on it.
type page struct{ *Room }

// Entry implements fit.Page.
func (p page) Entry(pod *v1.Pod) string {
	w := p.asks(pod)
	if w == nil {
		return ""
	}
	entry := Name + " " + w.request.Key()
	for _, name := range w.names {
		if p.byClass != nil && p.byClass(name) {
			entry += " " + string(name) // may be offered twice
		}
	}
	return entry
}

// Far implements fit.Page: a node's devices are its own.
func (page) Far(*v1.Pod) bool { return false }

// State implements fit.Page.
func (p page) State(node fwk.NodeInfo) string {
	_, number, _ := p.devices.of(node.Node())
	return fmt.Sprint(number, " ", p.holdings.on(node.Node().Name))
}

// Rehearse implements fit.Page.
func (p page) Rehearse() fit.Rehearsal {
	return &rehearsal{Room: p.Room, gone: map[types.UID]bool{}, nodes: map[string]*crowd{}}
}

// rehearsal is the room when pods come and go.
type rehearsal struct {
	*Room
	gone  map[types.UID]bool
	nodes map[string]*crowd
	log   []*crowd // where those who have taken are; nil for who needs nothing
}

// crowd is one node and who chooses there.
type crowd struct {
	*view                 // as those leave it who were there before
	state   *device.State // nil if nobody says what it has
	members *device.Crowd
}

// Leave implements fit.Rehearsal.
func (r *rehearsal) Leave(pod *v1.Pod) { r.gone[pod.UID] = true }

// on is the crowd of a node. Those who take are not among its pods when it is asked about first.
func (r *rehearsal) on(node fwk.NodeInfo) *crowd {
	name := node.Node().Name
	if c := r.nodes[name]; c != nil {
		return c
	}
	v := r.view(node)
	if v.state != nil && len(r.gone) > 0 {
		v = r.without(node, v)
	}
	c := &crowd{view: v}
	if v.state != nil {
		c.state = v.state.Clone()
		r.solve(func(s *device.Solver) { c.members = s.NewCrowd(c.state, v.open) })
	}
	r.nodes[name] = c
	return c
}

// without is the view of a node that some have left.
func (r *rehearsal) without(node fwk.NodeInfo, is *view) *view {
	v := &view{state: device.NewState(is.state.Node()), pods: map[types.UID]bool{}}
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); !r.gone[pod.UID] {
			r.look(v, pod, node.Node().Name)
		}
	}
	return v
}

// Take implements fit.Rehearsal.
func (r *rehearsal) Take(_ context.Context, pod *v1.Pod, node fwk.NodeInfo) (s *fwk.Status) {
	w := r.asks(pod)
	if w == nil {
		r.log = append(r.log, nil)
		return nil
	}
	c := r.on(node)
	if why := r.never(w, c.view, node); why != nil {
		return refused(why)
	}
	if c.state == nil {
		r.log = append(r.log, nil)
		return nil
	}
	r.solve(func(solver *device.Solver) {
		if !c.members.Add(solver, w.request) {
			s = refused(whyNot(solver, c.state, append(slices.Clone(c.members.Members()), w.request)))
		}
	})
	if s == nil {
		r.log = append(r.log, c)
	}
	return s
}

// Undo implements fit.Rehearsal.
func (r *rehearsal) Undo() {
	last := len(r.log) - 1
	if c := r.log[last]; c != nil {
		c.members.Drop()
	}
	r.log = r.log[:last]
}

// Count says how many members like a pod fit on a node, at most so many: one question to the solver, not one for each member.
func (r *rehearsal) Count(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, most int) (n int, s *fwk.Status) {
	w := r.asks(pod)
	if w == nil {
		return most, nil
	}
	c := r.on(node)
	if why := r.never(w, c.view, node); why != nil {
		return 0, refused(why)
	}
	if c.state == nil {
		return most, nil
	}
	r.solve(func(solver *device.Solver) {
		switch n = c.members.Count(solver, w.request, most); {
		case n == 0:
			s = refused(whyNot(solver, c.state, append(slices.Clone(c.members.Members()), w.request)))
		case n < most:
			s = fwk.NewStatus(fwk.Unschedulable).WithPlugin(Name) // why not more nobody asks
		}
	})
	return n, s
}
