package plugin_test

import (
	"context"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// meanwhile is a plugin that has something happen once, when a pod of a name is reserved: in its
// cycle, after its node was chosen and before the barrier.
type meanwhile struct {
	pod  string
	once sync.Once
	do   func()
}

func (*meanwhile) Name() string { return "Meanwhile" }

func (m *meanwhile) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	if pod.Name == m.pod {
		m.once.Do(m.do)
	}
	return nil
}

func (*meanwhile) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) {}

// TestDeletedMemberReleasesItsNode: a member is deleted during its cycle. It keeps no node, and its gang continues
// without it, also if a pod of its name is created at once.
func TestDeletedMemberReleasesItsNode(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.New(t, "s/b/n0=8")
			m := &meanwhile{pod: "g-0"}
			m.do = func() {
				c.Remove("g-0")
				c.Within(testcluster.WaitFor, func() bool { return c.Plugin.Cache.Pod("default/g-0") == nil })
				if again {
					p := testcluster.A("g-0", 0, "4", "")
					p.UID, p.Labels = "another", c.Get("g-1").Labels
					c.Pod(p)
					c.Within(testcluster.WaitFor, func() bool { return c.Plugin.Cache.Pod("default/g-0") != nil })
				}
			}
			c.Plugins = frameworkruntime.Registry{m.Name(): func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return m, nil }}
			c.Config = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {multiPoint: {enabled: [{name: Meanwhile}]}}
`
			c.Run()
			c.Gang("g", 2, testcluster.Pending(2, 0, "4")...)
			if again {
				c.Wait("g-0=n0 g-1=n0", func() string { return c.Where("g-0", "g-1") })
				return
			}
			c.Wait("g-0 gone g-1>", func() string { return c.Where("g-0", "g-1") })
			c.Pod(testcluster.A("whole", 0, "8", ""))
			c.Wait("whole=n0", func() string { return c.Where("whole") })
		})
	}
}
