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

// Missing says which node of a reservation no longer exists; "" if all do.
func (a *Attempt) Missing() string {
	for _, pod := range slices.Sorted(maps.Keys(a.Group.Places)) {
		node := a.Group.Places[pod]
		if i, ok := a.Net.Tree.NodeIndex(node); !ok || a.Nodes[i] == nil {
			return "reserved node " + node + " is gone"
		}
	}
	return ""
}

// PlacesFit says why the reserved places cannot be taken once those in gone have left, by
// node index; "" if they can. Where it matters it says in which order.
func (a *Attempt) PlacesFit(ctx context.Context, gone [][]*v1.Pod) (turn []string, why string) {
	if err := a.sortKinds(ctx); err != nil {
		return nil, err.Error()
	}
	if a.Dependent() {
		return a.placesFitTogether(ctx, gone)
	}
	if a.Ordered() {
		for _, at := range a.Reserved(nil) {
			turn = append(turn, at.Pod)
		}
	}
	return turn, a.placesFitAlone(ctx, gone)
}

// placesFitAlone is placesFit for members that do not depend on one another.
func (a *Attempt) placesFitAlone(ctx context.Context, gone [][]*v1.Pod) string {
	there := map[string]fit.Pods{}
	for _, m := range a.Group.Pending {
		name := a.Group.Places[m.Pod]
		if name == "" {
			continue
		}
		i, ok := a.Net.Tree.NodeIndex(name)
		if !ok || a.Nodes[i] == nil {
			return "node " + name + " is gone"
		}
		if _, ok := there[name]; !ok {
			there[name] = slices.Clone(a.beside[i])
		}
		if s := a.kinds[a.kindOf[m.Pod]].counter.FitsWithout(ctx, a.Nodes[i], there[name], gone[i]); !s.IsSuccess() {
			return fmt.Sprintf("%s on %s: %s", m.Pod, name, s.Message())
		}
		info, err := framework.NewPodInfo(a.Group.Pods[m.Pod])
		if err != nil {
			return err.Error()
		}
		there[name] = append(there[name], info)
	}
	return ""
}

// placesFitTogether is placesFit for members that depend on one another. They are tried
// in the order of the plan; a process that only found the places tries them by rank.
func (a *Attempt) placesFitTogether(ctx context.Context, gone [][]*v1.Pod) (turn []string, why string) {
	left := slices.Clone(a.Group.Turn)
	if left == nil {
		for _, m := range a.Group.Pending {
			left = append(left, m.Pod)
		}
	}
	left = slices.DeleteFunc(left, func(pod string) bool {
		_, pending := a.kindOf[pod]
		return !pending || a.Group.Places[pod] == ""
	})
	return a.fitTogether(ctx, a.Group.Places, left, gone)
}

// Fits says whether members that depend on one another can take the places of a plan once those in gone have left, by node index.
func (a *Attempt) Fits(ctx context.Context, places []gang.Place, gone [][]*v1.Pod) bool {
	at, left := map[string]string{}, make([]string, len(places))
	for i, p := range places {
		at[p.Pod], left[i] = p.Node, p.Pod
	}
	_, why := a.fitTogether(ctx, at, left, gone)
	return why == ""
}

// fitTogether says in which order members can take places, by pod, or why they cannot. They are tried in the order of left.
func (a *Attempt) fitTogether(ctx context.Context, places map[string]string, left []string, gone [][]*v1.Pod) (turn []string, why string) {
	s, err := a.trial(ctx, gone)
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
	for len(left) > 0 {
		i := slices.IndexFunc(left, fits)
		if i < 0 {
			return nil, left[0] + " does not fit " + places[left[0]]
		}
		turn = append(turn, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return turn, ""
}
