package elasticquota

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unique"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Members of a gang may differ, and not all of them may be needed to start. Then the quotas may admit some sets of members and not others,
// and only some of these sets fit the nodes. So Admit returns several choices, and the planner takes the best one:
//
//	max 8, used 0; minMember 2; members of 6, 6 and 2 CPU      ranks 0 and 1   12, not admitted
//	                                                           ranks 0 and 2    8, admitted
//
// Identical members, and gangs that need all members, have one choice. Members with unbound claims of their own are identical if
// the claims request the same.

// mostChoices bounds the choices of one group.
const mostChoices = 16

// choiceSet has the pending members of a group by class. Members of one class are interchangeable, so that a choice is a number per class.
type choiceSet struct {
	quota.Candidates
	group   *cache.Group
	members [][]gang.Member // by class, by rank
}

// choiceSet returns the choiceSet of a group; nil if there is only one choice. r.mu is locked.
func (r *Manager) choiceSet(group *cache.Group, needed []gang.Member) *choiceSet {
	if len(needed) == len(group.Pending) {
		return nil
	}
	type class struct {
		gang        int
		quota, asks string
		template    cache.Template
		fixed       bool
	}
	gangs, known := map[gang.Ref]int{}, map[class]int{}
	c := &choiceSet{group: group}
	c.Ask = r.request(group, nil, group.Pending)
	templates, kinds := r.templates(group), []int{}
	for i, m := range group.Pending {
		g, ok := gangs[m.Gang]
		if !ok {
			g = len(gangs)
			gangs[m.Gang], c.Need, kinds = g, append(c.Need, 0), append(kinds, 0)
		}
		w := c.Ask.Optional[i]
		key := class{g, w.Quota, fmt.Sprint(w.Asks), templates[i], w.Fixed}
		at, ok := known[key]
		if !ok {
			at = len(c.Kinds)
			known[key], kinds[g] = at, kinds[g]+1
			w.Count = 0
			c.Kinds, c.members = append(c.Kinds, quota.Kind{Want: w, Gang: g}), append(c.members, nil)
		}
		c.Kinds[at].Count++
		c.members[at] = append(c.members[at], m)
	}
	c.Ask.Optional = nil
	for _, m := range needed {
		c.Need[gangs[m.Gang]]++
	}
	waits := make([]int, len(c.Need))
	for _, kind := range c.Kinds {
		waits[kind.Gang] += kind.Count
	}
	for g, kinds := range kinds {
		if kinds > 1 && c.Need[g] < waits[g] {
			return c
		}
	}
	return nil
}

// templates returns one value for each pending member. Members with equal values fit the same nodes. In these values a claim that only one
// pod names, and that is not bound or allocated, is replaced by its spec.
func (r *Manager) templates(group *cache.Group) (all []cache.Template) {
	pods, references := []*v1.Pod{}, map[podClaim]int{} // how many pods name the claim
	for _, m := range group.Pending {
		p := group.Pods[m.Pod]
		pods = append(pods, p)
		for c := range podClaims(p) {
			references[c]++
		}
	}
	all = r.cluster.Templates(pods)
	texts := map[podClaim]string{}
	for c, n := range references {
		if n == 1 {
			texts[c] = r.unboundSpec(c)
		}
	}
	for i, p := range pods {
		var rewritten *v1.Pod
		for c := range podClaims(p) {
			if texts[c] != "" && rewritten == nil {
				rewritten = p.DeepCopy()
			}
		}
		if rewritten == nil {
			continue
		}
		for c, name := range podClaims(rewritten) {
			if text := texts[c]; text != "" {
				*name = text
			}
		}
		all[i] = unique.Make(convert.Template(rewritten))
	}
	return all
}

// podClaim is a PersistentVolumeClaim or a ResourceClaim that a pod names.
type podClaim struct {
	volume          bool
	namespace, name string
}

// podClaims iterates over the claims that a pod names, with a pointer to the name in the pod's spec.
func podClaims(p *v1.Pod) func(yield func(c podClaim, name *string) bool) {
	return func(yield func(podClaim, *string) bool) {
		for i := range p.Spec.Volumes {
			if v := p.Spec.Volumes[i].PersistentVolumeClaim; v != nil && !yield(podClaim{true, p.Namespace, v.ClaimName}, &v.ClaimName) {
				return
			}
		}
		for i := range p.Spec.ResourceClaims {
			if name := p.Spec.ResourceClaims[i].ResourceClaimName; name != nil && !yield(podClaim{false, p.Namespace, *name}, name) {
				return
			}
		}
	}
}

// unboundSpec returns the spec of a claim as JSON if the claim is neither bound nor allocated. It returns "" for all other claims, and for
// claims that are deleted or unknown.
func (r *Manager) unboundSpec(c podClaim) string {
	var spec any
	switch {
	case c.volume && r.volumes != nil:
		v, err := r.volumes.PersistentVolumeClaims(c.namespace).Get(c.name)
		if err == nil && v.DeletionTimestamp == nil && v.Spec.VolumeName == "" && v.Annotations[volume.AnnSelectedNode] == "" {
			copied := *v.Spec.DeepCopy()
			copied.StorageClassName = ptr.To(volume.GetPersistentVolumeClaimClass(v)) // the class may be in an annotation
			spec = copied
		}
	case !c.volume && r.devices.claims != nil:
		d, err := r.devices.claims.ResourceClaims(c.namespace).Get(c.name)
		if err == nil && d.DeletionTimestamp == nil && d.Status.Allocation == nil {
			spec = d.Spec
		}
	}
	if spec == nil {
		return ""
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	return string(text)
}

// membersOf returns the members of a choice, by rank: of each class the first chosen[class] members.
func (c *choiceSet) membersOf(chosen []int) []gang.Member {
	selected := map[string]bool{}
	for class, n := range chosen {
		for _, m := range c.members[class][:n] {
			selected[m.Pod] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.group.Pending), func(m gang.Member) bool { return !selected[m.Pod] })
}

// otherChoices returns at most most admitted choices, without the choice first; nil if c is nil. Each choice is checked again, because the
// chosen members pay for shared claims. r.mu is locked.
func (r *Manager) otherChoices(c *choiceSet, first []gang.Member, most int) (all [][]gang.Member) {
	if c == nil {
		return nil
	}
	for _, chosen := range r.currentBook().MaximalChoices(c.Candidates, most) {
		members := c.membersOf(chosen)
		if slices.Equal(members, first) {
			continue
		}
		if _, refusal := r.currentBook().Admit(r.request(c.group, members, nil)); refusal == nil {
			all = append(all, members)
		}
	}
	return all
}

// anyChoice returns one admitted choice of members that differ; nil if there is none. r.mu is locked.
func (r *Manager) anyChoice(group *cache.Group, needed []gang.Member) [][]gang.Member {
	c := r.choiceSet(group, needed)
	if c == nil {
		return nil
	}
	chosen := r.currentBook().AnyChoice(c.Candidates)
	if chosen == nil {
		return nil
	}
	members := c.membersOf(chosen)
	if _, refusal := r.currentBook().Admit(r.request(group, members, nil)); refusal != nil {
		return nil
	}
	return [][]gang.Member{members}
}

// minimalChoices returns at most limit choices of as many members as the group needs. The quotas may have capacity for each choice after
// evictions. A choice that equals needed is first; the others follow by size of request. all says that no choice is left out. r.mu is
// locked.
func (r *Manager) minimalChoices(c *choiceSet, needed []gang.Member, limit int) (choices [][]gang.Member, all bool) {
	found, all := r.currentBook().MinimalChoices(c.Candidates, limit)
	for _, chosen := range found {
		if members := c.membersOf(chosen); slices.Equal(members, needed) {
			choices = slices.Insert(choices, 0, members)
		} else {
			choices = append(choices, members)
		}
	}
	return choices, all
}

// MinimalChoices returns at most limit choices of as many members as a group needs, for which the quotas may have capacity after evictions.
// The choice with the lowest ranks is first. all says that the list is complete as long as TreeVersion does not change.
func (r *Manager) MinimalChoices(group *cache.Group, limit int) (choices [][]gang.Member, all bool) {
	if !r.Active() || len(group.Pending) == 0 {
		return nil, true
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Needed()
	c := r.choiceSet(group, group.Starting())
	switch {
	case len(needed) == 0:
		return nil, c == nil
	case c != nil:
		return r.minimalChoices(c, needed, min(limit, mostChoices))
	}
	return [][]gang.Member{needed}, true
}

// MembersDiffer returns whether members of a group differ and not all of them are needed, so that the group may start with several choices.
func (r *Manager) MembersDiffer(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Starting()
	return r.choiceSet(group, needed) != nil
}

// TreeVersion returns a number that changes with each change of the declared quotas. With quotas it is never 0.
func (r *Manager) TreeVersion() uint64 {
	r.lock()
	defer r.mu.Unlock()
	return r.treeVersion
}

// turnRefusal returns the refusal with the cause NotNext of a choice that is not admitted only because another quota is served first. If
// there is no such choice, it returns the given refusal. r.mu is locked.
func (r *Manager) turnRefusal(group *cache.Group, needed []gang.Member, refusal *quota.Refusal) *quota.Refusal {
	if refusal == nil || refusal.Cause == quota.NotNext {
		return refusal
	}
	if c := r.choiceSet(group, needed); c != nil {
		if chosen := r.currentBook().ChoiceMissingTurn(c.Candidates); chosen != nil {
			if _, later := r.currentBook().Admit(r.request(group, c.membersOf(chosen), nil)); later != nil && later.Cause == quota.NotNext {
				return later
			}
		}
	}
	return refusal
}

// leastRefusal returns the first refused choice of a group, and its refusal. The order: choices that request least of a resource that is
// short, minimal choices, then a with refusal. Messages use it, so that they do not overstate what is missing. r.mu is locked.
func (r *Manager) leastRefusal(
	group *cache.Group, needed []gang.Member, a quota.Request, refusal *quota.Refusal,
) (quota.Request, *quota.Refusal) {
	c := r.choiceSet(group, needed)
	if c == nil || refusal.Cause == quota.Broken {
		return a, r.permanentRefusal(a, refusal)
	}
	choices, all := r.minimalChoices(c, needed, mostChoices)
	neverAdmitted := all && len(choices) == 0
	for _, name := range refusal.Exceeds {
		choices = append([][]gang.Member{c.membersOf(c.Cheapest(name))}, choices...)
	}
	for _, members := range choices {
		if len(members) == 0 {
			continue
		}
		request := r.request(group, members, nil)
		if _, smaller := r.currentBook().Admit(request); smaller != nil {
			a, refusal = request, smaller
			break
		}
	}
	if neverAdmitted {
		refusal = r.permanentRefusal(a, refusal)
	}
	return a, refusal
}

// Why returns why the quotas do not admit these members of a group together; nil if they admit them.
func (r *Manager) Why(group *cache.Group, members []gang.Member) *Explanation {
	if !r.Active() {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	_, refusal := r.currentBook().Admit(r.request(group, members, nil))
	if refusal == nil {
		return nil
	}
	return &Explanation{Sentence: Sentence(refusal, "gang"), Text: Message(refusal, "gang's")}
}

// RecordTurn records that a group waits for another quota's turn if that is why these members are not admitted.
func (r *Manager) RecordTurn(group *cache.Group, members []gang.Member) {
	r.lock()
	defer r.mu.Unlock()
	a := r.request(group, members, nil)
	_, refusal := r.currentBook().Admit(a)
	r.addWaitForTurn(a.Gang, refusal)
}

func sameWant(a, b quota.Want) bool {
	return a.Quota == b.Quota && a.Fixed == b.Fixed && maps.Equal(a.Asks, b.Asks)
}
