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

// ledger is the fit.Ledger of devices: it counts several members as Filter does one. Filter for each member would be correct but slower.
type ledger struct {
	*Room
	profile framework.Framework
}

// Ledger returns the ledger of devices for a profile. It has no effect in a profile without the plugin.
func (r *Room) Ledger(profile framework.Framework) fit.Ledger { return &ledger{r, profile} }

// Plugins implements fit.Ledger.
func (*ledger) Plugins() []string { return []string{Name} }

// Frees implements fit.Ledger: Filter itself considers evicted pods.
func (*ledger) Frees() bool { return false }

// Open implements fit.Ledger.
func (l *ledger) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	wants := func(d fit.Demand) bool { return l.requested(d.Pod) != nil }
	if l.devices.noneYet() || !slices.ContainsFunc(members, wants) || !l.isEnabled() {
		return nil, nil
	}
	return page{l.Room}, nil
}

// isEnabled returns whether the profile has the plugin at Filter.
func (l *ledger) isEnabled() bool {
	for _, p := range l.profile.ListPlugins().Filter.Enabled {
		if p.Name == Name {
			return true
		}
	}
	return false
}

// requested returns a pod's request for devices; nil if there is none or it is invalid.
func (r *Room) requested(pod *v1.Pod) *podDevices {
	if w := r.readPod(pod); w != nil && w.request != nil {
		return w
	}
	return nil
}

// page is the fit.Page of the current state. What fits on a node depends only on its pods, Device objects and holdings.
type page struct{ *Room }

// Entry implements fit.Page: it returns a key for a pod's request for devices; "" if it has none.
func (p page) Entry(pod *v1.Pod) string {
	w := p.requested(pod)
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

// Far implements fit.Page. It returns false, because devices are usable on one node only.
func (page) Far(*v1.Pod) bool { return false }

// State implements fit.Page.
func (p page) State(node fwk.NodeInfo) string {
	_, number, _ := p.devices.onNode(node.Node())
	return fmt.Sprint(number, " ", p.holdings.versionOn(node.Node().Name))
}

// Rehearse implements fit.Page.
func (p page) Rehearse() fit.Rehearsal {
	return &rehearsal{Room: p.Room, evicted: map[types.UID]bool{}, nodes: map[string]*crowd{}}
}

// rehearsal is a what-if copy of the state: with further pods, and without evicted ones.
type rehearsal struct {
	*Room
	evicted map[types.UID]bool
	nodes   map[string]*crowd
	log     []*crowd // the node of each taken pod; nil for pods without devices
}

// crowd is one node and the members added to it.
type crowd struct {
	*view                 // without evicted pods
	state   *device.State // nil without a Device object
	members *device.Crowd
}

// Release implements fit.Rehearsal: it records that a pod is evicted.
func (r *rehearsal) Release(pod *v1.Pod) { r.evicted[pod.UID] = true }

// crowdOn returns the crowd of a node, and makes it at the first call for that node. The NodeInfo of that call must not contain pods of
// the rehearsal, because they would count twice.
func (r *rehearsal) crowdOn(node fwk.NodeInfo) *crowd {
	name := node.Node().Name
	if c := r.nodes[name]; c != nil {
		return c
	}
	v := r.view(node)
	if v.state != nil && len(r.evicted) > 0 {
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

// without returns a view of the node like full, but without evicted pods.
func (r *rehearsal) without(node fwk.NodeInfo, full *view) *view {
	v := &view{state: device.NewState(full.state.Node()), pods: map[types.UID]bool{}}
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); !r.evicted[pod.UID] {
			r.addPod(v, pod, node.Node().Name)
		}
	}
	return v
}

// Take implements fit.Rehearsal: it adds a pod to a node, if the node has devices for all added pods together.
func (r *rehearsal) Take(_ context.Context, pod *v1.Pod, node fwk.NodeInfo) (s *fwk.Status) {
	w := r.requested(pod)
	if w == nil {
		r.log = append(r.log, nil)
		return nil
	}
	c := r.crowdOn(node)
	if why := r.neverFits(w, c.view, node); why != nil {
		return unschedulable(why)
	}
	if c.state == nil {
		r.log = append(r.log, nil)
		return nil
	}
	r.solve(func(solver *device.Solver) {
		if !c.members.Add(solver, w.request) {
			s = unschedulable(whyNot(solver, c.state, append(slices.Clone(c.members.Members()), w.request)))
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

// Count returns how many members like a pod fit on a node, at most limit, with one call of the solver for all of them. If n < limit, s is
// a failure, also for n > 0.
func (r *rehearsal) Count(ctx context.Context, pod *v1.Pod, node fwk.NodeInfo, limit int) (n int, s *fwk.Status) {
	w := r.requested(pod)
	if w == nil {
		return limit, nil
	}
	c := r.crowdOn(node)
	if why := r.neverFits(w, c.view, node); why != nil {
		return 0, unschedulable(why)
	}
	if c.state == nil { // no Device object: NodeResourcesFit counts a vendor's GPUs, and neverFits has refused other requests
		return limit, nil
	}
	r.solve(func(solver *device.Solver) {
		switch n = c.members.Count(solver, w.request, limit); {
		case n == 0:
			s = unschedulable(whyNot(solver, c.state, append(slices.Clone(c.members.Members()), w.request)))
		case n < limit:
			s = fwk.NewStatus(fwk.Unschedulable).WithPlugin(Name) // no caller reads why not more
		}
	})
	return n, s
}
