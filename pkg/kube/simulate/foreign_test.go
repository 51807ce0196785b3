package simulate

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// foreign says whether a pod is another scheduler's.
func foreign(p *v1.Pod) bool { return p.Spec.SchedulerName == otherScheduler }

// writeForeign does what the other scheduler does.
func (w *world) writeForeign(e event) (bool, error) {
	pod := w.pods["default/"+e.name]
	waits := pod != nil && pod.Spec.NodeName == "" && !convert.Finished(pod)
	switch e.kind {
	case foreignPut:
		if w.pods["default/"+e.pod.name] != nil {
			return false, nil
		}
		if e.pod.gang != "" {
			w.theirs[e.pod.name] = e.pod.gang
		}
		return true, w.put(e.pod.object(e.gang))
	case foreignGang:
		if !w.hasTheirs(e.gang.name) {
			return false, nil
		}
		return true, w.put(e.gang.object())
	case foreignNominated:
		if !waits || w.nodes[e.how] == nil {
			return false, nil
		}
		return true, w.edit(pod, func(p *v1.Pod) { p.Status.NominatedNodeName = e.how })
	case foreignBound:
		if !waits {
			return false, nil
		}
		for _, node := range w.ready() {
			lowest := int32(-1 << 31)
			if left := w.free(node).minus(w.reserved(node, nil, lowest, false)); !left.less(needs(pod)) {
				return true, w.edit(pod, func(p *v1.Pod) {
					p.Spec.NodeName, p.Status.NominatedNodeName, p.Status.Phase = node, "", v1.PodRunning
				})
			}
		}
		return false, nil
	}
	// Another scheduler tells about its gang.
	if !w.hasTheirs(e.name) {
		return false, nil
	}
	done := false
	_, err := w.s.cluster.change(sigs.PodGroups, key{"default", e.name}, func(old runtime.Object) (runtime.Object, error) {
		if old == nil {
			return nil, nil
		}
		done = true
		u := old.DeepCopyObject().(*unstructured.Unstructured)
		u.Object["status"] = map[string]any{"phase": "Scheduling", "occupiedBy": "default/another"}
		return u, nil
	})
	if err != nil {
		return done, err
	}
	return done, w.s.waitQuiet(w.ctx)
}

// edit changes a pod as its other scheduler may.
func (w *world) edit(pod *v1.Pod, change func(*v1.Pod)) error {
	_, err := w.s.cluster.change(pods, key{pod.Namespace, pod.Name}, func(old runtime.Object) (runtime.Object, error) {
		out := old.DeepCopyObject().(*v1.Pod)
		change(out)
		return out, nil
	})
	if err != nil {
		return err
	}
	return w.s.waitQuiet(w.ctx)
}

// hasTheirs says whether a gang of another scheduler has members.
func (w *world) hasTheirs(gang string) bool {
	return slices.ContainsFunc(w.sorted(), func(p *v1.Pod) bool { return w.theirs[p.Name] == gang })
}

// judgeForeign (case 48): the scheduler writes no pod and no PodGroup of another scheduler. It emits no event about
// them, except about an eviction for a pod of higher priority.
func (w *world) judgeForeign(written map[string][]string) error {
	found := false
	for _, p := range w.sorted() {
		if !foreign(p) {
			continue
		}
		found = true
		for _, what := range written[pods.Resource+"/"+p.Name] {
			if p.Spec.NodeName == "" || !strings.HasSuffix(what, "evicts") {
				return wrong("foreign", "%s is another scheduler's, and got: %s", p.Name, what)
			}
		}
		gang := w.theirs[p.Name]
		if gang == "" {
			continue
		}
		if what := written[sigs.PodGroups.Resource+"/"+gang]; len(what) > 0 {
			return wrong("foreign", "PodGroup %s is another scheduler's, and got: %s", gang, what)
		}
	}
	if !found {
		return nil
	}
	w.foreignSeen = true
	for _, e := range w.s.recorder.sorted() {
		kind, name, _ := strings.Cut(e.Object, " default/")
		_, theirs := w.theirs[name]
		if p := w.pods["default/"+name]; kind == "Pod" && (theirs || p != nil && foreign(p)) && e.Reason != "Preempted" ||
			kind == "PodGroup" && w.hasTheirs(name) {
			return wrong("foreign", "%s is another scheduler's, and is told %s: %s", e.Object, e.Reason, e.Message)
		}
	}
	return nil
}
