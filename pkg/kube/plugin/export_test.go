package plugin

import v1 "k8s.io/api/core/v1"

// Follows says whether a member is kept out for another gang.
func (p *Plugin) Follows(pod *v1.Pod) bool { return p.follows(pod) }

// Unnominate takes the nominated node back that a member has lost.
func (s *Shared) Unnominate(pod *v1.Pod, node string) { s.unnominate(pod, node) }
