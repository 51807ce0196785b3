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

// told is when the objects that were found say that something became as it is, by namespace/name;
// the scheduler in memory overwrites that soon. What they do not say is not in it.
type told struct {
	pods  map[string]time.Time // were bound, or refused
	gangs map[string]time.Time // by object and condition
}

func readTold(set *simulate.Set) told {
	t := told{pods: map[string]time.Time{}, gangs: map[string]time.Time{}}
	set.Each(func(o runtime.Object) {
		switch o := o.(type) {
		case *v1.Pod:
			for _, c := range o.Status.Conditions {
				if c.Type == v1.PodScheduled && !c.LastTransitionTime.IsZero() {
					t.pods[convert.PodKey(o)] = c.LastTransitionTime.Time
				}
			}
		case *unstructured.Unstructured:
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

func (t told) condition(o *unstructured.Unstructured, c map[string]any) {
	kind, _ := c["type"].(string)
	text, _ := c["lastTransitionTime"].(string)
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		t.gangs[gangKey(o.GetNamespace(), o.GetName(), kind)] = at
	}
}

func gangKey(namespace, name, condition string) string {
	return convert.Key(namespace, name) + " " + condition
}

// since is when what is said of a gang began: what its condition says, or else those of its members that wait, or
// that run if none does; or when it was made.
func (v *View) since(ref gang.Ref, r cache.Report, members []*v1.Pod) time.Time {
	if at, ok := v.told.gangs[gangKey(ref.Namespace, ref.Name, cmp.Or(r.Condition, status.Scheduled))]; ok {
		return at
	}
	var first time.Time
	for _, pod := range members {
		at, ok := v.told.pods[convert.PodKey(pod)]
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
