package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// FieldManager is the field manager of all writes.
const FieldManager = "muster-controller"

// Options are what a backend needs to write. The client must keep managedFields (no cache.TransformStripManagedFields for kinds that
// backends write): isApplied reads them.
type Options struct {
	Client client.Client
	// Cluster returns the current cluster state.
	Cluster func(context.Context) (Cluster, error)
	// Tell reports a note about a gang; nil drops notes.
	Tell func(info *podgang.PodGangInfo, note podgang.Note)
	// ByOwner says whether the client has the index IndexOwner for a kind; nil: it has none. Without an index, each lookup of a gang
	// lists its namespace.
	ByOwner func(schema.GroupVersionKind) bool
}

// IndexOwner is the name of the index of written objects by the UID of their owner; OwnerUID is its function.
const IndexOwner = "muster.sh/owner"

// OwnerUID returns the UID of the controller of an object, for IndexOwner.
func OwnerUID(o client.Object) []string {
	if by := metav1.GetControllerOf(o); by != nil {
		return []string{string(by.UID)}
	}
	return nil
}

// New returns the backend of a translator.
func New(t Translator, o Options) Backend { return &writer{t, o} }

// writer is a Backend that writes the objects which a translator returns.
type writer struct {
	Translator
	Options
}

// GetSchedulingGateName returns the translator's gate.
func (w *writer) GetSchedulingGateName() string { return w.Gate() }

// PreparePod calls the translator with the current cluster state.
func (w *writer) PreparePod(ctx context.Context, pod *unstructured.Unstructured, key podgang.PodKey) error {
	cluster, err := w.Cluster(ctx)
	if err != nil {
		return err
	}
	return w.Translator.PreparePod(pod, key, cluster)
}

// Sync writes the gang's objects that differ, and then deletes its other objects. After a failure it deletes nothing.
func (w *writer) Sync(ctx context.Context, info *podgang.PodGangInfo) error {
	objects, existing, err := w.desired(ctx, info, true)
	if err != nil {
		return w.reportFailure(info, err)
	}
	live := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		if live[i], err = w.ownObject(ctx, info, o, existing); err != nil {
			return w.reportFailure(info, err)
		}
	}
	for i, o := range objects {
		if err := w.write(ctx, info, o, live[i]); err != nil {
			return w.reportFailure(info, err)
		}
	}
	for _, u := range existing {
		if !slices.ContainsFunc(objects, func(o Object) bool { return sameObject(o.Unstructured, u) }) {
			if err := w.remove(ctx, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// desired returns the desired and the existing objects of a gang. report says whether to report the translator's notes.
func (w *writer) desired(
	ctx context.Context, info *podgang.PodGangInfo, report bool,
) (objects []Object, existing []*unstructured.Unstructured, err error) {
	cluster, err := w.Cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	if existing, err = w.list(ctx, info.Namespace, info.Owner, client.MatchingLabels{LabelGang: gangLabel(info.Name)}); err != nil {
		return nil, nil, err
	}
	if len(info.PodGroups) == 0 {
		return nil, existing, nil // a gang without groups has no objects, and some APIs would reject them
	}
	objects, notes, err := w.Objects(podgang.KeepMinima(info, w.Minima(existing)), cluster)
	for _, note := range notes {
		if report {
			w.tell(info, note)
		}
	}
	for i := range objects {
		label(objects[i].Unstructured, LabelBackend, w.Name())
		objects[i].Rearm = objects[i].Rearm && !released(info, objects[i].GetName())
	}
	return objects, existing, err
}

// released says whether the group with this object name has minimum 0 in info. Only its existing object has the former minimum, so the
// object must not be recreated.
func released(info *podgang.PodGangInfo, name string) bool {
	return slices.ContainsFunc(info.PodGroups, func(g podgang.PodGroupInfo) bool {
		return g.MinReplicas == 0 && podgang.GroupName(info.Name, g.Name) == name
	})
}

func (w *writer) tell(info *podgang.PodGangInfo, note podgang.Note) {
	if w.Tell != nil {
		w.Tell(info, note)
	}
}

// reportFailure reports err as a note if it is a *podgang.Error, and returns err.
func (w *writer) reportFailure(info *podgang.PodGangInfo, err error) error {
	var why *podgang.Error
	if errors.As(err, &why) {
		w.tell(info, podgang.Note{Reason: why.Reason, Message: why.Message})
	}
	return err
}

// sameObject says whether a and b have the same name and kind, in any version.
func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GetName() == b.GetName() && a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind()
}

// ownObject returns the existing version of desired object o; nil for none. An object of another owner, or one that is being
// deleted, is an error.
func (w *writer) ownObject(
	ctx context.Context, info *podgang.PodGangInfo, o Object, existing []*unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	i := slices.IndexFunc(existing, func(u *unstructured.Unstructured) bool { return sameObject(o.Unstructured, u) })
	var live *unstructured.Unstructured
	if i >= 0 {
		live = existing[i]
	} else {
		live = &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		switch err := w.Client.Get(ctx, client.ObjectKeyFromObject(o.Unstructured), live); {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
	gang, labelled := live.GetLabels()[LabelGang]
	switch by := metav1.GetControllerOf(live); {
	case by == nil:
		return nil, conflict(o, "not owned by a backend that this controller knows")
	case by.UID != info.Owner.UID && by.Kind == info.Owner.Kind && by.Name == info.Owner.Name:
		return nil, &podgang.Error{
			Reason: reasons.PodGroupTerminating, Message: fmt.Sprintf("%s %s/%s is still that of the %s %s that was there before (UID %s)",
				o.GetKind(), o.GetNamespace(), o.GetName(), by.Kind, by.Name, by.UID),
		}
	case by.UID != info.Owner.UID:
		return nil, conflict(o, fmt.Sprintf("that of %s %s (UID %s)", by.Kind, by.Name, by.UID))
	case labelled && gang != gangLabel(info.Name): // the user may have removed the label
		return nil, conflict(o, fmt.Sprintf("that of gang %s", gang))
	case live.GetDeletionTimestamp() != nil:
		return nil, terminating(live)
	}
	return live, nil
}

// conflict returns the error that the object exists and belongs to owner, in words.
func conflict(o Object, owner string) error {
	return &podgang.Error{
		Reason: reasons.PodGroupConflict,
		Message: fmt.Sprintf("%s %s/%s exists, and is %s; it is left as it is, and nothing is written for the gang", o.GetKind(),
			o.GetNamespace(), o.GetName(), owner),
	}
}

// terminating returns the error that an object is being deleted, so that it cannot be written yet.
func terminating(u *unstructured.Unstructured) error {
	return &podgang.Error{
		Reason: reasons.PodGroupTerminating, Message: fmt.Sprintf("%s %s/%s is on its way out (finalizers %q); it is made again when it is gone",
			u.GetKind(), u.GetNamespace(), u.GetName(), u.GetFinalizers()),
	}
}

// write applies o, or recreates it where that is needed. live is the existing version, or nil. It sends nothing if nothing differs.
func (w *writer) write(ctx context.Context, info *podgang.PodGangInfo, o Object, live *unstructured.Unstructured) error {
	if live == nil {
		return w.apply(ctx, o.Unstructured)
	}
	why := ""
	if o.Fixed != nil && !slices.Equal(o.Fixed(o.Unstructured), o.Fixed(live)) {
		why = "what can only be set at creation has changed"
	}
	rearm, err := w.mustRearm(ctx, o, live)
	if err != nil {
		return err
	}
	if rearm {
		why = "all of its pods are new: they are a gang again"
	}
	if why != "" {
		w.tell(info, podgang.Note{
			Reason: reasons.PodGroupRecreated, Info: true,
			Message: fmt.Sprintf("%s %s/%s is made again: %s", o.GetKind(), o.GetNamespace(), o.GetName(), why),
		})
		if err := w.remove(ctx, live); err != nil {
			return err
		}
		if len(live.GetFinalizers()) > 0 {
			return terminating(live)
		}
		return w.apply(ctx, o.Unstructured)
	}
	if o.Rearm {
		keepIncarnation(o.Unstructured, live)
	}
	if isApplied(o.Unstructured, live) {
		return nil
	}
	return w.apply(ctx, o.Unstructured)
}

// keepIncarnation copies the incarnation from live to u if u has none, because the group has no pods.
func keepIncarnation(u, live *unstructured.Unstructured) {
	annotations := u.GetAnnotations()
	if former := live.GetAnnotations()[AnnotationIncarnation]; former != "" && annotations[AnnotationIncarnation] == "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[AnnotationIncarnation] = former
		u.SetAnnotations(annotations)
	}
}

// mustRearm says whether an object with Rearm must be recreated, because all pods of its group were recreated or are gone.
func (w *writer) mustRearm(ctx context.Context, o Object, live *unstructured.Unstructured) (bool, error) {
	if !o.Rearm {
		return false, nil
	}
	former, current := live.GetAnnotations()[AnnotationIncarnation], o.GetAnnotations()[AnnotationIncarnation]
	if former != "" && current != "" && former != current {
		return true, nil
	}
	phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
	if !slices.Contains(satisfied, scheduling.PodGroupPhase(phase)) || len(o.Pods) == 0 {
		return false, nil
	}
	n, err := w.pods(ctx, o.GetNamespace(), o.Pods, func(*metav1.PartialObjectMetadata) bool { return true })
	return n == 0 && err == nil, err
}

// satisfied are the phases of a gang that has reached its minimum once.
var satisfied = []scheduling.PodGroupPhase{
	scheduling.PodGroupScheduled, scheduling.PodGroupRunning, scheduling.PodGroupFinished, scheduling.PodGroupFailed,
}

// pods returns the number of pods with these labels for which count returns true.
func (w *writer) pods(
	ctx context.Context, namespace string, labels map[string]string, count func(*metav1.PartialObjectMetadata) bool,
) (n int, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := w.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(labels)); err != nil {
		return 0, err
	}
	for i := range list.Items {
		if count(&list.Items[i]) {
			n++
		}
	}
	return n, nil
}

// apply writes an object by server-side apply.
func (w *writer) apply(ctx context.Context, u *unstructured.Unstructured) error {
	return w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner(FieldManager), client.ForceOwnership)
}

// remove deletes the object with u's UID, unless it is being deleted already.
func (w *writer) remove(ctx context.Context, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := u.GetUID()
	return client.IgnoreNotFound(w.Client.Delete(ctx, u, client.Preconditions{UID: &uid}))
}

// list returns the objects written for an owner. Kinds that are not served have none.
func (w *writer) list(
	ctx context.Context, namespace string, owner podgang.Owner, labels client.MatchingLabels,
) (out []*unstructured.Unstructured, err error) {
	cluster, err := w.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range w.Kinds(cluster) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		options := []client.ListOption{client.InNamespace(namespace), labels}
		if w.ByOwner != nil && w.ByOwner(kind) {
			options = append(options, client.MatchingFields{IndexOwner: string(owner.UID)})
		}
		switch err := w.Client.List(ctx, list, options...); {
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			return nil, err
		}
		for i := range list.Items {
			if by := metav1.GetControllerOf(&list.Items[i]); by != nil && by.UID == owner.UID {
				out = append(out, &list.Items[i])
			}
		}
	}
	return out, nil
}

// Delete deletes what was written for a gang.
func (w *writer) Delete(ctx context.Context, info *podgang.PodGangInfo) error {
	existing, err := w.list(ctx, info.Namespace, info.Owner, client.MatchingLabels{LabelGang: gangLabel(info.Name), LabelBackend: w.Name()})
	for _, u := range existing {
		err = errors.Join(err, w.remove(ctx, u))
	}
	return err
}

// CheckGangReady says whether all objects and enough pods exist.
func (w *writer) CheckGangReady(ctx context.Context, info *podgang.PodGangInfo) (bool, string, error) {
	objects, existing, err := w.desired(ctx, info, false)
	if err != nil {
		return false, info.Name, err
	}
	for _, o := range objects {
		if !slices.ContainsFunc(existing, func(u *unstructured.Unstructured) bool {
			return sameObject(o.Unstructured, u) && u.GetDeletionTimestamp() == nil
		}) {
			return false, info.Name, nil
		}
	}
	for _, g := range podgang.KeepMinima(info, w.Minima(existing)).PodGroups {
		n := len(g.PodReferences)
		if len(g.Selector) > 0 {
			stays := func(pod *metav1.PartialObjectMetadata) bool { return pod.DeletionTimestamp == nil }
			if n, err = w.pods(ctx, info.Namespace, g.Selector, stays); err != nil {
				return false, info.Name, err
			}
		}
		if n < int(g.MinReplicas) {
			return false, info.Name, nil
		}
	}
	return true, info.Name, nil
}

// GetExistingResourceNames returns the objects written for an owner.
func (w *writer) GetExistingResourceNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error) {
	return w.existing(ctx, namespace, owner, (*unstructured.Unstructured).GetName)
}

// GetExistingGangNames returns the gangs of the objects written for an owner, as in their labels.
func (w *writer) GetExistingGangNames(ctx context.Context, namespace string, owner podgang.Owner) ([]string, error) {
	return w.existing(ctx, namespace, owner, func(u *unstructured.Unstructured) string { return u.GetLabels()[LabelGang] })
}

// existing returns name(object), sorted and each once, of the objects that this backend wrote for an owner.
func (w *writer) existing(
	ctx context.Context, namespace string, owner podgang.Owner, name func(*unstructured.Unstructured) string,
) (out []string, err error) {
	existing, err := w.list(ctx, namespace, owner, client.MatchingLabels{
		LabelManagedBy: ManagedBy, LabelOwner: string(owner.UID), LabelBackend: w.Name(),
	})
	for _, u := range existing {
		out = append(out, name(u))
	}
	slices.Sort(out)
	return slices.Compact(out), err
}
