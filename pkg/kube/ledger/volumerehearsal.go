package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// volumesTaken has the volumes and storage that pods have taken, in addition to what objects show.
type volumesTaken struct {
	pvs    map[string]*v1.PersistentVolume // volumes, by name
	bytes  map[types.UID]int64             // by CSIStorageCapacity
	claims map[string]heldClaim            // by key of the claim
}

// heldClaim is an unbound claim for which a pod has taken a volume or storage.
type heldClaim struct {
	holder types.UID            // the pod
	pv     *v1.PersistentVolume // the taken volume; nil if a new one will be made
	node   string               // the node of the pod
}

func newVolumesTaken() volumesTaken {
	return volumesTaken{pvs: map[string]*v1.PersistentVolume{}, bytes: map[types.UID]int64{}, claims: map[string]heldClaim{}}
}

// volumeRehearsal is a what-if copy of a volumePage: with further pods, and without evicted ones.
type volumeRehearsal struct {
	page    *volumePage
	taken   volumesTaken
	evicted map[types.UID]bool
	nodes   map[string]*attachments
	log     []volumeTake
	// replaying says that the added pods are being bound: they take the volumes that VolumeBinding has assumed for them.
	replaying bool
}

// volumeTake is what one pod has taken, to be undone.
type volumeTake struct {
	pvs      []string
	bytes    map[types.UID]int64
	claims   []string
	node     *attachments
	attached []string
}

// attachments are the volumes attached to a node, for drivers with a limit.
type attachments struct {
	limits map[string]int64 // by driver, how many volumes may be attached
	count  map[string]int64 // by driver, how many are attached
	known  map[string]bool  // the attached ones by id, see attachment
	copies int              // number of made-up ids, for members of one kind
}

// Rehearse implements fit.Page.
func (p *volumePage) Rehearse() fit.Rehearsal {
	return &volumeRehearsal{
		page: p, taken: volumesTaken{maps.Clone(p.assumed.pvs), maps.Clone(p.assumed.bytes), maps.Clone(p.assumed.claims)},
		evicted: map[types.UID]bool{}, nodes: map[string]*attachments{},
	}
}

// Release implements fit.Rehearsal: the volumes of an evicted pod are detached, but its claims remain.
func (r *volumeRehearsal) Release(pod *v1.Pod) { r.evicted[pod.UID] = true }

// Undo implements fit.Rehearsal.
func (r *volumeRehearsal) Undo() {
	last := r.log[len(r.log)-1]
	r.log = r.log[:len(r.log)-1]
	r.releaseTake(last)
}

func (r *volumeRehearsal) releaseTake(t volumeTake) {
	for _, pv := range t.pvs {
		delete(r.taken.pvs, pv)
	}
	for uid, n := range t.bytes {
		r.taken.bytes[uid] -= n
	}
	for _, c := range t.claims {
		delete(r.taken.claims, c)
	}
	for _, id := range t.attached {
		delete(t.node.known, id)
		t.node.count[driverOf(id)]--
	}
}

// Take implements fit.Rehearsal: it takes volumes for a pod's unbound claims, and attaches all its volumes to the node.
func (r *volumeRehearsal) Take(_ context.Context, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !hasClaims(pod) {
		r.log = append(r.log, volumeTake{})
		return nil
	}
	podTake, why := r.bind(pod, node.Node())
	if why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why).WithPlugin(names.VolumeBinding)
	}
	if !r.attach(&podTake, pod, node) {
		r.releaseTake(podTake)
		return fwk.NewStatus(fwk.Unschedulable, nodevolumelimits.ErrReasonMaxVolumeCountExceeded).WithPlugin(names.NodeVolumeLimits)
	}
	r.log = append(r.log, podTake)
	return nil
}

// bind takes a volume, or storage for a new one, for each unbound claim of a pod. If there is too little, it takes nothing and says why.
func (r *volumeRehearsal) bind(pod *v1.Pod, node *v1.Node) (podTake volumeTake, why string) {
	podTake.bytes = map[types.UID]int64{}
	for _, c := range r.page.claimsOf(pod) {
		if c.bound {
			continue
		}
		if why = r.bindOne(&podTake, pod, c.PersistentVolumeClaim, node); why != "" {
			r.releaseTake(podTake)
			return volumeTake{}, why
		}
	}
	return podTake, ""
}

func (r *volumeRehearsal) bindOne(podTake *volumeTake, pod *v1.Pod, pvc *v1.PersistentVolumeClaim, node *v1.Node) (why string) {
	key := claimKey(pvc)
	held, taken := r.taken.claims[key]
	if taken && (held.holder != pod.UID || r.page.shared(pvc)) { // it is the same claim
		return conflict(held, node)
	}
	selected, ok := pvc.Annotations[volume.AnnSelectedNode]
	if ok && selected != node.Name {
		return string(volumebinding.ErrReasonBindConflict)
	}
	hold := heldClaim{holder: pod.UID, node: node.Name}
	if !ok {
		class := volume.GetPersistentVolumeClaimClass(pvc)
		pv, err := volume.FindMatchingVolume(pvc, r.page.reachable(class, node), node, r.taken.pvs, true, r.page.vac)
		if err != nil {
			return err.Error()
		}
		hold.pv = pv
	}
	if hold.pv == nil {
		if why := r.provision(podTake, pvc, node); why != "" {
			return why
		}
	} else {
		substitutes := r.substitutes(hold.pv, pvc, node)
		if r.replaying && len(substitutes) > 0 {
			if pv := r.page.assumedVolume(pod, pvc, node); pv != nil {
				hold.pv, substitutes = pv, nil
			}
		}
		if len(substitutes) > 0 {
			r.page.choiceMatters.Store(true)
		}
		if r.page.hopeful {
			substitutes = nil
		}
		for _, pv := range append(substitutes, hold.pv) {
			r.taken.pvs[pv.Name] = pv
			podTake.pvs = append(podTake.pvs, pv.Name)
		}
	}
	if !taken {
		r.taken.claims[key] = hold
		podTake.claims = append(podTake.claims, key)
	}
	return ""
}

// substitutes returns volumes that VolumeBinding may choose instead of pv: of equal size, but usable on other nodes, one of each sort. They
// count as taken, too, so that a plan is valid whatever VolumeBinding chooses. It returns none on a hopeful page, which assumes the choice
// of pv, unless the pods are being bound.
func (r *volumeRehearsal) substitutes(pv *v1.PersistentVolume, pvc *v1.PersistentVolumeClaim,
	node *v1.Node,
) (found []*v1.PersistentVolume) {
	if r.page.hopeful && !r.replaying || pv.Spec.ClaimRef != nil {
		return nil
	}
	reach := r.page.reach
	size, sorts := pv.Spec.Capacity[v1.ResourceStorage], []string{reach[pv.Name]}
	left := slices.DeleteFunc(r.page.reachable(volume.GetPersistentVolumeClaimClass(pvc), node), func(o *v1.PersistentVolume) bool {
		q := o.Spec.Capacity[v1.ResourceStorage]
		return q.Cmp(size) != 0 || reach[o.Name] == sorts[0]
	})
	for len(left) > 0 {
		other, err := volume.FindMatchingVolume(pvc, left, node, r.taken.pvs, true, r.page.vac)
		if err != nil || other == nil {
			break
		}
		found, sorts = append(found, other), append(sorts, reach[other.Name])
		left = slices.DeleteFunc(left, func(o *v1.PersistentVolume) bool { return slices.Contains(sorts, reach[o.Name]) })
	}
	return found
}

// conflict returns why the claim of another pod, for which a volume is taken, cannot be used on a node; "" if it can.
func conflict(held heldClaim, node *v1.Node) string {
	if held.pv != nil && volume.CheckNodeAffinity(held.pv, node.Labels) == nil || held.pv == nil && held.node == node.Name {
		return ""
	}
	return string(volumebinding.ErrReasonBindConflict)
}

// provision takes storage for a new volume of a claim, if the driver publishes its storage capacity. It returns why there is none, or "".
func (r *volumeRehearsal) provision(podTake *volumeTake, pvc *v1.PersistentVolumeClaim, node *v1.Node) (why string) {
	class, err := r.page.classes.Get(volume.GetPersistentVolumeClaimClass(pvc))
	switch {
	case err != nil:
		return err.Error()
	case class.Provisioner == "", class.Provisioner == volume.NotSupportedProvisioner,
		!v1helper.MatchTopologySelectorTerms(class.AllowedTopologies, labels.Set(node.Labels)):
		return string(volumebinding.ErrReasonBindConflict)
	}
	driver, err := r.page.drivers.Get(class.Provisioner)
	if err != nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		if err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		return "" // the capacity is unknown
	}
	need := size(pvc)
	if need == 0 {
		return ""
	}
	for _, c := range r.page.storageCapacities {
		if c.StorageClassName == class.Name && accessible(c, node) && r.hasCapacity(c, need) {
			r.taken.bytes[c.UID] += need
			podTake.bytes[c.UID] += need
			return ""
		}
	}
	return volumebinding.ErrReasonNotEnoughSpace
}

// hasCapacity returns whether a storage capacity suffices for one more volume of need bytes.
func (r *volumeRehearsal) hasCapacity(c *storagev1.CSIStorageCapacity, need int64) bool {
	if most := c.MaximumVolumeSize; most != nil && most.Value() < need {
		return false
	}
	if c.Capacity == nil {
		return c.MaximumVolumeSize != nil
	}
	return c.Capacity.Value()-r.taken.bytes[c.UID] >= need
}

func accessible(c *storagev1.CSIStorageCapacity, node *v1.Node) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// attach attaches a pod's volumes to a node, and adds them to podTake. It returns false if a limit of the node is reached.
func (r *volumeRehearsal) attach(podTake *volumeTake, pod *v1.Pod, node fwk.NodeInfo) bool {
	at := r.attachments(node)
	if len(at.limits) == 0 {
		return true
	}
	podTake.node = at
	for _, c := range r.page.claimsOf(pod) {
		id := r.page.attachmentOf(c.PersistentVolumeClaim)
		driver := driverOf(id)
		limit, limited := at.limits[driver]
		if !limited {
			continue
		}
		if own := !c.bound && !r.page.shared(c.PersistentVolumeClaim); at.known[id] && own &&
			r.taken.claims[claimKey(c.PersistentVolumeClaim)].holder == pod.UID {
			at.copies++ // a further member of the kind will have another claim
			id = fmt.Sprint(id, "#", at.copies)
		}
		if at.known[id] {
			continue
		}
		if at.count[driver]++; at.count[driver] > limit {
			at.count[driver]--
			return false
		}
		at.known[id] = true
		podTake.attached = append(podTake.attached, id)
	}
	return true
}

// attachments returns the attachments of a node: for its pods without evicted ones, and according to VolumeAttachment objects.
func (r *volumeRehearsal) attachments(node fwk.NodeInfo) *attachments {
	name := node.Node().Name
	if at := r.nodes[name]; at != nil {
		return at
	}
	at := &attachments{limits: map[string]int64{}, count: map[string]int64{}, known: map[string]bool{}}
	r.nodes[name] = at
	csiNode, err := r.page.nodes.Get(name)
	if err != nil {
		return at
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			at.limits[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	if len(at.limits) == 0 {
		return at
	}
	for _, info := range node.GetPods() {
		if pod := info.GetPod(); !r.evicted[pod.UID] && hasClaims(pod) {
			for _, c := range r.page.claimsOf(pod) {
				at.add(r.page.attachmentOf(c.PersistentVolumeClaim))
			}
		}
	}
	for _, id := range r.page.attachedTo(name) {
		at.add(id)
	}
	return at
}

func (at *attachments) add(id string) {
	if id != "" && !at.known[id] {
		at.known[id] = true
		at.count[driverOf(id)]++
	}
}
