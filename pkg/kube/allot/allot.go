// Package allot writes down the devices of claims before the members come who use them, where these would not find them in
// cycles of their own: they share the claims, or have what they have only since others were asked for at once. It takes them
// back if none of these members starts; and so it does with what a member's own cycle has written whose binding failed (Left).
//
//	written ──all are bound──────────────────────► forgotten: the claim is in use, as any other
//	   │
//	   └──of those who are not nobody comes──► taken back; until then nobody is planned who names the claim
//
// Taken back is what nobody has: of a claim that somebody is bound with, the reservations of the others. So is what members have that
// keeps them from starting: the claim that an earlier cycle has made for their extended resources (Leftover), and devices that
// nobody uses, where they find no place with these (Idle).
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

// Fate is what becomes of a pod for which devices were written.
type Fate uint8

const (
	Gone  Fate = iota // there is no such pod any more: Kubernetes' own controller looks after what it had
	Stays             // it is not on its way to a node
	Comes             // it has a place
	Bound             // it is where it belongs
)

// User is a pod for which devices were written.
type User struct {
	types.NamespacedName
	UID types.UID
	// Extended says that the claim was made for the pod's extended resources, while it was bound. It is of use to nobody later:
	// DynamicResources makes another one in each cycle, and refuses the pod on every node as long as there is one of an earlier cycle.
	Extended bool
}

// Room is what was written and is not in use yet. The zero Room of a scheduler without claims has nothing.
type Room struct {
	Client kubernetes.Interface
	Claims fwk.ResourceClaimTracker // what the scheduler knows of claims

	mu    sync.Mutex
	some  map[types.UID]*allotment // by claim
	stays map[types.UID]bool       // claims that cannot be given back
}

// allotment is one claim for which devices were written.
type allotment struct {
	types.NamespacedName
	uid     types.UID
	mark    string // of what was written; "" if nobody knows what it was
	users   []User
	writing bool
	back    bool               // it is being taken back
	drop    bool               // as a whole: it was made for extended resources
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
	a := &allotment{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, uid: c.UID, drop: isExtended(c)}
	if c.Status.Allocation != nil {
		a.mark = markOf(c.Status.Allocation)
	}
	for _, by := range c.Status.ReservedFor {
		a.users = append(a.users, a.user(by.Name, by.UID))
	}
	if owner := metav1.GetControllerOf(c); len(a.users) == 0 && owner != nil && owner.Kind == "Pod" {
		a.users = []User{a.user(owner.Name, owner.UID)}
	}
	return a
}

func (a *allotment) user(name string, uid types.UID) User {
	return User{NamespacedName: types.NamespacedName{Namespace: a.Namespace, Name: name}, UID: uid, Extended: a.drop}
}

// isExtended says that a claim was made for a pod's extended resources.
func isExtended(c *resourceapi.ResourceClaim) bool {
	return c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

func (r *Room) add(a *allotment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.some == nil {
		r.some = map[types.UID]*allotment{}
	}
	if was := r.some[a.uid]; was != nil {
		a.waiting = was.waiting
	}
	r.some[a.uid] = a
}

// Left takes up what the cycle of a member may have written whose binding has failed. DynamicResources takes back that the
// claim is reserved for it, and not the devices: the pod is to have them when it is tried again. A member may not be for long,
// or go elsewhere. If it is gone, so are the claims that were made for it.
func (r *Room) Left(member *v1.Pod, gone bool) {
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

// Leftover takes up the claims for extended resources that earlier cycles have made for members who wait: of this process, which
// could not delete them, or of one that was killed. It says whether there are any.
func (r *Room) Leftover(members []*v1.Pod) (any bool) {
	of := map[types.UID]bool{}
	for _, m := range members {
		if asksExtended(m) {
			of[m.UID] = true
		}
	}
	if r.Claims == nil || len(of) == 0 {
		return false
	}
	all, err := r.Claims.List()
	if err != nil {
		return false // it is what DynamicResources will say, too
	}
	for _, c := range all {
		if owner := metav1.GetControllerOf(c); isExtended(c) && owner != nil && of[owner.UID] && !r.refuses(c.UID) {
			if any = true; !r.has(c.UID) {
				r.add(newAllotment(c))
			}
		}
	}
	return any
}

// asksExtended says whether a pod asks for resources that may be devices.
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

// Idle takes up what claims of members have who find no place, if that is somewhere and nobody else uses it: kube-scheduler gives it
// back, too, for a pod that it finds no node for. It says whether there is any.
func (r *Room) Idle(members []*v1.Pod) (any bool) {
	if r.Claims == nil {
		return false
	}
	waits := make(map[types.UID]bool, len(members))
	for _, m := range members {
		waits[m.UID] = true
	}
	used := func(by resourceapi.ResourceClaimConsumerReference) bool { return !isPod(by) || !waits[by.UID] }
	for _, m := range members {
		for i := range m.Spec.ResourceClaims {
			name, _, err := resourceclaim.Name(m, &m.Spec.ResourceClaims[i])
			if err != nil || name == nil {
				continue
			}
			c, err := r.Claims.Get(m.Namespace, *name)
			if err != nil || c.Status.Allocation == nil || c.Status.Allocation.NodeSelector == nil || slices.ContainsFunc(c.Status.ReservedFor, used) || r.refuses(c.UID) {
				continue
			}
			if any = true; r.has(c.UID) {
				continue
			}
			a := newAllotment(c)
			if a.mark = ""; !slices.ContainsFunc(a.users, func(u User) bool { return u.UID == m.UID }) {
				a.users = append(a.users, a.user(m.Name, m.UID))
			}
			r.add(a)
		}
	}
	return any
}

// Refused notes that a claim cannot be given back, so that nobody waits for that again.
func (r *Room) Refused(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stays == nil {
		r.stays = map[types.UID]bool{}
	}
	r.stays[claim] = true
}

func (r *Room) refuses(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stays[claim]
}

func (r *Room) has(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.some[claim] != nil
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
			return errors.New("it was recreated meanwhile")
		case is.DeletionTimestamp != nil:
			return errors.New("it is being deleted")
		case is.Status.Allocation != nil:
			return errors.New("it was allocated for another pod meanwhile")
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
		// DynamicResources sets a time where there is none when it reserves the claim for one pod more, and that is refused:
		// an allocation may not change. It also waits only so long from then for devices that are to be made ready.
		c.Status.Allocation.AllocationTimestamp = new(metav1.Now())
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

// FindIn is Find of all claims. The error is the lister's.
func (r *Room) FindIn(claims resourcelisters.ResourceClaimLister, ours func(of User, waits bool) bool) error {
	all, err := claims.List(labels.Everything())
	if err == nil {
		r.Find(all, ours)
	}
	return err
}

// Find takes up claims that a process before this one may have written, for pods that are ours and wait: those that are
// marked, for which pods that are gone will do, and those that DynamicResources has written for a member whose binding never came.
func (r *Room) Find(claims []*resourceapi.ResourceClaim, ours func(of User, waits bool) bool) {
	for _, c := range claims {
		if c.Status.Allocation == nil || slices.ContainsFunc(c.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool { return !isPod(by) }) {
			continue
		}
		a, ahead := newAllotment(c), Ahead(c)
		some := len(a.users) > 0
		a.users = slices.DeleteFunc(a.users, func(u User) bool { return !ours(u, !ahead) }) // who is left out keeps it
		if len(a.users) > 0 || ahead && !some {
			r.add(a)
		}
	}
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

// Review forgets what is in use, and lists the claims that are to be taken back, since of those for whom they were written, and
// who are not bound, nobody comes any more. Each is listed once.
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
		has := a.fates(fate)
		r.mu.Lock()
		switch {
		case r.some[a.uid] != a || a.back || has[Comes]:
		case has[Bound] && !has[Stays]:
			delete(r.some, a.uid)
		default:
			a.back = true
			back = append(back, a.uid)
		}
		r.mu.Unlock()
	}
	return back
}

// Keep is to be asked before a claim is taken back that Review has listed: whether somebody comes for whom it was written after all,
// who got a place while Review asked for fates; and who has waited for that. Then it is as if it had not been listed.
//
// Whoever gets a place asks Waits afterwards: so he waits, or is seen here.
func (r *Room) Keep(claim types.UID, fate func(User) Fate) (kept bool, waiting map[string]*v1.Pod) {
	r.mu.Lock()
	a := r.some[claim]
	r.mu.Unlock()
	if a == nil || !a.fates(fate)[Comes] {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.some[claim] != a {
		return false, nil
	}
	a.back = false
	waiting, a.waiting = a.waiting, nil
	return true, waiting
}

// fates are those that its users have; if one comes the others need not be known.
func (a *allotment) fates(fate func(User) Fate) (has [Bound + 1]bool) {
	for _, u := range a.users {
		if has[fate(u)] = true; has[Comes] {
			break
		}
	}
	return has
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
	if a.drop {
		return slices.ContainsFunc(a.users, func(u User) bool { return u.UID == by.UID })
	}
	for i := range by.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(by, &by.Spec.ResourceClaims[i]); err == nil && name != nil && *name == a.Name {
			return true
		}
	}
	return false
}

// TakeBack takes a claim back that Review has listed: nobody has it any more for whom it was written, unless he uses it after
// all; and if nobody else does, it is deallocated. Without an error, Forget is next.
//
// Where nothing is allocated the mark goes: a request to write the claim that is still on its way is refused, since that has
// changed.
func (r *Room) TakeBack(ctx context.Context, claim types.UID) error {
	r.mu.Lock()
	a := r.some[claim]
	r.mu.Unlock()
	if a == nil {
		return nil
	}
	if a.drop {
		return r.delete(ctx, a)
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
		r.know(c)
		return nil
	})
}

// delete deletes a claim that was made for a pod's extended resources, unless the pod is bound with it after all. As long as the
// scheduler still sees it that is an error, too: the pod would be refused again.
func (r *Room) delete(ctx context.Context, a *allotment) error {
	api := r.Client.ResourceV1().ResourceClaims(a.Namespace)
	gone := false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		c, err := api.Get(ctx, a.Name, metav1.GetOptions{})
		if gone = apierrors.IsNotFound(err) || err == nil && c.UID != a.uid; gone || err != nil {
			return ignored(err, apierrors.IsNotFound)
		}
		for _, u := range a.users {
			bound, err := r.uses(ctx, a, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: u.Name, UID: u.UID})
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

// ignored is an error but for those of a kind.
func ignored(err error, kind func(error) bool) error {
	if kind(err) {
		return nil
	}
	return err
}

// unmark takes the mark off a claim that has nothing.
func (r *Room) unmark(ctx context.Context, a *allotment, c *resourceapi.ResourceClaim) error {
	if mark, ok := c.Annotations[scheduling.AnnotationAllocatedAhead]; !ok || mark != a.mark {
		return nil
	}
	delete(c.Annotations, scheduling.AnnotationAllocatedAhead)
	_, err := r.Client.ResourceV1().ResourceClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

// users are those for whom a claim is reserved and who have it, or are none of those for whom it was written.
func (r *Room) users(ctx context.Context, a *allotment, c *resourceapi.ResourceClaim) (all []resourceapi.ResourceClaimConsumerReference, err error) {
	for _, by := range c.Status.ReservedFor {
		uses, err := r.uses(ctx, a, by)
		if err != nil {
			return nil, err
		}
		if uses {
			all = append(all, by)
		}
	}
	return all, nil
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

// Forget ends what is known of a claim that was taken back, and returns who has waited for that. It may have been written anew
// meanwhile.
func (r *Room) Forget(claim types.UID) (waiting map[string]*v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.some[claim]
	if a == nil {
		return nil
	}
	if waiting, a.waiting = a.waiting, nil; a.back {
		delete(r.some, claim)
	}
	return waiting
}
