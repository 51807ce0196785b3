package elasticquota

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/kube/deviceclass"
	_ "github.com/muster-scheduler/muster/test/seed"
)

const gpus = "gpu.example.com.deviceclass.resource.k8s.io/devices"

// claimed is a world with quotas q and r of devices, and claims.
type claimed struct {
	*world
	claims, templates toolscache.Indexer
}

func newClaimed(t *testing.T) *claimed {
	w := &claimed{world: newWorld(t, nil)}
	w.claims, w.templates = store(), store()
	w.devices.claims, w.devices.templates = resourcelisters.NewResourceClaimLister(w.claims),
		resourcelisters.NewResourceClaimTemplateLister(w.templates)
	for _, name := range []string{"q", "r"} {
		w.quota(fmt.Sprintf("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: %s, namespace: default}\nspec: "+
			"{max: {%s: 100}}", name, gpus))
	}
	w.node("n1", "8", v1.ConditionTrue)
	return w
}

func store() toolscache.Indexer {
	return toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
}

func exactly(n int64) []resourceapi.DeviceRequest {
	return []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Count: n}}}
}

// claim creates or deletes a claim.
func (w *claimed) claim(name string, n int64) {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if c.Spec.Devices.Requests = exactly(n); n == 0 {
		require.NoError(w.t, w.claims.Delete(c))
	} else {
		require.NoError(w.t, w.claims.Add(c))
	}
	w.setClaim(claimName{false, "default", name})
}

// template is claim for templates.
func (w *claimed) template(name string, n int64) {
	c := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if c.Spec.Spec.Devices.Requests = exactly(n); n == 0 {
		require.NoError(w.t, w.templates.Delete(c))
	} else {
		require.NoError(w.t, w.templates.Add(c))
	}
	w.setClaim(claimName{true, "default", name})
}

// drawer is a pod that names claims, or a template of them.
type drawer struct {
	name, of, node string
	gated          bool
	claims         []string
	template       string
	uid            int
}

func (w *claimed) draw(d drawer) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: d.name, UID: types.UID(fmt.Sprint(d.name, d.uid)),
		Labels: map[string]string{"quota.scheduling.koordinator.sh/name": d.of},
	}}
	p.Spec.NodeName = d.node
	if d.gated && d.node == "" {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	}
	for i, name := range d.claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint(i), ResourceClaimName: &name})
	}
	if d.template != "" {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: &d.template})
	}
	w.setPod(p)
	return p
}

// has is a quota's used and requested devices.
func (w *claimed) has(of string) (used, request string) {
	all := w.Quotas()
	q := all[slices.IndexFunc(all, func(q Quota) bool { return q.Name == of })]
	return q.Used[gpus], q.Request[gpus]
}

// A shared claim counts once in each quota: for a bound pod if there is one, and for another pod after that one is deleted.
func TestSharedClaims(t *testing.T) {
	w := newClaimed(t)
	w.claim("c", 4)
	a := w.draw(drawer{name: "a", of: "q", claims: []string{"c"}})
	b := w.draw(drawer{name: "b", of: "q", node: "n1", claims: []string{"c"}})
	w.draw(drawer{name: "d", of: "r", claims: []string{"c"}})
	expect := func(of, used, request string) {
		t.Helper()
		u, r := w.has(of)
		require.Equal(t, []string{used, request}, []string{u, r}, of)
	}
	expect("q", "4", "4")
	expect("r", "0", "4")
	w.lock()
	require.Zero(t, w.podRequest(a).Need[0].Asks[gpus], "b has it")
	w.mu.Unlock()
	w.dropPod(b)
	expect("q", "0", "4")
	w.lock()
	require.EqualValues(t, 4, w.podRequest(a).Need[0].Asks[gpus])
	w.mu.Unlock()
	w.claim("c", 0)
	expect("q", "0", "0")
}

// A claim made from a template counts after its template is deleted.
func TestClaimFromTemplate(t *testing.T) {
	w := newClaimed(t)
	w.draw(drawer{name: "a", of: "q", node: "n1", template: "two"})
	u, _ := w.has("q")
	require.Equal(t, "0", u, "its request is unknown")
	w.template("two", 2)
	u, _ = w.has("q")
	require.Equal(t, "2", u)
	made := w.known("a")
	name := "a-own"
	made.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &name}}
	w.claim(name, 2)
	w.setPod(made)
	w.template("two", 0)
	u, _ = w.has("q")
	require.Equal(t, "2", u)
}

func (w *claimed) known(name string) *v1.Pod { return w.Manager.pods["default/"+name].DeepCopy() }

// In every order of events each claim counts once in each quota whose pods name it, as used if one of them is bound.
func TestClaimCountsOncePerQuotaInEveryEventOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newClaimed(t)
		pods, counts, own := map[string]drawer{}, map[string]int64{}, int64(0)
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "what") {
			case 0:
				c := rapid.SampledFrom([]string{"x", "y"}).Draw(r, "claim")
				if counts[c] == 0 {
					counts[c] = rapid.Int64Range(1, 5).Draw(r, "devices")
				} else {
					counts[c] = 0
				}
				w.claim(c, counts[c])
			case 1:
				if own == 0 {
					own = rapid.Int64Range(1, 5).Draw(r, "devices")
				} else {
					own = 0
				}
				w.template("t", own)
			case 2, 3:
				name := names.Draw(r, "pod")
				if d, ok := pods[name]; ok {
					delete(pods, name)
					w.dropPod(w.deadPod(d))
				}
			default:
				d := drawer{
					name: names.Draw(r, "pod"), of: rapid.SampledFrom([]string{"q", "r"}).Draw(r, "quota"), gated: rapid.IntRange(0, 4).Draw(r,
						"gated") == 0,
					node:   rapid.SampledFrom([]string{"", "n1"}).Draw(r, "node"),
					claims: rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"x", "y"}}).Draw(r, "claims"), uid: rapid.IntRange(0, 1).Draw(r, "uid"),
					template: rapid.SampledFrom([]string{"", "t"}).Draw(r, "template"),
				}
				pods[d.name] = d
				w.draw(d)
			}
			for _, of := range []string{"q", "r"} {
				var used, request int64
				held, named := map[string]bool{}, map[string]bool{}
				for _, d := range pods {
					if d.of != of || d.gated && d.node == "" {
						continue
					}
					for _, c := range d.claims {
						named[c], held[c] = true, held[c] || d.node != ""
					}
					if d.template != "" {
						request += own
						if d.node != "" {
							used += own
						}
					}
				}
				for c := range named {
					request += counts[c]
					if held[c] {
						used += counts[c]
					}
				}
				gotUsed, gotRequest := w.has(of)
				require.Equal(r, []string{fmt.Sprint(used), fmt.Sprint(request)}, []string{gotUsed, gotRequest}, "%s of %v", of, pods)
			}
		}
	})
}

func (w *claimed) deadPod(d drawer) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.name, UID: types.UID(fmt.Sprint(d.name, d.uid))}}
}

// Devices of a class are counted on ready nodes and outside of nodes, with the newest generation of each pool.
func TestTotalOfAClass(t *testing.T) {
	w := newClaimed(t)
	poolSlices, classes := store(), store()
	w.classes = deviceclass.New(resourcelisters.NewResourceSliceLister(poolSlices), resourcelisters.NewDeviceClassLister(classes))
	put := func(name, node string, generation int64, kinds ...string) {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Driver, s.Spec.Pool = "gpu.example.com", resourceapi.ResourcePool{Name: "pool-" + node, Generation: generation}
		if node != "" {
			s.Spec.NodeName = &node
		}
		for i, kind := range kinds {
			d := resourceapi.Device{
				Name: fmt.Sprint(i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &kind}},
			}
			if kind == "part" {
				d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "c"}}
			}
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
		require.NoError(t, poolSlices.Add(s))
	}
	expect := func(want int64, known bool) {
		t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.markTotalsStale()
		w.currentBook()
		got := w.classes.Total(w.classes.Named(w.book.Tree().Resources()), func(node string) bool { return w.nodes.byName[node] != nil })
		n, ok := got[gpus]
		require.Equal(t, []any{want, known}, []any{n, ok})
	}
	put("s1", "n1", 1, "gpu", "gpu", "other")
	expect(0, false) // the class is not declared
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{
		{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].kind != "other"`}},
	}
	require.NoError(t, classes.Add(class))
	expect(2, true)
	put("s2", "n2", 1, "gpu")
	expect(2, true)
	w.node("n2", "8", v1.ConditionTrue)
	expect(3, true)
	w.node("n2", "8", v1.ConditionFalse)
	expect(2, true)
	put("s3", "", 1, "gpu")
	expect(3, true)
	put("s4", "n1", 2, "gpu")
	expect(2, true) // the previous slice is of an older generation
	put("s5", "n1", 2, "part")
	expect(0, false)
}

// The free amount of a device class is not always known. It is unknown while a pod has all devices of a node, one of
// several kinds, admin access, or a claim that another quota shares.
func TestDeviceClassWithUnknownFreeAmountIsNotLimited(t *testing.T) {
	w := newClaimed(t)
	poolSlices, classes := store(), store()
	w.classes = deviceclass.New(resourcelisters.NewResourceSliceLister(poolSlices), resourcelisters.NewDeviceClassLister(classes))
	require.NoError(t, classes.Add(&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example.com"}}))
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices = "gpu.example.com", "p", []resourceapi.Device{{Name: "0"}, {Name: "1"}}
	require.NoError(t, poolSlices.Add(s))
	w.mu.Lock()
	w.markTotalsStale()
	w.mu.Unlock()
	for name, c := range map[string]struct {
		ask    resourceapi.DeviceRequest
		both   bool // pods of both quotas name it
		unsure bool
	}{
		"plain": {ask: exactly(1)[0]},
		"all": {ask: resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeAll,
		}}, unsure: true},
		"administrator": {ask: resourceapi.DeviceRequest{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu.example.com", Count: 1, AdminAccess: new(true),
		}}, unsure: true},
		"one of two kinds": {ask: resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "a", DeviceClassName: "gpu.example.com", Count: 1}, {Name: "b", DeviceClassName: "other", Count: 1},
		}}, unsure: true},
		"one kind to choose from": {ask: resourceapi.DeviceRequest{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "a", DeviceClassName: "gpu.example.com", Count: 1},
		}}},
		"of two quotas": {ask: exactly(1)[0], both: true, unsure: true},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
			claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{c.ask}
			require.NoError(t, w.claims.Add(claim))
			w.setClaim(claimName{false, "default", "c"})
			asksForThree := drawer{name: "more", of: "r", template: "three"}
			w.template("three", 3)
			w.draw(asksForThree)
			entitled := func() bool { return w.entitled("r") == "3" } // of 2, unless the total is unknown
			require.False(t, entitled())
			w.draw(drawer{name: "a", of: "q", node: "n1", claims: []string{"c"}})
			if c.both {
				require.False(t, entitled(), "one quota's pods alone name it")
				w.draw(drawer{name: "b", of: "r", node: "n1", claims: []string{"c"}})
			}
			require.Equal(t, c.unsure, w.entitled("r") == map[bool]string{true: "4", false: "3"}[c.both])
			for _, name := range []string{"a", "b"} {
				w.dropPod(w.deadPod(drawer{name: name}))
			}
			require.False(t, entitled(), "it is gone")
			w.dropPod(w.deadPod(asksForThree))
			require.NoError(t, w.claims.Delete(claim))
		})
	}
}

// entitled is a quota's fair share of devices.
func (w *claimed) entitled(of string) string {
	all := w.Quotas()
	return all[slices.IndexFunc(all, func(q Quota) bool { return q.Name == of })].Runtime[gpus]
}
