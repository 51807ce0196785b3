package cache

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
	"github.com/muster-scheduler/muster/pkg/kube/note"
)

// Maintenance returns the announced maintenance windows of all nodes; nil if there are none. After a change it returns another pointer.
func (c *Cache) Maintenance() *maintenance.Nodes { return c.maintenance.Load() }

// setMaintenance records the windows of a node that was old; node is nil for a deleted one. It returns the unpublished notes about the
// windows, none until the cache opens. c.mu is locked.
func (c *Cache) setMaintenance(old, node *v1.Node) []Note {
	value := func(n *v1.Node) string {
		if n == nil {
			return ""
		}
		return n.Annotations[scheduling.AnnotationMaintenance]
	}
	if value(old) == value(node) {
		return nil
	}
	if node == nil {
		c.maintenance.Store(c.Maintenance().With(old.Name, nil))
		return nil
	}
	windows, _ := maintenance.Of(node)
	if len(windows)+len(c.Maintenance().Of(node.Name)) > 0 {
		c.maintenance.Store(c.Maintenance().With(node.Name, windows))
	}
	if !c.open.Load() {
		return nil
	}
	return note.OfNode(node)
}
