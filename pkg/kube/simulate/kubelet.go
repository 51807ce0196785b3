package simulate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// NewestKubelet is the newest version that a node of the set says its kubelet has; nil if none says so.
func (s *Set) NewestKubelet() (newest *version.Version) {
	for _, o := range s.objects {
		node, ok := o.Object.(*v1.Node)
		if !ok {
			continue
		}
		// Make-believe nodes have one such as "kwok-v0.8.0".
		if v, err := version.ParseSemantic(node.Status.NodeInfo.KubeletVersion); err == nil && (newest == nil || v.GreaterThan(newest)) {
			newest = v
		}
	}
	return newest
}
