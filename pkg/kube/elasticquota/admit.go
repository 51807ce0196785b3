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

// Admit returns the admitted choices of a waiting group's members: all needed members, and as many surplus members as possible. Where
// members differ there may be several choices; the choice of the lowest ranks comes first. why explains an empty result.
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
		r.noteNeeds(group)
	}
	a := r.ask(group, needed, surplus)
	more, refusal := r.currentBook().Admit(a)
	if refusal == nil {
		choices = [][]gang.Member{admitted(group, needed, surplus, more)}
	}
	if len(surplus) > 0 && (refusal != nil || len(choices[0]) < len(group.Pending)) {
		choices = append(choices, r.otherChoices(r.choiceSet(group, needed), slices.Concat(choices...), mostChoices)...)
		if len(choices) == 0 { // as in Would
			choices = r.anyChoice(group, needed)
		}
	}
	if len(choices) > 0 {
		r.noteAttempt(a, group.Pods[group.Pending[0].Pod])
		r.setLater(a.Gang, nil)
		r.releaseHold(group.Key)
		return choices, nil
	}
	a, refusalShown := r.leastRefusal(group, needed, a, refusal)
	r.noteAttempt(a, group.Pods[group.Pending[0].Pod])
	turnRefusal := r.turnRefusal(group, needed, refusalShown)
	r.setLater(a.Gang, turnRefusal)
	r.passGroup(group, turnRefusal.Cause != quota.NotNext)
	why = &Explanation{Sentence: Sentence(refusalShown), Text: Message(refusalShown, "gang's"), Never: refusalShown.Permanent}
	if r.holdQuota(group, a, refusalShown) {
		why.Text += "; the gang is starving: free capacity of its quotas is held for it"
	}
	return nil, why
}

// admitted returns the needed members, and the surplus members that more admits, in the group's order.
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

// permanentRefusal returns the refusal by a limit that no eviction lifts, or else the given refusal. r.mu is held.
func (r *Manager) permanentRefusal(a quota.Request, refusal *quota.Refusal) *quota.Refusal {
	if refusal.Cause != quota.OverMax && refusal.Cause != quota.OverMin {
		return refusal // what is beyond a limit is above it now
	}
	return cmp.Or(r.currentBook().ExceededByAlone(a), refusal)
}

// surplusMembers returns the waiting members that a group can start without.
func surplusMembers(group *cache.Group) (all []gang.Member) {
	needed := group.Needed()
	for _, m := range group.Pending {
		if !slices.ContainsFunc(needed, func(n gang.Member) bool { return n.Pod == m.Pod }) {
			all = append(all, m)
		}
	}
	return all
}

// noteNeeds records in the book what each gang of a group needs at least. r.mu is held.
func (r *Manager) noteNeeds(group *cache.Group) {
	needsByGang := map[string][]quota.Want{}
	for _, m := range group.Pending {
		needsByGang[gangOf(group.Pods[m.Pod])] = nil
	}
	pays, needed := r.newPayers(), group.Needed()
	if len(needed) > 0 && r.currentBook().ExceededByAlone(r.ask(group, needed, nil)) != nil {
		if c := r.choiceSet(group, needed); c != nil { // members of higher ranks may fit
			if minimal, _ := r.minimalChoices(c, needed, 1); len(minimal) > 0 {
				needed = minimal[0]
			}
		}
	}
	for _, m := range needed {
		name := gangOf(group.Pods[m.Pod])
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

// setLater records whether a gang waits for another quota's turn.
func (r *Manager) setLater(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.laterGangs[id] = true
	} else {
		delete(r.laterGangs, id)
	}
}

// ask returns what members of a group request.
func (r *Manager) ask(group *cache.Group, needed, surplus []gang.Member) quota.Request {
	a := quota.Request{Gang: gangOf(group.Pods[group.Pending[0].Pod]), Priority: math.MaxInt32}
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

func (r *Manager) want(p *v1.Pod, pays func(quotaName string) func(claimName) bool) quota.Want {
	r.ensureKnown(p)
	name, _ := r.quotaOf(p)
	return quota.Want{Quota: name, Asks: r.requests(p, pays(name)), Fixed: convert.Fixed(p), Count: 1}
}

func (r *Manager) askOf(p *v1.Pod) quota.Request {
	return quota.Request{Gang: gangOf(p), Priority: convert.Priority(p), Need: []quota.Want{r.want(p, r.newPayers())}}
}

// admitPod returns why a pod without a gang is not admitted; "" if it is.
func (r *Manager) admitPod(p *v1.Pod) (why string) {
	r.lock()
	defer r.mu.Unlock()
	a := r.askOf(p)
	if a.Need[0].Quota == "" {
		return ""
	}
	r.noteAttempt(a, p)
	refusal := r.podRefusal(a, p)
	if r.setLater(a.Gang, refusal); refusal == nil {
		delete(r.waiting, key(p))
		return ""
	}
	r.waiting[key(p)] = p
	r.book.SetPassed(gangOf(p), refusal.Cause != quota.NotNext)
	return Message(refusal, "pod's")
}

// podRefusal returns why the quotas do not admit a pod without a gang; nil if they do. The pod's own reservation does not count against
// it. With a reservation the pod has had its turn, and does not wait for a gang that lacks the reserved capacity. r.mu is held.
func (r *Manager) podRefusal(a quota.Request, p *v1.Pod) *quota.Refusal {
	v := r.currentBook().View()
	v.Leave(key(p))
	if known := r.pods[key(p)]; known != nil && known.state == quota.Reserved {
		return v.HardLimit(a)
	}
	_, refusal := v.Admit(a)
	return refusal
}

// RecordPassed records that a pod without a gang cannot start now for a reason other than quota, or may be retried. Gangs of quotas that
// are served after the pod's quota need not wait for such a pod.
func (r *Manager) RecordPassed(p *v1.Pod, passed bool) { r.notePassedOver(passed, gangOf(p)) }

// RecordPassedGangs is Passed for gangs that start together. Invariant: a retry names all of them.
func (r *Manager) RecordPassedGangs(all []gang.Ref, passed bool) {
	names := make([]string, len(all))
	for i, gangs := range all {
		names[i] = gangName(gangs)
	}
	r.notePassedOver(passed, names...)
}

func (r *Manager) notePassedOver(passed bool, names ...string) {
	if !r.Active() {
		return
	}
	r.lock()
	r.recordPassed(passed, names...)
	wait := len(r.laterGangs) > 0
	r.mu.Unlock()
	if passed && wait {
		r.notifyMayBeNext() // notifyMayBeAdmitted would retry the gang that is being rejected now, without end
	}
}

// WaitsForTurn returns whether a group waits for another quota's turn.
func (r *Manager) WaitsForTurn(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	return r.laterGangs[gangOf(group.Pods[group.Pending[0].Pod])]
}

// passGroup is PassedGangs for the waiting gangs of a group. r.mu is held.
func (r *Manager) passGroup(group *cache.Group, passed bool) {
	names := map[string]bool{}
	for _, m := range group.Pending {
		names[gangOf(group.Pods[m.Pod])] = true
	}
	r.recordPassed(passed, sortedKeys(names)...)
}

// recordPassed records in the book gangs that start together. r.mu is held.
func (r *Manager) recordPassed(passed bool, names ...string) {
	if !passed {
		r.book.SetStartTogether(names...)
	}
	for _, name := range names {
		r.book.SetPassed(name, passed)
	}
}

// Waiting returns pods without a gang to retry: pods that would be admitted now, and pods whose quota's turn has come and
// that may evict victims now.
func (r *Manager) Waiting() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	out := map[string]*v1.Pod{}
	if !r.Active() {
		out, r.waiting = r.waiting, map[string]*v1.Pod{}
		return out
	}
	for k, p := range r.waiting {
		a := r.askOf(p)
		refusal := r.podRefusal(a, p)
		if r.setLaterIfNotNext(a.Gang, refusal); refusal == nil || r.laterGangs[a.Gang] && refusal.Cause != quota.NotNext {
			out[k] = p
		}
	}
	return out
}

// WouldAdmit returns whether a group would be admitted now, or must be retried to report another reason.
func (r *Manager) WouldAdmit(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return true
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Starting()
	a := r.ask(group, needed, nil)
	_, refusal := r.currentBook().Admit(a)
	if refusal != nil && len(r.anyChoice(group, needed)) > 0 {
		return true
	}
	refusal = r.turnRefusal(group, needed, refusal)
	r.setLaterIfNotNext(a.Gang, refusal)
	return refusal == nil || r.laterGangs[a.Gang] && refusal.Cause != quota.NotNext // a retry reports the new reason
}

// setLaterIfNotNext records that a gang waits for another quota's turn now: a retry comes after that turn.
func (r *Manager) setLaterIfNotNext(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.laterGangs[id] = true
	}
}

// ReservationExceeds returns what the quotas do not allow of a group's reservation; nil if the group may be bound there. soon says that
// they allow it once the terminating pods are gone. The reservations of other waiting groups yield.
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
	a, v := r.ask(group, members, nil), r.book.View()
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
	return &Explanation{Sentence: Sentence(refusal), Text: Message(refusal, "gang's")}, v.HardLimit(a) == nil
}

// terminatingPods returns the pods on nodes that terminate. r.mu is held.
func (r *Manager) terminatingPods(terminates func(*v1.Pod) bool) (keys []string) {
	for _, k := range sortedKeys(r.pods) {
		if p := r.pods[k]; p.Spec.NodeName != "" && terminates(p.Pod) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Class returns the quotas of a group's members. Groups may request the same of nodes and not of quotas.
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

// Explanation explains why a gang is not admitted: one plain sentence, and the text that tools match.
type Explanation struct {
	Sentence, Text string
	Never          bool // no eviction helps: the request is above a limit
}

// Sentence returns in one plain sentence what a quota lacks.
func Sentence(r *quota.Refusal) string {
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
	remedy := "Wait until %s more become free, or raise max"
	for _, name := range r.Exceeds {
		used[name] = r.Used[name] + r.Reserved[name]
		if missing[name] = used[name] + r.Request[name] - r.Limit[name]; r.Request[name] > r.Limit[name] {
			remedy = "The gang never starts: raise max by %s, or use fewer or smaller pods"
		}
	}
	asks := fmt.Sprintf("Quota %s: the gang requests %s", r.Quota, amounts(r.Request))
	switch r.Cause {
	case quota.Broken:
		return fmt.Sprintf("Quota %s cannot be used: %s.", r.Quota, r.Message)
	case quota.OverMax:
		return fmt.Sprintf("%s; max is %s, and %s are used. "+remedy+".", asks, amounts(r.Limit), amounts(used), amounts(missing))
	case quota.OverMin:
		return fmt.Sprintf("%s for non-preemptible pods; min is %s, and such pods use %s. "+
			"They must fit min: raise min, or remove the pods' label %s.",
			asks, amounts(r.Limit), amounts(used), scheduling.LabelQuotaPreemptible)
	case quota.Held:
		return fmt.Sprintf("Quota %s: free capacity is held for starving gang %s. Wait until it starts.",
			r.Quota, shortNames([]string{r.Holder})[0])
	case quota.NotNext:
		return fmt.Sprintf("%s; the fair share is %s, and %s are used. Quota %s is first to borrow.",
			asks, amounts(r.Limit), amounts(used), r.Holder)
	}
	return fmt.Sprintf("%s; the fair share is %s, and %s are used. No quota lends the missing %s%s. "+
		"Wait until other quotas use less, or raise min.",
		asks, amounts(r.Limit), amounts(used), amounts(missing), convert.BorrowersText(r.Borrowed))
}

// Remedy returns what would have a group admitted; "" if its quotas admit it.
func (r *Manager) Remedy(group *cache.Group) string {
	if !r.Active() || len(group.Pending) == 0 {
		return ""
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Starting()
	a := r.ask(group, needed, nil)
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
		return "a valid quota"
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
