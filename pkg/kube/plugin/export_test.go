package plugin

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Listeners are the pods that are asked about an event, and whether all are.
func (p *Plugin) Listeners() (some []string, all bool) {
	is, _ := p.narrowedHint(klog.Logger{}, nil, nil)
	for _, name := range is.Pods {
		some = append(some, name.Name)
	}
	slices.Sort(some)
	return some, is.AllPods
}

// Follows says whether a member is kept out for another gang.
func (p *Plugin) Follows(pod *v1.Pod) bool { return p.follows(pod) }

// Unnominate takes the nominated node back that a member has lost.
func (s *Shared) Unnominate(pod *v1.Pod, node string) { s.clearLostNomination(pod, node) }
