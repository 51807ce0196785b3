package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// claims is the ledger beside DynamicResources, which answers from the devices that were allocated
// when the cycle began. It asks the same allocator, with the same features, what is left when some
// have taken devices and others have given theirs back.
type claims struct {
	profile  framework.Framework
	manager  fwk.SharedDRAManager
	pods     corelisters.PodLister
	made     resourcelisters.ResourceClaimTemplateLister // claims are made from these
	features structured.Features
	optional bool // extended resources may be backed by a class
	cel      *cel.Cache

	mu      sync.Mutex
	numbers map[string]numbered // by name of the slice
	last    int64
}

// numbered is a state of a slice. As long as it is known no other one can be at its address.
type numbered struct {
	slice  *resourceapi.ResourceSlice
	number int64
}

func newClaims(profile framework.Framework) *claims {
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	l := &claims{
		profile: profile, manager: profile.SharedDRAManager(), features: dynamicresources.AllocatorFeatures(gates),
		pods:     profile.SharedInformerFactory().Core().V1().Pods().Lister(),
		optional: gates.EnableDRAExtendedResource, numbers: map[string]numbered{},
		cel: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: gates.EnableDRAConsumableCapacity, EnableListTypeAttributes: gates.EnableDRAListTypeAttributes,
		}),
	}
	if l.manager != nil {
		l.made = profile.SharedInformerFactory().Resource().V1().ResourceClaimTemplates().Lister()
	}
	return l
}

// Plugins implements fit.Ledger.
func (*claims) Plugins() []string { return []string{names.DynamicResources} }

// Frees implements fit.Ledger: a claim is deallocated when its last user has left.
func (*claims) Frees() bool { return true }

// wants says whether a pod has to do with devices.
func (l *claims) wants(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(l.extended(pod)) > 0
}

// extended are the classes of the extended resources that a pod requests, where there are any.
func (l *claims) extended(pod *v1.Pod) (classes map[v1.ResourceName]*resourceapi.DeviceClass) {
	if !l.optional {
		return nil
	}
	for name, q := range scalars(pod) {
		if class := l.manager.DeviceClassResolver().GetDeviceClass(name); class != nil && !q.IsZero() {
			if classes == nil {
				classes = map[v1.ResourceName]*resourceapi.DeviceClass{}
			}
			classes[name] = class
		}
	}
	return classes
}

// scalars are those requests of a pod that may be for devices.
func scalars(pod *v1.Pod) v1.ResourceList {
	var out v1.ResourceList
	for _, all := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			for name := range all[i].Resources.Requests {
				if schedutil.IsDRAExtendedResourceName(name) && out == nil {
					out = resource.PodRequests(pod, resource.PodResourcesOptions{})
				}
			}
		}
	}
	for name := range out {
		if !schedutil.IsDRAExtendedResourceName(name) {
			delete(out, name)
		}
	}
	return out
}

// Apart says which of the claims that are made for a pod are allocated, as a cycle leaves them whose binding came to nothing, and
// which ask for something else than their template: it was recreated meanwhile.
func (l *claims) Apart(pod *v1.Pod) (all string) {
	for i := range pod.Spec.ResourceClaims {
		ref := &pod.Spec.ResourceClaims[i]
		if l.manager == nil || ref.ResourceClaimTemplateName == nil {
			continue
		}
		name, _, err := resourceclaim.Name(pod, ref)
		if err != nil || name == nil {
			continue
		}
		c, err := l.manager.ResourceClaims().Get(pod.Namespace, *name)
		switch {
		case err != nil:
		case c.Status.Allocation != nil:
			all += " " + string(c.UID)
		case !l.asTemplate(c, *ref.ResourceClaimTemplateName):
			if spec, err := json.Marshal(c.Spec); err == nil {
				all += " " + string(spec)
			}
		}
	}
	return all
}

// asTemplate says that a claim asks for what the template says that it was made from.
func (l *claims) asTemplate(c *resourceapi.ResourceClaim, name string) bool {
	template, err := l.made.ResourceClaimTemplates(c.Namespace).Get(name)
	return err == nil && apiequality.Semantic.DeepEqual(c.Spec, template.Spec.Spec)
}

// Open implements fit.Ledger.
func (l *claims) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	if l.manager == nil {
		return nil, nil
	}
	members = slices.DeleteFunc(slices.Clone(members), func(d fit.Demand) bool { return !l.wants(d.Pod) })
	if len(members) == 0 {
		return nil, nil
	}
	state, err := l.allocated()
	if err != nil {
		return nil, err
	}
	all, err := l.manager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil {
		return nil, err
	}
	p := newClaimPage(l, all, state)
	for _, d := range members {
		p.count(d)
	}
	for _, d := range members {
		if slices.ContainsFunc(p.claimsOf(d.Pod), func(c *resourceapi.ResourceClaim) bool { return domainOf(c) != "" }) {
			p.near = cliqueLabel
		}
	}
	p.same = p.sameForAll(members)
	p.varied = (p.same == nil || p.parts) && slices.ContainsFunc(members, func(d fit.Demand) bool { return len(p.claimsOf(d.Pod)) > 0 })
	for _, d := range members {
		p.entries[d.Pod.UID] = p.entryOf(d.Pod)
		p.far[d.Pod.UID] = p.isFar(d.Pod)
	}
	return p, nil
}

// mostReads bounds how often the allocations are read that change while they are.
const mostReads = 1000

// allocated is what claims have, also those that wait to be written.
func (l *claims) allocated() (state *structured.AllocatedState, err error) {
	for range mostReads {
		if state, err = l.manager.ResourceClaims().GatherAllocatedState(); err == nil && state != nil {
			return state, nil
		}
	}
	return nil, errors.Join(errors.New("allocations of devices change while they are read"), err)
}

// number tells states of slices apart.
func (l *claims) number(all []*resourceapi.ResourceSlice) map[*resourceapi.ResourceSlice]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := make(map[string]numbered, len(all))
	out := make(map[*resourceapi.ResourceSlice]int64, len(all))
	for _, s := range all {
		is := l.numbers[s.Name]
		if is.slice != s {
			l.last++
			is = numbered{s, l.last}
		}
		now[s.Name], out[s] = is, is.number
	}
	l.numbers = now
	return out
}

// poolID names a pool of a driver.
type poolID struct{ driver, pool string }

// poolState is what is allocated of a pool.
type poolState struct {
	devices  []structured.DeviceID
	shares   []structured.SharedDeviceID
	capacity structured.ConsumedCapacityCollection
	sum      uint64 // tells states apart
}

// claimPage is what is written down of devices at one moment.
type claimPage struct {
	*claims
	byNode  map[string][]*resourceapi.ResourceSlice
	reached []*resourceapi.ResourceSlice // by several nodes
	pools   map[poolID][]*resourceapi.ResourceSlice
	taken   map[poolID]*poolState
	numbers map[*resourceapi.ResourceSlice]int64
	wide    string                          // the state of what several nodes reach
	users   map[types.UID]int               // how many members name a claim
	joint   map[types.UID]bool              // claims that several members name, and that nobody has
	members map[types.UID]bool              // those who were counted, one of each kind
	same    *resourceapi.ExactDeviceRequest // what all of them ask for; nil if that differs
	parts   bool                            // some devices are parts of others
	varied  bool                            // it may make a difference which devices members take
	near    string                          // see Near
	entries map[types.UID]string            // by member
	far     map[types.UID]bool

	once   sync.Once
	usedBy map[types.UID][]*resourceapi.ResourceClaim // by pod
}

func newClaimPage(l *claims, all []*resourceapi.ResourceSlice, state *structured.AllocatedState) *claimPage {
	p := &claimPage{
		claims: l, byNode: map[string][]*resourceapi.ResourceSlice{}, pools: map[poolID][]*resourceapi.ResourceSlice{},
		taken: map[poolID]*poolState{}, numbers: l.number(all), users: map[types.UID]int{}, joint: map[types.UID]bool{}, members: map[types.UID]bool{},
		entries: map[types.UID]string{}, far: map[types.UID]bool{},
	}
	for _, s := range all {
		id := poolOf(s)
		p.pools[id] = append(p.pools[id], s)
		p.parts = p.parts || slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 })
		if s.Spec.NodeName != nil && *s.Spec.NodeName != "" {
			p.byNode[*s.Spec.NodeName] = append(p.byNode[*s.Spec.NodeName], s)
		} else {
			p.reached = append(p.reached, s)
		}
	}
	for id := range state.AllocatedDevices {
		t := p.takenOf(id)
		t.devices = append(t.devices, id)
		t.add(id.String())
	}
	for id := range state.AllocatedSharedDeviceIDs {
		t := p.takenOf(id.GetDeviceID())
		t.shares = append(t.shares, id)
		t.add(id.String())
	}
	for id, capacity := range state.AggregatedCapacity {
		t := p.takenOf(id)
		t.capacity[id] = capacity
		for name, q := range capacity {
			t.add(fmt.Sprint(id, name, q))
		}
	}
	p.wide = p.stateOf(p.reached)
	return p
}

func poolOf(s *resourceapi.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

func (p *claimPage) takenOf(id structured.DeviceID) *poolState {
	pool := poolID{id.Driver.String(), id.Pool.String()}
	if p.taken[pool] == nil {
		p.taken[pool] = &poolState{capacity: structured.NewConsumedCapacityCollection()}
	}
	return p.taken[pool]
}

// add counts one thing that is allocated; the order makes no difference.
func (s *poolState) add(what string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // which never fails
	s.sum += h.Sum64()
}

// stateOf tells apart what some slices offer, and what is allocated of their pools. They are in no order.
func (p *claimPage) stateOf(some []*resourceapi.ResourceSlice) string {
	var offered, allocated uint64
	seen := map[poolID]bool{}
	for _, s := range some {
		one := poolState{}
		one.add(fmt.Sprint(p.numbers[s]))
		offered += one.sum
		id := poolOf(s)
		if t := p.taken[id]; t != nil && !seen[id] {
			pool := poolState{}
			pool.add(fmt.Sprint(id, t.sum))
			allocated += pool.sum
		}
		seen[id] = true
	}
	return fmt.Sprint(len(some), " ", offered, " ", allocated)
}

// State implements fit.Page.
func (p *claimPage) State(node fwk.NodeInfo) string {
	var of []*resourceapi.ResourceSlice
	for _, s := range p.byNode[node.Node().Name] {
		of = append(of, p.pools[poolOf(s)]...)
	}
	return p.stateOf(of) + " " + p.wide
}

// count notes how many members name a claim.
func (p *claimPage) count(d fit.Demand) {
	p.members[d.Pod.UID] = true
	for i := range d.Pod.Spec.ResourceClaims {
		if d.Pod.Spec.ResourceClaims[i].ResourceClaimName == nil {
			continue
		}
		if c := p.claimOf(d.Pod, &d.Pod.Spec.ResourceClaims[i]); c != nil {
			p.users[c.UID] += d.Members
			if p.shared(c) && c.Status.Allocation == nil {
				p.joint[c.UID] = true
			}
		}
	}
}

// claimOf is the claim that a pod names, or that was or will be made for it; nil if there is none.
func (p *claimPage) claimOf(pod *v1.Pod, ref *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	name, _, err := resourceclaim.Name(pod, ref)
	if errors.Is(err, resourceclaim.ErrClaimNotFound) && p.toCome(pod) {
		return p.claimToCome(pod, ref)
	}
	if err != nil || name == nil {
		return nil
	}
	c, err := p.manager.ResourceClaims().Get(pod.Namespace, *name)
	if err != nil {
		return nil
	}
	return c
}

// claimsOf are a pod's claims that exist, or will, in its order.
func (p *claimPage) claimsOf(pod *v1.Pod) (all []*resourceapi.ResourceClaim) {
	for i := range pod.Spec.ResourceClaims {
		if c := p.claimOf(pod, &pod.Spec.ResourceClaims[i]); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// shared says that several members name a claim.
func (p *claimPage) shared(c *resourceapi.ResourceClaim) bool { return p.users[c.UID] > 1 }

// together says that several members name a claim that nobody has yet, so that what one of them takes is all theirs.
func (p *claimPage) together(c *resourceapi.ResourceClaim) bool { return p.joint[c.UID] }

// Entry implements fit.Page.
func (p *claimPage) Entry(pod *v1.Pod) string {
	if e, ok := p.entries[pod.UID]; ok {
		return e
	}
	if !p.wants(pod) {
		return ""
	}
	return p.entryOf(pod)
}

// entryOf says what a member takes: of claims that are its own and not allocated no more than
// what they ask for.
func (p *claimPage) entryOf(pod *v1.Pod) string {
	var all []any
	classes := map[string]bool{}
	for _, c := range p.claimsOf(pod) {
		if c.Status.Allocation != nil || p.shared(c) {
			all = append(all, c.UID, c.ResourceVersion)
			continue
		}
		all = append(all, c.Spec)
		for _, r := range requestsOf(c) {
			classes[r.DeviceClassName] = true
		}
	}
	if backed := p.extended(pod); len(backed) > 0 {
		for _, class := range backed {
			classes[class.Name] = true
		}
		all = append(all, perContainer(pod))
	}
	for _, name := range sets.List(sets.KeySet(classes)) {
		all = append(all, name)
		if class, err := p.manager.DeviceClasses().Get(name); err == nil {
			all = append(all, class.UID, class.ResourceVersion)
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		return string(pod.UID)
	}
	return string(out)
}

// perContainer is what each container requests: a claim for extended resources has a request for each.
func perContainer(pod *v1.Pod) (out []any) {
	for _, all := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			out = append(out, all[i].Resources.Requests, all[i].RestartPolicy)
		}
		out = append(out, "|")
	}
	return out
}

// requestsOf are all requests of a claim, and all that would do for them, each for one device.
func requestsOf(c *resourceapi.ResourceClaim) (all []resourceapi.ExactDeviceRequest) {
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			all = append(all, *r.Exactly)
		}
		for _, sub := range r.FirstAvailable {
			all = append(all, resourceapi.ExactDeviceRequest{
				DeviceClassName: sub.DeviceClassName, Selectors: sub.Selectors, Tolerations: sub.Tolerations, Capacity: sub.Capacity,
			})
		}
	}
	for i := range all {
		all[i].AllocationMode, all[i].Count = resourceapi.DeviceAllocationModeExactCount, 1
	}
	return all
}

// Far implements fit.Page.
func (p *claimPage) Far(pod *v1.Pod) bool { return p.far[pod.UID] }

// isFar says that several members name a claim that is to be allocated, or that is reserved for nearly as many as may be; or
// that some device would do for the pod which several nodes reach.
func (p *claimPage) isFar(pod *v1.Pod) bool {
	var asks []resourceapi.ExactDeviceRequest
	for _, c := range p.claimsOf(pod) {
		if c.Status.Allocation == nil {
			if p.shared(c) {
				return true
			}
			asks = append(asks, requestsOf(c)...)
		} else if len(c.Status.ReservedFor)+p.users[c.UID] > resourceapi.ResourceClaimReservedForMaxSize {
			return true
		}
	}
	for _, class := range p.extended(pod) {
		asks = append(asks, resourceapi.ExactDeviceRequest{
			DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return len(p.reached) > 0 && p.reachable(asks)
}

// reachable says whether some request could be met, if nobody had anything, by what several nodes reach.
func (p *claimPage) reachable(asks []resourceapi.ExactDeviceRequest) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return true
	}
	var some []*resourceapi.ResourceSlice
	seen := map[poolID]bool{}
	for _, s := range p.reached {
		if id := poolOf(s); !seen[id] {
			seen[id] = true
			for _, of := range p.pools[id] {
				if of.Spec.NodeName == nil || *of.Spec.NodeName == "" {
					some = append(some, of)
				}
			}
		}
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, p.features, emptyState(), p.manager.DeviceClasses(), some, p.cel)
	if err != nil {
		return true
	}
	for i := range asks {
		c := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "one", Exactly: &asks[i]}},
		}}}
		for _, n := range nodes {
			result, err := allocator.Allocate(ctx, n.Node(), []*resourceapi.ResourceClaim{c})
			if err != nil || len(result) > 0 {
				return true
			}
		}
	}
	return false
}

func emptyState() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
}

// used are the allocated claims that a pod uses.
func (p *claimPage) used(pod *v1.Pod) []*resourceapi.ResourceClaim {
	p.once.Do(func() {
		p.usedBy = map[types.UID][]*resourceapi.ResourceClaim{}
		all, err := p.manager.ResourceClaims().List()
		if err != nil {
			return
		}
		for _, c := range all {
			if c.Status.Allocation == nil {
				continue
			}
			for _, by := range c.Status.ReservedFor {
				p.usedBy[by.UID] = append(p.usedBy[by.UID], c)
			}
		}
	})
	return p.usedBy[pod.UID]
}

// permits says whether an allocation can be used on a node.
func permits(a *resourceapi.AllocationResult, node *v1.Node) bool {
	if a.NodeSelector == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
	return err == nil && selector.Match(node)
}

// extendedClaim is what DynamicResources makes of a pod's extended resources; only the requests matter.
func extendedClaim(pod *v1.Pod, requests []resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
	c.Namespace, c.Name = pod.Namespace, strings.Join([]string{pod.Name, "extended-resources"}, "-")
	return c
}
