package cache

import (
	"maps"
	"testing"
	"time"
	"unique"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	_ "github.com/muster-scheduler/muster/test/seed"
	"github.com/muster-scheduler/muster/test/worlds"
)

// Recorded templates equal freshly computed ones, and exist for members that wait for our profiles only.
func TestTemplatesAreKept(t *testing.T) {
	kinds := []string{"changed", "bound", "gone", "in another gang", "another scheduler's"}
	worlds.Check(t, 300, kinds, func(t *rapid.T, y worlds.Tally) {
		c := New(Options{
			Leading: func() bool { return true }, Do: func([]gang.Effect) {}, Note: func(Note) {},
			Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		})
		c.Serve("muster-scheduler")
		c.openCache()
		pods := map[string]*v1.Pod{}
		changes := map[string]func(*v1.Pod){
			"status": func(p *v1.Pod) { p.Status.Message += "x" },
			"label":  func(p *v1.Pod) { p.Labels["role"] += "x" },
			"resize": func(p *v1.Pod) {
				p.Spec.Containers = []v1.Container{
					{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": *resource.NewQuantity(int64(worlds.Even(t, 3, "cpu")), "")}}},
				}
			},
			"claim": func(p *v1.Pod) {
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: "gpu"})
			},
			"gate": func(p *v1.Pod) {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: "x"})
			},
		}
		names := []string{"claim", "gate", "label", "resize", "status"}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"p0", "p1", "p2"}).Draw(t, "pod")
				p := pods[name]
				if p == nil {
					p = member(name)
				}
				p = p.DeepCopy()
				changes[rapid.SampledFrom(names).Draw(t, "what")](p)
				y.Count("changed", pods[name] != nil)
				if worlds.Chance(t, 6, "bound") {
					p.Spec.NodeName = "n"
					y.Count("bound", true)
				}
				if worlds.Chance(t, 6, "gang") {
					p.Labels[scheduling.LabelPodGroup] += "b"
					y.Count("in another gang", true)
				}
				if worlds.Chance(t, 6, "scheduler") {
					p.Spec.SchedulerName = "another"
					y.Count("another scheduler's", true)
				}
				pods[name] = p
				c.setPod(p)
			},
			"gone": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"p0", "p1", "p2"}).Draw(t, "pod")
				if p := pods[name]; p != nil {
					delete(pods, name)
					c.dropPod(p)
					y.Count("gone", true)
				}
			},
			"": func(t *rapid.T) {
				want := map[*v1.Pod]Template{}
				for _, p := range pods {
					if p.Spec.NodeName == "" && p.Spec.SchedulerName == "muster-scheduler" {
						want[p] = unique.Make(convert.Template(p))
					}
					if got := c.Templates([]*v1.Pod{p})[0].Value(); got != convert.Template(p) {
						t.Fatalf("of %s is kept %q, not %q", p.Name, got, convert.Template(p))
					}
				}
				if !maps.Equal(want, c.templates) {
					t.Fatalf("templates of %d pods are kept, not of %d", len(c.templates), len(want))
				}
			},
		})
	})
}

// TestTemplatesOfAnyPods: of pods that the cache has not seen they are read.
func TestTemplatesOfAnyPods(t *testing.T) {
	c, _, _ := open(t)
	known, stranger := member("p0"), member("stranger", func(p *v1.Pod) { p.Labels["role"] = "leader" })
	c.setPod(known)
	all := c.Templates([]*v1.Pod{stranger, known})
	require.Equal(t, []string{convert.Template(stranger), convert.Template(known)}, []string{all[0].Value(), all[1].Value()})
	require.Len(t, c.templates, 1)
}
