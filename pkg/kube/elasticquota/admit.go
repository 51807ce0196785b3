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

// Admit returns the members of a group that waits which its quotas admit: all that it needs, and of the others as many as may
// be. There are several choices where members differ, the one of the lowest ranks first if it is one of them. Why is what is said if there is
// none.
func (r *Room) Admit(group *cache.Group) (choices [][]gang.Member, why *Said) {
	if !r.Active() || len(group.Pending) == 0 {
		return [][]gang.Member{group.Pending}, nil
	}
	r.lock()
	defer r.mu.Unlock()
	needed, surplus := group.Needed(), dispensable(group)
	if len(needed) == 0 && len(surplus) > 0 { // one of those whom it can do without must be admitted, or there is nothing to do
		needed, surplus = surplus[:1], surplus[1:]
	}
	if len(surplus) > 0 {
		r.needs(group)
	}
	a := r.ask(group, needed, surplus)
	more, refusal := r.asked().Admit(a)
	if refusal == nil {
		choices = [][]gang.Member{admitted(group, needed, surplus, more)}
	}
	if len(surplus) > 0 && (refusal != nil || len(choices[0]) < len(group.Pending)) {
		choices = append(choices, r.others(r.choosing(group, needed), slices.Concat(choices...), mostChoices)...)
		if len(choices) == 0 { // as Would has it
			choices = r.any(group, needed)
		}
	}
	if len(choices) > 0 {
		r.tries(a, group.Pods[group.Pending[0].Pod])
		r.isLater(a.Gang, nil)
		r.release(group.Key)
		return choices, nil
	}
	a, said := r.least(group, needed, a, refusal)
	r.tries(a, group.Pods[group.Pending[0].Pod])
	is := r.turn(group, needed, said)
	r.isLater(a.Gang, is)
	r.pass(group, is.Cause != quota.NotNext)
	why = &Said{Sentence: Sentence(said), Text: Words(said, "gang's"), Never: said.Ever}
	if r.save(group, a, said) {
		why.Text += "; refused for so long that what is free of its quotas is kept for it"
	}
	return nil, why
}

// admitted are those who are needed, and as many of the others as may be.
func admitted(group *cache.Group, needed, surplus []gang.Member, more []int) []gang.Member {
	is := map[string]bool{}
	for _, m := range needed {
		is[m.Pod] = true
	}
	for at := range surplus {
		is[surplus[at].Pod] = more[at] > 0
	}
	return slices.DeleteFunc(slices.Clone(group.Pending), func(m gang.Member) bool { return !is[m.Pod] })
}

// orEver is the refusal for a limit that is too low for a gang whoever leaves, if there is one: while it stands nothing else helps. r.mu is held.
func (r *Room) orEver(a quota.Ask, is *quota.Refusal) *quota.Refusal {
	if is.Cause != quota.OverMax && is.Cause != quota.OverMin {
		return is // what is beyond a limit is above it now
	}
	return cmp.Or(r.asked().Beyond(a), is)
}

// dispensable are those who wait and whom a group does not need: members beyond minMember, and those of gangs that a tree can do without.
func dispensable(group *cache.Group) (all []gang.Member) {
	needed := group.Needed()
	for _, m := range group.Pending {
		if !slices.ContainsFunc(needed, func(n gang.Member) bool { return n.Pod == m.Pod }) {
			all = append(all, m)
		}
	}
	return all
}

// needs tells the book what the gangs of a group cannot do without. r.mu is held.
func (r *Room) needs(group *cache.Group) {
	by := map[string][]quota.Want{}
	for _, m := range group.Pending {
		by[gangOf(group.Pods[m.Pod])] = nil
	}
	pays, needed := r.payers(), group.Needed()
	if len(needed) > 0 && r.asked().Beyond(r.ask(group, needed, nil)) != nil {
		if c := r.choosing(group, needed); c != nil { // others than those of the lowest ranks may fit
			if least, _ := r.fewest(c, needed, 1); len(least) > 0 {
				needed = least[0]
			}
		}
	}
	for _, m := range needed {
		name := gangOf(group.Pods[m.Pod])
		by[name] = append(by[name], r.want(group.Pods[m.Pod], pays))
	}
	before := r.book.Changes()
	for _, name := range sorted(by) {
		r.book.Needs(name, by[name])
	}
	if r.book.Changes() != before { // it may ask for something now, and others be entitled to less
		r.touch()
	}
}

// isLater notes whether a gang waits for another quota's.
func (r *Room) isLater(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.later[id] = true
	} else {
		delete(r.later, id)
	}
}

// ask is what members of a group ask for.
func (r *Room) ask(group *cache.Group, needed, surplus []gang.Member) quota.Ask {
	a := quota.Ask{Gang: gangOf(group.Pods[group.Pending[0].Pod]), Priority: math.MaxInt32}
	for _, m := range slices.Concat(needed, surplus) {
		a.Priority = min(a.Priority, convert.Priority(group.Pods[m.Pod]))
	}
	pays := r.payers(needed...)
	for _, m := range needed {
		w := r.want(group.Pods[m.Pod], pays)
		if last := len(a.Need) - 1; last >= 0 && same(a.Need[last], w) {
			a.Need[last].Count++
			continue
		}
		a.Need = append(a.Need, w)
	}
	for _, m := range surplus {
		a.More = append(a.More, r.want(group.Pods[m.Pod], pays))
	}
	return a
}

// want is what one pod asks for.
func (r *Room) want(p *v1.Pod, pays func(quota string) func(claimName) bool) quota.Want {
	r.meet(p)
	name, _ := r.quotaOf(p)
	return quota.Want{Quota: name, Asks: r.asks(p, pays(name)), Fixed: convert.Fixed(p), Count: 1}
}

// askOf is what a pod without a gang asks for.
func (r *Room) askOf(p *v1.Pod) quota.Ask {
	return quota.Ask{Gang: gangOf(p), Priority: convert.Priority(p), Need: []quota.Want{r.want(p, r.payers())}}
}

// admitPod says why a pod without a gang is not admitted; "" if it is.
func (r *Room) admitPod(p *v1.Pod) (why string) {
	r.lock()
	defer r.mu.Unlock()
	a := r.askOf(p)
	if a.Need[0].Quota == "" {
		return ""
	}
	r.tries(a, p)
	refusal := r.refuses(a, p)
	if r.isLater(a.Gang, refusal); refusal == nil {
		delete(r.waiting, key(p))
		return ""
	}
	r.waiting[key(p)] = p
	r.book.Passed(gangOf(p), refusal.Cause != quota.NotNext)
	return Words(refusal, "pod's")
}

// refuses returns why the quotas do not admit a pod without a gang; nil if they do. What they keep for the pod itself is not in its way.
// r.mu is held.
func (r *Room) refuses(a quota.Ask, p *v1.Pod) *quota.Refusal {
	v := r.asked().View()
	v.Leave(key(p))
	_, refusal := v.Admit(a)
	return refusal
}

// Passed notes that a pod without a gang cannot start now for other reasons than quota, or may be tried again: gangs of quotas that are
// served after its own need not wait for it.
func (r *Room) Passed(p *v1.Pod, is bool) { r.passed(is, gangOf(p)) }

// PassedGangs is Passed for gangs that start together: one that cannot keeps the others. Those that may are all that start together.
func (r *Room) PassedGangs(all []gang.Ref, is bool) {
	names := make([]string, len(all))
	for i, of := range all {
		names[i] = named(of)
	}
	r.passed(is, names...)
}

func (r *Room) passed(is bool, names ...string) {
	if !r.Active() {
		return
	}
	r.lock()
	r.note(is, names...)
	wait := len(r.later) > 0
	r.mu.Unlock()
	if is && wait {
		r.next() // not Changed: that tries who is being refused now, too, and so without end
	}
}

// Later says whether a group waits for others whose quotas are served first.
func (r *Room) Later(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return false
	}
	r.lock()
	defer r.mu.Unlock()
	return r.later[gangOf(group.Pods[group.Pending[0].Pod])]
}

// pass is PassedGangs for all who wait of a group, with r.mu held.
func (r *Room) pass(group *cache.Group, is bool) {
	of := map[string]bool{}
	for _, m := range group.Pending {
		of[gangOf(group.Pods[m.Pod])] = true
	}
	r.note(is, sorted(of)...)
}

// note tells the book of gangs that start together. r.mu is held.
func (r *Room) note(passed bool, names ...string) {
	if !passed {
		r.book.Together(names...)
	}
	for _, name := range names {
		r.book.Passed(name, passed)
	}
}

// Waiting are pods without a gang that were refused and would be admitted now, and those that waited for another quota's and wait for something
// else now, for which others may leave.
func (r *Room) Waiting() map[string]*v1.Pod {
	r.lock()
	defer r.mu.Unlock()
	out := map[string]*v1.Pod{}
	if !r.Active() {
		out, r.waiting = r.waiting, map[string]*v1.Pod{}
		return out
	}
	for k, p := range r.waiting {
		a := r.askOf(p)
		refusal := r.refuses(a, p)
		if r.comesLater(a.Gang, refusal); refusal == nil || r.later[a.Gang] && refusal.Cause != quota.NotNext {
			out[k] = p
		}
	}
	return out
}

// Would says whether a group would be admitted now.
func (r *Room) Would(group *cache.Group) bool {
	if !r.Active() || len(group.Pending) == 0 {
		return true
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Needed()
	if len(needed) == 0 {
		needed = group.Pending[:1]
	}
	a := r.ask(group, needed, nil)
	_, refusal := r.asked().Admit(a)
	if refusal != nil && len(r.any(group, needed)) > 0 {
		return true
	}
	refusal = r.turn(group, needed, refusal)
	r.comesLater(a.Gang, refusal)
	return refusal == nil || r.later[a.Gang] && refusal.Cause != quota.NotNext // then it waits for something else, and is to say so
}

// comesLater notes that a gang which was refused for something else waits for another quota's now: it is to be tried after that one.
func (r *Room) comesLater(id string, refusal *quota.Refusal) {
	if refusal != nil && refusal.Cause == quota.NotNext {
		r.later[id] = true
	}
}

// Lacks says what the quotas do not have for a group that has its places reserved; nil if it may be bound there. Soon says that they have when
// those have left who leave, or are to, which need not be seen yet. Others who wait like it come later.
func (r *Room) Lacks(group *cache.Group, leaves func(*v1.Pod) bool) (why *Said, soon bool) {
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
	if v.Within(a) == nil {
		return nil, false
	}
	for k, p := range r.pods {
		if p.Spec.NodeName == "" && r.cluster.Place(p.Pod).Reserved {
			v.Leave(k)
		}
	}
	refusal := v.Within(a)
	if refusal == nil {
		return nil, false
	}
	v.Leave(r.departing(leaves)...)
	return &Said{Sentence: Sentence(refusal), Text: Words(refusal, "gang's")}, v.Within(a) == nil
}

// departing are the pods on nodes which leave. r.mu is held.
func (r *Room) departing(leaves func(*v1.Pod) bool) (keys []string) {
	for _, k := range sorted(r.pods) {
		if p := r.pods[k]; p.Spec.NodeName != "" && leaves(p.Pod) {
			keys = append(keys, k)
		}
	}
	return keys
}

// Class tells groups apart that ask for the same of nodes, and not of quotas.
func (r *Room) Class(group *cache.Group) string {
	if !r.Active() {
		return ""
	}
	r.lock()
	defer r.mu.Unlock()
	var class strings.Builder
	class.WriteString(" of quotas")
	last, many := "", 0
	next := func() {
		if many > 0 {
			fmt.Fprintf(&class, " %d %s", many, last)
		}
	}
	for _, m := range group.Pending {
		name, _ := r.quotaOf(group.Pods[m.Pod])
		if name != last {
			next()
			last, many = name, 0
		}
		many++
	}
	next()
	return class.String()
}

// Said is what is said of a gang that is refused: one plain sentence, and the text that people and tools match on.
type Said struct {
	Sentence, Text string
	Never          bool // it asks for more than a quota may have, whoever leaves
}

// Sentence says in one plain sentence what is short.
func Sentence(r *quota.Refusal) string {
	amounts := func(of quota.List) string {
		var all []string
		for _, name := range r.Exceeds {
			what := name
			if class, is := convert.ClassOfQuota(name); is {
				what = "× " + class
			}
			all = append(all, convert.Quantity(name, of[name])+" "+what)
		}
		return strings.Join(all, ", ")
	}
	has, lacks := quota.List{}, quota.List{}
	remedy := "it starts when %s of the quota are free, or raise max"
	for _, name := range r.Exceeds {
		has[name] = r.Used[name] + r.Reserved[name]
		if lacks[name] = has[name] + r.Request[name] - r.Limit[name]; r.Request[name] > r.Limit[name] {
			remedy = "it never starts: raise max by %s, or use fewer or smaller pods"
		}
	}
	asks := fmt.Sprintf("Quota %s: requests %s", r.Quota, amounts(r.Request))
	switch r.Cause {
	case quota.Broken:
		return fmt.Sprintf("Quota %s cannot be used: %s.", r.Quota, r.Words)
	case quota.OverMax:
		return fmt.Sprintf("%s, max %s, used %s; "+remedy+".", asks, amounts(r.Limit), amounts(has), amounts(lacks))
	case quota.OverMin:
		return fmt.Sprintf("%s for non-preemptible pods, min %s, used by such pods %s; raise min, or remove the label %s.", asks, amounts(r.Limit), amounts(has), scheduling.LabelQuotaPreemptible)
	case quota.Claimed:
		return fmt.Sprintf("Quota %s: what is free is reserved for gang %s, which is starving.", r.Quota, plain([]string{r.By})[0])
	case quota.NotNext:
		return fmt.Sprintf("%s, fair share %s, used %s; quota %s borrows first.", asks, amounts(r.Limit), amounts(has), r.By)
	}
	return fmt.Sprintf("%s, fair share %s, used %s; no quota lends the missing %s. It starts when that is free, or raise min.", asks, amounts(r.Limit), amounts(has), amounts(lacks))
}

// Cure says what would have a group admitted that its quotas refuse; "" if they do not.
func (r *Room) Cure(group *cache.Group) string {
	if !r.Active() || len(group.Pending) == 0 {
		return ""
	}
	r.lock()
	defer r.mu.Unlock()
	needed := group.Needed()
	if len(needed) == 0 {
		needed = group.Pending[:1]
	}
	a := r.ask(group, needed, nil)
	if _, refusal := r.asked().Admit(a); refusal != nil && len(r.any(group, needed)) == 0 {
		_, refusal = r.least(group, needed, a, refusal)
		return cure(refusal)
	}
	return ""
}

func cure(r *quota.Refusal) string {
	switch r.Cause {
	case quota.OverMax:
		if r.Ever {
			return fmt.Sprintf("a higher max of quota %s, or fewer members or smaller ones; no pod that leaves helps", r.Quota)
		}
		return fmt.Sprintf("pods of quota %s that leave, or a higher max", r.Quota)
	case quota.OverMin:
		return fmt.Sprintf("a higher min of quota %s, or pods that may be evicted", r.Quota)
	case quota.Broken:
		return "a quota that can be used"
	}
	return fmt.Sprintf("pods of other quotas that leave, or a higher min of quota %s", r.Quota)
}

// Words is what is said of a refusal, as Koordinator says it; whose is who asks.
func Words(r *quota.Refusal, whose string) string {
	path := strings.Join(r.Path, "/")
	request := fmt.Sprintf("%s request: %s", whose, convert.Quantities(r.Request))
	if whose == "gang's" {
		request += fmt.Sprintf(" (%d %s)", r.Pods, plural("pod", r.Pods))
	}
	exceeds := fmt.Sprintf("exceedDimensions: [%s]; path: %s", strings.Join(r.Exceeds, " "), path)
	switch r.Cause {
	case quota.Broken:
		return fmt.Sprintf("quota %s cannot be used: %s", r.Quota, r.Words)
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
	case quota.Claimed:
		out += "; quota claimed by " + plain([]string{r.By})[0]
	case quota.NotNext:
		out += fmt.Sprintf("; quota %s is served first, which has a smaller share", r.By)
	case quota.OverFree:
		if len(r.Borrowed) > 0 {
			out += "; borrowed by: " + strings.Join(r.Borrowed, ", ")
		}
		out += fmt.Sprintf("; of %s in all: used: %s, reserved: %s", convert.Quantities(r.Tree.Limit), convert.Quantities(r.Tree.Used), convert.Quantities(r.Tree.Reserved))
	}
	return out
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
