// Package allot writes ResourceClaim allocations before the members' own cycles, if these cycles would not find them: the members share
// the claims, or devices that suffice only if allocated together. It releases an allocation if none of its members starts.
// It does the same for allocations of a cycle with a failed binding (RecordFailedBinding).
//
//	written ──all users bound──────────────────────► forgotten: the claim is in use
//	   │
//	   └──some unbound, none with a node──► released; until then no pod that names the claim is planned
//
// If bound pods use a claim, only the reservations of the other pods are released. Two other things that prevent members from starting
// are released, too: claims for extended resources from earlier cycles (RecordLeftover), and allocations of unused claims (RecordIdle).
//
// An annotation of the claim (mark) identifies the allocation, so that the next process finds it (Find). The package uses claims and pods,
// but no gangs and no plans: the caller says which pods have a node. Invariant: an allocation that a bound pod uses is never released.
package allot

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Fate is the state of a pod with a written allocation.
type Fate uint8

// The fates of a pod with a written allocation.
const (
	Deleted    Fate = iota // the pod is deleted: Kubernetes' own controller releases its claims
	Unassigned             // it has no node, neither reserved nor planned
	Assigned               // a node is reserved or planned for it
	Bound                  // it is bound
)

// User is a pod with a written allocation.
type User struct {
	types.NamespacedName
	UID types.UID
	// Extended says that the claim was made for the pod's extended resources in a cycle. After that cycle it is useless: DynamicResources
	// makes a new one in each cycle, and rejects the pod as long as an old one exists.
	Extended bool
}

// Allocations records written allocations that are not in use yet. The zero value is for a scheduler without ResourceClaims.
type Allocations struct {
	Client kubernetes.Interface
	Claims fwk.ResourceClaimTracker // the scheduler's view of claims

	mu           sync.Mutex
	allotments   map[types.UID]*allotment // by claim
	unreleasable map[types.UID]bool       // claims that cannot be released
}

// allotment is one claim with a written allocation.
type allotment struct {
	types.NamespacedName
	uid         types.UID
	mark        string // hash of the allocation; "" if unknown
	users       []User
	writing     bool               // Write is writing it
	releasing   bool               // it is being released
	deleteWhole bool               // for extended resources: deleted instead of released
	waiting     map[string]*v1.Pod // pods that wait for the release
}

// Write writes the allocations of these claims, which are not allocated in the API server yet, and records them. After an error some of
// them may be written.
func (r *Allocations) Write(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	for _, c := range claims {
		a := newAllotment(c)
		a.writing = true
		r.add(a)
		err := r.write(ctx, c)
		r.mu.Lock()
		a.writing = false
		r.mu.Unlock()
		if err != nil {
			return fmt.Errorf("resource claim %s/%s: %w", c.Namespace, c.Name, err)
		}
	}
	return nil
}

func newAllotment(c *resourceapi.ResourceClaim) *allotment {
	a := &allotment{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, uid: c.UID, deleteWhole: isExtended(c)}
	if c.Status.Allocation != nil {
		a.mark = markOf(c.Status.Allocation)
	}
	for _, ref := range c.Status.ReservedFor {
		a.users = append(a.users, a.user(ref.Name, ref.UID))
	}
	if owner := metav1.GetControllerOf(c); len(a.users) == 0 && owner != nil && owner.Kind == "Pod" {
		a.users = []User{a.user(owner.Name, owner.UID)}
	}
	return a
}

func (a *allotment) user(name string, uid types.UID) User {
	return User{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: name}, UID: uid, Extended: a.deleteWhole}
}

// isExtended returns whether a claim was made for a pod's extended resources.
func isExtended(c *resourceapi.ResourceClaim) bool {
	return c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

func (r *Allocations) add(a *allotment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allotments == nil {
		r.allotments = map[types.UID]*allotment{}
	}
	if previous := r.allotments[a.uid]; previous != nil {
		a.waiting = previous.waiting
	}
	r.allotments[a.uid] = a
}

// RecordFailedBinding records the claims of a member whose binding failed, so that their allocations are released. DynamicResources would
// keep them for the next try, which may be late or on another node. If the pod is gone, claims that were made for it are not recorded.
func (r *Allocations) RecordFailedBinding(member *v1.Pod, gone bool) {
	if r.Claims == nil {
		return
	}
	for i := range member.Spec.ResourceClaims {
		ref := &member.Spec.ResourceClaims[i]
		if gone && ref.ResourceClaimName == nil {
			continue
		}
		name, _, err := resourceclaim.Name(member, ref)
		if err != nil || name == nil {
			continue
		}
		c, err := r.Claims.Get(member.Namespace, *name)
		if err == nil && !r.has(c.UID) {
			a := &allotment{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, uid: c.UID}
			a.users = []User{a.user(member.Name, member.UID)}
			r.add(a)
		}
	}
}

// RecordLeftover records the claims for extended resources of pending members that earlier cycles, of any process, have made. It returns
// whether there are any.
func (r *Allocations) RecordLeftover(members []*v1.Pod) (found bool) {
	owners := map[types.UID]bool{}
	for _, m := range members {
		if asksExtended(m) {
			owners[m.UID] = true
		}
	}
	if r.Claims == nil || len(owners) == 0 {
		return false
	}
	all, err := r.Claims.List()
	if err != nil {
		return false // DynamicResources will report it
	}
	for _, c := range all {
		if owner := metav1.GetControllerOf(c); isExtended(c) && owner != nil && owners[owner.UID] && !r.isUnreleasable(c.UID) {
			if found = true; !r.has(c.UID) {
				r.add(newAllotment(c))
			}
		}
	}
	return found
}

// asksExtended returns whether a pod requests extended resources that device classes may provide.
func asksExtended(pod *v1.Pod) bool {
	asks := func(c v1.Container) bool {
		for name := range c.Resources.Requests {
			if schedutil.IsDRAExtendedResourceName(name) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(pod.Spec.Containers, asks) || slices.ContainsFunc(pod.Spec.InitContainers, asks)
}

// RecordIdle records the allocated claims of unschedulable members that restrict the nodes and that no other pod uses, and returns
// whether there are any. kube-scheduler releases such claims, too.
func (r *Allocations) RecordIdle(members []*v1.Pod) (found bool) {
	if r.Claims == nil {
		return false
	}
	pending := make(map[types.UID]bool, len(members))
	for _, m := range members {
		pending[m.UID] = true
	}
	used := func(ref resourceapi.ResourceClaimConsumerReference) bool { return !isPod(ref) || !pending[ref.UID] }
	for _, m := range members {
		for i := range m.Spec.ResourceClaims {
			name, _, err := resourceclaim.Name(m, &m.Spec.ResourceClaims[i])
			if err != nil || name == nil {
				continue
			}
			c, err := r.Claims.Get(m.Namespace, *name)
			if err != nil || c.Status.Allocation == nil || c.Status.Allocation.NodeSelector == nil ||
				slices.ContainsFunc(c.Status.ReservedFor, used) || r.isUnreleasable(c.UID) {
				continue
			}
			if found = true; r.has(c.UID) {
				continue
			}
			a := newAllotment(c)
			if a.mark = ""; !slices.ContainsFunc(a.users, func(u User) bool { return u.UID == m.UID }) {
				a.users = append(a.users, a.user(m.Name, m.UID))
			}
			r.add(a)
		}
	}
	return found
}

// SetUnreleasable records that a claim cannot be released, so that no pod waits for it again.
func (r *Allocations) SetUnreleasable(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unreleasable == nil {
		r.unreleasable = map[types.UID]bool{}
	}
	r.unreleasable[claim] = true
}

func (r *Allocations) isUnreleasable(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unreleasable[claim]
}

func (r *Allocations) has(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.allotments[claim] != nil
}

// write writes one claim: first its mark and finalizer, which need a separate update, then its status with the allocation.
// If the process ends between these, the claim is unallocated, as with DynamicResources.
func (r *Allocations) write(ctx context.Context, want *resourceapi.ResourceClaim) error {
	api := r.Client.ResourceV1().ResourceClaims(want.Namespace)
	current, err := r.Claims.Get(want.Namespace, want.Name)
	reread := err != nil
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if reread {
			if current, err = api.Get(ctx, want.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		reread = true
		switch {
		case current.UID != want.UID:
			return errors.New("it was recreated meanwhile")
		case current.DeletionTimestamp != nil:
			return errors.New("it is being deleted")
		case current.Status.Allocation != nil:
			return errors.New("it was allocated for another pod meanwhile")
		}
		c := current.DeepCopy()
		mark := markOf(want.Status.Allocation)
		if c.Annotations[scheduling.AnnotationAllocatedAhead] != mark || !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, scheduling.AnnotationAllocatedAhead, mark)
			if !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
				c.Finalizers = append(c.Finalizers, resourceapi.Finalizer)
			}
			if c, err = api.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		c.Status.Allocation, c.Status.ReservedFor = want.Status.Allocation.DeepCopy(), want.Status.ReservedFor
		// The time must be set: DynamicResources sets a missing one for the next reservation, and the API server rejects that as a change.
		// The time also starts the timeout for devices that must be prepared.
		c.Status.Allocation.AllocationTimestamp = new(metav1.Now())
		if c, err = api.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		r.assume(c)
		return nil
	})
}

// assume gives the written claim to the scheduler's claim tracker before the watch does. On an error the tracker has a newer claim, or
// none.
func (r *Allocations) assume(c *resourceapi.ResourceClaim) { _ = r.Claims.AssumeClaimAfterAPICall(c) }

// markOf returns a hash of the allocated devices, to recognize an allocation by Muster. An allocation of other devices has another hash.
func markOf(a *resourceapi.AllocationResult) string {
	h := fnv.New64a()
	for i := range a.Devices.Results {
		result := &a.Devices.Results[i]
		share := ""
		if result.ShareID != nil {
			share = string(*result.ShareID)
		}
		_, _ = h.Write([]byte(strings.Join([]string{result.Request, result.Driver, result.Pool, result.Device, share, ""}, "\n"))) // never fails
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// AllocatedByMuster returns whether Muster, in this process or another one, has written the claim's allocation.
func AllocatedByMuster(c *resourceapi.ResourceClaim) bool {
	mark, ok := c.Annotations[scheduling.AnnotationAllocatedAhead]
	return ok && c.Status.Allocation != nil && mark == markOf(c.Status.Allocation)
}

// FindIn is Find for all claims. The error is the lister's.
func (r *Allocations) FindIn(claims resourcelisters.ResourceClaimLister, owns func(of User, waits bool) bool) error {
	all, err := claims.List(labels.Everything())
	if err == nil {
		r.Find(all, owns)
	}
	return err
}

// Find records the claims that an earlier process may have allocated for pending pods: claims with a mark, even if their pods are deleted,
// and claims that DynamicResources allocated for a member that was never bound. owns returns whether a user is a pod of this process; with
// waits it must still be pending.
func (r *Allocations) Find(claims []*resourceapi.ResourceClaim, owns func(of User, waits bool) bool) {
	for _, c := range claims {
		notPod := func(ref resourceapi.ResourceClaimConsumerReference) bool { return !isPod(ref) }
		if c.Status.Allocation == nil || slices.ContainsFunc(c.Status.ReservedFor, notPod) {
			continue
		}
		a, ahead := newAllotment(c), AllocatedByMuster(c)
		hadUsers := len(a.users) > 0
		a.users = slices.DeleteFunc(a.users, func(u User) bool { return !owns(u, !ahead) }) // other users keep it
		if len(a.users) > 0 || ahead && !hadUsers {
			r.add(a)
		}
	}
}

func isPod(ref resourceapi.ResourceClaimConsumerReference) bool {
	return ref.APIGroup == "" && ref.Resource == "pods"
}

// Any returns whether any allocation is recorded.
func (r *Allocations) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.allotments) > 0
}

// Review removes the records of allocations in use: all users are bound. It returns the claims to release: some user is not bound, and
// no user is assigned. It returns each claim once; KeepIfNeeded or TakeBack must follow.
func (r *Allocations) Review(fate func(User) Fate) (listed []types.UID) {
	r.mu.Lock()
	var candidates []*allotment
	for _, a := range r.allotments {
		if !a.writing && !a.releasing {
			candidates = append(candidates, a)
		}
	}
	r.mu.Unlock()
	for _, a := range candidates {
		fates := a.fates(fate)
		r.mu.Lock()
		switch {
		case r.allotments[a.uid] != a || a.releasing || fates[Assigned]:
		case fates[Bound] && !fates[Unassigned]:
			delete(r.allotments, a.uid)
		default:
			a.releasing = true
			listed = append(listed, a.uid)
		}
		r.mu.Unlock()
	}
	return listed
}

// KeepIfNeeded returns whether a claim from Review must not be released, because a user was assigned a node since. It also returns the pods
// that waited for the release. Review may then return the claim again. Call it before TakeBack.
//
// A pod that is assigned a node calls WaitForRelease afterwards. So either that pod waits, or KeepIfNeeded sees its node.
func (r *Allocations) KeepIfNeeded(claim types.UID, fate func(User) Fate) (kept bool, waiting map[string]*v1.Pod) {
	r.mu.Lock()
	a := r.allotments[claim]
	r.mu.Unlock()
	if a == nil || !a.fates(fate)[Assigned] {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allotments[claim] != a {
		return false, nil
	}
	a.releasing = false
	waiting, a.waiting = a.waiting, nil
	return true, waiting
}

// fates returns which fates the users have. If one is Assigned, others may be missing.
func (a *allotment) fates(fate func(User) Fate) (found [Bound + 1]bool) {
	for _, u := range a.users {
		if found[fate(u)] = true; found[Assigned] {
			break
		}
	}
	return found
}

// WaitForRelease returns the key of a claim of the members that is being released, and records pod as waiting for it; "" if there is none.
func (r *Allocations) WaitForRelease(pod *v1.Pod, members []*v1.Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.allotments {
		if a.releasing && slices.ContainsFunc(members, a.usesClaim) {
			if a.waiting == nil {
				a.waiting = map[string]*v1.Pod{}
			}
			a.waiting[pod.Namespace+"/"+pod.Name] = pod
			return a.Namespace + "/" + a.Name
		}
	}
	return ""
}

// usesClaim returns whether a pod names the claim, or the claim was made for it.
func (a *allotment) usesClaim(pod *v1.Pod) bool {
	if pod.Namespace != a.Namespace {
		return false
	}
	if a.deleteWhole {
		return slices.ContainsFunc(a.users, func(u User) bool { return u.UID == pod.UID })
	}
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil && *name == a.Name {
			return true
		}
	}
	return false
}

// TakeBack releases a claim from Review: it removes the reservations of users that are not bound, and the allocation if no reservation
// remains. If there is no error, Forget must follow.
//
// It removes the mark of an unallocated claim, so that a late request to write that claim fails with a conflict.
func (r *Allocations) TakeBack(ctx context.Context, claim types.UID) error {
	r.mu.Lock()
	a := r.allotments[claim]
	r.mu.Unlock()
	if a == nil {
		return nil
	}
	if a.deleteWhole {
		return r.deleteClaim(ctx, a)
	}
	api := r.Client.ResourceV1().ResourceClaims(a.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := api.Get(ctx, a.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.UID != a.uid || a.mark != "" && c.Status.Allocation != nil && markOf(c.Status.Allocation) != a.mark {
			return nil
		}
		if c.Status.Allocation == nil {
			return r.unmark(ctx, a, c)
		}
		users, err := r.users(ctx, a, c)
		if err != nil || len(users) > 0 && len(users) == len(c.Status.ReservedFor) {
			return err
		}
		if c.Status.ReservedFor = users; len(users) == 0 {
			c.Status.Allocation, c.Status.Devices = nil, nil
		}
		if c, err = api.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		r.assume(c)
		return nil
	})
}

// deleteClaim deletes a claim for extended resources, unless its pod is bound.
// It returns an error as long as the scheduler still has the claim, because the pod would be rejected again.
func (r *Allocations) deleteClaim(ctx context.Context, a *allotment) error {
	api := r.Client.ResourceV1().ResourceClaims(a.Namespace)
	gone := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := api.Get(ctx, a.Name, metav1.GetOptions{})
		if gone = apierrors.IsNotFound(err) || err == nil && c.UID != a.uid; gone || err != nil {
			return ignored(err, apierrors.IsNotFound)
		}
		for _, u := range a.users {
			bound, err := r.isStillUsed(ctx, a, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: u.Name, UID: u.UID})
			if err != nil || bound {
				return err
			}
		}
		if i := slices.Index(c.Finalizers, resourceapi.Finalizer); i >= 0 {
			c.Finalizers = slices.Delete(c.Finalizers, i, i+1)
			if _, err = api.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		err = ignored(api.Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.uid}}), apierrors.IsNotFound)
		gone = err == nil
		return err
	})
	if err != nil || !gone {
		return err
	}
	if c, err := r.Claims.Get(a.Namespace, a.Name); err == nil && c.UID == a.uid {
		return fmt.Errorf("resource claim %s/%s is still seen", a.Namespace, a.Name)
	}
	return nil
}

// ignored returns err, or nil if kind returns true for it.
func ignored(err error, kind func(error) bool) error {
	if kind(err) {
		return nil
	}
	return err
}

// unmark removes the mark of an unallocated claim.
func (r *Allocations) unmark(ctx context.Context, a *allotment, c *resourceapi.ResourceClaim) error {
	if mark, ok := c.Annotations[scheduling.AnnotationAllocatedAhead]; !ok || mark != a.mark {
		return nil
	}
	delete(c.Annotations, scheduling.AnnotationAllocatedAhead)
	_, err := r.Client.ResourceV1().ResourceClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// users returns the entries of a claim's ReservedFor that must remain; see isStillUsed.
func (r *Allocations) users(
	ctx context.Context, a *allotment, c *resourceapi.ResourceClaim,
) (all []resourceapi.ResourceClaimConsumerReference, err error) {
	for _, ref := range c.Status.ReservedFor {
		used, err := r.isStillUsed(ctx, a, ref)
		if err != nil {
			return nil, err
		}
		if used {
			all = append(all, ref)
		}
	}
	return all, nil
}

// isStillUsed returns whether an entry of a claim's ReservedFor must remain: it is for a bound pod, or not for one of the recorded users.
func (r *Allocations) isStillUsed(ctx context.Context, a *allotment, ref resourceapi.ResourceClaimConsumerReference) (bool, error) {
	if !isPod(ref) || !slices.ContainsFunc(a.users, func(u User) bool { return u.UID == ref.UID }) {
		return true, nil
	}
	pod, err := r.Client.CoreV1().Pods(a.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return pod.UID == ref.UID && pod.Spec.NodeName != "", nil
}

// Forget removes the record of a released claim, and returns the pods that waited for the release. If the claim was recorded again during
// the release, the new record stays.
func (r *Allocations) Forget(claim types.UID) (waiting map[string]*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.allotments[claim]
	if a == nil {
		return nil
	}
	if waiting, a.waiting = a.waiting, nil; a.releasing {
		delete(r.allotments, claim)
	}
	return waiting
}
