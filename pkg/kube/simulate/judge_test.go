package simulate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	kubegroup "github.com/muster-scheduler/muster/pkg/kube/group"
)

func (r room) less(want room) bool { return r.cpu < want.cpu || r.gpu < want.gpu }
func (r room) plus(o room) room    { return room{r.cpu + o.cpu, r.gpu + o.gpu} }
func (r room) minus(o room) room   { return room{r.cpu - o.cpu, r.gpu - o.gpu} }

func amount(l v1.ResourceList) room {
	q := l[gpu]
	return room{int(l.Cpu().Value()), int(q.Value())}
}

func needs(p *v1.Pod) room { return amount(resource.PodRequests(p, resource.PodResourcesOptions{})) }

func done(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed }

// free returns the free capacity of a node without the pods in but.
func (w *world) free(node string, but ...*v1.Pod) room {
	n := w.nodes[node]
	if n == nil {
		return room{}
	}
	r := amount(n.Status.Allocatable)
	for _, p := range w.pods {
		if p.Spec.NodeName == node && !done(p) && !slices.Contains(but, p) {
			r = r.minus(needs(p))
		}
	}
	return r
}

// domain returns the path of a node's domain at a layer. A node without the label shares its domain only with
// nodes of the same domain below.
func (w *world) domain(node string, layer string) string {
	path := ""
	for i, l := range w.layers {
		path += "/" + w.nameAt(node, i)
		if l == layer {
			return path
		}
	}
	if layer == scheduling.NodeTopologyLayer {
		return node
	}
	return ""
}

func (w *world) nameAt(node string, layer int) string {
	for i, l := range w.layers[layer:] {
		if v := w.nodes[node].Labels[labelOf[l]]; v != "" {
			if i == 0 {
				return v
			}
			return "?" + l + v
		}
	}
	return "?" + node
}

// judgeBindings: no node is overfull, gangs obey MustGather, and no member starts without the rest of its
// gang.
func (w *world) judgeBindings(fresh map[string][]*v1.Pod) error {
	gangs := map[string]bool{}
	for _, node := range sortedKeys(fresh) {
		pods := fresh[node]
		if r := w.free(node); w.nodes[node] != nil && r.less(room{}) {
			return wrong("overfull", "node %s lacks %s", node, room{-r.cpu, -r.gpu})
		}
		for _, p := range pods {
			if g := w.members[p.Name]; g != "" {
				gangs[g] = true
			}
			if w.late[p.Name] {
				w.counts[lateBound]++
			}
			w.noteLate(p)
			w.noteRobbed(p)
			if err := w.judgeSamePlace(p); err != nil {
				return err
			}
		}
	}
	if err := w.judgeParts(fresh); err != nil {
		return err
	}
	for _, name := range sortedKeys(gangs) {
		group := w.groupOf(name)
		if err := w.judgeStranger(name); err != nil {
			return err
		}
		for _, other := range group {
			if g := w.gangs[other]; g != nil && !w.whole[other] && !w.excused(group) && !w.mayMiss(group, other) && !w.goesOn(name, other, fresh) {
				pending, bound := w.membersOf(other)
				return wrong("in part", "%s: members of %s were bound, %d of %d of %s are (%d wait)", groupKey(group), name, len(bound), g.min, other,
					len(pending))
			}
		}
		if w.moved[groupKey(group)] || w.gangs[name] == nil {
			continue
		}
		if err := w.judgeGather(group, gangs); err != nil {
			return err
		}
	}
	return nil
}

// judgeGather checks the MustGather constraint of the running members. New labels may have split a gang
// without new members.
func (w *world) judgeGather(group []string, fresh map[string]bool) error {
	for _, rule := range w.gangs[group[0]].rulesOrNil() {
		if !rule.must {
			continue
		}
		all := map[string]bool{}
		for _, name := range group {
			each := map[string]bool{}
			_, bound := w.membersOf(name)
			for _, p := range bound {
				if w.nodes[p.Spec.NodeName] != nil {
					each[w.domain(p.Spec.NodeName, rule.layer)] = true
					all[w.domain(p.Spec.NodeName, rule.layer)] = true
				}
			}
			if rule.each && fresh[name] && len(each) > 1 {
				return wrong("gather", "%s is in %d domains of %s", name, len(each), rule.layer)
			}
		}
		if !rule.each && len(all) > 1 {
			return wrong("gather", "%s is in %d domains of %s", groupKey(group), len(all), rule.layer)
		}
	}
	return nil
}

func (g *gangSpec) rulesOrNil() []ruleSpec {
	if g == nil {
		return nil
	}
	return g.rules
}

// judgeEvictions: only unprotected pods of lower priority are evicted, each once, and only where the
// preemptor needs the node.
func (w *world) judgeEvictions() error {
	by := map[string][]*v1.Pod{}
	var alone [][2]string // preemptor and victim, by UID
	w.victims = map[string]bool{}
	w.s.recorder.mu.Lock()
	for e, n := range w.s.recorder.events {
		if e.Reason != "Preempted" || n == w.told[e] {
			continue
		}
		w.told[e] = n
		_, name, _ := strings.Cut(e.Object, "/")
		w.victims[name] = true
		w.stirPod(name)
		who, ok := strings.CutPrefix(e.Message, "Preempted by gang ")
		if !ok {
			w.counts[podEvictions]++
			by, _, _ := strings.Cut(strings.TrimPrefix(e.Message, "Preempted by pod "), " ")
			alone = append(alone, [2]string{by, name})
			continue
		}
		who, _, _ = strings.Cut(who, " on node ")
		victim := w.pods["default/"+name]
		if strings.Contains(e.Message, "in kube-scheduler memory") {
			w.counts[memoryEvictions]++
			continue
		}
		if victim == nil {
			for _, p := range w.s.cluster.evicted {
				if p.Name == name {
					victim = p
				}
			}
		}
		by[who] = append(by[who], victim)
	}
	w.s.recorder.mu.Unlock()
	for _, who := range sortedKeys(by) {
		if err := w.judgeVictims(gangsIn(who), by[who]); err != nil {
			return err
		}
	}
	for _, e := range alone {
		if err := w.judgeVictimOfOne(types.UID(e[0]), e[1]); err != nil {
			return err
		}
	}
	w.noteHalves(by, alone)
	return nil
}

// gangsIn returns the gangs that an event calls the preemptor.
func gangsIn(preemptor string) []string {
	group := strings.Split(strings.ReplaceAll(preemptor, "default/", ""), ", ")
	for i, name := range group {
		if at := strings.IndexAny(name, "/.-"); at > 0 {
			group[i] = name[:at] // of the podgroup of a PodGang, a part of a JobSet, the group of a LeaderWorkerSet
		}
	}
	return group
}

// forgetReplanned forgets the lost bindings of groups that were planned again: groups that evict now, and groups that lost a place at
// Permit to a more important pod.
func (w *world) forgetReplanned() {
	w.s.recorder.mu.Lock()
	defer w.s.recorder.mu.Unlock()
	for e, n := range w.s.recorder.events {
		if e.Reason != "Preempted" || n == w.told[e] {
			continue
		}
		_, name, _ := strings.Cut(e.Object, "/")
		if strings.Contains(e.Message, "in kube-scheduler memory") {
			w.forgetLost(w.groupOf(w.members[name]))
		}
		if who, ok := strings.CutPrefix(e.Message, "Preempted by gang "); ok {
			who, _, _ = strings.Cut(who, " on node ")
			w.forgetLost(gangsIn(who))
		}
	}
}

// judgeVictimOfOne: a pod without a gang evicts only where it would not fit else.
func (w *world) judgeVictimOfOne(by types.UID, victim string) error {
	if w.loose || len(w.halfway) > 0 || w.anyUntold() { // a pod that is being bound has a node that is not seen here
		return nil
	}
	if p := w.pods["default/"+victim]; p != nil && p.Spec.NodeName == "" {
		return nil // nor is the node of a pod that waits at Permit, and is only requeued
	}
	if p := w.pods["default/"+victim]; p != nil && w.postponed[p.UID] {
		return nil // evicted late, for the nodes of an earlier time (world 946429, a known issue)
	}
	if w.half(victim) || w.starts(victim) || w.hasQuotas() && len(w.requeued()) > 0 {
		return nil
	}
	for _, p := range w.sorted() {
		if p.UID != by || p.Spec.NodeName != "" {
			continue
		}
		if gone := w.pods["default/"+victim]; gone != nil && w.hasQuotas() {
			if err := w.judgeRight(nil, p, gone, convert.Priority(p)); err != nil {
				return err
			}
		}
		if !w.admits(nil, p) {
			continue
		}
		nominated := p.Status.NominatedNodeName
		for _, node := range w.ready() {
			left := w.free(node).minus(w.reserved(node, nil, convert.Priority(p), convert.NeverPreempts(p)))
			if node == nominated {
				left = left.plus(needs(p)) // the pod is one of the pods with a node
			}
			if !left.less(needs(p)) {
				return wrong("needless", "%s is evicted for %s, for which %s has room", victim, p.Name, node)
			}
		}
	}
	return nil
}

// requeued returns the waiting members of gangs that were requeued before they were bound, for a more important pod. Members that had no
// node yet still used their quotas when the victims were chosen (docs/reference/quotas.md).
func (w *world) requeued() (all []*v1.Pod) {
	for _, p := range w.sorted() {
		_, c := podutil.GetPodCondition(&p.Status, v1.PodScheduled)
		if p.Spec.NodeName == "" && c != nil && strings.Contains(c.Message, "the gang is being evicted") {
			pending, _ := w.membersOf(w.members[p.Name])
			all = append(all, pending...)
		}
	}
	return all
}

// judgeFits: a gang evicts only if it does not fit else, and for no more than its minMember.
func (w *world) judgeFits(group []string) error {
	f, ok := w.fitting(group)
	others := len(w.halfway)
	if w.halfway[groupKey(group)] {
		others--
	}
	if !ok || w.loose || others > 0 || w.anyUntold() {
		return nil
	}
	need := f.total
	for i, g := range f.gangs {
		// A group that has been whole may count as started, whatever became of its members.
		if !f.spares(g) || i < len(group) && w.whole[group[i]] { // beyond them are parts of one gang
			need += g.need
		}
	}
	if need == 0 && on(surplus) {
		return wrong(surplus, "%s evicts for members beyond minMember", groupKey(group))
	}
	f.takeStock(group)
	// Quotas may give other members of the gang their turn later: it evicts for the members that have theirs (world 41178).
	if fits, _ := f.fits(); fits && w.admits(group, nil) && w.admitsFirst(group) {
		return wrong("needless", "%s evicts and fits: %s", groupKey(group), f.how())
	}
	return nil
}

// evictsIncomplete reports whether quotas evict a gang with missing members. The search respects the capacity that is held for these, although
// the hold ends with the gang (docs/known-issues.md, world 855234).
func (w *world) evictsIncomplete(gone []*v1.Pod) bool {
	return w.hasQuotas() && slices.ContainsFunc(gone, func(p *v1.Pod) bool {
		name := w.members[p.Name]
		if w.gangs[name] == nil {
			return false
		}
		_, bound := w.membersOf(name)
		evicted := 0
		for _, other := range gone {
			if w.members[other.Name] == name && !slices.Contains(bound, other) {
				evicted++
			}
		}
		return len(bound)+evicted < w.gangs[name].min
	})
}

func (w *world) judgeVictims(group []string, gone []*v1.Pod) error {
	slices.SortFunc(gone, func(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) })
	w.counts[gangEvictions]++
	var names []string
	for _, p := range gone {
		names = append(names, p.Name)
	}
	w.say(groupKey(group) + " evicts " + strings.Join(names, " "))
	for _, p := range gone {
		if w.members[p.Name] != "" { // what runs of its gang is less, so members whose bindings were lost may be planned again
			w.forgetLost(w.groupOf(w.members[p.Name]))
		}
	}
	var members []*v1.Pod
	lowest := int32(1 << 30)
	for _, name := range group {
		pending, _ := w.membersOf(name)
		for _, p := range pending {
			lowest = min(lowest, convert.Priority(p))
			if convert.NeverPreempts(p) {
				return wrong("eviction", "%s evicts although %s never does", groupKey(group), p.Name)
			}
		}
		members = append(members, pending...)
	}
	fresh := slices.DeleteFunc(slices.Clone(gone), func(p *v1.Pod) bool { return w.half(p.Name) })
	places, _ := w.placesOf(group)
	late := w.onlyLate(fresh) || w.delayed[groupKey(group)] == fmt.Sprint(places)
	starting := slices.ContainsFunc(gone, func(v *v1.Pod) bool { return w.starts(v.Name) })
	if err := w.judgeFits(group); err != nil && !late && !starting {
		return err
	}
	var uids []types.UID
	for _, v := range gone {
		if slices.Contains(fresh, v) {
			uids = append(uids, v.UID)
		}
		w.asked[v.UID]++
		w.counts[gangVictims]++
		switch {
		case w.asked[v.UID] > 1:
			return wrong("eviction", "%s is evicted a second time", v.Name)
		case w.hasQuotas():
			if err := w.judgeRight(group, nil, v, lowest); err != nil && !late {
				return err
			}
		case convert.Priority(v) >= lowest:
			return wrong("eviction", "%s of priority %d is evicted for %s of priority %d", v.Name, convert.Priority(v), groupKey(group), lowest)
		}
		if convert.Protected(v) {
			return wrong("eviction", "%s is evicted although it is protected", v.Name)
		}
		if !w.admitsFirst(group, slices.DeleteFunc(slices.Clone(gone), func(p *v1.Pod) bool { return p == v })...) {
			continue // its quota needs that
		}
		if w.members[v.Name] != "" || w.theirs[v.Name] != "" {
			continue // the pod is evicted with its gang, whose nodes need not all be used
		}
		at := slices.DeleteFunc(slices.Clone(members), func(m *v1.Pod) bool { return places[convert.PodKey(m)] != v.Spec.NodeName })
		others := func(p *v1.Pod) bool { return slices.Contains(gone, p) && !w.mayUse(group, at, p) }
		left := w.free(v.Spec.NodeName, slices.DeleteFunc(w.leaving(), others)...)
		for _, m := range at {
			left = left.minus(needs(m))
		}
		left = left.minus(w.reserved(v.Spec.NodeName, group, lowest, false))
		planned := slices.DeleteFunc(slices.Clone(members), func(m *v1.Pod) bool { return places[convert.PodKey(m)] == "" })
		if w.givesRight(group, planned, v, gone) || w.forOne(group, planned, v, gone) || w.evictsIncomplete(gone) {
			continue
		}
		if !late && !w.anyUntold() && !left.less(needs(v)) { // the nomination of a pod may not have been written
			return wrong("needless", "%s is evicted from %s for %s, which leaves %s there", v.Name, v.Spec.NodeName, groupKey(group), left)
		}
	}
	if last, ok := w.last[groupKey(group)]; ok && last.change == w.change && !last.robbed && !w.robs(group, last) &&
		!w.onlyUnasked(last.unsaid(uids)) && !w.followedAlone(group, last) &&
		!slices.ContainsFunc(last.gone, func(uid types.UID) bool { return w.postponed[uid] }) { // evicted late, for the nodes of an earlier time
		for _, uid := range last.gone {
			for _, p := range w.pods {
				// a victim elsewhere was evicted with its gang, and no member waits for its node
				if p.UID == uid && last.nodes[p.Spec.NodeName] && p.DeletionTimestamp != nil && w.s.clock.Since(p.DeletionTimestamp.Time) < 0 {
					return wrong("eviction", "%s evicts %v while %s, which it evicted before, leaves", groupKey(group), names, p.Name)
				}
			}
		}
	}
	if len(fresh) > 0 {
		last := &eviction{change: w.change, gone: uids, lowest: lowest, nodes: map[string]bool{}, marked: w.marked(), bound: w.boundOf(group)}
		for _, node := range places {
			last.nodes[node] = true
		}
		w.last[groupKey(group)] = last
	}
	return nil
}

// followedAlone reports whether the started gangs of a tree that lost members got nodes one after the other:
// the waiting gangs differ from the preemptors of the last eviction.
func (w *world) followedAlone(group []string, last *eviction) bool {
	return w.gangs[group[0]] != nil && w.gangs[group[0]].inTree() &&
		slices.ContainsFunc(w.boundOf(group), func(name string) bool { return !slices.Contains(last.bound, name) })
}

// boundOf names the members of a group that are bound.
func (w *world) boundOf(group []string) (names []string) {
	for _, name := range group {
		_, bound := w.membersOf(name)
		for _, p := range bound {
			names = append(names, p.Name)
		}
	}
	return names
}

// marked returns the pods that objects mark for eviction.
func (w *world) marked() map[types.UID]bool {
	marked := map[types.UID]bool{}
	for _, p := range w.pods {
		if _, c := podutil.GetPodCondition(&p.Status, v1.DisruptionTarget); c != nil && c.Status == v1.ConditionTrue {
			marked[p.UID] = true
		}
	}
	return marked
}

// unsaid leaves out the pods that were marked when the first victims terminated: all victims are marked
// before the first eviction, and the pod on the needed node is evicted last (decision 16).
func (e *eviction) unsaid(uids []types.UID) []types.UID {
	return slices.DeleteFunc(slices.Clone(uids), func(uid types.UID) bool { return e.marked[uid] })
}

// noteRobbed records the groups that lost nodes to a pod that is bound now.
func (w *world) noteRobbed(pod *v1.Pod) {
	for key, last := range w.last {
		if convert.Priority(pod) > last.lowest && last.nodes[pod.Spec.NodeName] && key != groupKey(w.groupOf(w.members[pod.Name])) {
			last.robbed = true
		}
	}
}

// robs says whether a more important pod that waits has a node on which a group has evicted: the group's plan does not count on that node
// any more. A binding of that pod may be lost.
func (w *world) robs(group []string, last *eviction) bool {
	for _, p := range w.pods {
		if p.Spec.NodeName != "" || slices.Contains(group, w.members[p.Name]) || convert.Priority(p) <= last.lowest {
			continue
		}
		at := p.Status.NominatedNodeName
		if w.members[p.Name] != "" {
			at, _ = w.s.shared.Cache.Place(p)
		}
		if last.nodes[at] {
			return true
		}
	}
	return false
}

// leaving returns the terminating pods.
func (w *world) leaving() (out []*v1.Pod) {
	for _, p := range w.pods {
		if p.DeletionTimestamp != nil {
			out = append(out, p)
		}
	}
	return out
}

// reserved is the capacity of a node that is reserved for other groups of equal or higher priority: for
// gangs, and for pods that are nominated or wait at Permit. Pods that never preempt must also leave the nodes of missing members of lower
// priority.
func (w *world) reserved(node string, group []string, priority int32, never bool) (r room) {
	counted := map[types.UID]bool{}
	w.permits(func(p fwk.WaitingPod) {
		if pod := p.GetPod(); w.permitNode(pod) == node {
			counted[pod.UID] = true
			r = r.plus(needs(pod))
		}
	})
	for _, p := range w.pods {
		if p.Spec.NodeName != "" || counted[p.UID] || convert.Priority(p) < priority || slices.Contains(group, w.members[p.Name]) {
			continue
		}
		at := p.Status.NominatedNodeName
		if w.members[p.Name] != "" {
			at = w.placeOf(p)
		}
		if at == node {
			r = r.plus(needs(p))
		}
	}
	of := &v1.Pod{Spec: v1.PodSpec{Priority: &priority}}
	if never {
		policy := v1.PreemptNever
		of.Spec.PreemptionPolicy = &policy
	}
	for _, p := range w.s.shared.Cache.PlacesOn(node, of) {
		member, _, standIn := kubegroup.Leader(convert.PodKey(p))
		if standIn && !slices.Contains(group, w.members[strings.TrimPrefix(member, "default/")]) {
			r = r.plus(needs(p)) // of a member that is missing, or starts elsewhere after its eviction
		}
	}
	return r
}

// placeOf returns the reserved node of a member, or the node of its gang's capacity hold.
func (w *world) placeOf(p *v1.Pod) string {
	if node, _ := w.s.shared.Cache.Place(p); node != "" {
		return node
	}
	if g, refusal := w.s.shared.Cache.Group(p); !refusal.Exists() {
		return g.HeldNodes[convert.PodKey(p)]
	}
	return ""
}

// permitNode is where a pod is that waits in Permit.
func (w *world) permitNode(pod *v1.Pod) string {
	node, _ := w.s.shared.Cache.Place(pod)
	return node
}

// hold is a pod that waits in Permit.
type hold struct {
	fwk.WaitingPod
	since time.Time
}

// judgeIdle: no pod waits at Permit for longer than the gang's timeout.
func (w *world) judgeIdle() (err error) {
	now := w.s.clock.Now()
	held := map[types.UID]hold{}
	w.permits(func(p fwk.WaitingPod) {
		pod := p.GetPod()
		h := w.held[pod.UID]
		if h.WaitingPod != p {
			h = hold{p, now}
			w.counts[placesKept]++
		}
		held[pod.UID] = h
		longest := 0
		for _, name := range w.groupOf(w.members[pod.Name]) {
			if g := w.gangs[name]; g != nil {
				longest = max(longest, g.timeout)
			}
		}
		if waits := now.Sub(h.since); waits > time.Duration(longest)*time.Second+10*time.Second {
			err = wrong("held", "%s waits in Permit since %s", pod.Name, waits)
		}
	})
	w.held = held
	return err
}

// judgeSettled is asked when nothing more happens by itself.
func (w *world) judgeSettled() error {
	for key := range w.moved {
		group := strings.Split(key, ",")
		if places, _ := w.placesOf(group); len(places) == 0 && w.heldOf(group) == 0 {
			delete(w.moved, key)
		}
	}
	for _, p := range w.sorted() {
		at := p.Status.NominatedNodeName
		if at == "" || w.members[p.Name] == "" {
			continue
		}
		if p.Spec.NodeName != "" || convert.Finished(p) {
			return wrong("nomination", "%s is nominated to %s and does not wait", p.Name, at)
		}
		if place, _ := w.s.shared.Cache.Place(p); place != at {
			return wrong("nomination", "%s is nominated to %s, its place is %q", p.Name, at, place)
		}
	}
	profile := w.s.scheduler.Profiles["muster-scheduler"]
	for name := range w.nodes {
		for _, info := range profile.NominatedPodsForNode(name) {
			p := info.GetPod()
			if w.members[p.Name] == "" {
				continue
			}
			if is := w.pods[convert.PodKey(p)]; is == nil || is.UID != p.UID || is.Status.NominatedNodeName != name {
				return wrong("nomination", "the scheduler counts %s on %s for nothing", p.Name, name)
			}
		}
	}
	for _, group := range w.groups() {
		places, waiting := w.placesOf(group)
		if len(places) > 0 {
			w.counts[placesAwaited]++
		}
		for pod, node := range places {
			if waiting && w.pods[pod].Status.NominatedNodeName != node {
				return wrong("nomination", "%s has a place on %s and is nominated to %q", pod, node, w.pods[pod].Status.NominatedNodeName)
			}
			if waiting && w.nodes[node] == nil {
				return wrong("nomination", "%s is nominated to %s, which is gone", pod, node)
			}
		}
		if waiting && len(w.unasked) == 0 && !slices.ContainsFunc(w.leaving(), func(p *v1.Pod) bool {
			for _, node := range places {
				if p.Spec.NodeName == node {
					return true
				}
			}
			return w.givesBack(p, group)
		}) {
			return wrong("waits for no victim", "%s has reserved nodes without terminating pods", groupKey(group))
		}
	}
	for _, group := range w.groups() {
		if err := w.judgeMultiples(group); err != nil {
			return err
		}
	}
	if err := w.judgeLost(); err != nil {
		return err
	}
	if err := w.judgeHalves(); err != nil {
		return err
	}
	w.noteReached()
	return w.judgeStatus()
}

// judgeMultiples checks podCountMultiple of strict gangs that did not change since their plan, and that are
// not partly bound because of lost bindings.
func (w *world) judgeMultiples(group []string) error {
	// After lost bindings a member may be bound alone, and other pods take the nodes beside it: bound members
	// need not be a multiple.
	if w.excused(group) || w.uneven[groupKey(group)] {
		return nil
	}
	if g := w.gangs[group[0]]; g == nil || g.nonStrict || !w.good || slices.ContainsFunc(group,
		func(name string) bool { return w.stirred[name] }) {
		return nil
	}
	for _, rule := range w.gangs[group[0]].rules {
		if rule.multiple == 1 {
			continue
		}
		all := map[string]int{}
		for _, name := range group {
			each := map[string]int{}
			_, bound := w.membersOf(name)
			for _, p := range bound {
				if w.nodes[p.Spec.NodeName] == nil {
					return nil
				}
				each[w.domain(p.Spec.NodeName, rule.layer)]++
				all[w.domain(p.Spec.NodeName, rule.layer)]++
			}
			if rule.each && !rule.allows(each, true) {
				return wrong("multiple", "%s has %v members in domains of %s", name, each, rule.layer)
			}
			if len(bound) > 0 {
				w.counts[multiplesKept]++
			}
		}
		if !rule.each && !rule.allows(all, true) {
			return wrong("multiple", "%s has %v members in domains of %s", groupKey(group), all, rule.layer)
		}
	}
	return nil
}

// judgeStatus: PodGroups say how many members have a node.
func (w *world) judgeStatus() error {
	all, _ := w.s.cluster.list(sigs.PodGroups, "", nil)
	for _, o := range all {
		u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return err
		}
		pg := &sigs.PodGroup{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u, pg); err != nil {
			return err
		}
		if w.hasTheirs(pg.Name) {
			continue
		}
		pending, bound := w.membersOf(pg.Name)
		free := slices.ContainsFunc(pending, func(p *v1.Pod) bool { return convert.Gate(p) == "" })
		n := len(bound)
		if len(w.finishedOf(pg.Name)) > 0 || len(bound) == 0 && !free { // otherwise the finished members belong to an earlier run
			n += len(w.doneOf(pg.Name))
		}
		if int(pg.Status.Scheduled) != n {
			return wrong("status", "PodGroup %s says %d are scheduled, %d are", pg.Name, pg.Status.Scheduled, n)
		}
	}
	return nil
}
