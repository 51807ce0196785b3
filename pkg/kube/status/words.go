package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// Preemption is the result of the search for victims, or why there was none.
type Preemption uint8

// The results.
const (
	PreemptionNone      Preemption = iota // no search
	PreemptionEvicts                      // victims are evicted, or none are needed
	PreemptionWaits                       // victims of an earlier eviction have not terminated yet
	PreemptionNever                       // a member has preemptionPolicy Never
	PreemptionOff                         // the configuration forbids it
	PreemptionNoVictims                   // no pod may be evicted
	PreemptionNoHelp                      // evicting all eligible pods makes no plan
	PreemptionSurplus                     // the waiting members are beyond minMember
	PreemptionLeftOut                     // excluded nodes have capacity
	PreemptionUntried                     // no eviction was found within the search limit
	PreemptionRepelled                    // no eviction was found; pods keep members off other nodes
	PreemptionEnding                      // another gang is finishing; after that, fewer victims are needed
)

const preemptionPrefix = "preemption: "

// preemptionWords are stable, because tools match them.
var preemptionWords = map[Preemption]string{
	PreemptionEvicts:    "preempt success, alreadyWaitingForBound: %d/%d",
	PreemptionWaits:     "not eligible due to terminating pod on the nominated node",
	PreemptionNever:     "not eligible due to preemptionPolicy=Never",
	PreemptionOff:       "not eligible due to CoschedulingArgs.enablePreemption=false",
	PreemptionNoVictims: "no potential victims",
	PreemptionNoHelp:    "preemption is not helpful for scheduling",

	PreemptionSurplus: "not eligible: minMember is reached, further members do not evict",
	PreemptionLeftOut: "not eligible: nodes that are excluded for now have capacity",
	PreemptionUntried: "preemption is not helpful for scheduling: no eviction found that frees enough capacity (search limit reached)",
	PreemptionRepelled: "preemption is not helpful for scheduling: no eviction found that frees enough capacity " +
		"(not every set of victims was tried; delete the pods whose anti-affinity excludes nodes)",
	PreemptionEnding: "not eligible yet: a gang is finishing, after that fewer pods need to be evicted",
}

// Inconclusive returns whether an eviction that helps may exist although none was found.
func (p Preemption) Inconclusive() bool { return p == PreemptionUntried || p == PreemptionRepelled }

// Says returns the words for the result p. atPermit and pending are the group's numbers of members at Permit and of pending members.
func (p Preemption) Says(atPermit, pending int) string {
	if p == PreemptionEvicts {
		return fmt.Sprintf(preemptionWords[p], atPermit, pending)
	}
	return preemptionWords[p]
}

// ForPod returns the result as PostFilter's message for the representative.
func (p Preemption) ForPod(atPermit, pending int) string {
	return preemptionPrefix + p.Says(atPermit, pending) + "."
}

// After returns reason with the result p appended.
func (p Preemption) After(reason string) string {
	if p == PreemptionNone {
		return reason
	}
	return reason + ". " + preemptionPrefix + p.Says(0, 0)
}

// Explained is the message on a refused group: one plain sentence for users, and the text that tools match.
type Explained struct {
	Sentence string // "" if there is none
	Text     string
	Never    bool // no eviction helps: the group does not fit into the empty cluster
}

// ExplainedOf returns the message on an obstacle.
func ExplainedOf(r gang.Obstacle) Explained {
	return Explained{Sentence: r.Summary, Text: r.String(), Never: r.NeverEvictable}
}

// String returns the whole message, the sentence first, in at most Limit bytes.
func (s Explained) String() string { return s.Within(Limit) }

// Within is String in at most maxBytes bytes. It omits the middle of a long Text, since the end of Text has the result.
func (s Explained) Within(maxBytes int) string {
	if s.Sentence == "" {
		return squeeze(s.Text, maxBytes)
	}
	sentence := clip(s.Sentence, min(maxSentence, maxBytes/2)) + details
	return sentence + squeeze(s.Text, maxBytes-len(sentence))
}

// A message is the sentence for users, of at most maxSentence bytes, then details, then the text that tools match.
const (
	maxSentence = 480
	details     = " Details: "
)

// plainResults are preemptionWords for users. A result that the sentence already states has no entry.
var plainResults = map[string]string{
	preemptionWords[PreemptionNever]:     "With preemptionPolicy Never the gang evicts no pod.",
	preemptionWords[PreemptionOff]:       "The scheduler's configuration forbids evictions (enablePreemption: false).",
	preemptionWords[PreemptionNoVictims]: "No running pod may be evicted for the gang.",
	preemptionWords[PreemptionNoHelp]:    "Evicting pods does not help.",
	preemptionWords[PreemptionSurplus]:   "Members beyond minMember evict no pod.",
	preemptionWords[PreemptionLeftOut]:   "The gang evicts no pod: nodes that are excluded for now have capacity.",
	preemptionWords[PreemptionUntried]:   "No eviction found that frees enough capacity (search limit reached).",
	preemptionWords[PreemptionRepelled]: "No eviction found that frees enough capacity (not every set of victims was tried). " +
		"Delete the pods whose anti-affinity excludes nodes, or wait until they end.",
	preemptionWords[PreemptionEnding]: "The gang evicts no pod yet: another gang is finishing, and then fewer evictions are needed.",
}

// Plain returns the result p as a sentence for users; "" if it has none.
func (p Preemption) Plain() string { return plainResults[preemptionWords[p]] }

// Plain returns only the part of a condition's message that users read: the sentence, and the result of the search for victims.
// It removes the text that tools match, and kube-scheduler's count of nodes. A message without a sentence is returned unchanged.
func Plain(message string) string {
	sentence, text, found := strings.Cut(message, details)
	if !found {
		return message
	}
	result := ""
	if i := strings.LastIndex(text, preemptionPrefix); i >= 0 {
		result, _, _ = strings.Cut(text[i+len(preemptionPrefix):], heldAtPermit)
	}
	if _, ofRepresentative, found := strings.Cut(result, withMessage); found {
		result = ofRepresentative
	}
	if count, rest, found := strings.Cut(sentence, nodesAvailable); found && !strings.Contains(count, " ") {
		sentence = rest
	}
	if plain := plainResults[strings.TrimSuffix(result, ".")]; plain != "" {
		return sentence + " " + plain
	}
	return sentence
}

// squeeze returns text in at most maxBytes bytes. It replaces the middle of a longer text by " ... ".
func squeeze(text string, maxBytes int) string {
	const gap = " ... "
	if len(text) <= maxBytes {
		return text
	}
	tail := (maxBytes - len(gap)) / 3
	head := maxBytes - len(gap) - tail
	if tail < len(gap) {
		return clip(text, maxBytes)
	}
	return strings.ToValidUTF8(text[:head], "") + gap + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// NoPlan returns why an attempt has no plan, in at most maxBytes bytes: the best domains, what nodes lack, and excluded nodes.
func NoPlan(r *place.Refusal, maxBytes int) string {
	rest := lackText(r.Diagnosis) + excludedText(r.Avoided)
	return r.Plan.Within(maxBytes-len(rest)) + rest
}

// lackText returns, after a comma, what members and nodes lack, in kube-scheduler's words; "" if nothing is lacking.
func lackText(d place.Diagnosis) string {
	if len(d.Lacks) == 0 {
		return shortages(d)
	}
	var parts []string
	for r, n := range d.Lacks {
		parts = append(parts, fmt.Sprintf("%d %s", n, r))
	}
	slices.Sort(parts)
	return shortages(d) + fmt.Sprintf(", 0/%d nodes are available: %s", d.Nodes, strings.Join(parts, ", "))
}

// excludedText returns the nodes that are excluded after an earlier refusal, as text; "" if there are none.
func excludedText(nodes map[string]string) string {
	const maxNodes = 3
	names := slices.Sorted(maps.Keys(nodes))
	if len(names) == 0 {
		return ""
	}
	var parts []string
	for _, n := range names[:min(len(names), maxNodes)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", n, nodes[n]))
	}
	suffix := ""
	if len(names) > maxNodes {
		suffix = fmt.Sprintf(" and %d more", len(names)-maxNodes)
	}
	return ", left out for this attempt: " + strings.Join(parts, ", ") + suffix
}

// Kept returns the sentence on a starving gang's capacity hold: for how many members, and in which domain ("" is the cluster).
func Kept(members, minMember int, domain string) string {
	if domain != "" {
		domain = " in " + domain
	}
	return fmt.Sprintf(". The gang is starving: free capacity%s is reserved for it (%d of %d members)", domain, members, minMember)
}

// ForceFitLater returns the sentence on a gang that may evict gangs of equal priority once it was unschedulable for so long.
func ForceFitLater(after time.Duration) string {
	const words = "Once the gang is unschedulable for %s, it may evict gangs of equal priority that were created after it (forceFit)."
	return fmt.Sprintf(words, after)
}

// ForRepresentative returns the message for the representative at the end of its cycle, with space for the scheduler's prefix.
func (s Explained) ForRepresentative(result Preemption, atPermit, pending int) string {
	s.Text += ". " + result.ForPod(atPermit, pending)
	return s.Within(Limit - len("0/1000000 nodes are available: "))
}

// Tools match these parts of messages.
const (
	attemptedBy = "preemption already attempted by "
	withMessage = " with message "
	// kube-scheduler begins messages with the number of nodes and this.
	nodesAvailable = " nodes are available: "
	heldAtPermit   = "\", alreadyWaitForBound: "
)

// Sibling returns the message for a member of gang ref after its representative was tried and refused. preemption is the result of
// the search for victims; "" omits it. atPermit is the number of members at Permit.
func Sibling(ref gang.Ref, representative *v1.Pod, explanation Explained, preemption string, atPermit int) string {
	key := convert.PodKey(representative)
	tail := fmt.Sprintf("%s%d.", heldAtPermit, atPermit)
	if preemption != "" {
		tail += " " + preemptionPrefix + attemptedBy + key + withMessage + preemption + "."
	}
	head := fmt.Sprintf("GangGroup %q gets rejected due to member Pod %q is unschedulable with reason \"", ref.String(), key)
	space := Limit - len(head) - len(tail)
	sentence := explanation.Sentence
	if sentence == "" {
		cause, _, _ := strings.Cut(explanation.Text, ". "+preemptionPrefix)
		sentence = fmt.Sprintf("Gang %s is unschedulable: %s.", ref, strings.TrimSuffix(cause, "."))
	}
	sentence = clip(sentence, min(maxSentence, space/2)) + details
	return sentence + head + squeeze(explanation.Text, space-len(sentence)) + tail
}

// MessageOverhead returns how many bytes Sibling's message has beside the explanation: the maximum over gangs.
func MessageOverhead(representative *v1.Pod, gangs ...gang.Ref) (overhead int) {
	for _, ref := range gangs {
		overhead = max(overhead, len(Sibling(ref, representative, Explained{Sentence: "."}, "", 0))-len("."+details))
	}
	return overhead
}

// Refused returns the message on a refused attempt, so short that it has at most Limit bytes together with frame (MessageOverhead).
func Refused(r *place.Refusal, s place.Shortage, frame int) Explained {
	const suffixBytes = 160 // the result of the search for victims, and the hold
	out := Explained{Sentence: clip(Sentence(s), maxSentence), Never: s.Never != nil}
	out.Text = NoPlan(r, Limit-frame-suffixBytes-len(out.Sentence)-len(details))
	return out
}
