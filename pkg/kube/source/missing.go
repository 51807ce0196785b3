package source

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// Gangs with an incomplete declaration: the owner is gone, or objects may not be read.

// withoutOwner fills d for a gang with an unknown or deleted owner. No further member starts, since the topology constraint is
// unknown. Running members continue and count as the whole gang.
func (d *Declaration) withoutOwner(g Gang, s *Source, pod *v1.Pod) {
	why := fmt.Sprintf("%s %s/%s, which its members name, ", s.Owner.Kind, pod.Namespace, s.OwnerName(pod))
	switch {
	case g.Denied[s.Owner.Resource]:
		why += "cannot be read, because Muster has no permission: apply manifests/" + s.Owner.Role
	case g.Expected:
		why += "was not found"
	default:
		why += "was not found, and Muster has read no object of this kind: check that Muster may read it (manifests/" + s.Owner.Role + ")"
	}
	d.setWaiting(why)
	d.Min = max(1, g.running())
	d.Counted = true
	d.DependsOnMembers = true
}

// noteUnreadable adds a note if Muster lacks the permission to read the owner, and so ignores its constraints.
func (d *Declaration) noteUnreadable(g Gang, owner OwnerKey) {
	kind := kindOf(owner.Kind)
	if g.Owner == nil && kind != nil && g.Denied[kind.Resource] {
		d.note(reasons.OwnerNotRead, fmt.Sprintf("Muster has no permission to read %s, and ignores its constraints for the gang: "+
			"apply manifests/%s", owner, kind.Role))
	}
}

// unreadable fills d for a gang whose object Muster is not permitted to read. It returns false for other gangs, which have no declaration.
func unreadable(g Gang, s *Source, d *Declaration) (*Declaration, bool) {
	if s == nil || s.Object == nil || !g.Denied[s.Object.Resource] || len(g.Pods) == 0 {
		return nil, false
	}
	d.setWaiting(fmt.Sprintf("Muster has no permission to read %s %s: %s", s.Object.Kind, g.Ref, Permit(s.Object.Resource)))
	d.Min = max(1, g.running())
	d.Counted = true
	d.DependsOnMembers = true
	return d, true
}

// Permit returns how to permit the scheduler to read a resource of another project.
func Permit(r schema.GroupVersionResource) string {
	if role := RoleOf(r); role != "" {
		return "apply manifests/" + role
	}
	return "permit the scheduler to list and watch " + r.GroupResource().String() // a registered source
}

// RoleOf returns the file below manifests that permits it; "" for none.
func RoleOf(r schema.GroupVersionResource) string {
	for i := range All {
		if o := All[i].Object; o != nil && slices.Contains(o.Versions(), r) {
			return o.Role
		}
	}
	for _, o := range Owners {
		if o.Resource == r {
			return o.Role
		}
	}
	return ""
}
