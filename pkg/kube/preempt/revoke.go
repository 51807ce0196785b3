package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Revoke has pods leave, whole gangs, since their quotas have had too much for long, so that by may have it. No place is kept
// for anybody. Once one of a gang has left the others do, whatever becomes of by.
func (p *Preemptor) Revoke(by *v1.Pod, pods []*v1.Pod, why string) {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		return topology.CompareNames(convert.PodKey(a), convert.PodKey(b))
	})
	is := preemptor{pod: by, members: map[string]*v1.Pod{convert.PodKey(by): by}, why: why}
	if group, refusal := p.Cache.Group(by); !source.Of(by).IsZero() && !refusal.Is() {
		is.gangs, is.members = group.Whole(), group.Pods
	}
	d := &departure{
		Preemptor: p, number: p.Victims.next(), evict: p.Executor.PreemptPod, plugin: pluginName, groups: p.wholes(pods),
		by:   is,
		to:   func(victim *v1.Pod) preemption.Candidate { return site{node: victim.Spec.NodeName} },
		room: map[string]bool{},
		stands: func() bool {
			now, err := p.pods.Pods(by.Namespace).Get(by.Name)
			return err == nil && now.UID == by.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
		},
		took: func(*v1.Pod) {},
	}
	p.Victims.expect(pods, p.Clock.Now().Add(firstAgain+unseenFor), d.number)
	go d.leave(context.Background(), pods, func() {})
}

// Violated are the disruption budgets that do not allow all of some pods to leave.
func (p *Preemptor) Violated(pods []*v1.Pod) (names []string) {
	c, left := &candidates{limits: p.listBudgets()}, map[string]int{}
	for _, pod := range pods {
		for _, b := range c.budgetsOf(pod) {
			if _, known := left[b.Name]; !known {
				left[b.Name] = b.Allowed
			}
			if left[b.Name]--; left[b.Name] == -1 {
				names = append(names, b.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
