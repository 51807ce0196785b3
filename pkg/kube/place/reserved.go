package place

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// Missing returns a message that names the first reserved node that the attempt's nodes lack; "" if all exist.
func (a *Attempt) Missing() string {
	for _, pod := range slices.Sorted(maps.Keys(a.Group.Places)) {
		node := a.Group.Places[pod]
		if i, ok := a.Net.Tree.NodeIndex(node); !ok || a.Nodes[i] == nil {
			return "reserved " + a.absence(node, i, ok)
		}
	}
	return ""
}

// PlacesFit returns why the members do not fit their reserved nodes after the pods in gone, by node index, have terminated; "" if they fit.
// order is the order in which members must bind; nil if any order is valid.
func (a *Attempt) PlacesFit(ctx context.Context, gone [][]*v1.Pod) (order []string, why string) {
	if err := a.groupIntoKinds(ctx); err != nil {
		return nil, err.Error()
	}
	if a.Dependent() {
		return a.dependentFit(ctx, gone)
	}
	if a.Ordered() {
		for _, place := range a.Reserved(nil) {
			order = append(order, place.Pod)
		}
	}
	return order, a.independentFit(ctx, gone)
}

// independentFit is PlacesFit for independent members.
func (a *Attempt) independentFit(ctx context.Context, gone [][]*v1.Pod) string {
	beside := map[string]fit.Pods{}
	for _, m := range a.Group.Pending {
		name := a.Group.Places[m.Pod]
		if name == "" {
			continue
		}
		i, ok := a.Net.Tree.NodeIndex(name)
		if !ok || a.Nodes[i] == nil {
			return a.absence(name, i, ok)
		}
		if _, ok := beside[name]; !ok {
			beside[name] = slices.Clone(a.beside[i])
		}
		if s := a.kinds[a.kindOf[m.Pod]].counter.FitsWithout(ctx, a.Nodes[i], beside[name], gone[i]); !s.IsSuccess() {
			return fmt.Sprintf("%s on %s: %s", m.Pod, name, s.Message())
		}
		info, err := framework.NewPodInfo(a.Group.Pods[m.Pod])
		if err != nil {
			return err.Error()
		}
		beside[name] = append(beside[name], info)
	}
	return ""
}

// dependentFit is PlacesFit for interdependent members. It adds them in the order of the plan, or by rank if that order is unknown.
func (a *Attempt) dependentFit(ctx context.Context, gone [][]*v1.Pod) (order []string, why string) {
	pods := slices.Clone(a.Group.Turn)
	if pods == nil {
		for _, m := range a.Group.Pending {
			pods = append(pods, m.Pod)
		}
	}
	pods = slices.DeleteFunc(pods, func(pod string) bool {
		_, pending := a.kindOf[pod]
		return !pending || a.Group.Places[pod] == ""
	})
	return a.fitTogether(ctx, a.Group.Places, pods, gone)
}

// Fits returns whether interdependent members fit their assignments after the pods in gone, by node index, have terminated.
func (a *Attempt) Fits(ctx context.Context, places []gang.Assignment, gone [][]*v1.Pod) bool {
	nodes, pods := map[string]string{}, make([]string, len(places))
	for i, p := range places {
		nodes[p.Pod], pods[i] = p.Node, p.Pod
	}
	_, why := a.fitTogether(ctx, nodes, pods, gone)
	return why == ""
}

// fitTogether returns an order in which the pods fit their nodes one after another, or why there is none. places has the node of each pod.
// The result follows the order of pods where possible.
func (a *Attempt) fitTogether(ctx context.Context, places map[string]string, pods []string, gone [][]*v1.Pod) (order []string, why string) {
	s, err := a.newTrial(ctx, gone)
	if err != nil {
		return nil, err.Error()
	}
	defer func() {
		if err := s.Close(); err != nil && why == "" {
			why = err.Error()
		}
	}()
	fits := func(pod string) bool {
		i, ok := a.Net.Tree.NodeIndex(places[pod])
		if !ok || a.Nodes[i] == nil || !s.Fits(a.kindOf[pod], i) {
			return false
		}
		s.Put(a.kindOf[pod], i)
		return true
	}
	for len(pods) > 0 {
		i := slices.IndexFunc(pods, fits)
		if i < 0 {
			return nil, pods[0] + " does not fit " + places[pods[0]]
		}
		order = append(order, pods[i])
		pods = slices.Delete(pods, i, i+1)
	}
	return order, ""
}
