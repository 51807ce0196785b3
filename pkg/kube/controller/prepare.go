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

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/memo"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// The webhook may be away while pods are created: it is starting, or is being replaced. Such a pod does not name the
// group of which its siblings are. As long as it has no node it is prepared here, after the fact; what can only be set at
// creation is said, and so is a scheduler that is not the gang's.
//
//	cache: pods of the gang --lacks something--> API server: those without a node --> labels, annotations
//	                                                                              '-> event

// settled are pods that need no second look, by the object of whose gangs they are: they have all they need, have a
// node, or lack what nobody can give them any more.
type settled struct {
	pods memo.Map[types.UID, map[types.UID]bool]
}

func (s *settled) has(owner, pod types.UID) bool {
	pods, _ := s.pods.Get(owner)
	return pods[pod]
}

// keep is called with all that are settled by now; none is what an object that has gone has. Nobody else has the map that
// is kept: of two passes over one object each replaces all of it.
func (s *settled) keep(owner types.UID, pods map[types.UID]bool) {
	if len(pods) == 0 {
		s.pods.Drop(owner)
		return
	}
	s.pods.Add(owner, maps.Clone(pods))
}

// changedMeanwhile is how soon pods are looked at again that somebody changed at the same time.
const changedMeanwhile = 100 * time.Millisecond

// prepare has the pods of some gangs be as the webhook would have made them, as far as that is still possible. It asks
// to be called again after some time, 0 if it need not be.
func (r *Reconciler) prepare(ctx context.Context, owner podgang.Owner, infos []*podgang.PodGangInfo) (again time.Duration, err error) {
	if !r.Prepare || r.Source.Pods == nil {
		return 0, nil
	}
	var errs []error
	is := map[types.UID]bool{}
	for _, info := range infos {
		p := preparation{Reconciler: r, info: info, settled: is, cannot: map[string][]string{}}
		changed, err := p.all(ctx)
		if errs = append(errs, err); changed {
			again = changedMeanwhile
		}
	}
	r.settled.keep(owner.UID, is)
	return again, errors.Join(errs...)
}

// all prepares the pods of the gang that lack something. changed says that somebody changed one of them meanwhile.
func (p *preparation) all(ctx context.Context) (changed bool, err error) {
	if p.backend, err = p.Adapter.Registry.For(p.info.SchedulerName); err != nil {
		return false, err
	}
	lacking, err := p.lacking(ctx)
	if err != nil || len(lacking) == 0 {
		return false, err
	}
	return p.mend(ctx, lacking)
}

// preparation is that of the pods of one gang.
type preparation struct {
	*Reconciler
	info    *podgang.PodGangInfo
	backend backend.Backend
	settled map[types.UID]bool
	cannot  map[string][]string // names of pods, by what is wrong with them
}

// mine says whether a pod is one of the gang's, and stays; key is its place in it.
func (p *preparation) mine(pod metav1.Object) (key podgang.PodKey, is bool) {
	if pod.GetDeletionTimestamp() != nil {
		return key, false
	}
	if p.Source.Asked != nil {
		return podgang.KeyAmong([]*podgang.PodGangInfo{p.info}, pod)
	}
	key, ok, err := podgang.KeyOf(pod)
	kind := p.info.Kind
	if kind == podgang.PodCliqueSet {
		kind = podgang.PodGang // its pods say so
	}
	return key, err == nil && ok && key.Kind == kind && key.Gang == p.info.Name
}

// selectors are the labels by which the gang's pods are found; where only an annotation says whose they are, none.
func (p *preparation) selectors() (out []client.MatchingLabels) {
	for _, g := range p.info.PodGroups {
		out = append(out, g.Selector)
	}
	return out
}

// lacking are the gang's pods that lack something, as far as their metadata says.
func (p *preparation) lacking(ctx context.Context) (map[types.UID]bool, error) {
	out := map[types.UID]bool{}
	for _, labels := range p.selectors() {
		pods, err := podsOf(ctx, p.Client, p.info.Namespace, labels, p.Source.Whole)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			key, is := p.mine(pod)
			if !is {
				continue
			}
			lacks := false
			if !p.Reconciler.settled.has(p.info.Owner.UID, pod.GetUID()) {
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

// lacks says whether the backend would add something to a pod of the gang's scheduler.
func (p *preparation) lacks(ctx context.Context, pod metav1.Object, key podgang.PodKey) (bool, error) {
	is := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"schedulerName": p.info.SchedulerName}}}
	is.SetNamespace(pod.GetNamespace())
	is.SetName(pod.GetName())
	is.SetLabels(pod.GetLabels())
	is.SetAnnotations(pod.GetAnnotations())
	should := is.DeepCopy()
	err := p.backend.PreparePod(ctx, should, key)
	return !reflect.DeepEqual(is.Object, should.Object), err
}

// mend asks the API server which of the pods have no node, and prepares these. changed says that somebody changed one of
// them meanwhile.
func (p *preparation) mend(ctx context.Context, lacking map[types.UID]bool) (changed bool, err error) {
	var errs []error
	open := map[types.UID]bool{}
	for _, labels := range p.selectors() {
		pods := &unstructured.UnstructuredList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := p.Live.List(ctx, pods, client.InNamespace(p.info.Namespace), labels, client.MatchingFields{"spec.nodeName": ""}); err != nil {
			return false, err
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			key, is := p.mine(pod)
			if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); !is || phase != "" && phase != string(corev1.PodPending) {
				continue
			}
			able, err := p.one(ctx, pod, key)
			if apierrors.IsConflict(err) {
				able, changed, err = true, true, nil
			}
			if client.IgnoreNotFound(err) != nil {
				able, errs = true, append(errs, err) // the others are not kept from it
			}
			open[pod.GetUID()] = able
		}
	}
	for uid := range lacking {
		if !open[uid] {
			p.settled[uid] = true
		}
	}
	p.tell()
	return changed, errors.Join(errs...)
}

// one prepares a pod. It is not able to where something can only be set at creation.
func (p *preparation) one(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) (able bool, err error) {
	scheduler, _, _ := unstructured.NestedString(pod.Object, "spec", "schedulerName")
	if b, err := p.Adapter.Registry.For(scheduler); err != nil || b.Name() != p.backend.Name() || b.Matches(scheduler) == backend.None {
		p.say(pod, fmt.Sprintf("spec.schedulerName is %q, which cannot be changed any more; supported values: %s (backend %s)", scheduler, p.backend.Serves(), p.backend.Name()))
		return false, nil
	}
	should := pod.DeepCopy()
	if err := p.backend.PreparePod(ctx, should, key); err != nil {
		return false, err
	}
	if field := changedField(pod, should); field != "" {
		p.say(pod, fmt.Sprintf("spec.%s can only be set when a pod is created; supported values: what the webhook of muster-controller sets there", field))
		return false, nil
	}
	patch, err := addedTo(pod, should)
	if patch == nil || err != nil {
		return true, err
	}
	if gate := p.backend.GetSchedulingGateName(); p.Gates && p.Source.OwnsPods && gate != "" {
		p.say(pod, fmt.Sprintf("spec.schedulingGates can only have %s from when a pod is created: it does not wait for its gang to be written", gate))
	}
	log.FromContext(ctx).Info("a pod was created while the webhook was away; it is told its gang now", "pod", pod.GetName(), "gang", p.info.Name)
	return true, p.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(backend.FieldManager))
}

// changedField is the first field of the spec in which two pods differ, "" if there is none.
func changedField(is, should *unstructured.Unstructured) string {
	was, _, _ := unstructured.NestedMap(is.Object, "spec")
	want, _, _ := unstructured.NestedMap(should.Object, "spec")
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(was[field], want[field]) {
			return field
		}
	}
	return ""
}

// addedTo is a patch that adds labels and annotations to just this pod as it is: one that has got a node meanwhile is left
// alone. nil is nothing to add.
func addedTo(is, should *unstructured.Unstructured) ([]byte, error) {
	labels, annotations := added(is.GetLabels(), should.GetLabels()), added(is.GetAnnotations(), should.GetAnnotations())
	if len(labels)+len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": is.GetUID(), "resourceVersion": is.GetResourceVersion(), "labels": labels, "annotations": annotations,
	}})
}

func added(is, should map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range should {
		if is[key] != value {
			out[key] = value
		}
	}
	return out
}

func (p *preparation) say(pod *unstructured.Unstructured, wrong string) {
	p.cannot[wrong] = append(p.cannot[wrong], pod.GetName())
}

// maxNamed is how many pods an event names.
const maxNamed = 5

// tell says what could not be done for pods, on the object of whose gang they are.
func (p *preparation) tell() {
	for _, wrong := range slices.Sorted(maps.Keys(p.cannot)) {
		pods := p.cannot[wrong]
		slices.Sort(pods)
		more := ""
		if n := len(pods) - maxNamed; n > 0 {
			pods, more = pods[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		p.Teller.Tell(p.info.Namespace, p.info.Owner, podgang.Note{
			Reason:  podgang.ReasonNotPrepared,
			Message: fmt.Sprintf("gang %s, pods %s%s: %s; delete them; the pods that replace them are prepared", p.info.Name, strings.Join(pods, ", "), more, wrong),
		})
	}
}
