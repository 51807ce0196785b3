package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// TestVictimsOfEqualSizeAreAlike: of pods that free the same capacity on a node the cheapest is evicted, without a
// search over all sets of them.
func TestVictimsOfEqualSizeAreAlike(t *testing.T) {
	occupies := func(change func(*v1.Pod)) string {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "web"}}}
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}}
		change(p)
		return convert.Occupies(p, convert.Requests(p))
	}
	one := occupies(func(*v1.Pod) {})
	for name, change := range map[string]func(*v1.Pod){
		"another name":        func(p *v1.Pod) { p.Name = "b" },
		"another priority":    func(p *v1.Pod) { p.Spec.Priority = new(int32(7)) },
		"a toleration":        func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} },
		"a node selector":     func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} },
		"an index of its own": func(p *v1.Pod) { p.Labels["apps.kubernetes.io/pod-index"] = "3" },
		"a token": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}}}
		},
		"it is with some pods": func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} },
	} {
		require.Equal(t, one, occupies(change), name)
	}
	apart := []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname}}
	for name, change := range map[string]func(*v1.Pod){
		"another namespace": func(p *v1.Pod) { p.Namespace = "other" },
		"another label":     func(p *v1.Pod) { p.Labels["app"] = "batch" },
		"other requests":    func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1001m") },
		"overhead":          func(p *v1.Pod) { p.Spec.Overhead = v1.ResourceList{"cpu": resource.MustParse("1m")} },
		"a host port":       func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"a disk": func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}}}
		},
		"a claim": func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} },
		"devices": func(p *v1.Pod) { p.Annotations = map[string]string{convert.DeviceAllocated: `{"gpu":[{"minor":1}]}`} },
		"it keeps pods off": func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: apart}}
		},
	} {
		require.NotEqual(t, one, occupies(change), name)
	}
}
