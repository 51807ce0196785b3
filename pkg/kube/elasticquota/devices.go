package elasticquota

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// devices has what the ResourceClaims of pods request. A pod is charged for (pays for) a claim of its own. Of the pods of one quota that
// share a claim only one pays: a bound pod if there is one, else a planned pod, else a waiting pod.
type devices struct {
	claims      resourcelisters.ResourceClaimLister // nil without the API
	templates   resourcelisters.ResourceClaimTemplateLister
	users       map[claimName]map[string]bool // pods by claim or template
	payer       map[sharedClaim]string        // the paying pod, by claim and quota
	overcounted overcounted
}

// overcounted has the device classes of which pods may use less than the quotas count. Their free amount is unknown.
type overcounted struct {
	bySource map[any][]string // by pod, or by claim that several quotas share
	counts   map[string]int   // how many sources name the class
}

// set records the overcounted classes of one pod or claim, and returns whether the set of all overcounted classes has changed.
func (u *overcounted) set(source any, names []string) (changed bool) {
	previous := u.bySource[source]
	if slices.Equal(previous, names) {
		return false
	}
	if u.bySource == nil {
		u.bySource, u.counts = map[any][]string{}, map[string]int{}
	}
	if u.bySource[source] = names; len(names) == 0 {
		delete(u.bySource, source)
	}
	for _, n := range names {
		u.counts[n]++
		changed = changed || u.counts[n] == 1
	}
	for _, n := range previous {
		if u.counts[n]--; u.counts[n] == 0 {
			delete(u.counts, n)
			changed = true
		}
	}
	return changed
}

// claimName names a claim, or a template of claims.
type claimName struct {
	template        bool
	namespace, name string
}

// sharedClaim is a claim that pods of a quota share.
type sharedClaim struct {
	claim claimName
	quota string
}

// watchDevices registers event handlers for ResourceClaims and ResourceClaimTemplates. Updates that do not change the request are ignored.
func (r *Manager) watchDevices(informers resourceinformers.Interface) error {
	r.devices.claims, r.devices.templates = informers.ResourceClaims().Lister(), informers.ResourceClaimTemplates().Lister()
	handlerFor := func(template bool) toolscache.ResourceEventHandler {
		update := func(o metav1.Object) { r.setClaim(claimName{template, o.GetNamespace(), o.GetName()}) }
		handler := watch.Handler(update, update)
		handler.UpdateFunc = func(old, o any) {
			if !equality.Semantic.DeepEqual(deviceRequests(old), deviceRequests(o)) {
				update(o.(metav1.Object))
			}
		}
		return handler
	}
	if _, err := informers.ResourceClaims().Informer().AddEventHandler(handlerFor(false)); err != nil {
		return err
	}
	_, err := informers.ResourceClaimTemplates().Informer().AddEventHandler(handlerFor(true))
	return err
}

// deviceRequests returns what a ResourceClaim or ResourceClaimTemplate requests; nil for other objects.
func deviceRequests(o any) *resourceapi.DeviceClaim {
	switch o := o.(type) {
	case *resourceapi.ResourceClaim:
		return &o.Spec.Devices
	case *resourceapi.ResourceClaimTemplate:
		return &o.Spec.Spec.Devices
	}
	return nil
}

// setClaim counts the pods again that use the given claim or template. It is called after that was added, changed or deleted.
func (r *Manager) setClaim(c claimName) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	users := sortedKeys(r.devices.users[c])
	for _, k := range users {
		if r.treeStale {
			r.pods[k].requests = nil // counted with the new tree
		} else {
			r.update(r.pods[k])
		}
	}
	r.mu.Unlock()
	if len(users) > 0 {
		r.notifyMayBeAdmitted()
	}
}

// resolve returns the names of a pod's claim and template, whether other pods may share it, and its request; nil if neither exists.
func (d *devices) resolve(p *v1.Pod, ref *v1.PodResourceClaim) (names []claimName, shared bool, asks *resourceapi.DeviceClaim) {
	if d.claims == nil {
		return nil, false, nil
	}
	if t := ref.ResourceClaimTemplateName; t != nil {
		names = append(names, claimName{true, p.Namespace, *t})
		if made, err := d.templates.ResourceClaimTemplates(p.Namespace).Get(*t); err == nil {
			asks = &made.Spec.Spec.Devices
		}
	}
	if name, _, err := resourceclaim.Name(p, ref); err == nil && name != nil {
		names = append(names, claimName{false, p.Namespace, *name})
		if c, err := d.claims.ResourceClaims(p.Namespace).Get(*name); err == nil {
			asks = &c.Spec.Devices
		}
	}
	return names, ref.ResourceClaimName != nil, asks
}

// requests returns the resources that a pod is charged for. pays returns whether the pod pays for a shared claim. Equal results are one
// map, which must not be changed.
func (r *Manager) requests(p *v1.Pod, pays func(claimName) bool) quota.List {
	l := convert.Requests(p)
	for i := range p.Spec.ResourceClaims {
		names, shared, asks := r.devices.resolve(p, &p.Spec.ResourceClaims[i])
		if asks != nil && (!shared || pays(names[0])) {
			convert.AddDevices(l, asks)
		}
	}
	convert.AddExtended(l, p, r.classes.Backing)
	words := convert.Quantities(l)
	if known, ok := r.requestLists[words]; ok {
		return known
	}
	r.requestLists[words] = l
	return l
}

// newPayers returns, by quota, a function that returns for each claim once true: the caller's next pod pays for it. It returns false for
// claims that a pod with a node already pays for, unless that pod is one of the reserved members.
func (r *Manager) newPayers(reserved ...gang.Member) func(quotaName string) func(claimName) bool {
	paid := map[sharedClaim]bool{}
	isReserved := map[string]bool{}
	for _, m := range reserved {
		isReserved[m.Pod] = true
	}
	return func(quotaName string) func(claimName) bool {
		return func(c claimName) bool {
			d := sharedClaim{c, quotaName}
			payer := r.devices.payer[d]
			if p := r.pods[payer]; paid[d] || p != nil && p.state != quota.Waiting && !isReserved[payer] {
				return false
			}
			paid[d] = true
			return true
		}
	}
}

// updateClaims records the claims of a pod, and elects the pods that pay for them. p.quota, p.state and p.inBook must be current. The book
// is updated for other pods only; the caller updates it for p.
func (r *Manager) updateClaims(p *pod) {
	if len(p.Spec.ResourceClaims) == 0 && p.claimNames == nil {
		return
	}
	k, previous := key(p.Pod), p.sharedClaims
	for _, n := range p.claimNames {
		if delete(r.devices.users[n], k); len(r.devices.users[n]) == 0 {
			delete(r.devices.users, n)
		}
	}
	p.claimNames, p.sharedClaims = nil, nil
	var overcounted []string
	for i := range p.Spec.ResourceClaims {
		names, shared, asks := r.devices.resolve(p.Pod, &p.Spec.ResourceClaims[i])
		p.claimNames = append(p.claimNames, names...)
		if asks != nil && p.inBook {
			overcounted = append(overcounted, convert.UnsureDevices(asks)...)
		}
		if shared && len(names) > 0 && p.inBook {
			p.sharedClaims = append(p.sharedClaims, sharedClaim{names[0], p.quota})
		}
	}
	if r.pods[k] == p {
		for _, n := range p.claimNames {
			if r.devices.users[n] == nil {
				r.devices.users[n] = map[string]bool{}
			}
			r.devices.users[n][k] = true
		}
	}
	r.setOvercounted(k, overcounted)
	for _, d := range slices.Concat(previous, p.sharedClaims) {
		r.electPayer(d, p)
		r.updateCrossQuotaClaim(d.claim)
	}
}

// setOvercounted records the device classes of which a pod or claim (source) may use less than is counted.
func (r *Manager) setOvercounted(source any, names []string) {
	if r.devices.overcounted.set(source, names) {
		r.markTotalsStale()
	}
}

// updateCrossQuotaClaim records whether pods of several quotas share a claim. Each quota counts it, so its classes are overcounted.
func (r *Manager) updateCrossQuotaClaim(c claimName) {
	quotas := map[string]bool{}
	for k := range r.devices.users[c] {
		for _, d := range r.pods[k].sharedClaims {
			if d.claim == c {
				quotas[d.quota] = true
			}
		}
	}
	var names []string
	if len(quotas) > 1 {
		if current, err := r.devices.claims.ResourceClaims(c.namespace).Get(c.name); err == nil {
			names = convert.DevicesOf(&current.Spec.Devices)
		}
	}
	r.setOvercounted(c, names)
}

// dropClaims elects other pods that pay for the shared claims of a pod that is removed from the book.
func (r *Manager) dropClaims(p *pod) {
	p.inBook = false
	r.updateClaims(p)
}

// electPayer sets the pod that pays for a shared claim. If it changes, the book is updated for both payers, but not for except.
func (r *Manager) electPayer(d sharedClaim, except *pod) {
	best := ""
	for _, k := range sortedKeys(r.devices.users[d.claim]) {
		if p := r.pods[k]; slices.Contains(p.sharedClaims, d) && (best == "" || p.state > r.pods[best].state) {
			best = k
		}
	}
	previous := r.devices.payer[d]
	if best == previous {
		return
	}
	if r.devices.payer[d] = best; best == "" {
		delete(r.devices.payer, d)
	}
	for _, k := range []string{previous, best} {
		if p := r.pods[k]; p != nil && p != except && p.inBook {
			r.enterBook(p)
		}
	}
}

// enterBook sets p.requests and records the pod in the book.
func (r *Manager) enterBook(p *pod) {
	p.requests = r.requests(p.Pod, func(c claimName) bool { return r.devices.payer[sharedClaim{c, p.quota}] == key(p.Pod) })
	r.book.Set(quota.Pod{
		Name: key(p.Pod), Gang: GangName(p.Pod), Quota: p.quota, Asks: p.requests, State: p.state, Since: p.since,
		Priority: convert.Priority(p.Pod), Fixed: p.fixed,
	})
}
