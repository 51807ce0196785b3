package plugin_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// fussy is the Reserve of an added plugin. It rejects one pod, and records the assigned pods at that time.
type fussy struct {
	pod  string
	look func() string

	mu   sync.Mutex
	seen []string
}

func (*fussy) Name() string { return "Fussy" }

func (f *fussy) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Name != f.pod {
		return nil
	}
	where := f.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, where)
	return fwk.NewStatus(fwk.Unschedulable, "not now")
}

func (*fussy) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// Of four members in pairs, not all needed, the last loses its node. No member starts before it is known whether
// the others come. All return, and two start beside the node that rejected one.
func TestPlanInMultiplesLosesAMember(t *testing.T) {
	c := testcluster.New(t, "s/b1/n0=2 s/b2/n1=2")
	f := &fussy{pod: "g-3", look: func() string { return c.Where("g-0", "g-1", "g-2", "g-3") }}
	c.Plugins = frameworkruntime.Registry{"Fussy": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return f, nil }}
	c.Config = withPlugin(c.Config, "Fussy")
	c.GangWith(map[string]string{
		scheduling.AnnotationMode:         string(scheduling.ModeNonStrict),
		scheduling.AnnotationTopologySpec: `{"gatherStrategy": [{"layer": "BlockLayer", "strategy": "PreferGather", "podCountMultiple": 2}]}`,
	}, "g", 2, testcluster.Pending(4, 1000, "1")...)
	c.Run() // all members are there from the start
	c.Wait("g-0=n0 g-1=n0 g-2> g-3>", f.look)
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.seen, 1)
	require.NotContains(t, f.seen[0], "=", "no member was bound before the last arrived")
}
