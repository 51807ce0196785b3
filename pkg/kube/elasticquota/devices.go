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
	"github.com/muster-scheduler/muster/pkg/quota"
)

// devices knows what the ResourceClaims of pods ask for. A claim that is made for a pod alone is a part of what that pod asks
// for. Of those who share a claim one pays for it in each quota: somebody who is bound before somebody who has a place, and
// that one before somebody who waits.
type devices struct {
	claims    resourcelisters.ResourceClaimLister // nil where there is no such API
	templates resourcelisters.ResourceClaimTemplateLister
	users     map[claimName]map[string]bool // pods by what they name
	pays      map[drawn]string              // by claim and quota, the pod
	unsure    unsure
}

// unsure are the classes of which somebody may have less than quotas count for him: there is no telling then how much is free.
type unsure struct {
	by  map[any][]string // by pod, and by claim that pods of several quotas share
	all map[string]int   // how many there are of them
}

// set says whether other classes are unsure than before, since one pod or claim has these of them.
func (u *unsure) set(by any, names []string) (changed bool) {
	was := u.by[by]
	if slices.Equal(was, names) {
		return false
	}
	if u.by == nil {
		u.by, u.all = map[any][]string{}, map[string]int{}
	}
	if u.by[by] = names; len(names) == 0 {
		delete(u.by, by)
	}
	for _, n := range names {
		u.all[n]++
		changed = changed || u.all[n] == 1
	}
	for _, n := range was {
		if u.all[n]--; u.all[n] == 0 {
			delete(u.all, n)
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

// drawn is a claim of which a quota's pods draw.
type drawn struct {
	claim claimName
	quota string
}

// hearDevices has the room hear of claims and templates. What they ask for never changes, but for one that was made anew while nobody looked.
func (r *Room) hearDevices(of resourceinformers.Interface) error {
	r.devices.claims, r.devices.templates = of.ResourceClaims().Lister(), of.ResourceClaimTemplates().Lister()
	hear := func(template bool) toolscache.ResourceEventHandler {
		heard := func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if m, ok := o.(metav1.Object); ok {
				r.setClaim(claimName{template, m.GetNamespace(), m.GetName()})
			}
		}
		return toolscache.ResourceEventHandlerFuncs{AddFunc: heard, DeleteFunc: heard, UpdateFunc: func(old, o any) {
			if !equality.Semantic.DeepEqual(asksOf(old), asksOf(o)) {
				heard(o)
			}
		}}
	}
	if _, err := of.ResourceClaims().Informer().AddEventHandler(hear(false)); err != nil {
		return err
	}
	_, err := of.ResourceClaimTemplates().Informer().AddEventHandler(hear(true))
	return err
}

// asksOf is what a claim asks for, or a template of claims.
func asksOf(o any) *resourceapi.DeviceClaim {
	switch o := o.(type) {
	case *resourceapi.ResourceClaim:
		return &o.Spec.Devices
	case *resourceapi.ResourceClaimTemplate:
		return &o.Spec.Spec.Devices
	}
	return nil
}

// setClaim hears that a claim or a template is there, or has gone.
func (r *Room) setClaim(c claimName) {
	if !r.Active() {
		return
	}
	r.mu.Lock()
	users := sorted(r.devices.users[c])
	for _, k := range users {
		if r.wild {
			r.pods[k].asks = nil // it is looked at with the tree
		} else {
			r.put(r.pods[k])
		}
	}
	r.mu.Unlock()
	if len(users) > 0 {
		r.changed()
	}
}

// of returns by what name a pod knows what it claims, which is shared if others may name it, and what that asks for; nil
// if it is not there.
func (d *devices) of(p *v1.Pod, ref *v1.PodResourceClaim) (names []claimName, shared bool, asks *resourceapi.DeviceClaim) {
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

// asks is what a pod takes of its quota; equal lists are one. pays says whether it takes what a shared claim asks for.
func (r *Room) asks(p *v1.Pod, pays func(claimName) bool) quota.List {
	l := convert.Requests(p)
	for i := range p.Spec.ResourceClaims {
		names, shared, asks := r.devices.of(p, &p.Spec.ResourceClaims[i])
		if asks != nil && (!shared || pays(names[0])) {
			convert.AddDevices(l, asks)
		}
	}
	convert.AddExtended(l, p, r.classes.Backing)
	words := convert.Quantities(l)
	if known, ok := r.lists[words]; ok {
		return known
	}
	r.lists[words] = l
	return l
}

// payers says who of some pods pays for a claim of which nobody else has anything: the first one who is asked about. but are those among
// them who have a place.
func (r *Room) payers(but ...gang.Member) func(quota string) func(claimName) bool {
	paid := map[drawn]bool{}
	has := map[string]bool{}
	for _, m := range but {
		has[m.Pod] = true
	}
	return func(quotaName string) func(claimName) bool {
		return func(c claimName) bool {
			d := drawn{c, quotaName}
			by := r.devices.pays[d]
			if p := r.pods[by]; paid[d] || p != nil && p.state != quota.Waits && !has[by] {
				return false
			}
			paid[d] = true
			return true
		}
	}
}

// use notes what a pod names, and of which quota it draws that, and has somebody pay for it. p.quota, p.state and p.counts are
// as they are now; the book is told of others alone.
func (r *Room) use(p *pod) {
	if len(p.Spec.ResourceClaims) == 0 && p.names == nil {
		return
	}
	k, was := key(p.Pod), p.draws
	for _, n := range p.names {
		if delete(r.devices.users[n], k); len(r.devices.users[n]) == 0 {
			delete(r.devices.users, n)
		}
	}
	p.names, p.draws = nil, nil
	var unsure []string
	for i := range p.Spec.ResourceClaims {
		names, shared, asks := r.devices.of(p.Pod, &p.Spec.ResourceClaims[i])
		p.names = append(p.names, names...)
		if asks != nil && p.counts {
			unsure = append(unsure, convert.UnsureDevices(asks)...)
		}
		if shared && len(names) > 0 && p.counts {
			p.draws = append(p.draws, drawn{names[0], p.quota})
		}
	}
	if r.pods[k] == p {
		for _, n := range p.names {
			if r.devices.users[n] == nil {
				r.devices.users[n] = map[string]bool{}
			}
			r.devices.users[n][k] = true
		}
	}
	r.doubt(k, unsure)
	for _, d := range slices.Concat(was, p.draws) {
		r.elect(d, p)
		r.cross(d.claim)
	}
}

// doubt notes of which classes a pod may have less than it is counted for, or a claim.
func (r *Room) doubt(by any, names []string) {
	if r.devices.unsure.set(by, names) {
		r.totals()
	}
}

// cross notes whether pods of several quotas share a claim, in each of which it counts, so that it counts more than once in all.
func (r *Room) cross(c claimName) {
	of := map[string]bool{}
	for k := range r.devices.users[c] {
		for _, d := range r.pods[k].draws {
			if d.claim == c {
				of[d.quota] = true
			}
		}
	}
	var names []string
	if len(of) > 1 {
		if is, err := r.devices.claims.ResourceClaims(c.namespace).Get(c.name); err == nil {
			names = convert.DevicesOf(&is.Spec.Devices)
		}
	}
	r.doubt(c, names)
}

// forget has others pay for what a pod's claims are, since the book knows it no more.
func (r *Room) forget(p *pod) {
	p.counts = false
	r.use(p)
}

// elect says who pays for a claim of which pods of a quota draw, and tells the book of those who do so no more, or do it
// now, but for one of whom it will be told.
func (r *Room) elect(d drawn, but *pod) {
	best := ""
	for _, k := range sorted(r.devices.users[d.claim]) {
		if p := r.pods[k]; slices.Contains(p.draws, d) && (best == "" || p.state > r.pods[best].state) {
			best = k
		}
	}
	was := r.devices.pays[d]
	if best == was {
		return
	}
	if r.devices.pays[d] = best; best == "" {
		delete(r.devices.pays, d)
	}
	for _, k := range []string{was, best} {
		if p := r.pods[k]; p != nil && p != but && p.counts {
			r.enter(p)
		}
	}
}

// enter tells the book of a pod.
func (r *Room) enter(p *pod) {
	p.asks = r.asks(p.Pod, func(c claimName) bool { return r.devices.pays[drawn{c, p.quota}] == key(p.Pod) })
	r.book.Set(quota.Pod{
		Name: key(p.Pod), Gang: gangOf(p.Pod), Quota: p.quota, Asks: p.asks, State: p.state, Since: p.since,
		Priority: convert.Priority(p.Pod), Fixed: p.fixed,
	})
}
