package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestNeighbours: who waits beside a gang and asks for the same, by age and then by name, whatever they are called; and nobody who has
// another priority, gathers otherwise, needs something else, or is not like others.
func TestNeighbours(t *testing.T) {
	c, _, _ := open(t)
	c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
	type change = func(*v1.Pod)
	const usual = must
	made := 0
	gangOf := func(name string, minute, least, pods int, rule string, changes ...change) {
		pg := podGroup(name)
		pg.Name, pg.Spec.MinMember, pg.CreationTimestamp.Time = name, int32(least), time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
		pg.Annotations = map[string]string{scheduling.AnnotationTopologySpec: rule}
		c.setObject(ref(name), pg, source.More{})
		for i := range pods {
			made++
			c.setPod(member(fmt.Sprint("p", made), func(p *v1.Pod) {
				p.Labels[scheduling.LabelPodGroup] = name
				p.Labels["job"] = name
				p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}}}}
				if i == pods-1 {
					for _, do := range changes {
						do(p)
					}
				}
			}))
		}
	}
	gangOf("head", 5, 2, 2, usual)
	gangOf("young", 9, 3, 3, usual)
	gangOf("old", 1, 4, 4, usual)
	gangOf("old-2", 1, 5, 5, usual)
	gangOf("important", 0, 6, 6, usual, func(p *v1.Pod) { p.Spec.Priority = new(int32(7)) })
	gangOf("elsewhere", 0, 7, 7, `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`)
	gangOf("fewer", 0, 8, 7, usual)
	gangOf("more", 0, 8, 9, usual)
	gangOf("unlike", 0, 10, 10, usual, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} })
	gangOf("runs", 0, 1, 1, usual, func(p *v1.Pod) { p.Spec.NodeName = "n" })
	gangOf("theirs", 0, 1, 1, usual, func(p *v1.Pod) { p.Spec.SchedulerName = "other" })

	group, why := c.GroupOf(ref("head"))
	require.False(t, why.Is(), why)
	require.Equal(t, []int{4, 5, 3}, c.Neighbours(group))
	other, _ := c.GroupOf(ref("elsewhere"))
	require.Empty(t, c.Neighbours(other))
}

// BenchmarkNeighbours: two thousand gangs wait.
func BenchmarkNeighbours(b *testing.B) {
	c, _, _ := open(b)
	for i := range 2000 {
		name := fmt.Sprint("g", i)
		pg := podGroup(name)
		pg.Name, pg.Spec.MinMember = name, 2
		c.setObject(ref(name), pg, source.More{})
		for k := range 2 {
			c.setPod(member(fmt.Sprint(name, "-", k), func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = name }))
		}
	}
	group, _ := c.GroupOf(ref("g7"))
	for b.Loop() {
		if len(c.Neighbours(group)) != mostNeighbours {
			b.Fatal("too few")
		}
	}
}
