package ask

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// transitions are the times of the last state changes, read from the objects before the simulated scheduler overwrites them.
// The keys are namespace/name. Times that no object reports are missing.
type transitions struct {
	pods  map[string]time.Time // when pods were bound, or found unschedulable
	gangs map[string]time.Time // by object and condition
	// phases are the custom resources in whose status a scheduler has written a phase.
	phases map[string]bool
}

// readTransitions returns the transition times of the condition PodScheduled of pods, and of all conditions of custom resources. It also
// returns which custom resources have a phase.
func readTransitions(set *simulate.Set) transitions {
	t := transitions{pods: map[string]time.Time{}, gangs: map[string]time.Time{}, phases: map[string]bool{}}
	set.ForEach(func(o runtime.Object) {
		switch o := o.(type) {
		case *v1.Pod:
			for _, c := range o.Status.Conditions {
				if c.Type == v1.PodScheduled && !c.LastTransitionTime.IsZero() {
					t.pods[convert.PodKey(o)] = c.LastTransitionTime.Time
				}
			}
		case *unstructured.Unstructured:
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			key := convert.Key(o.GetNamespace(), o.GetName())
			t.phases[key] = t.phases[key] || phase != ""
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, c := range conditions {
				if c, ok := c.(map[string]any); ok {
					t.condition(o, c)
				}
			}
		}
	})
	return t
}

// condition adds the transition time of condition c of object o, if it is valid.
func (t transitions) condition(o *unstructured.Unstructured, c map[string]any) {
	kind, _ := c["type"].(string)
	text, _ := c["lastTransitionTime"].(string)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		t.gangs[gangKey(o.GetNamespace(), o.GetName(), kind)] = at
	}
}

func gangKey(namespace, name, condition string) string {
	return convert.Key(namespace, name) + " " + condition
}

// since returns when the gang's state began: the time of its condition, else the earliest of its members, else its creation time.
func (v *View) since(ref gang.Ref, r cache.Report, members []*v1.Pod) time.Time {
	if at, ok := v.transitions.gangs[gangKey(ref.Namespace, ref.Name, cmp.Or(r.Condition, status.Scheduled))]; ok {
		return at
	}
	var first time.Time
	for _, pod := range members {
		at, ok := v.transitions.pods[convert.PodKey(pod)]
		if !ok {
			at = pod.CreationTimestamp.Time
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if first.IsZero() && r.PodGroup != nil {
		first = r.PodGroup.CreationTimestamp.Time
	}
	return first
}
