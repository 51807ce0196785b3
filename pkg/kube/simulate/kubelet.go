package simulate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// NewestKubelet returns the newest kubelet version of a node in the set; nil if no node has one.
func (s *Set) NewestKubelet() (newest *version.Version) {
	for _, o := range s.objects {
		node, ok := o.Object.(*v1.Node)
		if !ok {
			continue
		}
		// Simulated nodes have a version such as "kwok-v0.8.0".
		if v, err := version.ParseSemantic(node.Status.NodeInfo.KubeletVersion); err == nil && (newest == nil || v.GreaterThan(newest)) {
			newest = v
		}
	}
	return newest
}
