package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Preemption is what came of the search for victims, or that it was not made.
type Preemption uint8

// What may come of it.
const (
	PreemptionNone    Preemption = iota // nobody was sought
	PreemptionEvicts                    // victims were asked to leave, or none need
	PreemptionWaits                     // those of an earlier eviction have yet to leave
	PreemptionNever                     // a member does not want others evicted
	PreemptionOff                       // the configuration forbids it
	PreemptionNobody                    // there is nobody who may be evicted
	PreemptionNoHelp                    // evicting whoever may be makes no plan
	PreemptionSurplus                   // the members that wait are beyond minMember
	PreemptionLeftOut                   // there is room on nodes that are left out for a while
	PreemptionUntried                   // no eviction was found that makes a plan, and not all were tried
	PreemptionEnding                    // a gang is ending, after which fewer need leave
)

const preemptPrefix = "preemption: "

// preemptionWords are stable. Stable: people and tools match on them.
var preemptionWords = map[Preemption]string{
	PreemptionEvicts: "preempt success, alreadyWaitingForBound: %d/%d",
	PreemptionWaits:  "not eligible due to terminating pod on the nominated node",
	PreemptionNever:  "not eligible due to preemptionPolicy=Never",
	PreemptionOff:    "not eligible due to CoschedulingArgs.enablePreemption=false",
	PreemptionNobody: "no potential victims",
	PreemptionNoHelp: "preemption is not helpful for scheduling",

	PreemptionSurplus: "not eligible: minMember is reached, further members do not evict",
	PreemptionLeftOut: "not eligible: nodes that are excluded for now have capacity",
	PreemptionUntried: "preemption is not helpful for scheduling: no eviction found that frees enough capacity (search limit reached)",
	PreemptionEnding:  "not eligible yet: a gang is finishing, after that fewer pods need to be evicted",
}

// Says is what is said of a preemption for a group of which so many members are held at
// the barrier and so many wait.
func (p Preemption) Says(held, pending int) string {
	if p == PreemptionEvicts {
		return fmt.Sprintf(preemptionWords[p], held, pending)
	}
	return preemptionWords[p]
}

// ForPod is what PostFilter says to the member that was tried.
func (p Preemption) ForPod(held, pending int) string {
	return preemptPrefix + p.Says(held, pending) + "."
}

// After is what follows the reason of a refusal.
func (p Preemption) After(why string) string {
	if p == PreemptionNone {
		return why
	}
	return why + ". " + preemptPrefix + p.Says(0, 0)
}

// Said is what is said of a group that is refused: one plain sentence, and the text that people and
// tools match on.
type Said struct {
	Sentence string // "" if there is none
	Text     string
	Never    bool // nobody who leaves helps
}

// Of is what is said of a refusal.
func Of(r gang.Refusal) Said { return Said{Sentence: r.Says, Text: r.String(), Never: r.Never} }

// String is the whole message, the sentence first, in at most Limit bytes.
func (s Said) String() string { return s.Within(Limit) }

// Within is String in at most so many bytes. Of the text the middle is left out if need be: it ends with
// what came of it.
func (s Said) Within(most int) string {
	if s.Sentence == "" {
		return squeeze(s.Text, most)
	}
	sentence := clip(s.Sentence, min(longestSentence, most/2)) + details
	return sentence + squeeze(s.Text, most-len(sentence))
}

// A message has the sentence for users, of at most so many bytes, and after details the text that tools match on.
const (
	longestSentence = 480
	details         = " Details: "
)

// squeeze leaves the middle of a text out that is too long, so that its end stays.
func squeeze(text string, most int) string {
	const gap = " ... "
	if len(text) <= most {
		return text
	}
	tail := (most - len(gap)) / 3
	head := most - len(gap) - tail
	if tail < len(gap) {
		return clip(text, most)
	}
	return strings.ToValidUTF8(text[:head], "") + gap + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// NoPlan says why an attempt has found no plan: the best domains, what nodes lack, which
// were left out. Of the domains as many are named as have room in so many bytes.
func NoPlan(r *place.Refusal, most int) string {
	rest := lacks(r.Diagnosis) + avoided(r.Avoided)
	return r.Plan.Within(most-len(rest)) + rest
}

// lacks is how kube-scheduler words it, after a comma; "" if nothing is lacking.
func lacks(d place.Diagnosis) string {
	if len(d.Lacks) == 0 {
		return short(d)
	}
	var parts []string
	for r, n := range d.Lacks {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return short(d) + fmt.Sprintf(", 0/%d nodes are available: %s", d.Nodes, strings.Join(parts, ", "))
}

// avoided says which nodes were left out since they refused a member before; "" if none
// were.
func avoided(nodes map[string]string) string {
	const listed = 3
	names := slices.Sorted(maps.Keys(nodes))
	if len(names) == 0 {
		return ""
	}
	var parts []string
	for _, n := range names[:min(len(names), listed)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", n, nodes[n]))
	}
	more := ""
	if len(names) > listed {
		more = fmt.Sprintf(" and %d more", len(names)-listed)
	}
	return ", left out for this attempt: " + strings.Join(parts, ", ") + more
}

// Kept says which places are kept for a group that was refused for long: so many of those
// that it needs, in a domain ("" is the cluster).
func Kept(many, needed int, where string) string {
	if where != "" {
		where = " in " + where
	}
	return fmt.Sprintf(". The gang is starving: free capacity%s is reserved for it (%d of %d members)", where, many, needed)
}

// ForSpeaker is what the member is told that was tried, when its cycle ends: what the scheduler puts
// before it has room beside it.
func (s Said) ForSpeaker(came Preemption, held, pending int) string {
	s.Text += ". " + came.ForPod(held, pending)
	return s.Within(Limit - len("0/1000000 nodes are available: "))
}

// attemptedBy is stable: people and tools match on it.
const attemptedBy = "preemption already attempted by "

// Sibling is what a member is told of which another one was tried for the whole gang.
// preemption is what was said of that; "" leaves it out.
func Sibling(of gang.Ref, speaker *v1.Pod, said Said, preemption string, held int) string {
	key := convert.PodKey(speaker)
	tail := fmt.Sprintf("\", alreadyWaitForBound: %d.", held)
	if preemption != "" {
		tail += fmt.Sprintf(" %s%s%s with message %s.", preemptPrefix, attemptedBy, key, preemption)
	}
	head := fmt.Sprintf("GangGroup %q gets rejected due to member Pod %q is unschedulable with reason \"", of.String(), key)
	room := Limit - len(head) - len(tail)
	if said.Sentence == "" {
		return head + squeeze(said.Text, room) + tail
	}
	sentence := clip(said.Sentence, min(longestSentence, room/2)) + details
	return sentence + head + squeeze(said.Text, room-len(sentence)) + tail
}

// Frame is how many bytes the longest message for siblings has besides what was said.
func Frame(speaker *v1.Pod, gangs ...gang.Ref) (most int) {
	for _, of := range gangs {
		most = max(most, len(Sibling(of, speaker, Said{}, "", 0)))
	}
	return most
}

// Refused is what is said of an attempt that was refused, such that it has room in all messages. frame is how
// many bytes are besides it in the longest of them.
func Refused(r *place.Refusal, s place.Shortage, frame int) Said {
	const ends = 160 // what came of the search for victims, and what is kept
	out := Said{Sentence: clip(Sentence(s), longestSentence), Never: s.Never != nil}
	out.Text = NoPlan(r, Limit-frame-ends-len(out.Sentence)-len(details))
	return out
}
