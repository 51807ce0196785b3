package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

const offered = "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: x.io/gpu}}\n"

// asking is a pod that asks for one device by the name of a resource.
func asking(name, gang string) string {
	labels := ""
	if gang != "" {
		labels = "pod-group.scheduling.sigs.k8s.io: " + gang
	}
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, uid: %s, labels: {%s}}, spec: {schedulerName: "+
		"muster-scheduler, containers: [{name: c, image: i, resources: {requests: {cpu: 1, x.io/gpu: 1}, limits: {x.io/gpu: 1}}}]}}\n", name,
		name, labels)
}

func openExtended(t *testing.T, o Options, text ...string) *shared {
	return openWith(t, o, setOf(t, offered+strings.Join(text, "")))
}

// has is where pods are, and how many claims have devices.
func (s *shared) has() string {
	var out []string
	for _, p := range s.Pods() {
		out = append(out, p.Name+"="+p.Spec.NodeName)
	}
	all, _ := s.cluster.list(resourceClaims, "", nil)
	n := 0
	for _, o := range all {
		if o.(*resourceapi.ResourceClaim).Status.Allocation != nil {
			n++
		}
	}
	return fmt.Sprintf("%s, %d of %d claims allocated", strings.Join(out, " "), n, len(all))
}

// TestKilledWithExtendedResources: the claim for a pod's extended resources is made while the pod is bound,
// and the scheduler is killed at any request before that ends. DynamicResources rejects the pod on every node
// while that claim exists: the claim is deleted, and the pod is bound with another one.
func TestKilledWithExtendedResources(t *testing.T) {
	for _, gang := range []string{"g", ""} {
		for _, carried := range []bool{false, true} {
			for left := range 9 {
				if left < 2 || gang != "" && (left < 5 || left > 8) || gang == "" && left > 5 {
					continue // before and after
				}
				t.Run(fmt.Sprint("gang ", gang, " request ", left, " carried out ", carried), func(t *testing.T) {
					d := &doom{}
					d.set(left, carried)
					s := openExtended(t, Options{intercept: d.between}, gpuNode("n0", 2, 8), gangOf("g", 2), asking("p-0", gang), asking("p-1", gang))
					require.NoError(t, s.Settle(s.ctx, d.is))
					if !d.is() {
						return
					}
					s.restarts(func() { d.set(-1, false) })
					require.NoError(t, s.Settle(s.ctx, nil))
					require.Equal(t, "p-0=n0 p-1=n0, 2 of 2 claims allocated", s.has(), d.at)
				})
			}
		}
	}
}

// TestExtendedClaimIsNotDeleted: the claim for a pod's extended resources cannot be written, nor deleted.
func TestExtendedClaimIsNotDeleted(t *testing.T) {
	for _, gang := range []string{"g", ""} {
		t.Run("gang "+gang, func(t *testing.T) {
			refused := 0
			s := openExtended(t, Options{intercept: func(action clienttesting.Action, ask answer) (runtime.Object, error) {
				if isStatusOfClaim(action) && refused == 0 ||
					action.GetVerb() == "update" && action.GetSubresource() == "" && action.GetResource().Resource == "resourceclaims" && refused == 1 {
					refused++
					return nil, unavailableNow
				}
				return ask()
			}}, gpuNode("n0", 2, 8), gangOf("g", 2), asking("p-0", gang), asking("p-1", gang))
			require.NoError(t, s.Settle(s.ctx, nil))
			require.Equal(t, 2, refused)
			require.Equal(t, "p-0=n0 p-1=n0, 2 of 2 claims allocated", s.has())
		})
	}
}

// TestIdleClaimElsewhere: a claim without reservations is allocated where capacity is missing. As with
// kube-scheduler it is deallocated, and no pod is evicted.
func TestIdleClaimElsewhere(t *testing.T) {
	for _, gang := range []string{"g", ""} {
		t.Run("gang "+gang, func(t *testing.T) {
			s := openClaims(t, Options{}, gpuNode("n0", 1, 1), gpuNode("n1", 2, 8), gangOf("g", 1),
				"---\n{apiVersion: v1, kind: Pod, metadata: {name: r}, spec: {nodeName: n0, priority: -1, containers: [{name: c, image: i, "+
					"resources: {requests: {cpu: 1}}}]}, status: {phase: Running}}\n",
				`---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one, uid: one}, spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}},
 status: {allocation: {devices: {results: [{request: gpu, driver: d, pool: n0, device: gpu-0}]}, nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n0]}]}]}}}}
`, user("p-0", gang, "priority: 5,", "one"))
			s.ends("one:n1/gpu-0 for 1 p-0=n1 r=n0")
		})
	}
}
