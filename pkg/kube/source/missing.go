package source

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is not known of a gang: its owner is gone, or objects may not be read.

// orphaned is for a gang of whose owner nothing is known, or which is gone. Nobody new starts:
// there is nobody who makes members anew, and who began to look after it was gone could not
// know its rule. Who runs goes on, and counts as a whole.
func (d *Declaration) orphaned(g Gang, s *Source, pod *v1.Pod) {
	why := fmt.Sprintf("%s %s/%s, which its members name, ", s.Owner.Kind, pod.Namespace, s.OwnerName(pod))
	switch {
	case g.Denied[s.Owner.Resource]:
		why += "may not be read: apply manifests/" + s.Owner.Role
	case g.Expected:
		why += "is not known"
	default:
		why += "is not known: none is read; is that permitted (manifests/" + s.Owner.Role + ")?"
	}
	d.waits(why)
	d.Min, d.Counted, d.Counts = max(1, g.running()), true, true
}

// notRead notes that the owner may say something which is not heard.
func (d *Declaration) notRead(g Gang, owner OwnerKey) {
	kind := kindOf(owner.Kind)
	if g.Owner == nil && kind != nil && g.Denied[kind.Resource] {
		d.note(OwnerNotRead, fmt.Sprintf("%s may not be read, and what it says of its gang is not heard: apply manifests/%s", owner, kind.Role))
	}
}

// denied is for a gang that no object declares, as far as is known, whose objects may not be
// read.
func denied(g Gang, s *Source, d *Declaration) (*Declaration, bool) {
	if s == nil || s.Object == nil || !g.Denied[s.Object.Resource] || len(g.Pods) == 0 {
		return nil, false
	}
	d.waits(fmt.Sprintf("%s %s may not be read: %s", s.Object.Kind, g.Ref, Permit(s.Object.Resource)))
	d.Min, d.Counted, d.Counts = max(1, g.running()), true, true
	return d, true
}

// Permit says what permits the scheduler to read a resource of another project.
func Permit(r schema.GroupVersionResource) string {
	if role := RoleOf(r); role != "" {
		return "apply manifests/" + role
	}
	return "permit the scheduler to list and watch " + r.GroupResource().String() // it is somebody's own
}

// RoleOf is the file below manifests that permits it; "" if there is none.
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
