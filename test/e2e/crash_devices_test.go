package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// Devices go with CPU, so that what fits is as easy to say as before: each node has one card, as a whole or as two halves, and a
// member has as much of it as of the node. What members share every node reaches. What is found only if all are asked for at
// once is on a node of its own: its one card is for a pair of which one takes any part, of which the whole comes first.

const (
	anyPart  = "any"
	netPool  = "net"
	sideNode = "side"
)

// claim has a member of a job name its claims.
func (j *job) claim(p *v1.Pod) {
	if j.devices {
		template := "whole"
		if sizeOf(p) == halfNode {
			template = "half"
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "card", ResourceClaimTemplateName: &template})
	}
	if j.net {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: netPool, ResourceClaimName: new(j.netClaim())})
	}
}

func (j *job) netClaim() string { return j.name + "-net" }

// asksFor asks for a device of a class, and of a kind if that is not "".
func asksFor(class, kind string) resourceapi.ResourceClaimSpec {
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: class}
	if kind != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes['card.example.com'].kind == %q", kind),
		}}}
	}
	return resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "device", Exactly: exactly}}},
	}
}

// createClaim makes what the members of a job share.
func (c *chaos) createClaim(j *job) {
	if !j.net {
		return
	}
	c.persist(func(ctx context.Context) error {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: j.netClaim()}, Spec: asksFor("net", "")}
		_, err := c.shared.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{})
		return err
	})
}

// offerDevices makes classes, templates, the node for pairs, and what drivers write of all nodes. A cluster that was there
// before may not serve these.
func (c *crashes) offerDevices() {
	if c.offers = c.shared.local != nil; !c.offers {
		return
	}
	ctx, api := c.t.Context(), c.shared.client.ResourceV1()
	for _, class := range []string{"card", "net"} {
		_, err := api.DeviceClasses().Create(ctx, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{
				{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == '%s.example.com'", class)}},
			}},
		}, metav1.CreateOptions{})
		c.must(err)
	}
	for name, kind := range map[string]string{anyPart: "", "half": "half", "whole": "whole"} {
		_, err := api.ResourceClaimTemplates(metav1.NamespaceDefault).Create(ctx, &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: asksFor("card", kind)},
		}, metav1.CreateOptions{})
		c.must(err)
	}
	side := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: sideNode, Labels: map[string]string{v1.LabelHostname: sideNode}, Annotations: c.nodes[0].Annotations},
	}
	side.Spec.Taints = []v1.Taint{{Key: sideNode, Effect: v1.TaintEffectNoSchedule}}
	side.Status = *c.nodes[0].Status.DeepCopy()
	_, err := c.shared.client.CoreV1().Nodes().Create(ctx, side, metav1.CreateOptions{})
	c.must(err)
	all := slicesOfNet()
	for _, n := range append(slices.Clone(c.nodes), side) {
		all = append(all, slicesOfCard(n.Name)...)
	}
	for _, s := range all {
		_, err := api.ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
		c.must(err)
	}
	c.followClaims()
}

// slicesOfCard are one card.
func slicesOfCard(node string) []*resourceapi.ResourceSlice {
	of := func(name string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: node + "-" + name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "card.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 2},
			},
		}
	}
	halves := func(n string) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"halves": {Value: resource.MustParse(n)}}
	}
	card, parts := of("card"), of("parts")
	card.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: halves("2")}}
	for _, d := range []struct{ name, kind, takes string }{{"a-whole", "whole", "2"}, {"half-0", "half", "1"}, {"half-1", "half", "1"}} {
		parts.Spec.Devices = append(parts.Spec.Devices, resourceapi.Device{
			Name: d.name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &d.kind}},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: halves(d.takes)}},
		})
	}
	return []*resourceapi.ResourceSlice{card, parts}
}

// slicesOfNet are more devices than there are jobs, which every node reaches.
func slicesOfNet() []*resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: netPool},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "net.example.com", AllNodes: new(true), Pool: resourceapi.ResourcePool{Name: netPool, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for i := range 8 {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("net-", i)})
	}
	return []*resourceapi.ResourceSlice{s}
}

// followClaims has each allocation be a step, so that schedulers are killed after some.
func (c *crashes) followClaims() {
	api := c.shared.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault)
	informer := cache.NewSharedInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	}, c.shared.client), &resourceapi.ResourceClaim{}, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
		old, now := was.(*resourceapi.ResourceClaim), is.(*resourceapi.ResourceClaim)
		if old.Status.Allocation == nil && now.Status.Allocation != nil {
			c.ledger.allocated(now.Name)
		}
	}})
	c.must(err)
	go informer.RunWithContext(c.t.Context())
}

// allocated notes that a claim has devices.
func (l *ledger) allocated(claim string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step("allocations")
	l.tell("claim %s is allocated", claim)
}

// drawPairs names the pairs of a round.
func (c *crashes) drawPairs(round int) (names []string) {
	if !c.offers {
		return nil
	}
	for i := range c.random.IntN(3) {
		names = append(names, fmt.Sprintf("pair%dx%d", round, i))
	}
	return names
}

// createPairs makes them, all for the one card of the node that is theirs.
func (c *crashes) createPairs() {
	for _, name := range c.pairs {
		j := &job{name: name, teams: []team{{name: name, half: 2}}, priority: "normal"}
		c.createPodGroups(j)
		for i, p := range j.pods() {
			template := []string{anyPart, "half"}[i]
			p.Spec.NodeSelector = map[string]string{v1.LabelHostname: sideNode}
			p.Spec.Tolerations = []v1.Toleration{{Key: sideNode, Operator: v1.TolerationOpExists}}
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: &template}}
			c.create(p)
		}
	}
}

// used are all claims, and the pods that have a node, by UID.
func (c *crashes) used() (claims []resourceapi.ResourceClaim, bound map[string]*v1.Pod) {
	ctx := c.t.Context()
	list, err := c.shared.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	c.must(err)
	pods, err := c.shared.client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	c.must(err)
	bound = map[string]*v1.Pod{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" && !ended(p) {
			bound[string(p.UID)] = p
		}
	}
	return list.Items, bound
}

func reservedForAny(claim *resourceapi.ResourceClaim, bound map[string]*v1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor,
		func(by resourceapi.ResourceClaimConsumerReference) bool { return bound[string(by.UID)] != nil })
}

// writtenAhead says whether some claim is allocated for members while none of them runs.
func (c *crashes) writtenAhead() bool {
	claims, bound := c.used()
	return slices.ContainsFunc(claims, func(claim resourceapi.ResourceClaim) bool {
		return claim.Status.Allocation != nil && claim.Annotations[scheduling.AnnotationAllocatedAhead] != "" && !reservedForAny(&claim, bound)
	})
}

// wrongDevices lists faults when nothing happens any more: a device of two pods, an allocated device without a pod, a
// running member without its device, and a pair of which one runs.
func (c *crashes) wrongDevices() string {
	if !c.offers {
		return ""
	}
	var wrong []string
	says := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	claims, bound := c.used()
	has, halves, pools := map[string]string{}, map[string]int{}, map[string]string{}
	for i := range claims {
		claim := &claims[i]
		if claim.Status.Allocation == nil {
			continue
		}
		if !reservedForAny(claim, bound) {
			says("claim %s is allocated for nobody who runs", claim.Name)
		}
		for _, d := range claim.Status.Allocation.Devices.Results {
			id := d.Pool + "/" + d.Device
			if has[id] != "" {
				says("claims %s and %s have %s", has[id], claim.Name, id)
			}
			has[id], pools[claim.Name] = claim.Name, d.Pool
			if d.Pool != netPool {
				halves[d.Pool] += map[bool]int{true: 2, false: 1}[strings.HasSuffix(d.Device, "whole")]
			}
		}
	}
	for card, n := range halves {
		if n > 2 {
			says("%d halves of the card of %s are given away", n, card)
		}
	}
	pairs := map[string]int{}
	for _, p := range bound {
		c.claimsOf(p, pools, says)
		if group := p.Labels[scheduling.LabelPodGroup]; slices.Contains(c.pairs, group) {
			pairs[group]++
		}
	}
	if len(c.pairs) > 0 && len(pairs) != 1 {
		says("of pairs run %v", pairs)
	}
	for pair, n := range pairs {
		if n != 2 {
			says("%d of pair %s run", n, pair)
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, "\n")
}

// claimsOf says what a pod that runs has not of what it names.
func (c *crashes) claimsOf(p *v1.Pod, pools map[string]string, says func(string, ...any)) {
	for _, ref := range p.Spec.ResourceClaims {
		name := ""
		if ref.ResourceClaimName != nil {
			name = *ref.ResourceClaimName
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.Name == ref.Name && s.ResourceClaimName != nil {
				name = *s.ResourceClaimName
			}
		}
		if at := pools[name]; at != p.Spec.NodeName && at != netPool {
			says("%s runs on %s and claim %q has devices of %q", p.Name, p.Spec.NodeName, name, at)
		}
	}
}

// sweepClaims deletes claims. Claims that were created for pods are deleted with the pods.
func (c *crashes) sweepClaims() {
	if !c.offers {
		return
	}
	for _, j := range c.jobs {
		c.counts["gangs with devices"] += map[bool]int{true: 1}[j.devices || j.net]
	}
	c.await("no claims", func() string {
		claims, _ := c.used()
		var left []string
		for i := range claims {
			if len(claims[i].OwnerReferences) == 0 {
				c.persist(func(ctx context.Context) error {
					return c.shared.client.ResourceV1().ResourceClaims(metav1.NamespaceDefault).Delete(ctx, claims[i].Name, metav1.DeleteOptions{})
				})
			}
			left = append(left, claims[i].Name)
		}
		return strings.Join(left, " ")
	})
}
