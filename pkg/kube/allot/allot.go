// Package allot writes down the devices of claims before the members come who use them, where these would not find them in
// cycles of their own: they share the claims, or have what they have only since others were asked for at once. It takes them
// back if none of these members starts.
//
//	written ──somebody is bound──► forgotten: the claim is in use, as any other
//	   │
//	   └──nobody comes any more──► taken back; until then nobody is planned who names the claim
//
// What was written is known by a mark on the claim, which outlives the process: the next one finds what is left
// (Find). The package knows claims and pods, and neither gangs nor places: it is told who still comes.
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Fate is what becomes of a pod for which devices were written.
type Fate uint8

const (
	Stays Fate = iota // it is not on its way to a node, or is gone
	Comes             // it has a place
	Bound             // it is where it belongs
)

// User is a pod for which devices were written.
type User struct {
	types.NamespacedName
	UID types.UID
}

// Room is what was written and is not in use yet. The zero Room of a scheduler without claims has nothing.
type Room struct {
	Client kubernetes.Interface
	Claims fwk.ResourceClaimTracker // what the scheduler knows of claims

	mu   sync.Mutex
	some map[types.UID]*allotment // by claim
}

// allotment is one claim for which devices were written.
type allotment struct {
	types.NamespacedName
	uid     types.UID
	mark    string // of what was written
	users   []User
	writing bool
	back    bool               // it is being taken back
	waiting map[string]*v1.Pod // who waits for that
}

// Write writes claims, which nobody has allocated, as they are given. After an error some of them may be written.
func (r *Room) Write(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
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
	a := &allotment{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, uid: c.UID, mark: markOf(c.Status.Allocation)}
	for _, by := range c.Status.ReservedFor {
		a.users = append(a.users, User{types.NamespacedName{Namespace: c.Namespace, Name: by.Name}, by.UID})
	}
	return a
}

func (r *Room) add(a *allotment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.some == nil {
		r.some = map[types.UID]*allotment{}
	}
	r.some[a.uid] = a
}

// write writes one claim: its mark and finalizer first, which a status cannot have with it. A process that ends between the
// two leaves a claim that is not allocated, as DynamicResources does.
func (r *Room) write(ctx context.Context, want *resourceapi.ResourceClaim) error {
	api := r.Client.ResourceV1().ResourceClaims(want.Namespace)
	is, err := r.Claims.Get(want.Namespace, want.Name)
	again := err != nil
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if again {
			if is, err = api.Get(ctx, want.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		again = true
		switch {
		case is.UID != want.UID:
			return errors.New("it was made anew meanwhile")
		case is.DeletionTimestamp != nil:
			return errors.New("it is being deleted")
		case is.Status.Allocation != nil:
			return errors.New("it was allocated by somebody else meanwhile")
		}
		c := is.DeepCopy()
		if mark := markOf(want.Status.Allocation); c.Annotations[scheduling.AnnotationAllocatedAhead] != mark || !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, scheduling.AnnotationAllocatedAhead, mark)
			if !slices.Contains(c.Finalizers, resourceapi.Finalizer) {
				c.Finalizers = append(c.Finalizers, resourceapi.Finalizer)
			}
			if c, err = api.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		c.Status.Allocation, c.Status.ReservedFor = want.Status.Allocation.DeepCopy(), want.Status.ReservedFor
		begin(c.Status.Allocation)
		if c, err = api.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		r.know(c)
		return nil
	})
}

// know has the scheduler know what was written without waiting for the watch. If it knows newer news already it says
// that with an error, which is as well.
func (r *Room) know(c *resourceapi.ResourceClaim) { _ = r.Claims.AssumeClaimAfterAPICall(c) }

// begin notes the time if a device is to be made ready: DynamicResources waits for that only so long.
func begin(a *resourceapi.AllocationResult) {
	for i := range a.Devices.Results {
		if len(a.Devices.Results[i].BindingConditions) > 0 {
			a.AllocationTimestamp = new(metav1.Now())
		}
	}
}

// markOf tells allocations apart: one that somebody else has written later is not ours.
func markOf(a *resourceapi.AllocationResult) string {
	h := fnv.New64a()
	for i := range a.Devices.Results {
		of := &a.Devices.Results[i]
		share := ""
		if of.ShareID != nil {
			share = string(*of.ShareID)
		}
		_, _ = h.Write([]byte(strings.Join([]string{of.Request, of.Driver, of.Pool, of.Device, share, ""}, "\n"))) // which never fails
	}
	return strconv.FormatUint(h.Sum64(), 16)
}

// Ahead says whether what a claim has was written ahead of those who use it, by this process or another one.
func Ahead(c *resourceapi.ResourceClaim) bool {
	mark, ok := c.Annotations[scheduling.AnnotationAllocatedAhead]
	return ok && c.Status.Allocation != nil && mark == markOf(c.Status.Allocation)
}

// Find takes up claims that a process before this one may have written, unless one of those for whom it did so is
// none of ours: those that are marked, and those that DynamicResources has written for a member whose binding never came.
func (r *Room) Find(claims []*resourceapi.ResourceClaim, ours func(of User, waits bool) bool) {
	for _, c := range claims {
		ahead := Ahead(c)
		if !ahead && !unmarked(c) || slices.ContainsFunc(c.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool { return !isPod(by) }) {
			continue
		}
		a := newAllotment(c)
		if slices.ContainsFunc(a.users, func(u User) bool { return !ours(u, !ahead) }) {
			continue
		}
		r.add(a)
	}
}

// unmarked says that a claim was allocated for somebody by his own cycle, as far as anybody can see.
func unmarked(c *resourceapi.ResourceClaim) bool {
	_, marked := c.Annotations[scheduling.AnnotationAllocatedAhead]
	return !marked && c.Status.Allocation != nil && len(c.Status.ReservedFor) > 0
}

func isPod(by resourceapi.ResourceClaimConsumerReference) bool {
	return by.APIGroup == "" && by.Resource == "pods"
}

// Any says whether there is anything that is not in use yet.
func (r *Room) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.some) > 0
}

// Review forgets what is in use, and lists the claims that are to be taken back, since nobody comes any more for whom
// they were written. Each is listed once.
func (r *Room) Review(fate func(User) Fate) (back []types.UID) {
	r.mu.Lock()
	var some []*allotment
	for _, a := range r.some {
		if !a.writing && !a.back {
			some = append(some, a)
		}
	}
	r.mu.Unlock()
	for _, a := range some {
		is := Stays
		for _, u := range a.users {
			if is = fate(u); is != Stays {
				break
			}
		}
		r.mu.Lock()
		switch {
		case r.some[a.uid] != a || a.back || is == Comes:
		case is == Bound:
			delete(r.some, a.uid)
		default:
			a.back = true
			back = append(back, a.uid)
		}
		r.mu.Unlock()
	}
	return back
}

// Waits says for which claim that is being taken back somebody has to wait who will be told when that is done; "" if
// for none.
func (r *Room) Waits(who *v1.Pod, members []*v1.Pod) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.some {
		if a.back && slices.ContainsFunc(members, a.named) {
			if a.waiting == nil {
				a.waiting = map[string]*v1.Pod{}
			}
			a.waiting[who.Namespace+"/"+who.Name] = who
			return a.Namespace + "/" + a.Name
		}
	}
	return ""
}

// named says whether a pod names the claim, or it was made for it.
func (a *allotment) named(by *v1.Pod) bool {
	if by.Namespace != a.Namespace {
		return false
	}
	for i := range by.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(by, &by.Spec.ResourceClaims[i]); err == nil && name != nil && *name == a.Name {
			return true
		}
	}
	return false
}

// TakeBack takes a claim back that Review has listed, unless somebody uses it after all. Without an error, Forget is
// next.
func (r *Room) TakeBack(ctx context.Context, claim types.UID) error {
	r.mu.Lock()
	a := r.some[claim]
	r.mu.Unlock()
	if a == nil {
		return nil
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
		if c.UID != a.uid || c.Status.Allocation == nil || markOf(c.Status.Allocation) != a.mark {
			return nil
		}
		for _, by := range c.Status.ReservedFor {
			if used, err := r.uses(ctx, a, by); used || err != nil {
				return err
			}
		}
		c.Status.Allocation, c.Status.ReservedFor, c.Status.Devices = nil, nil, nil
		if c, err = api.UpdateStatus(ctx, c, metav1.UpdateOptions{}); err != nil {
			return err
		}
		r.know(c)
		return nil
	})
}

// uses says whether somebody for whom a claim is reserved has it, or is not one of those for whom it was written.
func (r *Room) uses(ctx context.Context, a *allotment, by resourceapi.ResourceClaimConsumerReference) (bool, error) {
	if !isPod(by) || !slices.ContainsFunc(a.users, func(u User) bool { return u.UID == by.UID }) {
		return true, nil
	}
	pod, err := r.Client.CoreV1().Pods(a.Namespace).Get(ctx, by.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return pod.UID == by.UID && pod.Spec.NodeName != "", nil
}

// Forget ends what is known of a claim, and returns who has waited for that.
func (r *Room) Forget(claim types.UID) (waiting map[string]*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.some[claim]; a != nil {
		waiting = a.waiting
	}
	delete(r.some, claim)
	return waiting
}
