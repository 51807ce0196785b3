package main

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// Shape is a backlog: so many gangs of so many pods.
type Shape struct {
	Gangs  int  `json:"gangs"`
	Pods   int  `json:"pods"`
	GPUs   int  `json:"gpus"`   // of each pod; a node has 8
	Prefer bool `json:"prefer"` // the gang is larger than a spine: PreferGather
	Claims bool `json:"claims"` // the GPUs are devices of resource.k8s.io, which each pod has a claim for
}

// nodesPerSpine is the same at every size of the cluster.
const (
	nodesPerSpine  = 128
	nodesPerBlock  = 16
	gpusPerNode    = 8
	gpu            = v1.ResourceName("nvidia.com/gpu")
	gangLabel      = "perf-gang"
	perfLabel      = "perf"
	podGroupsLabel = "pod-group.scheduling.sigs.k8s.io"
)

func (s Shape) String() string {
	name := fmt.Sprintf("%d × %d", s.Gangs, s.Pods)
	if s.GPUs < gpusPerNode {
		name += fmt.Sprintf(", %d GPU a pod", s.GPUs)
	}
	if s.Claims {
		name += ", DRA"
	}
	if s.Prefer {
		name += ", PreferGather"
	}
	return name
}

// Total is the number of pods.
func (s Shape) Total() int { return s.Gangs * s.Pods }

// fits says whether a cluster takes the whole backlog: all places of a spine are
// usable for gangs that must gather there.
func (s Shape) fits(nodes int) bool {
	perNode := gpusPerNode / s.GPUs
	if s.Prefer {
		return s.Total() <= nodes*perNode
	}
	perSpine := nodesPerSpine * perNode / s.Pods
	return s.Gangs <= nodes/nodesPerSpine*perSpine
}

// churns says whether nodes can be left free, at least one in each spine for a moment,
// without room for a gang.
func (s Shape) churns() bool {
	return s.GPUs == gpusPerNode && !s.Prefer && !s.Claims && s.Pods >= 2 && s.Pods <= nodesPerSpine
}

// parseShape reads GANGSxPODS[xGPUS][c][p], such as 32x32, 256x8x1, 64x8x1c, 2x2048p.
func parseShape(text string) (Shape, error) {
	rest, prefer := strings.CutSuffix(text, "p")
	rest, claims := strings.CutSuffix(rest, "c")
	s := Shape{GPUs: gpusPerNode, Prefer: prefer, Claims: claims}
	fields := []*int{&s.Gangs, &s.Pods, &s.GPUs}
	numbers := strings.Split(rest, "x")
	wrong := fmt.Errorf("shape %q: want GANGSxPODS[xGPUS][c][p], each at least 1, GPUS at most %d", text, gpusPerNode)
	if len(numbers) < 2 || len(numbers) > len(fields) {
		return Shape{}, wrong
	}
	for i, n := range numbers {
		var err error
		if *fields[i], err = strconv.Atoi(n); err != nil || *fields[i] < 1 {
			return Shape{}, wrong
		}
	}
	if s.GPUs > gpusPerNode {
		return Shape{}, wrong
	}
	return s, nil
}

// gangs names the gangs of one drain.
func (s Shape) gangs(drain string) []string {
	names := make([]string, s.Gangs)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", drain, i)
	}
	return names
}

// pods makes the pods of one drain, gang after gang.
func (s Shape) pods(drain string, gangs []string) []*v1.Pod {
	var pods []*v1.Pod
	for _, g := range gangs {
		for i := range s.Pods {
			grace := int64(0)
			p := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceDefault,
					Name:      fmt.Sprintf("%s-%d", g, i),
					Labels:    map[string]string{gangLabel: g, perfLabel: drain},
				},
				Spec: v1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers: []v1.Container{{
						Name: "main", Image: "none",
					}},
				},
			}
			if s.Claims {
				claims(p, s)
			} else {
				list := v1.ResourceList{gpu: *resource.NewQuantity(int64(s.GPUs), resource.DecimalSI)}
				p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
			}
			pods = append(pods, p)
		}
	}
	return pods
}

// nodes makes a cluster of GPU nodes in full spines.
func nodes(count int) []*v1.Node {
	all := localcluster.Nodes(count/nodesPerSpine, nodesPerSpine/nodesPerBlock, nodesPerBlock)
	for _, n := range all {
		for _, l := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			l[gpu] = *resource.NewQuantity(gpusPerNode, resource.DecimalSI)
			l[v1.ResourceCPU] = *resource.NewQuantity(128, resource.DecimalSI)
		}
	}
	return all
}
