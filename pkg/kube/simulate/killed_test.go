package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/kube/allot"
	"github.com/muster-scheduler/muster/test/worlds"
)

// doom is when a scheduler is killed: at a request, which the API server has carried out or not. From then on it asks for nothing.
type doom struct {
	mu      sync.Mutex
	left    int // requests until the kill; negative is never
	carried bool
	dead    bool
	at      string // that request
}

var errKilled = errors.New("the scheduler was killed")

func (d *doom) between(action clienttesting.Action, ask answer) (runtime.Object, error) {
	if !slices.Contains([]string{"create", "update", "patch", "delete"}, action.GetVerb()) || action.GetResource().Resource == "events" {
		return ask()
	}
	d.mu.Lock()
	dies := !d.dead && d.left == 0
	if dies {
		d.dead, d.at = true, strings.TrimSuffix(action.GetResource().Resource+"/"+action.GetSubresource(), "/")
	}
	refuses := d.dead && (!dies || !d.carried)
	d.left--
	d.mu.Unlock()
	if refuses {
		return nil, errKilled
	}
	o, err := ask()
	if dies {
		return nil, errKilled
	}
	return o, err
}

func (d *doom) is() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *doom) set(left int, carried bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.carried, d.dead = left, carried, false
}

// killing is a world in which schedulers are killed.
type killing struct {
	*World
	*doom
	t     *rapid.T
	ctx   context.Context
	texts map[string]string // of deleted pods
	made  int               // gangs
	wild  map[string]bool   // claims that were deleted while in use
	kills int
}

// gang draws a gang whose members share a claim, or have one each, for any device or for a half of a card.
func (k *killing) gang() (text string) {
	name := fmt.Sprint("g", k.made)
	k.made++
	n := rapid.IntRange(1, 3).Draw(k.t, "members")
	text = gangOf(name, rapid.IntRange(max(1, n-1), n).Draw(k.t, "least"))
	shares := rapid.IntRange(0, 2).Draw(k.t, "shares") == 0
	if shares {
		text += claimFor("of-" + name)
	}
	for i := range n {
		claim := "resourceClaimName: of-" + name
		if !shares {
			claim = "resourceClaimTemplateName: " + rapid.SampledFrom([]string{"any", "half"}).Draw(k.t, "claims")
		}
		pod := fmt.Sprint(name, "-", i)
		k.texts[pod] = fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {pod-group.scheduling.sigs.k8s.io: %s}}, "+
			"spec: {schedulerName: muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}], resourceClaims: [{name: "+
			"gpu, %s}]}}\n", pod, name, claim)
		text += k.texts[pod]
	}
	return text
}

// begins draws the nodes and the first gangs.
func (k *killing) begins() string {
	text := killingBase
	for i := range rapid.IntRange(1, 3).Draw(k.t, "nodes") {
		text += cards(fmt.Sprint("n", i), rapid.IntRange(1, 2).Draw(k.t, "cards"))
	}
	for range rapid.IntRange(1, 3).Draw(k.t, "gangs") {
		text += k.gang()
	}
	return text
}

const killingBase = `
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: any}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: half}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1, selectors: [{cel: {expression: "device.attributes['d'].half"}}]}}]}}}}
`

// cards is a node with cards, each as a whole or as two halves.
func cards(name string, n int) string {
	var sets, devices []string
	for i := range n {
		sets = append(sets, fmt.Sprintf("{name: card-%d, counters: {halves: {value: '2'}}}", i))
		part := func(device, half string, of int) string {
			return fmt.Sprintf("{name: c%d-%s, attributes: {half: {bool: %s}}, consumesCounters: [{counterSet: card-%d, counters: {halves: "+
				"{value: '%d'}}}]}", i, device, half, i, of)
		}
		devices = append(devices, part("a-whole", "false", 2), part("half-0", "true", 1), part("half-1", "true", 1))
	}
	slice := "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: %s}, spec: {driver: d, nodeName: %s, pool: " +
		"{name: %s, generation: 1, resourceSliceCount: 2}, %s: [%s]}}\n"
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {allocatable: {cpu: 8, pods: 20}}}\n", name) +
		fmt.Sprintf(slice, name+"-cards", name, name, "sharedCounters", strings.Join(sets, ", ")) +
		fmt.Sprintf(slice, name+"-parts", name, name, "devices", strings.Join(devices, ", "))
}

func (k *killing) claims() (claims []*resourceapi.ResourceClaim) {
	all, _ := k.cluster.list(resourceClaims, "", nil)
	for _, o := range all {
		claims = append(claims, o.(*resourceapi.ResourceClaim))
	}
	return claims
}

// pod draws an existing pod; "" if there is none.
func (k *killing) pod() string {
	var names []string
	for _, p := range k.Pods() {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return rapid.SampledFrom(names).Draw(k.t, "pod")
}

func (k *killing) comes(text string) {
	set := &Set{}
	require.NoError(k.t, set.Add("in.yaml", []byte(text)))
	come, err := k.cluster.apply(set)
	require.NoError(k.t, err)
	require.NoError(k.t, k.addPods(k.ctx, come))
}

// audit checks that no device is allocated twice, that all running pods have theirs, and that no other pod
// holds one.
func (k *killing) audit() {
	halves, by := map[string]int{}, map[string]string{}
	pods := map[types.UID]*v1.Pod{}
	for _, p := range k.Pods() {
		pods[p.UID] = p
	}
	for _, c := range k.claims() {
		if c.Status.Allocation == nil {
			require.Empty(k.t, c.Status.ReservedFor, "%s is reserved and has nothing", c.Name)
			continue
		}
		used := false
		for _, r := range c.Status.ReservedFor {
			used = used || pods[r.UID] != nil && pods[r.UID].Spec.NodeName != ""
		}
		require.True(k.t, used || k.forgotten(c), "%s is allocated for no running pod", c.Name)
		for _, d := range c.Status.Allocation.Devices.Results {
			id := d.Pool + "/" + d.Device
			require.Empty(k.t, by[id], "%s and %s have %s", by[id], c.Name, id)
			by[id] = c.Name
			card, part, _ := strings.Cut(id, "-")
			halves[card] += map[bool]int{true: 2, false: 1}[part == "a-whole"]
			require.LessOrEqual(k.t, halves[card], 2, card)
		}
	}
	running := map[string]int{}
	for _, p := range k.Pods() {
		if p.Spec.NodeName == "" {
			continue
		}
		running[p.Labels["pod-group.scheduling.sigs.k8s.io"]]++
		name, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[0])
		require.NoError(k.t, err)
		if k.wild[*name] {
			continue
		}
		o, err := k.cluster.get(resourceClaims, key{"default", *name})
		require.NoError(k.t, err)
		c := o.(*resourceapi.ResourceClaim)
		require.NotNil(k.t, c.Status.Allocation, p.Name)
		require.Equal(k.t, p.Spec.NodeName, c.Status.Allocation.Devices.Results[0].Pool)
		require.True(k.t, reservedFor(p, c), "%s runs with %s, which is not reserved for it", p.Name, *name)
	}
}

// forgotten reports whether the purpose of a claim's allocation is unknown: the pod's own cycle allocated it,
// the binding failed, the pod was deleted, and the scheduler was killed before it released the devices. The
// next pod that names the claim uses or frees them.
func (k *killing) forgotten(c *resourceapi.ResourceClaim) bool {
	return k.kills > 0 && len(c.Status.ReservedFor) == 0 && !allot.AllocatedByMuster(c) && len(c.OwnerReferences) == 0 &&
		!slices.ContainsFunc(k.Pods(), func(p *v1.Pod) bool { return usesClaim(p, c.Name) })
}

// TestKilled: schedulers are killed at any of their requests, and members are deleted and recreated. No
// device is allocated twice, and no allocation is leaked.
func TestKilled(t *testing.T) {
	quietLogs(t)
	kinds := []string{
		"at a binding", "at a claim", "at what a claim has", "written ahead when killed", "members deleted meanwhile", "some run", "some wait",
	}
	worlds.Check(t, 60, kinds, func(rt *rapid.T, tally worlds.Tally) {
		k := &killing{doom: &doom{left: -1}, t: rt, texts: map[string]string{}}
		text := k.begins()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		k.ctx = ctx
		k.set(rapid.IntRange(0, 14).Draw(rt, "requests"), rapid.Bool().Draw(rt, "carried out"))
		var err error
		k.World, err = Open(ctx, Options{intercept: k.between}, setOf(t, text))
		require.NoError(rt, err)
		defer k.Close()
		for range rapid.IntRange(1, 4).Draw(rt, "lives") {
			require.NoError(rt, k.Settle(ctx, k.is))
			k.tally(tally)
			restart(t, ctx, k.World, func() {
				for range rapid.IntRange(0, 2).Draw(rt, "deleted") {
					if name := k.pod(); name != "" {
						require.NoError(rt, k.cluster.delete(pods, key{"default", name}, metav1.DeleteOptions{}))
						tally.Count("members deleted meanwhile", true)
					}
				}
				k.set(rapid.IntRange(0, 10).Draw(rt, "requests"), rapid.Bool().Draw(rt, "carried out"))
			})
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				k.comes(k.gang())
			case 1:
				k.again()
			}
		}
		restart(t, ctx, k.World, func() { k.set(-1, false) })
		require.NoError(rt, k.Settle(ctx, nil))
		k.audit()
		for _, p := range k.Pods() {
			tally.Count("some run", p.Spec.NodeName != "")
			tally.Count("some wait", p.Spec.NodeName == "")
		}
	})
}

// again recreates deleted members.
func (k *killing) again() {
	there := map[string]bool{}
	for _, p := range k.Pods() {
		there[p.Name] = true
	}
	var names []string
	for name := range k.texts {
		if !there[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		k.comes(k.texts[name])
	}
}

// tally counts where the scheduler was killed.
func (k *killing) tally(tally worlds.Tally) {
	if !k.is() {
		return
	}
	tally.Count("at a binding", k.at == "pods/binding")
	tally.Count("at a claim", k.at == "resourceclaims")
	tally.Count("at what a claim has", k.at == "resourceclaims/status")
	for _, c := range k.claims() {
		if allot.AllocatedByMuster(c) {
			bound := slices.ContainsFunc(k.Pods(), func(p *v1.Pod) bool { return p.Spec.NodeName != "" && reservedFor(p, c) })
			tally.Count("written ahead when killed", !bound)
		}
	}
}

func reservedFor(pod *v1.Pod, c *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(c.Status.ReservedFor, func(by resourceapi.ResourceClaimConsumerReference) bool { return by.UID == pod.UID })
}

// TestPartlyBoundGangIsCompletedFirst: a scheduler was killed when it had bound one of five members. The
// other members fit exactly, and are bound although a gang of higher priority waits that cannot evict any
// pod.
func TestPartlyBoundGangIsCompletedFirst(t *testing.T) {
	quietLogs(t)
	text := gangOf("part", 5) + gangOf("urgent", 2)
	for i, used := range []int{1, 0, 0} {
		text += fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: n%d}, status: {allocatable: {cpu: %d, pods: 20}}}\n", i, 2-used)
	}
	member := func(name, gang, node string, priority int) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {pod-group.scheduling.sigs.k8s.io: %s, "+
			"scheduling.koordinator.sh/disable-preemptible: 'true'}}, spec: {schedulerName: muster-scheduler, nodeName: '%s', priority: %d, "+
			"containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}\n", name, gang, node, priority)
	}
	for i, node := range []string{"n0", "", "", "", ""} {
		text += member(fmt.Sprint("part-", i), "part", node, 1)
	}
	for i := range 2 {
		text += member(fmt.Sprint("urgent-", i), "urgent", "", 2)
	}
	killed := &doom{} // before it has done anything
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := Open(ctx, Options{intercept: killed.between}, setOf(t, text))
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Settle(ctx, killed.is))
	restart(t, ctx, w, func() { killed.set(-1, false) })
	require.NoError(t, w.Settle(ctx, nil))
	for _, p := range w.Pods() {
		require.Equal(t, strings.HasPrefix(p.Name, "part"), p.Spec.NodeName != "", p.Name)
	}
}
