package plugin_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// door is the Filter of an added plugin. It accepts no pod before a claim called key exists, and registers that
// event.
type door struct {
	open  atomic.Bool
	heard atomic.Int64 // claims of other names
	asked atomic.Int64
}

func (*door) Name() string { return "Door" }

func (d *door) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	d.asked.Add(1)
	if d.open.Load() {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "node(s) are behind a door")
}

func (d *door) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add},
		QueueingHintFn: func(_ klog.Logger, _ *v1.Pod, _, now any) (fwk.QueueingHint, error) {
			if now.(*v1.PersistentVolumeClaim).Name != "key" {
				d.heard.Add(1)
				return fwk.QueueSkip, nil
			}
			d.open.Store(true)
			return fwk.Queue, nil
		},
	}}, nil
}

// withPlugin has a configuration run one more plugin.
func withPlugin(config, name string) string {
	return strings.Replace(config, "plugins: {", "plugins: {multiPoint: {enabled: [{name: "+name+"}]}, ", 1)
}

// TestEventOfAddedFilterRetriesGang is case 53: a plugin rejected a gang and registered for an event kind. An event
// of that kind retries the gang only if the plugin's hint says so.
func TestEventOfAddedFilterRetriesGang(t *testing.T) {
	d := &door{}
	c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
	c.Plugins = frameworkruntime.Registry{"Door": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return d, nil }}
	c.Config = withPlugin(c.Config, "Door")
	c.Run()
	c.Gang("g", 2, testcluster.Pending(2, 1000, "1")...)
	c.Wait("refused", func() string {
		if len(c.Said("behind a door")) > 0 {
			return "refused"
		}
		return ""
	})
	claim := func(name string) {
		require.NoError(t, c.Client.Tracker().Add(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}))
	}
	asked := d.asked.Load()
	others := 0
	c.Wait("heard", func() string {
		if d.heard.Load() > 0 {
			return "heard"
		}
		others++ // an event while the queue still holds the pod asks no hint
		claim(fmt.Sprint("other-", others))
		return ""
	})
	claim("key")
	c.Wait("g-0=n0 g-1=n0", func() string { return c.Where("g-0", "g-1") })
	require.Less(t, d.asked.Load()-asked, int64(20))
}
