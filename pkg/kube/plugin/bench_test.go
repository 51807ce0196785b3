package plugin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// BenchmarkEvent sends a binding event to the scheduler's queue with 2,000 members that the Gate or the plugin itself
// holds back.
func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct{ by, plugins string }{
		{"gate", "{}"},
		{"plugin", "{multiPoint: {disabled: [{name: CoschedulingGate}]}}"},
	} {
		b.Run("kept out by "+c.by, func(b *testing.B) {
			cluster := testcluster.New(b, "s/b/n=8")
			cluster.Config = strings.Replace(testcluster.Config, "{preEnqueue: {enabled: [{name: Holder}]}, permit: {enabled: [{name: Holder}]}}",
				c.plugins, 1)
			const waiting = 2000
			var members []*v1.Pod
			for i := range waiting {
				members = append(members, testcluster.A(fmt.Sprint("m", i), 0, "1", ""))
			}
			cluster.Gang("g", waiting+1, members...)
			cluster.Run()
			queue := cluster.Scheduler.SchedulingQueue
			cluster.Wait("all", func() string {
				if pods, _ := queue.PendingPods(); len(pods) == waiting {
					return "all"
				}
				return ""
			})
			cluster.Wait("open", func() string {
				if cluster.Plugin.Cache.Open() {
					return "open"
				}
				return ""
			})
			bound := testcluster.A("bound", 0, "1", "n")
			for b.Loop() {
				queue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodAdd, nil, bound, nil)
			}
		})
	}
}

// BenchmarkReport has the meter hear that something of a gang has changed, of which 2,000 members
// wait: as often as one of them comes, is bound, or goes.
func BenchmarkReport(b *testing.B) {
	cluster := testcluster.New(b, "s/b/n=8")
	cluster.Gang("g", 2001, testcluster.Pending(2000, 0, "1")...)
	cluster.Run()
	cluster.Wait("open", func() string {
		if cluster.Plugin.Cache.Open() {
			return "open"
		}
		return ""
	})
	gangs := cluster.Plugin.Cache.Gangs()
	for b.Loop() {
		cluster.Plugin.Meter.Gang(gangs[0])
	}
}

// BenchmarkKeptOff starts an attempt for a gang of 500 members on 1,000 nodes while another gang of 500 has reserved
// nodes. It finds members with equal requirements and the nodes that the reservation keeps them off. In one case both
// gangs need blocks of their own, as with JobSet's exclusive placement.
func BenchmarkKeptOff(b *testing.B) {
	const members, nodes = 500, 1000
	for _, exclusive := range []bool{false, true} {
		var text strings.Builder
		for i := range nodes {
			fmt.Fprintf(&text, "s/b%d/n%d=8 ", 2*i/nodes, i)
		}
		c := testcluster.New(b, text.String())
		of := func(job string) []*v1.Pod {
			return testcluster.Of(members, func() *v1.Pod {
				p := testcluster.Held(testcluster.A("", 1000, "8", ""), "outside")
				p.Labels["job"] = job
				if exclusive {
					terms := []v1.PodAffinityTerm{{
						TopologyKey: "block", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
							{Key: "job", Operator: metav1.LabelSelectorOpExists}, {Key: "job", Operator: metav1.LabelSelectorOpNotIn, Values: []string{job}},
						}},
					}}
					p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
				}
				return p
			})
		}
		c.Gang("x", members, of("x")...)
		c.Gang("y", members, of("y")...)
		c.Run()
		first := testcluster.A("first", 0, "0", "")
		c.Pod(first)
		c.Wait("bound", func() string {
			if c.Get("first").Spec.NodeName == "" {
				return ""
			}
			return "bound"
		})
		group := func(name string) (g *cache.Group) {
			c.Wait("seen", func() string {
				var refusal gang.Obstacle
				if g, refusal = c.Plugin.Cache.Group(c.Get(name)); refusal.Exists() || len(g.Pending) < members {
					return ""
				}
				return "seen"
			})
			return g
		}
		x, y := group("x-0"), group("y-0")
		var infos []fwk.NodeInfo
		c.Wait("all", func() string {
			infos, _ = c.Profile().SnapshotSharedLister().NodeInfos().List()
			if len(infos) < nodes {
				return ""
			}
			return "all"
		})
		var places []gang.Assignment
		for i, m := range x.Pending {
			places = append(places, gang.Assignment{Pod: m.Pod, Node: fmt.Sprint("n", i)})
		}
		c.Plugin.Cache.Handle(gang.Planned{Group: x.Key, Places: places, Reserved: true, Until: time.Now().Add(time.Hour)})
		planner := place.NewPlanner(c.Profile(), c.Plugin.Cache)
		b.Run(fmt.Sprintf("does=begins/exclusive=%v", exclusive), func(b *testing.B) {
			for b.Loop() {
				planner.NewAttempt(y, infos, nil)
			}
		})
		b.Run(fmt.Sprintf("does=sorts/exclusive=%v", exclusive), func(b *testing.B) {
			for b.Loop() {
				planner.NewAttempt(y, infos, nil).PlacesFit(b.Context(), make([][]*v1.Pod, nodes))
			}
		})
	}
}
