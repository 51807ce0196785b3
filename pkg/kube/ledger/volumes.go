package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	csitrans "k8s.io/csi-translation-lib"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// volumes is the ledger of volumes, in addition to the plugins VolumeBinding and NodeVolumeLimits. VolumeBinding considers each claim alone
// when it looks for a volume or for storage. NodeVolumeLimits counts claims by name, but further members of a kind are counted without
// claims of their own. An evicted pod frees no volume, because its claims remain.
type volumes struct {
	profile    framework.Framework
	pvs        corelisters.PersistentVolumeLister
	pvcs       corelisters.PersistentVolumeClaimLister
	classes    storagelisters.StorageClassLister
	nodes      storagelisters.CSINodeLister
	drivers    storagelisters.CSIDriverLister
	capacities storagelisters.CSIStorageCapacityLister
	attached   storagelisters.VolumeAttachmentLister
	translator csitrans.CSITranslator
	pages      atomic.Int64
}

func newVolumes(profile framework.Framework) *volumes {
	core, storage := profile.SharedInformerFactory().Core().V1(), profile.SharedInformerFactory().Storage().V1()
	return &volumes{
		profile: profile, pvs: core.PersistentVolumes().Lister(), pvcs: core.PersistentVolumeClaims().Lister(),
		classes: storage.StorageClasses().Lister(), nodes: storage.CSINodes().Lister(), drivers: storage.CSIDrivers().Lister(),
		capacities: storage.CSIStorageCapacities().Lister(), attached: storage.VolumeAttachments().Lister(),
		translator: csitrans.New(),
	}
}

// Plugins implements fit.Ledger.
func (*volumes) Plugins() []string { return []string{names.VolumeBinding, names.NodeVolumeLimits} }

// Frees implements fit.Ledger: NodeVolumeLimits counts the pods of the node, and claims remain after their pods.
func (*volumes) Frees() bool { return false }

// claim is a claim of a pod.
type claim struct {
	*v1.PersistentVolumeClaim
	bound bool // it has a volume, or gets one at once: VolumeBinding then reads the volume's nodes
}

// claimsOf returns the existing claims of a pod, the smallest first: the order in which VolumeBinding binds them.
func (l *volumes) claimsOf(pod *v1.Pod) (claims []claim) {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		pvc, err := l.pvcs.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			continue // VolumeBinding reports it
		}
		delayed, err := volume.IsDelayBindingMode(pvc, l.classes)
		claims = append(claims, claim{pvc, err != nil || !delayed || pvc.Spec.VolumeName != ""})
	}
	slices.SortStableFunc(claims, func(x, y claim) int {
		a, b := size(x.PersistentVolumeClaim), size(y.PersistentVolumeClaim)
		return cmp.Compare(a, b)
	})
	return claims
}

// claimName returns the name of the claim of a pod's volume; "" for a volume without a claim.
func claimName(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	}
	return ""
}

func size(pvc *v1.PersistentVolumeClaim) int64 {
	q := pvc.Spec.Resources.Requests[v1.ResourceStorage]
	return q.Value()
}

func claimKey(pvc *v1.PersistentVolumeClaim) string { return pvc.Namespace + "/" + pvc.Name }

func hasClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// Apart returns a key that distinguishes a pod from equal ones; mostly "". It has the UIDs of ephemeral claims with a volume or a selected
// node.
func (l *volumes) Apart(pod *v1.Pod) (all string) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		pvc, err := l.pvcs.PersistentVolumeClaims(pod.Namespace).Get(ephemeral.VolumeClaimName(pod, v))
		if err == nil && (pvc.Spec.VolumeName != "" || pvc.Annotations[volume.AnnSelectedNode] != "") {
			all += " " + string(pvc.UID)
		}
	}
	return all
}

// Open implements fit.Ledger.
func (l *volumes) Open(_ context.Context, members []fit.Demand) (fit.Page, error) {
	members = slices.DeleteFunc(slices.Clone(members), func(d fit.Demand) bool { return !hasClaims(d.Pod) })
	if len(members) == 0 {
		return nil, nil
	}
	nodes, err := l.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	p := &volumePage{
		volumes: l, number: l.pages.Add(1), vac: utilfeature.DefaultFeatureGate.Enabled(features.VolumeAttributesClass),
		multiHost: map[string][]*v1.PersistentVolume{}, byHost: map[string]map[string][]*v1.PersistentVolume{},
		reach:   map[string]string{},
		entries: map[string]string{}, users: map[string]int{}, demand: map[string]demand{}, choiceMatters: &atomic.Bool{},
	}
	for _, d := range members {
		p.count(d)
	}
	if err := p.read(nodes); err != nil {
		return nil, err
	}
	for _, d := range members {
		p.entries[string(d.Pod.UID)] = p.entryOf(d.Pod)
	}
	p.replay(nodes)
	p.far = p.isFar(nodes)
	return p, nil
}

// volumePage is the state of volumes at one moment, for the members of a group.
type volumePage struct {
	*volumes
	number int64
	vac    bool
	// Free volumes, and volumes reserved for an unbound claim, by class. byHost has the volumes whose affinity names hosts, also by host.
	multiHost         map[string][]*v1.PersistentVolume
	byHost            map[string]map[string][]*v1.PersistentVolume
	reach             map[string]string // by volume: equal if the volumes can be used on the same nodes
	entries           map[string]string // by UID of the members
	users             map[string]int    // by claim, how many members name it
	demand            map[string]demand // by class
	storageCapacities []*storagev1.CSIStorageCapacity
	assumed           volumesTaken // taken by pods that are assumed or being bound
	far               bool
	// choiceMatters says that VolumeBinding may choose for a claim among volumes that are usable on different nodes. hopeful says that this
	// page assumes that VolumeBinding chooses the same volume.
	choiceMatters *atomic.Bool
	hopeful       bool
	binderCalls   int // calls of VolumeBinding, see assumedVolume
}

// demand is what members need of a storage class for unbound claims.
type demand struct {
	claims []*v1.PersistentVolumeClaim // the claims of one member of each kind
	number int                         // number of volumes
	bytes  int64
}

// count adds members to p.users and p.demand.
func (p *volumePage) count(d fit.Demand) {
	for _, c := range p.claimsOf(d.Pod) {
		key := claimKey(c.PersistentVolumeClaim)
		own := d.Members
		if !p.ownedBy(c.PersistentVolumeClaim, d.Pod) { // one claim for all of them
			p.users[key] += d.Members
			own = 1
		}
		if c.bound {
			continue
		}
		class := volume.GetPersistentVolumeClaimClass(c.PersistentVolumeClaim)
		need := p.demand[class]
		need.claims, need.number = append(need.claims, c.PersistentVolumeClaim), need.number+own
		need.bytes += int64(own) * size(c.PersistentVolumeClaim)
		p.demand[class] = need
	}
}

// ownedBy returns whether a claim was made for one of the pod's ephemeral volumes.
func (*volumePage) ownedBy(pvc *v1.PersistentVolumeClaim, pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, &v) == pvc.Name
	})
}

// shared returns whether more than one member names a claim.
func (p *volumePage) shared(pvc *v1.PersistentVolumeClaim) bool { return p.users[claimKey(pvc)] > 1 }

// read sets the volumes and the storage capacities of the demanded classes.
func (p *volumePage) read(nodes []fwk.NodeInfo) error {
	if len(p.demand) == 0 {
		return nil
	}
	all, err := p.pvs.List(labels.Everything())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(pv *v1.PersistentVolume) bool {
		_, demanded := p.demand[volume.GetPersistentVolumeClass(pv)]
		return !demanded || p.isTaken(pv)
	})
	slices.SortFunc(all, func(x, y *v1.PersistentVolume) int { return cmp.Compare(x.Name, y.Name) })
	for _, pv := range all {
		class := volume.GetPersistentVolumeClass(pv)
		hosts, named := hostsOf(pv)
		p.reach[pv.Name] = reachOf(pv, hosts, named)
		if !named {
			p.multiHost[class] = append(p.multiHost[class], pv)
			continue
		}
		if p.byHost[class] == nil {
			p.byHost[class] = make(map[string][]*v1.PersistentVolume, len(nodes))
		}
		for _, h := range hosts {
			p.byHost[class][h] = append(p.byHost[class][h], pv)
		}
	}
	p.storageCapacities, err = p.capacities.List(labels.Everything())
	p.storageCapacities = slices.DeleteFunc(slices.Clone(p.storageCapacities), func(c *storagev1.CSIStorageCapacity) bool {
		_, demanded := p.demand[c.StorageClassName]
		return !demanded
	})
	slices.SortFunc(p.storageCapacities, func(x, y *storagev1.CSIStorageCapacity) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return err
}

// isTaken returns whether a volume is bound, or not available.
func (p *volumePage) isTaken(pv *v1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return pv.Status.Phase != v1.VolumeAvailable
	}
	pvc, err := p.pvcs.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	return err != nil || pvc.Spec.VolumeName != "" || ref.UID != "" && ref.UID != pvc.UID
}

// hostsOf returns the host names in a volume's node affinity, sorted; named is false if not every term names hosts.
func hostsOf(pv *v1.PersistentVolume) (hosts []string, named bool) {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil, false
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(e v1.NodeSelectorRequirement) bool {
			return e.Key == v1.LabelHostname && e.Operator == v1.NodeSelectorOpIn
		})
		if i < 0 {
			return nil, false
		}
		hosts = append(hosts, term.MatchExpressions[i].Values...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), true
}

// reachOf returns a text that is equal for volumes with the same hosts (if named is true), or else the same node affinity.
func reachOf(pv *v1.PersistentVolume, hosts []string, named bool) string {
	if named {
		return "hosts " + strings.Join(hosts, " ")
	}
	where, err := json.Marshal(pv.Spec.NodeAffinity)
	if err != nil {
		return "volume " + pv.Name
	}
	return string(where)
}

// reachable returns the volumes of a class that may be usable on a node. Each node affinity is checked once, because many volumes have
// equal ones.
func (p *volumePage) reachable(class string, node *v1.Node) []*v1.PersistentVolume {
	known := map[string]bool{}
	far := func(pv *v1.PersistentVolume) bool {
		if pv.Spec.ClaimRef != nil {
			return false // the claim gets no other volume
		}
		reach := p.reach[pv.Name]
		near, checked := known[reach]
		if !checked {
			near = volume.CheckNodeAffinity(pv, node.Labels) == nil
			known[reach] = near
		}
		return !near
	}
	return slices.Concat(p.byHost[class][node.Labels[v1.LabelHostname]], slices.DeleteFunc(slices.Clone(p.multiHost[class]), far))
}

// entryOf returns a key for the volumes that a pod needs: of its own unbound claims only the spec, of other claims the identity.
func (p *volumePage) entryOf(pod *v1.Pod) string {
	var all []any
	for _, c := range p.claimsOf(pod) {
		_, selected := c.Annotations[volume.AnnSelectedNode]
		if c.bound || selected || p.shared(c.PersistentVolumeClaim) || p.isKept(c.PersistentVolumeClaim) {
			all = append(all, claimKey(c.PersistentVolumeClaim), string(c.UID), c.ResourceVersion)
			continue
		}
		spec := c.Spec.DeepCopy()
		class, _ := p.classes.Get(volume.GetPersistentVolumeClaimClass(c.PersistentVolumeClaim))
		version := ""
		if class != nil {
			version = string(class.UID) + class.ResourceVersion
		}
		all = append(all, spec, volume.GetPersistentVolumeClaimClass(c.PersistentVolumeClaim), version)
	}
	out, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		return string(pod.UID)
	}
	return string(out)
}

// isKept returns whether a volume names the claim in its ClaimRef, so that it is reserved for the claim.
func (p *volumePage) isKept(pvc *v1.PersistentVolumeClaim) bool {
	kept := func(pv *v1.PersistentVolume) bool {
		ref := pv.Spec.ClaimRef
		return ref != nil && ref.Namespace == pvc.Namespace && ref.Name == pvc.Name
	}
	class := volume.GetPersistentVolumeClaimClass(pvc)
	if slices.ContainsFunc(p.multiHost[class], kept) {
		return true
	}
	for _, pvs := range p.byHost[class] {
		if slices.ContainsFunc(pvs, kept) {
			return true
		}
	}
	return false
}

// Entry implements fit.Page: it returns a key for the volumes that a pod needs; "" if it needs none.
func (p *volumePage) Entry(pod *v1.Pod) string {
	if e, ok := p.entries[string(pod.UID)]; ok {
		return e
	}
	if !hasClaims(pod) {
		return ""
	}
	return p.entryOf(pod)
}

// Far implements fit.Page: it returns whether a volume taken for the pod on one node may be missing on another node.
func (p *volumePage) Far(pod *v1.Pod) bool {
	if p.entries[string(pod.UID)] == "" {
		return false
	}
	return slices.ContainsFunc(p.claimsOf(pod), func(c claim) bool { return !c.bound && (p.far || p.shared(c.PersistentVolumeClaim)) })
}

// isFar returns whether members on several nodes compete for the same volumes or storage capacity.
func (p *volumePage) isFar(nodes []fwk.NodeInfo) bool {
	for class, need := range p.demand {
		if !p.abundant(class, need) {
			return true
		}
		for _, pvs := range p.byHost[class] {
			if slices.ContainsFunc(pvs, func(pv *v1.PersistentVolume) bool { hosts, _ := hostsOf(pv); return len(hosts) > 1 }) {
				return true
			}
		}
		for _, c := range p.storageCapacities {
			if c.StorageClassName == class && c.Capacity != nil && c.Capacity.Value() < need.bytes && severalNodes(c, nodes) {
				return true
			}
		}
	}
	return false
}

// abundant returns whether of each sort of volumes (usable on the same several nodes) there are enough for all members.
func (p *volumePage) abundant(class string, need demand) bool {
	alike := map[string]int{} // by where they can be used
	for _, pv := range p.multiHost[class] {
		if pv.Spec.ClaimRef != nil {
			return false
		}
		where := p.reach[pv.Name]
		if _, known := alike[where]; !known {
			alike[where] = 0
		}
		if !slices.ContainsFunc(need.claims, func(c *v1.PersistentVolumeClaim) bool { return !serves(pv, c) }) {
			alike[where]++
		}
	}
	for _, n := range alike {
		if n < need.number {
			return false
		}
	}
	return true
}

// serves returns whether a volume is certainly sufficient for a claim. It may return false for a sufficient volume.
func serves(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	q := pv.Spec.Capacity[v1.ResourceStorage]
	return q.Value() >= size(c) && volume.CheckAccessModes(c, pv) && !volume.CheckVolumeModeMismatches(&c.Spec, &pv.Spec) &&
		c.Spec.Selector == nil
}

// severalNodes returns whether more than one node has access to a storage capacity.
func severalNodes(c *storagev1.CSIStorageCapacity, nodes []fwk.NodeInfo) bool {
	n := 0
	for _, node := range nodes {
		if accessible(c, node.Node()) {
			n++
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// Hopeful returns a page that assumes that VolumeBinding chooses the same volumes as the page; nil if the choice does not matter.
func (p *volumePage) Hopeful() fit.Page {
	if p.hopeful || !p.choiceMatters.Load() {
		return nil
	}
	nodes, err := p.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil
	}
	h := *p
	h.number, h.hopeful = p.pages.Add(1), true
	h.replay(nodes)
	return &h
}

// State implements fit.Page. The key differs for all pages, because any claim, volume or attachment may change what fits on a node.
func (p *volumePage) State(fwk.NodeInfo) string { return fmt.Sprint("page ", p.number) }

// replay sets p.assumed: the volumes and storage for unbound claims of pods that have a node. These are being bound, and only VolumeBinding
// has their volumes.
func (p *volumePage) replay(nodes []fwk.NodeInfo) {
	p.assumed, p.binderCalls = newVolumesTaken(), 0
	if len(p.demand) == 0 {
		return
	}
	r := &volumeRehearsal{page: p, taken: p.assumed, replaying: true}
	for _, n := range nodes {
		if len(n.GetPVCRefCounts()) == 0 {
			continue
		}
		for _, info := range n.GetPods() {
			if hasClaims(info.GetPod()) {
				r.bind(info.GetPod(), n.Node())
			}
		}
	}
}
