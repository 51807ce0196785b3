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

// volumes is the ledger beside VolumeBinding and NodeVolumeLimits. VolumeBinding finds each claim a
// volume as if it were the only one, and compares the storage capacity with each claim alone;
// NodeVolumeLimits knows claims by name, of which members that are only counted have none of
// their own. Nothing is given back when a pod leaves: its claims stay.
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

// Frees implements fit.Ledger: what is attached is on the node, and claims outlive pods.
func (*volumes) Frees() bool { return false }

// claim is one of a pod's.
type claim struct {
	*v1.PersistentVolumeClaim
	bound bool // to a volume, or to be: the plugin says where that is
}

// claimsOf are those claims of a pod that exist, the smallest first, as VolumeBinding takes them.
func (l *volumes) claimsOf(pod *v1.Pod) (claims []claim) {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		pvc, err := l.pvcs.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			continue // VolumeBinding says so
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

// claimName is that of the claim that one of a pod's volumes is of; "" if it is of none.
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

// Apart says which of the claims that are made for a pod have a volume, or a node where one is being made.
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
		wide: map[string][]*v1.PersistentVolume{}, local: map[string]map[string][]*v1.PersistentVolume{},
		reach:   map[string]string{},
		entries: map[string]string{}, users: map[string]int{}, demand: map[string]demand{}, unequal: &atomic.Bool{},
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

// volumePage is what is written down of volumes at one moment.
type volumePage struct {
	*volumes
	number int64
	vac    bool
	// Volumes that are free, or kept for a claim, by class. Those that name their hosts are by host, too.
	wide    map[string][]*v1.PersistentVolume
	local   map[string]map[string][]*v1.PersistentVolume
	reach   map[string]string // by name of those volumes: equal for such as can be used on the same nodes
	entries map[string]string // by UID of the members
	users   map[string]int    // by claim, how many members name it
	demand  map[string]demand // by class
	stock   []*storagev1.CSIStorageCapacity
	base    volumesTaken // by those whom the scheduler has put somewhere
	far     bool
	// unequal says that a claim was given one of several volumes that are not of use on the same nodes, so that it
	// makes a difference which; hopeful that it will be the one that was chosen.
	unequal *atomic.Bool
	hopeful bool
	asked   int // how often VolumeBinding was asked what it has put aside
}

// demand is what the members need of a class that is not bound yet.
type demand struct {
	claims []*v1.PersistentVolumeClaim // that differ
	number int
	bytes  int64
}

// count notes what members need.
func (p *volumePage) count(d fit.Demand) {
	for _, c := range p.claimsOf(d.Pod) {
		key := claimKey(c.PersistentVolumeClaim)
		own := d.Members
		if !p.ownedBy(c.PersistentVolumeClaim, d.Pod) { // one for all of them
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

// ownedBy says that a claim was made for one of the pod's ephemeral volumes.
func (*volumePage) ownedBy(pvc *v1.PersistentVolumeClaim, pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, &v) == pvc.Name
	})
}

// shared says that several members name a claim.
func (p *volumePage) shared(pvc *v1.PersistentVolumeClaim) bool { return p.users[claimKey(pvc)] > 1 }

// read sorts the volumes and the storage capacities of the classes that are asked for.
func (p *volumePage) read(nodes []fwk.NodeInfo) error {
	if len(p.demand) == 0 {
		return nil
	}
	all, err := p.pvs.List(labels.Everything())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(pv *v1.PersistentVolume) bool {
		_, asked := p.demand[volume.GetPersistentVolumeClass(pv)]
		return !asked || p.isTaken(pv)
	})
	slices.SortFunc(all, func(x, y *v1.PersistentVolume) int { return cmp.Compare(x.Name, y.Name) })
	for _, pv := range all {
		class := volume.GetPersistentVolumeClass(pv)
		hosts, some := hostsOf(pv)
		p.reach[pv.Name] = reachOf(pv, hosts, some)
		if !some {
			p.wide[class] = append(p.wide[class], pv)
			continue
		}
		if p.local[class] == nil {
			p.local[class] = make(map[string][]*v1.PersistentVolume, len(nodes))
		}
		for _, h := range hosts {
			p.local[class][h] = append(p.local[class][h], pv)
		}
	}
	p.stock, err = p.capacities.List(labels.Everything())
	p.stock = slices.DeleteFunc(slices.Clone(p.stock), func(c *storagev1.CSIStorageCapacity) bool {
		_, asked := p.demand[c.StorageClassName]
		return !asked
	})
	slices.SortFunc(p.stock, func(x, y *storagev1.CSIStorageCapacity) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return err
}

// isTaken says that a volume is some claim's for good.
func (p *volumePage) isTaken(pv *v1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return pv.Status.Phase != v1.VolumeAvailable
	}
	pvc, err := p.pvcs.PersistentVolumeClaims(ref.Namespace).Get(ref.Name)
	return err != nil || pvc.Spec.VolumeName != "" || ref.UID != "" && ref.UID != pvc.UID
}

// hostsOf are the host names by which a volume can be found, if all that it allows is by host name.
func hostsOf(pv *v1.PersistentVolume) (hosts []string, some bool) {
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

// reachOf is equal for volumes that can be used on the same nodes: as a rule, by the hosts that they name, or by all that they say.
func reachOf(pv *v1.PersistentVolume, hosts []string, some bool) string {
	if some {
		return "hosts " + strings.Join(hosts, " ")
	}
	where, err := json.Marshal(pv.Spec.NodeAffinity)
	if err != nil {
		return "volume " + pv.Name
	}
	return string(where)
}

// at are the volumes of a class that a node may reach. Of those for whole zones there are many that are alike: each sort is asked once.
func (p *volumePage) at(class string, node *v1.Node) []*v1.PersistentVolume {
	known := map[string]bool{}
	far := func(pv *v1.PersistentVolume) bool {
		if pv.Spec.ClaimRef != nil {
			return false // also that says something: the claim gets no other one
		}
		reach := p.reach[pv.Name]
		is, asked := known[reach]
		if !asked {
			is = volume.CheckNodeAffinity(pv, node.Labels) == nil
			known[reach] = is
		}
		return !is
	}
	return slices.Concat(p.local[class][node.Labels[v1.LabelHostname]], slices.DeleteFunc(slices.Clone(p.wide[class]), far))
}

// entryOf says what a member takes: of claims which are its own and wait for it no more than what
// they ask for.
func (p *volumePage) entryOf(pod *v1.Pod) string {
	var all []any
	for _, c := range p.claimsOf(pod) {
		_, selected := c.Annotations[volume.AnnSelectedNode]
		if c.bound || selected || p.shared(c.PersistentVolumeClaim) || p.keptFor(c.PersistentVolumeClaim) {
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

// keptFor says that some volume is kept for a claim by name.
func (p *volumePage) keptFor(pvc *v1.PersistentVolumeClaim) bool {
	is := func(pv *v1.PersistentVolume) bool {
		ref := pv.Spec.ClaimRef
		return ref != nil && ref.Namespace == pvc.Namespace && ref.Name == pvc.Name
	}
	class := volume.GetPersistentVolumeClaimClass(pvc)
	if slices.ContainsFunc(p.wide[class], is) {
		return true
	}
	for _, pvs := range p.local[class] {
		if slices.ContainsFunc(pvs, is) {
			return true
		}
	}
	return false
}

// Entry implements fit.Page.
func (p *volumePage) Entry(pod *v1.Pod) string {
	if e, ok := p.entries[string(pod.UID)]; ok {
		return e
	}
	if !hasClaims(pod) {
		return ""
	}
	return p.entryOf(pod)
}

// Far implements fit.Page.
func (p *volumePage) Far(pod *v1.Pod) bool {
	if p.entries[string(pod.UID)] == "" {
		return false
	}
	return slices.ContainsFunc(p.claimsOf(pod), func(c claim) bool { return !c.bound && (p.far || p.shared(c.PersistentVolumeClaim)) })
}

// isFar says that members on several nodes need volumes or capacity of which there may not be enough
// for all.
func (p *volumePage) isFar(nodes []fwk.NodeInfo) bool {
	for class, need := range p.demand {
		if !p.abundant(class, need) {
			return true
		}
		for _, pvs := range p.local[class] {
			if slices.ContainsFunc(pvs, func(pv *v1.PersistentVolume) bool { hosts, _ := hostsOf(pv); return len(hosts) > 1 }) {
				return true
			}
		}
		for _, c := range p.stock {
			if c.StorageClassName == class && c.Capacity != nil && c.Capacity.Value() < need.bytes && several(c, nodes) {
				return true
			}
		}
	}
	return false
}

// abundant says that wherever there is a volume that several nodes reach there are enough like it for all.
func (p *volumePage) abundant(class string, need demand) bool {
	alike := map[string]int{} // by where they can be used
	for _, pv := range p.wide[class] {
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

// serves says that a volume would do for a claim, wherever it is; it is not sure of all that would.
func serves(pv *v1.PersistentVolume, c *v1.PersistentVolumeClaim) bool {
	q := pv.Spec.Capacity[v1.ResourceStorage]
	return q.Value() >= size(c) && volume.CheckAccessModes(c, pv) && !volume.CheckVolumeModeMismatches(&c.Spec, &pv.Spec) && c.Spec.Selector == nil
}

// several says that more nodes than one have access to a storage capacity.
func several(c *storagev1.CSIStorageCapacity, nodes []fwk.NodeInfo) bool {
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

// Hopeful is the page that counts on claims getting the volumes that were chosen for them, where others might be taken in
// their place; nil if that makes no difference.
func (p *volumePage) Hopeful() fit.Page {
	if p.hopeful || !p.unequal.Load() {
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

// State implements fit.Page. Any claim, volume or attachment may change what a node takes, so that
// nothing is kept from one page to the next.
func (p *volumePage) State(fwk.NodeInfo) string { return fmt.Sprint("page ", p.number) }

// replay has those take again whom the scheduler has put on nodes, and whose claims are not seen as bound
// yet: VolumeBinding knows what it has assumed for them, and nobody else does. It is asked where it makes a difference.
func (p *volumePage) replay(nodes []fwk.NodeInfo) {
	p.base, p.asked = newVolumesTaken(), 0
	if len(p.demand) == 0 {
		return
	}
	r := &volumeRehearsal{page: p, taken: p.base, replays: true}
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
