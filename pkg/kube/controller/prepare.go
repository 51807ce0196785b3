package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// The webhook may be down while pods are created, at its start or during a rollout. Such a pod lacks the name of its group. While the
// pod has no node, this file adds what it lacks. Fields that can only be set at creation, and a wrong scheduler, are reported.
//
//	cache: pods of the gang --lacks something--> API server: pods without a node --> labels, annotations
//	                                                                              '-> event

// settledPods are the pods of each object that need no further check: they lack nothing, have a node, or lack only what cannot be
// added any more.
type settledPods struct {
	pods memo.Map[types.UID, map[types.UID]bool]
}

func (s *settledPods) contains(owner, pod types.UID) bool {
	pods, _ := s.pods.Get(owner)
	return pods[pod]
}

// replace sets the settled pods of an object to a copy of pods; an empty map drops them. Several passes over one object may run.
func (s *settledPods) replace(owner types.UID, pods map[types.UID]bool) {
	if len(pods) == 0 {
		s.pods.Drop(owner)
		return
	}
	s.pods.Add(owner, maps.Clone(pods))
}

// changedMeanwhile is how soon pods are checked again after a write conflict.
const changedMeanwhile = 100 * time.Millisecond

// prepare adds to the gangs' pods what the webhook would have added, if still possible. again is when to call it again; 0 is never.
func (r *Reconciler) prepare(ctx context.Context, owner podgang.Owner, infos []*podgang.PodGangInfo) (again time.Duration, err error) {
	if !r.Prepare || r.Source.Pods == nil {
		return 0, nil
	}
	var errs []error
	settled := map[types.UID]bool{}
	for _, info := range infos {
		p := preparation{Reconciler: r, info: info, settled: settled, problems: map[string][]string{}}
		changed, err := p.preparePods(ctx)
		if errs = append(errs, err); changed {
			again = changedMeanwhile
		}
	}
	r.settled.replace(owner.UID, settled)
	return again, errors.Join(errs...)
}

// preparePods prepares the gang's pods that lack something. changed says that a write conflicted, so that it must be repeated.
func (p *preparation) preparePods(ctx context.Context) (changed bool, err error) {
	if p.backend, err = p.Adapter.Registry.For(p.info.SchedulerName); err != nil {
		return false, err
	}
	lacking, err := p.lacking(ctx)
	if err != nil || len(lacking) == 0 {
		return false, err
	}
	return p.prepareLacking(ctx, lacking)
}

// preparation prepares the pods of one gang.
type preparation struct {
	*Reconciler
	info     *podgang.PodGangInfo
	backend  backend.Backend
	settled  map[types.UID]bool
	problems map[string][]string // names of pods, by the problem that users must fix
}

// ownPod returns own true if a pod belongs to the gang and is not being deleted. key is its gang and podgroup.
func (p *preparation) ownPod(pod metav1.Object) (key podgang.PodKey, own bool) {
	if pod.GetDeletionTimestamp() != nil {
		return key, false
	}
	if p.Source.BuildAlone != nil {
		return podgang.KeyAmong([]*podgang.PodGangInfo{p.info}, pod)
	}
	key, ok, err := podgang.KeyOf(pod)
	kind := p.info.Kind
	if kind == podgang.PodCliqueSet {
		kind = podgang.PodGang // PodCliqueSets have pods of PodGangs
	}
	return key, err == nil && ok && key.Kind == kind && key.Gang == p.info.Name
}

// selectors returns the labels of the gang's pods; none if only an annotation names the gang.
func (p *preparation) selectors() (out []client.MatchingLabels) {
	for _, g := range p.info.PodGroups {
		out = append(out, g.Selector)
	}
	return out
}

// lacking returns the UIDs of the gang's pods that lack something in their metadata, and adds the other pods to p.settled.
func (p *preparation) lacking(ctx context.Context) (map[types.UID]bool, error) {
	out := map[types.UID]bool{}
	for _, labels := range p.selectors() {
		pods, err := podsOf(ctx, p.Client, p.info.Namespace, labels, p.Source.ReadsPodSpecs)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			key, own := p.ownPod(pod)
			if !own {
				continue
			}
			lacks := false
			if !p.Reconciler.settled.contains(p.info.Owner.UID, pod.GetUID()) {
				if lacks, err = p.lacks(ctx, pod, key); err != nil {
					return nil, err
				}
			}
			if lacks {
				out[pod.GetUID()] = true
			} else {
				p.settled[pod.GetUID()] = true
			}
		}
	}
	return out, nil
}

// lacks says whether the backend would change the metadata of the pod.
func (p *preparation) lacks(ctx context.Context, pod metav1.Object, key podgang.PodKey) (bool, error) {
	current := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"schedulerName": p.info.SchedulerName}}}
	current.SetNamespace(pod.GetNamespace())
	current.SetName(pod.GetName())
	current.SetLabels(pod.GetLabels())
	current.SetAnnotations(pod.GetAnnotations())
	prepared := current.DeepCopy()
	err := p.backend.PreparePod(ctx, prepared, key)
	return !reflect.DeepEqual(current.Object, prepared.Object), err
}

// prepareLacking prepares the pods in lacking that have no node according to the API server. changed says that a write conflicted.
func (p *preparation) prepareLacking(ctx context.Context, lacking map[types.UID]bool) (changed bool, err error) {
	var errs []error
	unsettled := map[types.UID]bool{}
	for _, labels := range p.selectors() {
		pods := &unstructured.UnstructuredList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := p.Live.List(ctx, pods, client.InNamespace(p.info.Namespace), labels, client.MatchingFields{"spec.nodeName": ""}); err != nil {
			return false, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			key, own := p.ownPod(pod)
			if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); !own || phase != "" && phase != string(corev1.PodPending) {
				continue
			}
			able, err := p.preparePod(ctx, pod, key)
			if apierrors.IsConflict(err) {
				able, changed, err = true, true, nil
			}
			if client.IgnoreNotFound(err) != nil {
				able, errs = true, append(errs, err) // the remaining pods are prepared nevertheless
			}
			unsettled[pod.GetUID()] = able
		}
	}
	for uid := range lacking {
		if !unsettled[uid] {
			p.settled[uid] = true
		}
	}
	p.report()
	return changed, errors.Join(errs...)
}

// preparePod prepares a pod. able is false if that is not possible any more; then it records the problem.
func (p *preparation) preparePod(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) (able bool, err error) {
	scheduler, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulerName")
	if b, err := p.Adapter.Registry.For(scheduler); err != nil || b.Name() != p.backend.Name() || b.Matches(scheduler) == backend.None {
		p.addProblem(pod, fmt.Sprintf("spec.schedulerName is %q, which cannot be changed any more; supported values: %s (backend %s)",
			scheduler, p.backend.Serves(), p.backend.Name()))
		return false, nil
	}
	prepared := pod.DeepCopy()
	if err := p.backend.PreparePod(ctx, prepared, key); err != nil {
		return false, err
	}
	if field := changedField(pod, prepared); field != "" {
		p.addProblem(pod,
			fmt.Sprintf("spec.%s can only be set when a pod is created, by the webhook of muster-controller", field))
		return false, nil
	}
	patch, err := additionPatch(pod, prepared)
	if patch == nil || err != nil {
		return true, err
	}
	if gate := p.backend.GetSchedulingGateName(); p.Gates && p.Source.OwnsPods && gate != "" {
		p.addProblem(pod,
			fmt.Sprintf("spec.schedulingGates can only have %s from when a pod is created: it does not wait for its gang to be written", gate))
	}
	log.FromContext(ctx).Info("A pod was created while the webhook was not available; its gang is written now", "pod", pod.GetName(), "gang",
		p.info.Name)
	return true, p.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(backend.FieldManager))
}

// changedField returns the first field of the spec, by name, whose value in prepared differs from current's; "" for none. Fields that
// prepared lacks do not count.
func changedField(current, prepared *unstructured.Unstructured) string {
	currentSpec, _, _ := unstructured.NestedMap(current.Object, "spec")
	preparedSpec, _, _ := unstructured.NestedMap(prepared.Object, "spec")
	for _, field := range slices.Sorted(maps.Keys(preparedSpec)) {
		if !reflect.DeepEqual(currentSpec[field], preparedSpec[field]) {
			return field
		}
	}
	return ""
}

// additionPatch returns a patch that adds prepared's labels and annotations to this version of the pod; nil if there are none to add.
// The patch fails if the pod has changed, for instance if it has got a node.
func additionPatch(current, prepared *unstructured.Unstructured) ([]byte, error) {
	labels, annotations := additions(current.GetLabels(), prepared.GetLabels()), additions(current.GetAnnotations(), prepared.GetAnnotations())
	if len(labels)+len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": current.GetUID(), "resourceVersion": current.GetResourceVersion(), "labels": labels, "annotations": annotations,
	}})
}

// additions returns the entries of prepared that current lacks or has with another value.
func additions(current, prepared map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range prepared {
		if current[key] != value {
			out[key] = value
		}
	}
	return out
}

// addProblem records that the pod has this problem, for report.
func (p *preparation) addProblem(pod *unstructured.Unstructured, problem string) {
	p.problems[problem] = append(p.problems[problem], pod.GetName())
}

// maxNamed is how many pods an event names.
const maxNamed = 5

// report writes an event for each problem of pods, on the object that owns the gang.
func (p *preparation) report() {
	for _, problem := range slices.Sorted(maps.Keys(p.problems)) {
		pods := p.problems[problem]
		slices.Sort(pods)
		more := ""
		if n := len(pods) - maxNamed; n > 0 {
			pods, more = pods[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		p.Teller.Write(p.info.Namespace, p.info.Owner, podgang.Note{
			Reason: reasons.PodNotPrepared,
			Message: fmt.Sprintf("gang %s, pods %s%s: %s; delete them; the pods that replace them are prepared", p.info.Name,
				strings.Join(pods, ", "), more, problem),
		})
	}
}
