package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// RepairReason returns the reason of the condition Repairing; "" for a gang that is not incomplete, or for which no capacity is held any
// more.
func RepairReason(s gang.State) (reason string) {
	r := s.Repair
	switch {
	case r.Missing == 0 || r.Ended:
	case s.Planned > 0 && s.Reserved:
		reason = reasons.Evicting
	case s.Planned > 0:
		reason = reasons.Replacing
	case r.Missing > r.Absent && s.Refusal.Exists() && !s.Refusal.WaitsForUser(), r.Absent > 0 && r.Refusal.Exists():
		reason = reasons.NoCapacity
	default:
		reason = reasons.HoldingCapacity
	}
	return reason
}

// Repairing returns the condition Repairing of a gang; false if it has none. The message names the end of the hold, unless Repair.Until is
// zero.
func Repairing(r cache.Report) (c metav1.Condition, ok bool) {
	c = metav1.Condition{Type: scheduling.ConditionRepairing, Status: metav1.ConditionTrue, Reason: RepairReason(r.State)}
	if c.Reason == "" {
		return c, false
	}
	c.Message = Clip(repairMessage(c.Reason, r))
	return c, true
}

// repairMessage returns the message of the condition Repairing: how many members are missing, what is held or prevents a replacement, and
// what the user can do.
func repairMessage(reason string, r cache.Report) string {
	domain := cmp.Or(r.RepairDomain, "the cluster")
	absent, placed := r.Repair.Absent, r.Repair.Missing-r.Repair.Absent
	head := fmt.Sprintf("%d of %d members %s missing", r.Repair.Missing, r.Min, areOrIs(r.Repair.Missing))
	until := ""
	if !r.Repair.Until.IsZero() {
		until = " until " + r.Repair.Until.UTC().Format(time.RFC3339)
	}
	var rest []string
	switch reason {
	case reasons.Replacing:
		rest = append(rest, fmt.Sprintf("%s %s planned in %s", replacements(placed), areOrIs(placed), domain))
	case reasons.Evicting:
		rest = append(rest, fmt.Sprintf("%s %s reserved nodes in %s and %s when the victims have terminated",
			replacements(placed), haveOrHas(placed), domain, map[bool]string{true: "starts", false: "start"}[placed == 1]))
	case reasons.NoCapacity:
		why := r.Repair.Refusal
		if placed > 0 && r.Refusal.Exists() {
			why = r.Refusal
		}
		text := cmp.Or(why.Summary, why.Words)
		if why.By == gang.Plan {
			text = "no free capacity in " + domain + ": " + text
		}
		return head + "; " + strings.TrimSuffix(text, ".") + stuckText(". ", r.Stuck)
	}
	switch n := len(r.Repair.Nodes); {
	case n > 0:
		forSome := ""
		if r.Repair.Reserved > 1 {
			forSome = fmt.Sprintf(" for %d of them", r.Repair.Reserved)
		}
		rest = append(rest, fmt.Sprintf("%s %s reserved%s%s", nameSome(r.Repair.Nodes), areOrIs(n), forSome, until))
		if more := absent - r.Repair.Reserved; more > 0 {
			rest = append(rest, fmt.Sprintf("%s has no free capacity for %d more", domain, more))
		}
	case reason == reasons.HoldingCapacity && absent > 0: // no node was looked for yet
		rest = append(rest, fmt.Sprintf("free capacity in %s goes to replacements first%s", domain, until))
	case reason == reasons.HoldingCapacity:
		rest = append(rest, fmt.Sprintf("%s %s not planned yet", replacements(placed), areOrIs(placed)))
	}
	return head + "; " + strings.Join(rest, "; ") + stuckText(". ", r.Stuck)
}

// replacements returns "1 replacement", or "2 replacements".
func replacements(n int) string {
	return fmt.Sprintf("%d replacement%s", n, map[bool]string{false: "s"}[n == 1])
}

func areOrIs(n int) string { return map[bool]string{true: "is", false: "are"}[n == 1] }

func haveOrHas(n int) string { return map[bool]string{true: "has", false: "have"}[n == 1] }

// nameSome returns the first names, and how many more there are.
func nameSome(names []string) string { return strings.TrimPrefix(nameList(names), ": ") }

// stuckText returns lead and a sentence on the members that terminate on nodes that are not ready: what they wait for, and the remedy. It
// returns "" if there are none.
func stuckText(lead string, stuck []cache.StuckMember) string {
	const taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute."
	if len(stuck) == 0 {
		return ""
	}
	if s := stuck[0]; len(stuck) == 1 {
		return fmt.Sprintf("%sPod %s is terminating on %s, which is not ready; its %s recreates it when it is gone. "+
			"If %s is shut down, taint it: %s", lead, s.Pod, s.Node, s.Owner, s.Node, taint)
	}
	var pods []string
	for _, s := range stuck {
		pods = append(pods, s.Pod+" on "+s.Node)
	}
	return fmt.Sprintf("%sPods are terminating on nodes that are not ready: %s; their %s recreates them when they are gone. "+
		"If a node is shut down, taint it: %s", lead, nameSome(pods), stuck[0].Owner, taint)
}

// setRepairing sets or removes the condition Repairing of a gang's PodGroup, and restores its time if it did not change.
func setRepairing(s *scheduling.PodGroupStatus, c metav1.Condition, ok bool, now metav1.Time) {
	if !ok {
		meta.RemoveStatusCondition(&s.Conditions, scheduling.ConditionRepairing)
		return
	}
	c.LastTransitionTime = now
	meta.SetStatusCondition(&s.Conditions, c)
}

// repairSubject and stuckSubject return the subjects of events about the repair of a gang, and about its stuck members.
func repairSubject(id string) string { return "repair of " + id }
func stuckSubject(id string) string  { return "stuck members of " + id }

// reportRepair records events about the repair of a gang: one for each change of the reason of c, and one for each new set of stuck
// members. ok is false if the gang has no condition Repairing.
func (t *Reporter) reportRepair(r cache.Report, c metav1.Condition, ok bool) {
	id := r.Gang.ID()
	t.reportCondition(r, repairSubject(id), c, ok, c.Reason, c.Reason == reasons.NoCapacity)
	switch words := stuckText("", r.Stuck); {
	case words == "":
		t.memory.forget(stuckSubject(id))
	case t.memory.isNews(stuckSubject(id), words):
		t.noteGang(r, Warning, reasons.MemberStuck, words)
	}
}

// reportCondition records an event with the reason and message of a gang's condition, if news differs from the last one about the subject.
// exists is false if the gang does not have the condition.
func (t *Reporter) reportCondition(r cache.Report, subject string, c metav1.Condition, exists bool, news string, warning bool) {
	switch {
	case !exists:
		t.memory.forget(subject)
	case t.memory.isNews(subject, news):
		t.noteGang(r, map[bool]string{true: Warning, false: Normal}[warning], c.Reason, c.Message)
	}
}

// noteGang records an event on the gang's PodGroup, or on a member if it has none.
func (t *Reporter) noteGang(r cache.Report, kind, reason, message string) {
	if object, _ := eventObject(r); object != nil {
		t.Note(cache.Note{About: object, Warning: kind == Warning, Reason: reason, Message: message})
	}
}

// repairSteps are the steps of a repair in metrics, by the reason of the condition Repairing.
var repairSteps = map[string]string{
	reasons.HoldingCapacity: "hold", reasons.Replacing: "replace", reasons.Evicting: "evict",
}

// The results of a step of a repair.
const (
	repairDone    = "done"    // the next step follows, or the gang is complete
	repairFailed  = "failed"  // no capacity is left
	repairExpired = "expired" // repairTimeout has passed
	repairEnded   = "ended"   // the gang finished, was deleted, or is being evicted
)

// gangRepair is what the Meter knows of the repair of an incomplete gang.
type gangRepair struct {
	step  string // "" if no step is being taken
	since time.Time
	ended bool // repairTimeout has passed
}

// followRepair counts the steps of a gang's repair, and its duration when the gang is complete. m.mu is held.
func (m *Meter) followRepair(ref gang.Ref, t cache.Tally) {
	before, known := m.incomplete[ref]
	current := gangRepair{since: t.Repair.Since, ended: t.Repair.Ended}
	if t.Repair.Missing == 0 || !t.Served {
		delete(m.incomplete, ref)
	} else {
		current.step = repairSteps[RepairReason(m.cache.State(ref))] // with the Refusal
		m.incomplete[ref] = current
	}
	if !known || before == current || !m.cache.Open() {
		return
	}
	complete := t.Repair.Missing == 0 && t.Min > 0 && t.Bound+t.Done >= t.Min
	if complete && t.Bound > 0 {
		m.repairs.Observe(m.clock.Since(before.since).Seconds())
	}
	if before.step == "" || before.step == current.step {
		return
	}
	result := repairFailed // NoCapacity, or capacity that was held is taken, so that pods are evicted
	switch {
	case complete, before.step == "hold" && current.step == "replace", before.step == "evict" && current.step != "":
		result = repairDone
	case t.Repair.Missing == 0:
		result = repairEnded
	case t.Repair.Ended:
		result = repairExpired
	}
	m.repairSteps.WithLabelValues(before.step, result).Inc()
}

// overdueRepairs returns how many incomplete gangs have no capacity held any more. m.mu is held.
func (m *Meter) overdueRepairs() (n float64) {
	for _, r := range m.incomplete {
		if r.ended {
			n++
		}
	}
	return n
}

// These sentences say what may repair an incomplete gang that finds no capacity in its domain.

// SwapOff returns the sentence on nodes with free capacity outside of the domain of a gang, for which no other gang is evicted.
func SwapOff(domain string, freeOutside []string) string {
	are := map[bool]string{true: "is", false: "are"}[len(freeOutside) == 1]
	return fmt.Sprintf("Outside %s, %s %s free. With repairSwap: true in CoschedulingArgs, Muster could evict a smaller gang of equal "+
		"priority, which then starts there.", clipPath(domain), FirstNames(freeOutside), are)
}

// WouldMove returns the sentence on a domain that takes the whole gang, which its repair policy forbids.
func WouldMove(domain string) string {
	return fmt.Sprintf("%s; set the annotation %s: %s on its PodGroup or pods: all members then restart.",
		wouldFit(domain), scheduling.AnnotationRepair, scheduling.RepairMove)
}

// MovesLater returns the sentence on a domain to which the gang moves after repairTimeout.
func MovesLater(domain string, repairTimeout time.Duration) string {
	return fmt.Sprintf("%s; it moves there once it is unschedulable for %s (repairTimeout).", wouldFit(domain), repairTimeout)
}

// MoveForbidden returns the sentence on a domain that takes the whole gang, whose members must not be evicted.
func MoveForbidden(domain string) string {
	return wouldFit(domain) + "; it does not move there, because a running member must not be evicted, or has no controller that recreates it."
}

// MoveDisabled returns the sentence on a domain that takes the whole gang, while no pod is evicted. moves says that the gang's repair
// policy allows the move.
func MoveDisabled(domain string, moves bool) string {
	needs := "; a move there needs enablePreemption: true"
	if !moves {
		needs += fmt.Sprintf(", and the annotation %s: %s on its PodGroup or pods", scheduling.AnnotationRepair, scheduling.RepairMove)
	}
	return wouldFit(domain) + needs + "."
}

// Moving returns the sentence on the domain to which the gang moves now.
func Moving(domain string) string {
	return fmt.Sprintf("The gang moves to %s: nodes are reserved there for all its members, and its running members are evicted.",
		inWords(domain))
}

func wouldFit(domain string) string { return "The whole gang would fit in " + inWords(domain) }

// inWords returns the path of a domain, or its words if it is the whole cluster.
func inWords(domain string) string {
	if domain == "" {
		return "other domains"
	}
	return clipPath(domain)
}
