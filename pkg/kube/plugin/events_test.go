package plugin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/kube/wake"
)

// hearing is a plugin that has registered for some events.
type hearing struct {
	name   string
	events []fwk.ClusterEventWithHint
	err    error
}

func (h hearing) Name() string { return h.name }
func (h hearing) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return h.events, h.err
}

// profileOf is a profile of plugins that filter, and of one that only scores.
type profileOf struct {
	framework.Framework
	plugins []fwk.EnqueueExtensions
}

func (p profileOf) EnqueueExtensions() []fwk.EnqueueExtensions { return p.plugins }
func (p profileOf) ListPlugins() *schedulerconfig.Plugins {
	var out schedulerconfig.Plugins
	for _, h := range p.plugins {
		if h.Name() != "Scores" {
			out.Filter.Enabled = append(out.Filter.Enabled, schedulerconfig.Plugin{Name: h.Name()})
		}
	}
	return &out
}

// member is a pod of a gang.
func member(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{scheduling.LabelPodGroup: name}}}
}

// TestEventsOfOtherPluginsRetryGang: what any plugin has registered for is registered, and wakes a group if that
// plugin has refused it and says so.
func TestEventsOfOtherPluginsRetryGang(t *testing.T) {
	saying := func(hint fwk.QueueingHint, err error) fwk.QueueingHintFn {
		return func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) { return hint, err }
	}
	volumes := fwk.ClusterEvent{Resource: fwk.PersistentVolume, ActionType: fwk.Add}
	slice := fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add}
	broken := errors.New("broken")
	p := &Plugin{Shared: &Shared{
		Cache: cache.New(cache.Options{}),
	}, planner: &place.Planner{}, profile: profileOf{plugins: []fwk.EnqueueExtensions{
		hearing{name: "Always", events: []fwk.ClusterEventWithHint{{Event: volumes}}},
		hearing{name: "Yes", events: []fwk.ClusterEventWithHint{{Event: slice, QueueingHintFn: saying(fwk.Queue, nil)}}},
		hearing{name: "No", events: []fwk.ClusterEventWithHint{{Event: slice, QueueingHintFn: saying(fwk.QueueSkip, nil)}}},
		hearing{name: "Fails", events: []fwk.ClusterEventWithHint{{Event: slice, QueueingHintFn: saying(fwk.QueueSkip, broken)}}},
		hearing{name: Name, events: []fwk.ClusterEventWithHint{{Event: slice}}},
		hearing{name: "Scores", events: []fwk.ClusterEventWithHint{{Event: slice}}},
	}}}
	events, err := p.pluginEvents(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, events, 4, "neither its own nor those of plugins that reject no pod")
	of := []string{"Always", "Yes", "No", "Fails"}
	for _, c := range []struct {
		refusedBy []string
		wake      []string // the plugins whose events retry
	}{
		{[]string{}, nil},
		{[]string{"Always"}, []string{"Always"}},
		{[]string{"Yes"}, []string{"Yes"}},
		{[]string{"No", "Yes"}, []string{"Yes"}},
		{[]string{"NodeResourcesFit"}, nil},
		{nil, []string{"Always", "Yes"}}, // the plugin is unknown
	} {
		p.retries.Record(wake.Entry{Group: gang.Ref{Name: "g"}, Class: "c", TriedPod: "ns/g-0", Plugins: c.refusedBy})
		for i, e := range events {
			hint, err := e.QueueingHintFn(klog.Background(), member("g-0"), nil, nil)
			waits := c.refusedBy == nil || slices.Contains(c.refusedBy, of[i])
			require.Equal(t, of[i] == "Fails" && waits, err != nil, "%v %s", c.refusedBy, of[i])
			require.Equal(t, slices.Contains(c.wake, of[i]), hint == fwk.Queue, "%v %s", c.refusedBy, of[i])
			hint, err = e.QueueingHintFn(klog.Background(), member("g-1"), nil, nil)
			require.NoError(t, err)
			require.Equal(t, fwk.QueueSkip, hint, "it was not tried")
		}
	}

	p.profile = profileOf{plugins: []fwk.EnqueueExtensions{hearing{name: "Broken", err: broken}}}
	_, err = p.pluginEvents(t.Context(), false)
	require.ErrorIs(t, err, broken)
}

// Freed capacity retries the leader of a class only.
func TestFreedCapacityRetriesOneGangPerClass(t *testing.T) {
	p := &Plugin{Shared: &Shared{}}
	for _, g := range []string{"a", "b"} {
		p.retries.Record(wake.Entry{Group: gang.Ref{Name: g}, Class: "c", TriedPod: "ns/" + g, Plugins: []string{"Yes"}})
	}
	for pod, want := range map[*v1.Pod]fwk.QueueingHint{
		member("a"): fwk.Queue,
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "single"}}: fwk.Queue,
	} {
		hint, err := p.hintFreed(klog.Background(), pod, nil, nil)
		require.NoError(t, err)
		require.Equal(t, want, hint, pod.Name)
	}
	require.Equal(t, []string{"ns/a"}, p.retries.Leaders())
	require.Equal(t, []string{"ns/b"}, p.retries.Leave(gang.Ref{Name: "a"}), "the next one follows at once")
}
