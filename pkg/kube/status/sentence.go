package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Sentence returns in one sentence what a gang needs, what the best domain has, and what nodes lack. If running members bind the gang to a
// domain, it names them and the remedy. It is shorter than Limit.
func Sentence(s place.Shortage) string {
	r := s.Plan
	if s.Pin != nil && !r.Split {
		return Clip(pinSentence(s.Pin, r.LowerBounds))
	}
	if len(s.SplitOver) > 1 {
		return Clip(splitSentence(s.SplitOver, r.Layer))
	}
	if s.Never != nil {
		r = s.Never
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Needs %d", r.Want)
	inCluster := r.Layer == topology.RootLayer
	if inCluster {
		out.WriteString(" in the cluster")
	} else {
		fmt.Fprintf(&out, " in one %s domain", r.Layer)
	}
	for i, m := range r.Multiple {
		fmt.Fprintf(&out, "%s %d for each %s domain", map[bool]string{true: ", in multiples of", false: " and"}[i == 0], m.Count, m.Layer)
	}
	unreachable := s.UnreachableMultiples(r)
	for _, m := range unreachable {
		lower := r.Want - r.Want%m.Count
		fmt.Fprintf(&out, "; %d is not a multiple of %d: use ", r.Want, m.Count)
		if lower > 0 {
			fmt.Fprintf(&out, "%d or ", lower)
		}
		fmt.Fprintf(&out, "%d members", lower+m.Count)
	}
	if len(unreachable) > 0 { // the capacity does not matter
		return Clip(out.String() + ".")
	}
	verb := "has capacity for"
	if s.AtMost {
		verb += " at most"
	}
	switch {
	case len(s.Roles) > 0:
		for i, role := range s.Roles {
			if i < maxDomains {
				fmt.Fprintf(&out, "; %s needs %d members, and no node has capacity for one of them, even when empty", role.Name, role.Need)
			}
		}
	case len(r.Domains) == 0:
		out.WriteString("; no node is in one")
		if s.Unlabelled != "" {
			out.WriteString(": " + s.Unlabelled)
		}
	case s.Never != nil && r.Domains[0].Slots == 0 && len(r.Multiple) > 0: // fewer members may fit
		out.WriteString("; no domain has capacity for the smallest multiple, even when empty")
	case s.Never != nil && r.Domains[0].Slots == 0:
		out.WriteString("; no node has capacity for one member, even when empty")
	case s.Never != nil && inCluster:
		fmt.Fprintf(&out, "; it %s %d, even when empty", verb, r.Domains[0].Slots)
	case s.Never != nil:
		fmt.Fprintf(&out, "; the largest, %s, %s %d, even when empty", clipPath(r.Domains[0].Path), verb, r.Domains[0].Slots)
	case r.Dependent && !r.LowerBounds: // the numbers of members forbid a plan: none was placed
	case inCluster:
		fmt.Fprintf(&out, "; there is capacity for %s", slots(r))
	case r.Domains[0].Slots == 0 && len(r.Multiple) > 0:
		out.WriteString("; none has capacity for the smallest multiple")
	case r.Domains[0].Slots == 0:
		out.WriteString("; none has capacity for a single member")
	default:
		fmt.Fprintf(&out, "; best is %s with %s", clipPath(r.Domains[0].Path), slots(r))
	}
	out.WriteString(nodes(s))
	if s.Least != nil {
		fmt.Fprintf(&out, "; the gang evicts only pods of a priority below %d, which is the lowest of its members' (%s)",
			s.Priority, clipPath(convert.PodKey(s.Least)))
	}
	for _, separation := range s.Separations {
		fmt.Fprintf(&out, "; %s: %d are needed, there are %d (%s help, larger nodes do not)", separation.Field, separation.Need,
			separation.Have, separation.Helps())
	}
	for _, s := range s.Short {
		if s.Waits != "" {
			out.WriteString("; " + s.Waits)
			continue
		}
		fmt.Fprintf(&out, "; %d × %s are needed, %d are free", s.Need, s.What, s.Free)
	}
	for _, shortage := range s.MinResourcesBeyondPods {
		out.WriteString("; " + shortage)
	}
	out.WriteString(otherReasons(r))
	return Clip(out.String() + ".")
}

// slots returns how many members the best domain takes, or at least takes.
func slots(r *plan.Refusal) string {
	n := r.Domains[0].Slots
	if r.LowerBounds && n > 0 {
		return fmt.Sprint("at least ", n)
	}
	return fmt.Sprint(n)
}

// pinSentence describes members that do not fit where their gang runs. The words before the colon are stable, because tools match them.
// lowerBound says that the domain may take more than p.Capacity.
func pinSentence(p *place.Pin, lowerBound bool) string {
	remedy, location := fmt.Sprint(p.Want, " places"), ""
	if p.Want == 1 {
		remedy = "1 place"
	}
	if p.Layer != "" {
		location = fmt.Sprintf(" in one %s domain", p.Layer)
	}
	switch {
	case p.Capacity >= p.Want: // but not for all rules together
		remedy, location = "more places", location+" there"
	case p.Capacity > 0 && lowerBound:
		location += fmt.Sprintf(" there (at least %d now)", p.Capacity)
	case p.Capacity > 0:
		location += fmt.Sprintf(" there (%d now)", p.Capacity)
	default:
		location += " there"
	}
	return fmt.Sprintf("%s in %s, which has no room; the gang moves only as a whole: %s%s would help, or recreating all its members.",
		runText(p.Members), clipPath(p.DomainPath), remedy, location)
}

// splitSentence describes running members in several domains of a layer of which they must share one, and which of them to delete.
func splitSentence(locations []place.RunningIn, layer string) string {
	var domains, outside []string
	for i, d := range locations {
		if i < maxDomains {
			domains = append(domains, fmt.Sprintf("%s (%s)", clipPath(d.DomainPath), FirstNames(d.Members)))
		}
		if i > 0 {
			outside = append(outside, d.Members...)
		}
	}
	suffix := ""
	if n := len(locations) - maxDomains; n > 0 {
		suffix = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("The members must share one %s domain, but run in %s%s. Delete the members outside of %s (%s), so that they are "+
		"recreated there; more nodes do not help.",
		layer, strings.Join(domains, ", "), suffix, clipPath(locations[0].DomainPath), FirstNames(outside))
}

// FirstNames lists the first three names, and counts the rest.
func FirstNames(names []string) string {
	const maxNames = 3
	if n := len(names) - maxNames; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), n)
	}
	return strings.Join(names, ", ")
}

// runText names running members.
func runText(names []string) string {
	const maxNames = 3
	switch n := len(names); {
	case n == 1:
		return names[0] + " runs"
	case n > maxNames:
		return fmt.Sprintf("%s and %d more run", strings.Join(names[:maxNames], ", "), n-maxNames)
	default:
		return fmt.Sprintf("%s and %s run", strings.Join(names[:n-1], ", "), names[n-1])
	}
}

// otherReasons returns the reasons other than capacity.
func otherReasons(r *plan.Refusal) (out string) {
	for _, d := range r.Deeper {
		out += fmt.Sprintf("; %s must be in one %s domain", d.Description(), d.Layer)
	}
	for i, t := range r.TooLarge {
		if i < maxDomains {
			out += "; " + t.String()
		}
	}
	if r.Optional != nil {
		out += "; " + r.Optional.String()
	}
	if r.Split {
		out += "; the members that run are in several domains of " + r.Layer
	}
	if r.Dependent {
		out += "; the members' affinity or spread rules among themselves also limit the placement"
	}
	if r.Incomplete {
		out += "; not all ways were tried"
	}
	return out
}

// maxLacks is how many reasons a sentence names.
const maxLacks = 4

// barrierWords describe the pods that may not be evicted.
var barrierWords = map[eligible.Barrier]string{
	eligible.PriorityAbove: "pods of equal or higher priority",
	eligible.QuotaProtects: "pods that quotas protect",
	eligible.Protected:     "pods with a label that forbids eviction",
}

// nodes returns the numbers of nodes by what they lack, in parentheses; "" if unknown.
func nodes(s place.Shortage) string {
	type lack struct {
		nodes int
		words [2]string // of one node, of several
	}
	var entries []lack
	for reason, n := range s.Lacks {
		words := lackWords(reason, s.Causes[reason])
		i := slices.IndexFunc(entries, func(l lack) bool { return l.words == words })
		if i < 0 {
			entries = append(entries, lack{n, words})
		} else {
			entries[i].nodes = max(entries[i].nodes, n)
		}
	}
	slices.SortFunc(entries, func(a, b lack) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.words[1], b.words[1])) })
	var tail []lack // the remaining reasons
	if s.ReservedNodes.Nodes > 0 {
		holder := reservedFor(s.ReservedNodes)
		tail = append(tail, lack{
			s.ReservedNodes.Nodes, [2]string{"has its free capacity reserved for " + holder, "have their free capacity reserved for " + holder},
		})
	}
	for _, barrier := range slices.Sorted(maps.Keys(s.BlockedNodes)) {
		usedBy := " used by " + barrierWords[barrier]
		tail = append(tail, lack{s.BlockedNodes[barrier], [2]string{"is" + usedBy, "are" + usedBy}})
	}
	if len(tail) > 0 {
		entries = append(entries[:min(len(entries), maxLacks-len(tail))], tail...)
	}
	var parts []string
	noun := ""
	for i, l := range entries {
		if i == maxLacks {
			parts = append(parts, fmt.Sprintf("%d more reasons", len(entries)-i))
			break
		}
		words := l.words[1]
		if strings.HasPrefix(words, noNodeHas) {
			parts = append(parts, words)
			continue
		}
		if noun == "" {
			noun = " nodes "
			if l.nodes == 1 {
				noun = " node "
			}
		}
		if l.nodes == 1 {
			words = l.words[0]
		}
		parts, noun = append(parts, fmt.Sprint(l.nodes, noun, words)), " "
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// reservedFor names the gang with the most reserved nodes, and counts the remaining ones.
func reservedFor(h place.NodesReserved) string {
	switch h.OtherHolders {
	case 0:
		return clipPath(h.Holder)
	case 1:
		return clipPath(h.Holder) + " and 1 other"
	}
	return fmt.Sprintf("%s and %d others", clipPath(h.Holder), h.OtherHolders)
}

// trimReason returns an unknown reason without the plugin's name and general advice. The middle of a long reason is left out.
func trimReason(reason string) string {
	const maxBytes = 160
	reason = strings.TrimPrefix(reason, "node(s) ")
	if _, detail, ok := strings.Cut(reason, " filter plugin: "); ok && strings.HasPrefix(reason, "running ") {
		reason = detail
	}
	reason, _, _ = strings.Cut(reason, ". consider using CEL")
	return squeeze(reason, maxBytes)
}

// noNodeHas begins the words about a resource that is on no node.
const noNodeHas = "no node has "

// lackWords returns a Filter's reason in plain words, for one node and for several. cause is one of place.Shortage.Causes, or "".
func lackWords(reason, cause string) [2]string {
	if resource, ok := strings.CutPrefix(reason, "Insufficient "); ok {
		if cause != "" {
			return [2]string{noNodeHas + cause, noNodeHas + cause}
		}
		return [2]string{"lacks " + resource, "lack " + resource}
	}
	for _, phrase := range []struct {
		part  string
		words [2]string
	}{
		{"were unschedulable", [2]string{"is cordoned", "are cordoned"}},
		{"node.kubernetes.io/unschedulable", [2]string{"is cordoned", "are cordoned"}},
		{"node.kubernetes.io/not-ready", [2]string{"is not ready", "are not ready"}},
		{"node.kubernetes.io/unreachable", [2]string{"is not ready", "are not ready"}},
		{"untolerated taint", [2]string{"has a taint that is not tolerated", "have taints that are not tolerated"}},
		{"node affinity/selector", [2]string{"does not match the node selector", "do not match the node selector"}},
		{"required nodes", [2]string{"does not match the node selector", "do not match the node selector"}},
		{"Too many pods", [2]string{"holds as many pods as it may", "hold as many pods as they may"}},
		{"existing pods anti-affinity", [2]string{
			"has a pod whose anti-affinity excludes members", "have pods whose anti-affinity excludes members",
		}},
		{"pod anti-affinity rules", [2]string{
			"has a pod that the members' anti-affinity excludes", "have pods that the members' anti-affinity excludes",
		}},
		{"pod affinity rules", [2]string{"has no pod that the members' affinity requires", "have no pods that the members' affinity requires"}},
		{"rdma VirtualFunctions", [2]string{"has too few free virtual functions (rdma)", "have too few free virtual functions (rdma)"}},
		{"free ports", [2]string{"has the host port taken", "have the host port taken"}},
	} {
		if !strings.Contains(reason, phrase.part) {
			continue
		}
		switch {
		case cause == "":
		case phrase.part == "untolerated taint":
			phrase.words = [2]string{"has the taint " + cause + ", which is not tolerated", "have the taint " + cause + ", which is not tolerated"}
		default:
			phrase.words = [2]string{phrase.words[0] + " " + cause, phrase.words[1] + " " + cause}
		}
		return phrase.words
	}
	reason = trimReason(reason)
	return [2]string{"rejects members: " + reason, "reject members: " + reason}
}
