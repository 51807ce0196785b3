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

// Members of a gang may differ, and not all of them need start. Then the quotas may have room for some and not for those of the
// lowest ranks, and the nodes for others than the quotas have. So several choices are admitted, and who plans takes the best one:
//
//	max 8, used 0; minMember 2; members of 6, 6 and 2 CPU      ranks 0 and 1   12, refused
//	                                                           ranks 0 and 2    8, admitted
//
// Like members, and those of gangs that need all, have one choice. Members with claims of their own are alike as long as these are bound to
// nothing: where one may go the other one may.

// mostChoices bounds of how many choices each is tried.
const mostChoices = 16

// choosing is who may be chosen of a group.
type choosing struct {
	quota.Choosing
	group   *cache.Group
	members [][]gang.Member // by class, by rank
}

// choosing sorts those who wait into classes; nil if there is one choice only. r.mu is held.
func (r *Room) choosing(group *cache.Group, needed []gang.Member) *choosing {
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
	c := &choosing{group: group}
	c.Ask = r.ask(group, nil, group.Pending)
	templates, kinds := r.templates(group), []int{}
	for i, m := range group.Pending {
		g, ok := gangs[m.Gang]
		if !ok {
			g = len(gangs)
			gangs[m.Gang], c.Need, kinds = g, append(c.Need, 0), append(kinds, 0)
		}
		w := c.Ask.More[i]
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
	c.Ask.More = nil
	for _, m := range needed {
		c.Need[gangs[m.Gang]]++
	}
	waits := make([]int, len(c.Need))
	for _, is := range c.Kinds {
		waits[is.Gang] += is.Count
	}
	for g, kinds := range kinds {
		if kinds > 1 && c.Need[g] < waits[g] {
			return c
		}
	}
	return nil
}

// templates are equal for members of a group of whom one may be put wherever the other one may.
func (r *Room) templates(group *cache.Group) (all []cache.Template) {
	pods, named := []*v1.Pod{}, map[claimOf]int{} // how many of them name it
	for _, m := range group.Pending {
		p := group.Pods[m.Pod]
		pods = append(pods, p)
		for c := range claimsOf(p) {
			named[c]++
		}
	}
	all = r.cluster.Templates(pods)
	texts := map[claimOf]string{}
	for c, n := range named {
		if n == 1 {
			texts[c] = r.asksAnywhere(c)
		}
	}
	for i, p := range pods {
		var own *v1.Pod
		for c := range claimsOf(p) {
			if texts[c] != "" && own == nil {
				own = p.DeepCopy()
			}
		}
		if own == nil {
			continue
		}
		for c, name := range claimsOf(own) {
			if text := texts[c]; text != "" {
				*name = text
			}
		}
		all[i] = unique.Make(convert.Template(own))
	}
	return all
}

// claimOf is a PersistentVolumeClaim or a ResourceClaim that a pod names.
type claimOf struct {
	volume          bool
	namespace, name string
}

// claimsOf are the claims that a pod names, and where it does.
func claimsOf(p *v1.Pod) func(yield func(c claimOf, name *string) bool) {
	return func(yield func(claimOf, *string) bool) {
		for i := range p.Spec.Volumes {
			if v := p.Spec.Volumes[i].PersistentVolumeClaim; v != nil && !yield(claimOf{true, p.Namespace, v.ClaimName}, &v.ClaimName) {
				return
			}
		}
		for i := range p.Spec.ResourceClaims {
			if name := p.Spec.ResourceClaims[i].ResourceClaimName; name != nil && !yield(claimOf{false, p.Namespace, *name}, name) {
				return
			}
		}
	}
}

// asksAnywhere is what a claim asks for that is bound to nothing yet: a member for which another one like it is made may go wherever this one may. "" is that
// it is bound, or is being deleted and helps nobody any more, or not known.
func (r *Room) asksAnywhere(c claimOf) string {
	var is any
	switch {
	case c.volume && r.volumes != nil:
		v, err := r.volumes.PersistentVolumeClaims(c.namespace).Get(c.name)
		if err == nil && v.DeletionTimestamp == nil && v.Spec.VolumeName == "" && v.Annotations[volume.AnnSelectedNode] == "" {
			spec := *v.Spec.DeepCopy()
			spec.StorageClassName = ptr.To(volume.GetPersistentVolumeClaimClass(v)) // it may stand in an annotation
			is = spec
		}
	case !c.volume && r.devices.claims != nil:
		if d, err := r.devices.claims.ResourceClaims(c.namespace).Get(c.name); err == nil && d.DeletionTimestamp == nil && d.Status.Allocation == nil {
			is = d.Spec
		}
	}
	if is == nil {
		return ""
	}
	text, err := json.Marshal(is)
	if err != nil {
		return ""
	}
	return string(text)
}

// of are the members of a choice, by rank.
func (c *choosing) of(chosen []int) []gang.Member {
	is := map[string]bool{}
	for class, n := range chosen {
		for _, m := range c.members[class][:n] {
			is[m.Pod] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.group.Pending), func(m gang.Member) bool { return !is[m.Pod] })
}

// others are further choices that are admitted. Claims that members share are paid for by whoever is chosen, so that each is asked about once
// more. r.mu is held.
func (r *Room) others(c *choosing, first []gang.Member, most int) (all [][]gang.Member) {
	if c == nil {
		return nil
	}
	for _, chosen := range r.asked().Most(c.Choosing, most) {
		members := c.of(chosen)
		if slices.Equal(members, first) {
			continue
		}
		if _, refusal := r.asked().Admit(r.ask(c.group, members, nil)); refusal == nil {
			all = append(all, members)
		}
	}
	return all
}

// any is a choice that is admitted of those who may be chosen, if there is one. r.mu is held.
func (r *Room) any(group *cache.Group, needed []gang.Member) [][]gang.Member {
	c := r.choosing(group, needed)
	if c == nil {
		return nil
	}
	chosen := r.asked().Any(c.Choosing)
	if chosen == nil {
		return nil
	}
	members := c.of(chosen)
	if _, refusal := r.asked().Admit(r.ask(group, members, nil)); refusal != nil {
		return nil
	}
	return [][]gang.Member{members}
}

// fewest are the choices of no more members than are needed that quotas have room for when others have left: those of the lowest ranks first.
// all says that there are no others. r.mu is held.
func (r *Room) fewest(c *choosing, needed []gang.Member, most int) (choices [][]gang.Member, all bool) {
	found, all := r.asked().Fewest(c.Choosing, most)
	for _, chosen := range found {
		if members := c.of(chosen); slices.Equal(members, needed) {
			choices = slices.Insert(choices, 0, members)
		} else {
			choices = append(choices, members)
		}
	}
	return choices, all
}

// Fewest are the choices of no more members than a group needs that its quotas may have room for when others have left, at first those of the
// lowest ranks. all says that there are no others as long as Limits are the same.
func (r *Room) Fewest(group *cache.Group, most int) (choices [][]gang.Member, all bool) {
	if !r.Active() || len(group.Pending) == 0 {
		return nil, true
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Needed()
	if len(needed) == 0 {
		return nil, r.choosing(group, group.Pending[:1]) == nil
	}
	if c := r.choosing(group, needed); c != nil {
		return r.fewest(c, needed, min(most, mostChoices))
	}
	return [][]gang.Member{needed}, true
}

// Differ says whether members of a group differ, and not all need start: other limits may allow other choices of them.
func (r *Room) Differ(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Needed()
	if len(needed) == 0 {
		needed = group.Pending[:1]
	}
	return r.choosing(group, needed) != nil
}

// Limits is another number, and never 0, whenever other quotas may have been declared, or others of their amounts.
func (r *Room) Limits() uint64 {
	r.lock()
	defer r.mu.Unlock()
	return r.grown
}

// turn is what keeps a group of which no choice is admitted: that some of its members wait for their turn alone, or else what was said. r.mu is
// held.
func (r *Room) turn(group *cache.Group, needed []gang.Member, refusal *quota.Refusal) *quota.Refusal {
	if refusal == nil || refusal.Cause == quota.NotNext {
		return refusal
	}
	if c := r.choosing(group, needed); c != nil {
		if chosen := r.asked().Later(c.Choosing); chosen != nil {
			if _, is := r.asked().Admit(r.ask(group, c.of(chosen), nil)); is != nil && is.Cause == quota.NotNext {
				return is
			}
		}
	}
	return refusal
}

// least is what is asked for by those who need least of a group of what is short for those of the lowest ranks, and why they are refused: nobody is
// told that more is needed. r.mu is held.
func (r *Room) least(group *cache.Group, needed []gang.Member, a quota.Ask, refusal *quota.Refusal) (quota.Ask, *quota.Refusal) {
	c := r.choosing(group, needed)
	if c == nil || refusal.Cause == quota.Broken {
		return a, r.orEver(a, refusal)
	}
	choices, all := r.fewest(c, needed, mostChoices)
	never := all && len(choices) == 0
	for _, name := range refusal.Exceeds {
		choices = append([][]gang.Member{c.of(c.Cheapest(name))}, choices...)
	}
	for _, members := range choices {
		if len(members) == 0 {
			continue
		}
		ask := r.ask(group, members, nil)
		if _, is := r.asked().Admit(ask); is != nil {
			a, refusal = ask, is
			break
		}
	}
	if never {
		refusal = r.orEver(a, refusal)
	}
	return a, refusal
}

// Why is what is said of some members of a group that are not admitted; nil if they are.
func (r *Room) Why(group *cache.Group, members []gang.Member) *Said {
	if !r.Active() {
		return nil
	}
	r.lock()
	defer r.mu.Unlock()
	_, refusal := r.asked().Admit(r.ask(group, members, nil))
	if refusal == nil {
		return nil
	}
	return &Said{Sentence: Sentence(refusal), Text: Words(refusal, "gang's")}
}

// Awaits notes whether some members of a group that was admitted with others wait for another quota's turn: the group is Later then.
func (r *Room) Awaits(group *cache.Group, members []gang.Member) {
	r.lock()
	defer r.mu.Unlock()
	a := r.ask(group, members, nil)
	_, refusal := r.asked().Admit(a)
	r.comesLater(a.Gang, refusal)
}

// same says whether two asks are for the same.
func same(a, b quota.Want) bool {
	return a.Quota == b.Quota && a.Fixed == b.Fixed && maps.Equal(a.Asks, b.Asks)
}
