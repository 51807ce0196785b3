package eligible

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

func requesting(cpu, gpu string) *v1.Pod {
	requests := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	if gpu != "" {
		requests["nvidia.com/gpu"] = resource.MustParse(gpu)
	}
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}}}
}

func TestSizes(t *testing.T) {
	sizes := SizesFor([]*v1.Pod{requesting("1", ""), requesting("4", "8")})
	for name, c := range map[string]struct {
		pod  *v1.Pod
		size int64
	}{
		"half of the CPU":               {requesting("2", ""), 500},
		"the resource held most counts": {requesting("1", "16"), 2000},
		"more than a member":            {requesting("40", ""), 10_000},
		"nothing":                       {&v1.Pod{}, 0},
	} {
		require.Equal(t, c.size, sizes.Of(convert.Requests(c.pod)), name)
	}
	require.Zero(t, SizesFor([]*v1.Pod{requesting("1", "")}).Of(convert.Requests(requesting("0", "8"))),
		"what no member requests is not released for one")
}

func member(name, owner string, day int, labels map[string]string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(owner), Controller: new(true)}}
	}
	p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(day)*86400, 0)}
	return p
}

func TestStanding(t *testing.T) {
	pods := []*v1.Pod{
		member("executor", "driver", 3, nil), member("driver", "", 2, nil), member("launcher", "", 1,
			map[string]string{"mpi-job-role": "Launcher"}),
		member("rank-0", "job", 5, map[string]string{"batch.kubernetes.io/job-completion-index": "0"}),
		member("rank-7", "job", 4, map[string]string{"batch.kubernetes.io/job-completion-index": "7"}),
	}
	whole := StandingOf(Gang{Pods: pods})
	require.Equal(t, int64(86400*1e9), whole.StartedOf(pods[0]), "as old as its oldest member")
	require.Equal(t, map[types.UID]int{"driver": 1, "launcher": 1, "rank-0": 1}, whole.Leads)

	elastic := StandingOf(Gang{Pods: pods, Gang: bundle.Gang{Spare: 1}})
	require.Equal(t, int64(5*86400*1e9), elastic.StartedOf(pods[0]), "as young as its youngest member")
	unranked := StandingOf(Gang{Pods: pods[:2], Gang: bundle.Gang{Spare: 1}})
	require.Greater(t, unranked.StartedOf(pods[0]), unranked.StartedOf(pods[1]), "without ranks each member is as old as it is")
}
