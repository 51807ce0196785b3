package elasticquota

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Admit returns which pending members of a group the quotas admit: all needed members, and as many surplus members as possible. If members
// differ, there may be several choices; the choice with the lowest ranks comes first. If none is admitted, why explains it.
func (r *Manager) Admit(group *cache.Group) (choices [][]gang.Member, why *Explanation) {
	if !r.Active() || len(group.Pending) == 0 {
		return [][]gang.Member{group.Pending}, nil
	}
	r.lock()
	defer r.mu.Unlock()
	needed, surplus := group.Needed(), surplusMembers(group)
	if len(needed) == 0 && len(surplus) > 0 {
		needed, surplus = group.Starters(surplus)
	}
	if len(surplus) > 0 {
		r.recordNeeds(group)
	}
	a := r.request(group, needed, surplus)
	more, refusal := r.currentBook().Admit(a)
	if refusal == nil {
		choices = [][]gang.Member{admitted(group, needed, surplus, more)}
	}
	if len(surplus) > 0 && (refusal != nil || len(choices[0]) < len(group.Pending)) {
		choices = append(choices, r.otherChoices(r.choiceSet(group, needed), slices.Concat(choices...), mostChoices)...)
		if len(choices) == 0 { // as in WouldAdmit
			choices = r.anyChoice(group, needed)
		}
	}
	if len(choices) > 0 {
		r.recordAttempt(a, group.Pods[group.Pending[0].Pod])
		r.setWaitForTurn(a.Gang, nil)
		r.releaseHold(group.Key)
		return choices, nil
	}
	a, refusalShown := r.leastRefusal(group, needed, a, refusal)
	r.recordAttempt(a, group.Pods[group.Pending[0].Pod])
	turnRefusal := r.turnRefusal(group, needed, refusalShown)
	r.setWaitForTurn(a.Gang, turnRefusal)
	r.recordPassedOverGroup(group, turnRefusal.Cause != quota.NotNext)
	why = &Explanation{Sentence: Sentence(refusalShown, "gang"), Text: Message(refusalShown, "gang's"), Never: refusalShown.Permanent}
	if r.holdQuota(group, a, refusalShown) {
		why.Text += "; the gang is starving: free capacity of its quotas is held for it"
	}
	return nil, why
}

// admitted returns the needed members and the surplus members with a number above 0 in more, in the group's order.
func admitted(group *cache.Group, needed, surplus []gang.Member, more []int) []gang.Member {
	chosen := map[string]bool{}
	for _, m := range needed {
		chosen[m.Pod] = true
	}
	for at := range surplus {
		chosen[surplus[at].Pod] = more[at] > 0
	}
	return slices.DeleteFunc(slices.Clone(group.Pending), func(m gang.Member) bool { return !chosen[m.Pod] })
}

// permanentRefusal returns the refusal by a limit that the request alone exceeds; without one the given refusal. r.mu is locked.
func (r *Manager) permanentRefusal(a quota.Request, refusal *quota.Refusal) *quota.Refusal {
	if refusal.Cause != quota.OverMax && refusal.Cause != quota.OverMin {
		return refusal // what is beyond a limit is above it now
	}
	return cmp.Or(r.currentBook().ExceededByAlone(a), refusal)
}

// surplusMembers returns the pending members that the group does not need to start.
func surplusMembers(group *cache.Group) (all []gang.Member) {
	needed := group.Needed()
	for _, m := range group.Pending {
		if !slices.ContainsFunc(needed, func(n gang.Member) bool { return n.Pod == m.Pod }) {
			all = append(all, m)
		}
	}
	return all
}

// recordNeeds records in the book the requests of the members that each gang of a group needs to start. r.mu is locked.
func (r *Manager) recordNeeds(group *cache.Group) {
	needsByGang := map[string][]quota.Want{}
	for _, m := range group.Pending {
		needsByGang[GangName(group.Pods[m.Pod])] = nil
	}
	pays, needed := r.newPayers(), group.Needed()
	if len(needed) > 0 && r.currentBook().ExceededByAlone(r.request(group, needed, nil)) != nil {
		if c := r.choiceSet(group, needed); c != nil { // members of higher ranks may fit
			if minimal, _ := r.minimalChoices(c, needed, 1); len(minimal) > 0 {
				needed = minimal[0]
			}
		}
	}
	for _, m := range needed {
		name := GangName(group.Pods[m.Pod])
		needsByGang[name] = append(needsByGang[name], r.want(group.Pods[m.Pod], pays))
	}
	before := r.book.Changes()
	for _, name := range sortedKeys(needsByGang) {
		r.book.SetNeeds(name, needsByGang[name])
	}
	if r.book.Changes() != before { // fair shares change with what gangs need
		r.scheduleWrite()
	}
}

// setWaitForTurn records whether a gang waits because another quota is served first: its refusal (or nil) has the cause NotNext.
func (r *Manager) setWaitForTurn(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.gangsWaitingForTurn[id] = true
	} else {
		delete(r.gangsWaitingForTurn, id)
	}
}

// request returns the request of members of a group to their quotas. The needed members are admitted together, surplus members one by one.
func (r *Manager) request(group *cache.Group, needed, surplus []gang.Member) quota.Request {
	a := quota.Request{Gang: GangName(group.Pods[group.Pending[0].Pod]), Priority: math.MaxInt32}
	for _, m := range slices.Concat(needed, surplus) {
		a.Priority = min(a.Priority, convert.Priority(group.Pods[m.Pod]))
	}
	pays := r.newPayers(needed...)
	for _, m := range needed {
		w := r.want(group.Pods[m.Pod], pays)
		if last := len(a.Need) - 1; last >= 0 && sameWant(a.Need[last], w) {
			a.Need[last].Count++
			continue
		}
		a.Need = append(a.Need, w)
	}
	for _, m := range surplus {
		a.Optional = append(a.Optional, r.want(group.Pods[m.Pod], pays))
	}
	return a
}

// want returns the quota and the charged resources of one pod. pays is from newPayers.
func (r *Manager) want(p *v1.Pod, pays func(quotaName string) func(claimName) bool) quota.Want {
	r.ensureKnown(p)
	name, _ := r.quotaOf(p)
	return quota.Want{Quota: name, Asks: r.requests(p, pays(name)), Fixed: convert.Fixed(p), Count: 1}
}

func (r *Manager) podRequest(p *v1.Pod) quota.Request {
	return quota.Request{Gang: GangName(p), Priority: convert.Priority(p), Need: []quota.Want{r.want(p, r.newPayers())}}
}

// admitPod returns why the quotas do not admit a pod without a gang, and adds it to r.waiting. It returns "" if they admit it.
func (r *Manager) admitPod(p *v1.Pod) (why string) {
	r.lock()
	defer r.mu.Unlock()
	a := r.podRequest(p)
	if a.Need[0].Quota == "" {
		return ""
	}
	r.recordAttempt(a, p)
	refusal := r.podRefusal(a, p)
	if r.setWaitForTurn(a.Gang, refusal); refusal == nil {
		delete(r.waiting, key(p))
		return ""
	}
	r.waiting[key(p)] = p
	r.book.SetPassedOver(GangName(p), refusal.Cause != quota.NotNext)
	return Sentence(refusal, "pod") + " Details: " + Message(refusal, "pod's")
}

// podRefusal returns why the quotas do not admit a pod without a gang; nil if they do. The pod's own reservation is not counted as used. A
// pod with a reservation has been admitted before, so that only hard limits are checked. r.mu is locked.
func (r *Manager) podRefusal(a quota.Request, p *v1.Pod) *quota.Refusal {
	v := r.currentBook().View()
	v.Leave(key(p))
	if known := r.pods[key(p)]; known != nil && known.state == quota.Reserved {
		return v.HardLimit(a)
	}
	_, refusal := v.Admit(a)
	return refusal
}

// RecordPassedOver records whether a pod without a gang is passed over: it cannot start now for a reason other than quota. While it is
// passed over, gangs of other quotas do not wait for its quota's turn.
func (r *Manager) RecordPassedOver(p *v1.Pod, passedOver bool) {
	r.notePassedOver(passedOver, GangName(p))
}

// RecordPassedOverGangs is RecordPassedOver for gangs that start together. With passedOver false, all must contain all of these gangs.
func (r *Manager) RecordPassedOverGangs(all []gang.Ref, passedOver bool) {
	names := make([]string, len(all))
	for i, gangs := range all {
		names[i] = gangName(gangs)
	}
	r.notePassedOver(passedOver, names...)
}

// notePassedOver is recordPassedOver without r.mu locked. If passedOver, it also retries the gangs that wait for a turn.
func (r *Manager) notePassedOver(passedOver bool, names ...string) {
	if !r.Active() {
		return
	}
	r.lock()
	r.recordPassedOver(passedOver, names...)
	wait := len(r.gangsWaitingForTurn) > 0
	r.mu.Unlock()
	if passedOver && wait {
		r.notifyMayBeNext() // notifyMayBeAdmitted would retry the gang that is being rejected now, without end
	}
}

// WaitsForTurn returns whether a group is not admitted because another quota is served first.
func (r *Manager) WaitsForTurn(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	return r.gangsWaitingForTurn[GangName(group.Pods[group.Pending[0].Pod])]
}

// recordPassedOverGroup is recordPassedOver for the gangs of a group's pending members. r.mu is locked.
func (r *Manager) recordPassedOverGroup(group *cache.Group, passedOver bool) {
	names := map[string]bool{}
	for _, m := range group.Pending {
		names[GangName(group.Pods[m.Pod])] = true
	}
	r.recordPassedOver(passedOver, sortedKeys(names)...)
}

// recordPassedOver records in the book whether the gangs with these names are passed over. With passedOver false it also records that they
// start together. r.mu is locked.
func (r *Manager) recordPassedOver(passedOver bool, names ...string) {
	if !passedOver {
		r.book.SetStartTogether(names...)
	}
	for _, name := range names {
		r.book.SetPassedOver(name, passedOver)
	}
}

// Waiting returns the pods without a gang to retry, by key: pods that would be admitted now, and pods whose quota is served next, so that
// they may evict pods. If no quota exists any more, it returns all waiting pods.
func (r *Manager) Waiting() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	out := map[string]*v1.Pod{}
	if !r.Active() {
		out, r.waiting = r.waiting, map[string]*v1.Pod{}
		return out
	}
	for k, p := range r.waiting {
		a := r.podRequest(p)
		refusal := r.podRefusal(a, p)
		if r.addWaitForTurn(a.Gang, refusal); refusal == nil || r.gangsWaitingForTurn[a.Gang] && refusal.Cause != quota.NotNext {
			out[k] = p
		}
	}
	return out
}

// WouldAdmit returns whether a group must be retried: its quotas would admit it now, or it no longer waits for another quota's turn.
func (r *Manager) WouldAdmit(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return true
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Starting()
	a := r.request(group, needed, nil)
	_, refusal := r.currentBook().Admit(a)
	if refusal != nil && len(r.anyChoice(group, needed)) > 0 {
		return true
	}
	refusal = r.turnRefusal(group, needed, refusal)
	r.addWaitForTurn(a.Gang, refusal)
	return refusal == nil || r.gangsWaitingForTurn[a.Gang] && refusal.Cause != quota.NotNext // a retry reports the new reason
}

// addWaitForTurn records that a gang waits for another quota's turn if its refusal has the cause NotNext. Otherwise it changes nothing.
func (r *Manager) addWaitForTurn(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.gangsWaitingForTurn[id] = true
	}
}

// ReservationExceeds returns why the quotas do not allow a group's reservation; nil if they allow it. Reservations of other waiting groups
// do not count. soon says that the quotas allow it after the pods for which terminates returns true are gone.
func (r *Manager) ReservationExceeds(group *cache.Group, terminates func(*v1.Pod) bool) (why *Explanation, soon bool) {
	if !r.Active() {
		return nil, false
	}
	r.lock()
	defer r.mu.Unlock()
	members := slices.DeleteFunc(slices.Clone(group.Pending), func(m gang.Member) bool { return group.Places[m.Pod] == "" })
	if len(members) == 0 {
		return nil, false
	}
	a, v := r.request(group, members, nil), r.book.View()
	for _, m := range members {
		v.Leave(m.Pod)
	}
	if v.HardLimit(a) == nil {
		return nil, false
	}
	for k, p := range r.pods {
		if p.Spec.NodeName == "" && r.cluster.Place(p.Pod).Reserved {
			v.Leave(k)
		}
	}
	refusal := v.HardLimit(a)
	if refusal == nil {
		return nil, false
	}
	v.Leave(r.terminatingPods(terminates)...)
	return &Explanation{Sentence: Sentence(refusal, "gang"), Text: Message(refusal, "gang's")}, v.HardLimit(a) == nil
}

// AdmitsWithout returns whether the quotas would admit a group if the bound pods for which gone returns true had ended.
func (r *Manager) AdmitsWithout(group *cache.Group, gone func(*v1.Pod) bool) bool {
	if !r.Active() {
		return true
	}
	r.lock()
	defer r.mu.Unlock()
	_, refusal := r.bookWithout(r.terminatingPods(gone)).Admit(r.request(group, membersToPlace(group), nil))
	return refusal == nil
}

// terminatingPods returns the keys of the bound pods for which terminates returns true. r.mu is locked.
func (r *Manager) terminatingPods(terminates func(*v1.Pod) bool) (keys []string) {
	for _, k := range sortedKeys(r.pods) {
		if p := r.pods[k]; p.Spec.NodeName != "" && terminates(p.Pod) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Class returns a text that is equal for groups whose members, in their order, have the same quotas; "" without quotas.
func (r *Manager) Class(group *cache.Group) string {
	if !r.Active() {
		return ""
	}
	r.lock()
	defer r.mu.Unlock()
	var class strings.Builder
	class.WriteString(" of quotas")
	last, count := "", 0
	next := func() {
		if count > 0 {
			fmt.Fprintf(&class, " %d %s", count, last)
		}
	}
	for _, m := range group.Pending {
		name, _ := r.quotaOf(group.Pods[m.Pod])
		if name != last {
			next()
			last, count = name, 0
		}
		count++
	}
	next()
	return class.String()
}

// Explanation says why a gang is not admitted: Sentence is for users, and Text has Koordinator's words, which tools match.
type Explanation struct {
	Sentence, Text string
	Never          bool // no eviction helps: the request is above a limit
}

// Sentence returns a refusal as a sentence for users: what owner ("gang" or "pod") requests, what prevents it, and what to change.
func Sentence(r *quota.Refusal, owner string) string {
	amounts := func(list quota.List) string {
		var all []string
		for _, name := range r.Exceeds {
			unit := name
			if class, isClass := convert.ClassOfQuota(name); isClass {
				unit = "× " + class
			}
			all = append(all, convert.Quantity(name, list[name])+" "+unit)
		}
		return strings.Join(all, ", ")
	}
	used, missing := quota.List{}, quota.List{}
	remedy := "Wait until pods of the quota release %s, or raise max"
	for _, name := range r.Exceeds {
		used[name] = r.Used[name] + r.Reserved[name]
		if missing[name] = used[name] + r.Request[name] - r.Limit[name]; r.Request[name] > r.Limit[name] {
			missing[name] = r.Request[name] - r.Limit[name]
			remedy = "The " + owner + " never starts: raise max by at least %s, or request less"
		}
	}
	asks := fmt.Sprintf("Quota %s: the %s requests %s", r.Quota, owner, amounts(r.Request))
	switch r.Cause {
	case quota.Broken:
		return fmt.Sprintf("Quota %s cannot be used: %s.", r.Quota, r.Message)
	case quota.OverMax:
		return fmt.Sprintf("%s; max is %s, and %s are used. "+remedy+".", asks, amounts(r.Limit), amounts(used), amounts(missing))
	case quota.OverMin:
		return fmt.Sprintf("%s for non-preemptible pods; min is %s, and non-preemptible pods use %s. "+
			"Non-preemptible pods must fit into min: raise min, or remove label %s from the pods.",
			asks, amounts(r.Limit), amounts(used), scheduling.LabelQuotaPreemptible)
	case quota.Held:
		return fmt.Sprintf("Quota %s: free capacity is held for starving gang %s. Wait until it starts.",
			r.Quota, shortNames([]string{r.Holder})[0])
	case quota.NotNext:
		return fmt.Sprintf("%s; the fair share is %s, and %s are used. Quota %s has a smaller share and borrows first. "+
			"Wait, or raise min of %s.", asks, amounts(r.Limit), amounts(used), r.Holder, r.Quota)
	}
	remedy = "Wait until other quotas use less, or raise min of quota " + r.Quota
	if len(r.Borrowed) == 0 {
		remedy = "No other quota uses more than its min: wait until pods of quota " + r.Quota + " end, or add nodes"
	}
	return fmt.Sprintf("%s; the fair share is %s, and %s are used. No other quota lends the missing %s%s. %s.",
		asks, amounts(r.Limit), amounts(used), amounts(missing), convert.BorrowersText(r.Borrowed), remedy)
}

// Remedy returns a text for users: what would let the quotas admit a group; "" if they admit it.
func (r *Manager) Remedy(group *cache.Group) string {
	if !r.Active() || len(group.Pending) == 0 {
		return ""
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Starting()
	a := r.request(group, needed, nil)
	if _, refusal := r.currentBook().Admit(a); refusal != nil && len(r.anyChoice(group, needed)) == 0 {
		_, refusal = r.leastRefusal(group, needed, a, refusal)
		return remedy(refusal)
	}
	return ""
}

func remedy(r *quota.Refusal) string {
	switch r.Cause {
	case quota.OverMax:
		if r.Permanent {
			return fmt.Sprintf("a higher max of quota %s, or fewer or smaller members; evicting pods does not help", r.Quota)
		}
		return fmt.Sprintf("pods of quota %s that terminate, or a higher max", r.Quota)
	case quota.OverMin:
		return fmt.Sprintf("a higher min of quota %s, or preemptible pods", r.Quota)
	case quota.Broken:
		return "a valid quota " + r.Quota + ", or the label of another quota on the pods"
	}
	return fmt.Sprintf("pods of other quotas that terminate, or a higher min of quota %s", r.Quota)
}

// Message returns a refusal in Koordinator's words; owner is "gang's" or "pod's".
func Message(r *quota.Refusal, owner string) string {
	path := strings.Join(r.Path, "/")
	request := fmt.Sprintf("%s request: %s", owner, convert.Quantities(r.Request))
	if owner == "gang's" {
		request += fmt.Sprintf(" (%d %s)", r.Pods, plural("pod", r.Pods))
	}
	exceeds := fmt.Sprintf("exceedDimensions: [%s]; path: %s", strings.Join(r.Exceeds, " "), path)
	switch r.Cause {
	case quota.Broken:
		return fmt.Sprintf("quota %s cannot be used: %s", r.Quota, r.Message)
	case quota.OverMin:
		return fmt.Sprintf("Insufficient non-preemptible quotas, quotaName: %s, min: %s, nonPreemptibleUsed: %s, %s, %s",
			r.Quota, convert.Quantities(r.Limit), convert.Quantities(r.Used), request, exceeds)
	}
	limit := "max"
	if r.Cause == quota.OverFree || r.Cause == quota.NotNext {
		limit = "runtime"
	}
	out := fmt.Sprintf("Insufficient quotas, quotaName: %s, %s: %s, used: %s, reserved: %s, %s, %s",
		r.Quota, limit, convert.Quantities(r.Limit), convert.Quantities(r.Used), convert.Quantities(r.Reserved), request, exceeds)
	switch r.Cause {
	case quota.Held:
		out += "; quota claimed by " + shortNames([]string{r.Holder})[0]
	case quota.NotNext:
		out += fmt.Sprintf("; quota %s is served first, which has a smaller share", r.Holder)
	case quota.OverFree:
		if len(r.Borrowed) > 0 {
			out += "; borrowed by: " + strings.Join(r.Borrowed, ", ")
		}
		out += fmt.Sprintf("; of %s in all: used: %s, reserved: %s",
			convert.Quantities(r.Tree.Limit), convert.Quantities(r.Tree.Used), convert.Quantities(r.Tree.Reserved))
	}
	return out
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
