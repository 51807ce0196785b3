package plugin_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// ledger is an added plugin that lends a number of things per node and records them outside of the snapshot. It
// checks in Filter, or only in Reserve.
type ledger struct {
	atReserve bool

	mu     sync.Mutex
	things int
	lent   map[string]map[types.UID]bool // by node
}

func (*ledger) Name() string { return "Ledger" }

func (l *ledger) full(node string) *fwk.Status {
	if len(l.lent[node]) < l.things {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "node(s) lend nothing more")
}

func (l *ledger) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.atReserve {
		return nil
	}
	return l.full(node.Node().Name)
}

func (l *ledger) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.full(node); s != nil {
		return s
	}
	if l.lent[node] == nil {
		l.lent[node] = map[types.UID]bool{}
	}
	l.lent[node][pod.UID] = true
	return nil
}

func (l *ledger) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lent[node], pod.UID)
}

// EventsToRegister: claims with the label are what it lends more for, when they come and when
// they go.
func (*ledger) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	hint := func(_ klog.Logger, _ *v1.Pod, before, now any) (fwk.QueueingHint, error) {
		claim, _ := now.(*v1.PersistentVolumeClaim)
		if now == nil {
			claim, _ = before.(*v1.PersistentVolumeClaim)
		}
		if claim == nil || claim.Labels["things"] == "" {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	}
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.PersistentVolumeClaim, ActionType: fwk.Add | fwk.Delete}, QueueingHintFn: hint},
		{Event: fwk.ClusterEvent{Resource: fwk.StorageClass, ActionType: fwk.Update}},
	}, nil
}

// onLedger is a cluster of three free nodes and a full one, whose scheduler runs the ledger.
func onLedger(t *testing.T, l *ledger) *testcluster.Cluster {
	l.lent = map[string]map[types.UID]bool{}
	c := testcluster.New(t, "s/b/n0=16 s/b/n1=16 s/b/n2=16 s/b/n3=16")
	c.Plugins = frameworkruntime.Registry{"Ledger": func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return l, nil }}
	c.Config = strings.Replace(c.Config, "plugins: {", "plugins: {multiPoint: {enabled: [{name: Ledger}]}, ", 1)
	c.Pod(testcluster.A("low", 1000, "16", "n3"))
	require.NoError(t, c.Client.Tracker().Add(claimOf("old", "1")))
	require.NoError(t, c.Client.Tracker().Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}))
	return c.Run()
}

func claimOf(name, things string) *v1.PersistentVolumeClaim {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if things != "" {
		claim.Labels = map[string]string{"things": things}
	}
	return claim
}

// Case 44 for unknown plugins: no node gets more members than it has things, wherever the plugin checks, and no pod
// is evicted.
func TestPluginsWithLedgers(t *testing.T) {
	for _, atReserve := range []bool{false, true} {
		t.Run(fmt.Sprint("at reserve ", atReserve), func(t *testing.T) {
			t.Parallel()
			c := onLedger(t, &ledger{things: 2, atReserve: atReserve})
			c.Gang("g", 6, testcluster.Pending(6, 1000000, "1")...)
			on := map[string]int{}
			c.Wait("6", func() string {
				clear(on)
				bound := 0
				for i := range 6 {
					if node := c.Get(fmt.Sprint("g-", i)).Spec.NodeName; node != "" {
						on[node]++
						bound++
					}
				}
				return fmt.Sprint(bound)
			})
			require.Equal(t, map[string]int{"n0": 2, "n1": 2, "n2": 2}, on)
			require.Empty(t, c.Evicted())
		})
	}
}

// TestWhenLimitsEnd: a rejection of a node holds until the node changes or the plugin receives its event, which need
// not change the node.
func TestWhenLimitsEnd(t *testing.T) {
	for name, change := range map[string]func(c *testcluster.Cluster){
		"the node changes": func(c *testcluster.Cluster) {
			nodes := v1.SchemeGroupVersion.WithResource("nodes")
			o, err := c.Client.Tracker().Get(nodes, "", "n1")
			require.NoError(t, err)
			n := o.(*v1.Node).DeepCopy()
			n.ResourceVersion = "2"
			metav1.SetMetaDataLabel(&n.ObjectMeta, "things", "3")
			require.NoError(t, c.Client.Tracker().Update(nodes, n, ""))
		},
		"the plugin hears of it": func(c *testcluster.Cluster) {
			require.NoError(t, c.Client.Tracker().Add(claimOf("other", "")))
			c.Never(func() bool { return c.Get("g-6").Spec.NodeName != "" })
			require.NoError(t, c.Client.Tracker().Add(claimOf("more", "1")))
		},
		"it hears that something goes": func(c *testcluster.Cluster) {
			claims := v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
			require.NoError(t, c.Client.Tracker().Delete(claims, "default", "old"))
		},
		"it hears of a change": func(c *testcluster.Cluster) {
			classes := storagev1.SchemeGroupVersion.WithResource("storageclasses")
			fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", ResourceVersion: "2"}}
			require.NoError(t, c.Client.Tracker().Update(classes, fast, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &ledger{things: 2}
			c := onLedger(t, l)
			c.Gang("g", 7, testcluster.Pending(7, 1000000, "1")...)
			c.WaitSaid(1, "desiredOfferSlot: 7, topology topologyNode SpineLayer/s: 6")
			l.mu.Lock()
			l.things = 3
			l.mu.Unlock()
			change(c)
			c.Wait("started", func() string {
				if c.Get("g-6").Spec.NodeName != "" {
					return "started"
				}
				return ""
			})
			require.Empty(t, c.Evicted())
		})
	}
}
