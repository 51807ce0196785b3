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

// claims is the ledger of devices, in addition to the plugin DynamicResources, which considers only devices allocated when the cycle began.
// It uses the same allocator with the same features, on a state in which further pods have taken or freed devices.
type claims struct {
	profile           framework.Framework
	manager           fwk.SharedDRAManager
	pods              corelisters.PodLister
	templates         resourcelisters.ResourceClaimTemplateLister // of claims
	features          structured.Features
	extendedResources bool // a device class may provide extended resources
	cel               *cel.Cache

	mu      sync.Mutex
	numbers map[string]sliceVersion // by name of the slice
	last    int64
}

// sliceVersion is one version of a ResourceSlice, with a number. It has the slice itself, so that no other slice gets the same address.
type sliceVersion struct {
	slice  *resourceapi.ResourceSlice
	number int64
}

func newClaims(profile framework.Framework) *claims {
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	l := &claims{
		profile: profile, manager: profile.SharedDRAManager(), features: dynamicresources.AllocatorFeatures(gates),
		pods:              profile.SharedInformerFactory().Core().V1().Pods().Lister(),
		extendedResources: gates.EnableDRAExtendedResource, numbers: map[string]sliceVersion{},
		cel: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: gates.EnableDRAConsumableCapacity, EnableListTypeAttributes: gates.EnableDRAListTypeAttributes,
		}),
	}
	if l.manager != nil {
		l.templates = profile.SharedInformerFactory().Resource().V1().ResourceClaimTemplates().Lister()
	}
	return l
}

// Plugins implements fit.Ledger.
func (*claims) Plugins() []string { return []string{names.DynamicResources} }

// Frees implements fit.Ledger: a claim is deallocated after its last user has terminated.
func (*claims) Frees() bool { return true }

// usesDevices returns whether a pod has ResourceClaims, or extended resources that a device class provides.
func (l *claims) usesDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(l.extendedClasses(pod)) > 0
}

// extendedClasses returns the device classes that provide the extended resources of a pod, by resource; nil if there are none.
func (l *claims) extendedClasses(pod *v1.Pod) (classes map[v1.ResourceName]*resourceapi.DeviceClass) {
	if !l.extendedResources {
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

// scalars returns the requests of a pod for extended resources that device classes may provide.
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

// Apart returns a key that distinguishes a pod from equal ones; mostly "". It has the UIDs of claims made for the pod that are allocated
// already, after a failed binding. It has the specs of claims that differ from their template, because that was recreated.
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
		case !l.matchesTemplate(c, *ref.ResourceClaimTemplateName):
			if spec, err := json.Marshal(c.Spec); err == nil {
				all += " " + string(spec)
			}
		}
	}
	return all
}

// matchesTemplate returns whether a claim has the spec of its template.
func (l *claims) matchesTemplate(c *resourceapi.ResourceClaim, name string) bool {
	template, err := l.templates.ResourceClaimTemplates(c.Namespace).Get(name)
	return err == nil && apiequality.Semantic.DeepEqual(c.Spec, template.Spec.Spec)
}

// Open implements fit.Ledger.
func (l *claims) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	if l.manager == nil {
		return nil, nil
	}
	members = slices.DeleteFunc(slices.Clone(members), func(d fit.Demand) bool { return !l.usesDevices(d.Pod) })
	if len(members) == 0 {
		return nil, nil
	}
	state, err := l.allocatedState()
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
			p.nearLabel = cliqueLabel
		}
	}
	p.commonRequest = p.findCommonRequest(members)
	p.choiceVaries = (p.commonRequest == nil || p.partitioned) &&
		slices.ContainsFunc(members, func(d fit.Demand) bool { return len(p.claimsOf(d.Pod)) > 0 })
	for _, d := range members {
		p.entries[d.Pod.UID] = p.entryOf(d.Pod)
		p.farMembers[d.Pod.UID] = p.isFar(d.Pod)
	}
	return p, nil
}

// maxReads bounds the attempts to read allocations that change concurrently.
const maxReads = 1000

// allocatedState returns the allocated devices of all claims, including allocations that are not written yet.
func (l *claims) allocatedState() (state *structured.AllocatedState, err error) {
	for range maxReads {
		if state, err = l.manager.ResourceClaims().GatherAllocatedState(); err == nil && state != nil {
			return state, nil
		}
	}
	return nil, errors.Join(errors.New("allocations of devices change while they are read"), err)
}

// number returns a number for each slice. If a slice changes, it gets a new number.
func (l *claims) number(all []*resourceapi.ResourceSlice) map[*resourceapi.ResourceSlice]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := make(map[string]sliceVersion, len(all))
	out := make(map[*resourceapi.ResourceSlice]int64, len(all))
	for _, s := range all {
		version := l.numbers[s.Name]
		if version.slice != s {
			l.last++
			version = sliceVersion{s, l.last}
		}
		now[s.Name], out[s] = version, version.number
	}
	l.numbers = now
	return out
}

// poolID identifies a pool of a driver.
type poolID struct{ driver, pool string }

// poolState has the allocations of a pool.
type poolState struct {
	devices  []structured.DeviceID
	shares   []structured.SharedDeviceID
	capacity structured.ConsumedCapacityCollection
	hash     uint64 // differs for different states
}

// claimPage is the state of devices at one moment, for the members of a group.
type claimPage struct {
	*claims
	byNode         map[string][]*resourceapi.ResourceSlice
	multiNode      []*resourceapi.ResourceSlice // slices with devices that several nodes can use
	pools          map[poolID][]*resourceapi.ResourceSlice
	poolStates     map[poolID]*poolState
	numbers        map[*resourceapi.ResourceSlice]int64
	multiNodeState string                          // the state of multiNode
	users          map[types.UID]int               // by claim, how many members name it
	jointClaims    map[types.UID]bool              // unallocated claims that several members name
	members        map[types.UID]bool              // the counted members, one of each kind
	commonRequest  *resourceapi.ExactDeviceRequest // the request of all members; nil if they differ
	partitioned    bool                            // a device is a part of another device
	choiceVaries   bool                            // it may matter which member takes which device
	nearLabel      string                          // see Near
	entries        map[types.UID]string            // by member
	farMembers     map[types.UID]bool

	once         sync.Once
	claimsUsedBy map[types.UID][]*resourceapi.ResourceClaim // by pod
}

func newClaimPage(l *claims, all []*resourceapi.ResourceSlice, state *structured.AllocatedState) *claimPage {
	p := &claimPage{
		claims: l, byNode: map[string][]*resourceapi.ResourceSlice{}, pools: map[poolID][]*resourceapi.ResourceSlice{},
		poolStates: map[poolID]*poolState{}, numbers: l.number(all), users: map[types.UID]int{}, jointClaims: map[types.UID]bool{},
		members: map[types.UID]bool{},
		entries: map[types.UID]string{}, farMembers: map[types.UID]bool{},
	}
	for _, s := range all {
		id := poolOf(s)
		p.pools[id] = append(p.pools[id], s)
		p.partitioned = p.partitioned ||
			slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 })
		if s.Spec.NodeName != nil && *s.Spec.NodeName != "" {
			p.byNode[*s.Spec.NodeName] = append(p.byNode[*s.Spec.NodeName], s)
		} else {
			p.multiNode = append(p.multiNode, s)
		}
	}
	for id := range state.AllocatedDevices {
		t := p.poolStateOf(id)
		t.devices = append(t.devices, id)
		t.add(id.String())
	}
	for id := range state.AllocatedSharedDeviceIDs {
		t := p.poolStateOf(id.GetDeviceID())
		t.shares = append(t.shares, id)
		t.add(id.String())
	}
	for id, capacity := range state.AggregatedCapacity {
		t := p.poolStateOf(id)
		t.capacity[id] = capacity
		for name, q := range capacity {
			t.add(fmt.Sprint(id, name, q))
		}
	}
	p.multiNodeState = p.stateOf(p.multiNode)
	return p
}

func poolOf(s *resourceapi.ResourceSlice) poolID { return poolID{s.Spec.Driver, s.Spec.Pool.Name} }

func (p *claimPage) poolStateOf(id structured.DeviceID) *poolState {
	pool := poolID{id.Driver.String(), id.Pool.String()}
	if p.poolStates[pool] == nil {
		p.poolStates[pool] = &poolState{capacity: structured.NewConsumedCapacityCollection()}
	}
	return p.poolStates[pool]
}

// add adds an allocation, described by what, to the hash. The order of calls does not matter.
func (s *poolState) add(what string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // never fails
	s.hash += h.Sum64()
}

// stateOf returns a key for the versions of slices and the allocations of their pools. The order of the slices does not matter.
func (p *claimPage) stateOf(offeredSlices []*resourceapi.ResourceSlice) string {
	var offered, allocated uint64
	seen := map[poolID]bool{}
	for _, s := range offeredSlices {
		one := poolState{}
		one.add(fmt.Sprint(p.numbers[s]))
		offered += one.hash
		id := poolOf(s)
		if t := p.poolStates[id]; t != nil && !seen[id] {
			pool := poolState{}
			pool.add(fmt.Sprint(id, t.hash))
			allocated += pool.hash
		}
		seen[id] = true
	}
	return fmt.Sprint(len(offeredSlices), " ", offered, " ", allocated)
}

// State implements fit.Page: it returns a key for the devices that a node can use, and their allocations.
func (p *claimPage) State(node fwk.NodeInfo) string {
	var offered []*resourceapi.ResourceSlice
	for _, s := range p.byNode[node.Node().Name] {
		offered = append(offered, p.pools[poolOf(s)]...)
	}
	return p.stateOf(offered) + " " + p.multiNodeState
}

// count adds members to the numbers of users of the claims that they name.
func (p *claimPage) count(d fit.Demand) {
	p.members[d.Pod.UID] = true
	for i := range d.Pod.Spec.ResourceClaims {
		if d.Pod.Spec.ResourceClaims[i].ResourceClaimName == nil {
			continue
		}
		if c := p.claimOf(d.Pod, &d.Pod.Spec.ResourceClaims[i]); c != nil {
			p.users[c.UID] += d.Members
			if p.shared(c) && c.Status.Allocation == nil {
				p.jointClaims[c.UID] = true
			}
		}
	}
}

// claimOf returns the claim of a pod for an entry of its spec; a future claim for a pod not yet created; nil if there is none.
func (p *claimPage) claimOf(pod *v1.Pod, ref *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	name, _, err := resourceclaim.Name(pod, ref)
	if errors.Is(err, resourceclaim.ErrClaimNotFound) && p.isFuture(pod) {
		return p.futureClaim(pod, ref)
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

// claimsOf returns a pod's existing and future claims, in the order of the pod's spec.
func (p *claimPage) claimsOf(pod *v1.Pod) (all []*resourceapi.ResourceClaim) {
	for i := range pod.Spec.ResourceClaims {
		if c := p.claimOf(pod, &pod.Spec.ResourceClaims[i]); c != nil {
			all = append(all, c)
		}
	}
	return all
}

// shared returns whether more than one member names a claim.
func (p *claimPage) shared(c *resourceapi.ResourceClaim) bool { return p.users[c.UID] > 1 }

// isJoint returns whether a claim is unallocated and more than one member names it: they share the devices that the first of them takes.
func (p *claimPage) isJoint(c *resourceapi.ResourceClaim) bool { return p.jointClaims[c.UID] }

// Entry implements fit.Page: it returns a key for the devices that a pod needs; "" if it needs none.
func (p *claimPage) Entry(pod *v1.Pod) string {
	if e, ok := p.entries[pod.UID]; ok {
		return e
	}
	if !p.usesDevices(pod) {
		return ""
	}
	return p.entryOf(pod)
}

// entryOf returns a key for the devices that a pod needs: of its own unallocated claims only the spec, of other claims the UID and version.
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
	if backed := p.extendedClasses(pod); len(backed) > 0 {
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

// perContainer returns the requests of each container: the claim for extended resources depends on these.
func perContainer(pod *v1.Pod) (out []any) {
	for _, all := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			out = append(out, all[i].Resources.Requests, all[i].RestartPolicy)
		}
		out = append(out, "|")
	}
	return out
}

// requestsOf returns all requests of a claim, with all alternatives, each changed to a request for exactly one device.
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

// Far implements fit.Page: it returns whether an allocation for the pod may prevent one on another node.
func (p *claimPage) Far(pod *v1.Pod) bool { return p.farMembers[pod.UID] }

// isFar returns whether a pod's devices depend on pods on other nodes. This is so for joint claims, for claims with nearly the maximal
// number of users, and for requests that devices of several nodes meet.
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
	for _, class := range p.extendedClasses(pod) {
		asks = append(asks, resourceapi.ExactDeviceRequest{
			DeviceClassName: class.Name, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		})
	}
	return len(p.multiNode) > 0 && p.mayUseMultiNode(asks)
}

// mayUseMultiNode returns whether devices that several nodes can use would meet any of the requests if all of them were free.
func (p *claimPage) mayUseMultiNode(asks []resourceapi.ExactDeviceRequest) bool {
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return true
	}
	var offered []*resourceapi.ResourceSlice
	seen := map[poolID]bool{}
	for _, s := range p.multiNode {
		if id := poolOf(s); !seen[id] {
			seen[id] = true
			for _, slice := range p.pools[id] {
				if slice.Spec.NodeName == nil || *slice.Spec.NodeName == "" {
					offered = append(offered, slice)
				}
			}
		}
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, p.features, emptyState(), p.manager.DeviceClasses(), offered, p.cel)
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

// usedClaims returns the allocated claims that are reserved for a pod.
func (p *claimPage) usedClaims(pod *v1.Pod) []*resourceapi.ResourceClaim {
	p.once.Do(func() {
		p.claimsUsedBy = map[types.UID][]*resourceapi.ResourceClaim{}
		all, err := p.manager.ResourceClaims().List()
		if err != nil {
			return
		}
		for _, c := range all {
			if c.Status.Allocation == nil {
				continue
			}
			for _, by := range c.Status.ReservedFor {
				p.claimsUsedBy[by.UID] = append(p.claimsUsedBy[by.UID], c)
			}
		}
	})
	return p.claimsUsedBy[pod.UID]
}

// permits returns whether an allocation can be used on the node.
func permits(a *resourceapi.AllocationResult, node *v1.Node) bool {
	if a.NodeSelector == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
	return err == nil && selector.Match(node)
}

// extendedClaim returns a claim with these requests, as DynamicResources makes it for a pod's extended resources, but without UID.
func extendedClaim(pod *v1.Pod, requests []resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
	c.Namespace, c.Name = pod.Namespace, strings.Join([]string{pod.Name, "extended-resources"}, "-")
	return c
}
