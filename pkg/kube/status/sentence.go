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
		return Clip(pinned(s.Pin, r.LowerBounds))
	}
	if len(s.SplitOver) > 1 {
		return Clip(split(s.SplitOver, r.Layer))
	}
	if s.Never != nil {
		r = s.Never
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Needs %d", r.Want)
	for i, m := range r.Multiple {
		fmt.Fprintf(&out, "%s %d a %s", map[bool]string{true: " in multiples of", false: ","}[i == 0], m.Count, m.Layer)
	}
	whole := r.Layer == topology.RootLayer
	if whole {
		out.WriteString(" in the cluster")
	} else {
		fmt.Fprintf(&out, " in one %s domain", r.Layer)
	}
	could := "has capacity for"
	if s.AtMost {
		could += " at most"
	}
	switch {
	case len(s.Roles) > 0:
		for i, role := range s.Roles {
			if i < mostDomains {
				fmt.Fprintf(&out, "; %s needs %d members, and no node has capacity for one of them, even when empty", role.Name, role.Need)
			}
		}
	case len(r.Domains) == 0:
		out.WriteString("; no node is in one")
	case s.Never != nil && r.Domains[0].Slots == 0 && len(r.Multiple) > 0: // fewer members may fit
		out.WriteString("; no domain has capacity for the smallest multiple, even when empty")
	case s.Never != nil && r.Domains[0].Slots == 0:
		out.WriteString("; no node has capacity for one member, even when empty")
	case s.Never != nil && whole:
		fmt.Fprintf(&out, "; it %s %d, even when empty", could, r.Domains[0].Slots)
	case s.Never != nil:
		fmt.Fprintf(&out, "; the largest, %s, %s %d, even when empty", clipped(r.Domains[0].Path), could, r.Domains[0].Slots)
	case r.Dependent && !r.LowerBounds: // the numbers of members forbid a plan: none was placed
	case whole:
		fmt.Fprintf(&out, "; there is capacity for %s", slots(r))
	case r.Domains[0].Slots == 0 && len(r.Multiple) > 0:
		out.WriteString("; none has capacity for the smallest multiple")
	case r.Domains[0].Slots == 0:
		out.WriteString("; none has capacity for a single member")
	default:
		fmt.Fprintf(&out, "; best is %s with %s", clipped(r.Domains[0].Path), slots(r))
	}
	out.WriteString(nodes(s))
	if s.Least != nil {
		fmt.Fprintf(&out, "; the gang evicts only pods of a priority below %d, which is the lowest of its members' (%s)",
			s.Priority, clipped(convert.PodKey(s.Least)))
	}
	for _, of := range s.Separations {
		fmt.Fprintf(&out, "; %s: %d are needed, there are %d (%s help, larger nodes do not)", of.Field, of.Need, of.Have, of.Helps())
	}
	for _, s := range s.Short {
		if s.Waits != "" {
			out.WriteString("; " + s.Waits)
			continue
		}
		fmt.Fprintf(&out, "; %d × %s are needed, %d are free", s.Need, s.What, s.Free)
	}
	for _, what := range s.MinResourcesBeyondPods {
		out.WriteString("; " + what)
	}
	for _, m := range s.UnreachableMultiples(r) {
		fmt.Fprintf(&out, "; %d is not a multiple of podCountMultiple %d (%s)", r.Want, m.Count, m.Layer)
	}
	out.WriteString(besides(r))
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

// pinned describes members that do not fit where their gang runs. The words before the colon are stable, because tools match them. atLeast
// says that the domain may take more than p.Capacity.
func pinned(p *place.Pin, atLeast bool) string {
	places, where := fmt.Sprint(p.Want, " places"), ""
	if p.Want == 1 {
		places = "1 place"
	}
	if p.Layer != "" {
		where = fmt.Sprintf(" in one %s domain", p.Layer)
	}
	switch {
	case p.Capacity >= p.Want: // but not for all rules together
		places, where = "more places", where+" there"
	case p.Capacity > 0 && atLeast:
		where += fmt.Sprintf(" there (at least %d now)", p.Capacity)
	case p.Capacity > 0:
		where += fmt.Sprintf(" there (%d now)", p.Capacity)
	default:
		where += " there"
	}
	return fmt.Sprintf("%s in %s, which has no room; the gang moves only as a whole: %s%s would help, or recreating all its members.",
		run(p.Members), clipped(p.DomainPath), places, where)
}

// split describes running members in several domains of a layer of which they must share one, and which of them to delete.
func split(over []place.RunningIn, layer string) string {
	var where, outside []string
	for i, d := range over {
		if i < mostDomains {
			where = append(where, fmt.Sprintf("%s (%s)", clipped(d.DomainPath), named(d.Members)))
		}
		if i > 0 {
			outside = append(outside, d.Members...)
		}
	}
	more := ""
	if n := len(over) - mostDomains; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("The members must share one %s domain, but run in %s%s. Delete the members outside of %s (%s), so that they are recreated there; more nodes do not help.",
		layer, strings.Join(where, ", "), more, clipped(over[0].DomainPath), named(outside))
}

// named lists the first names, and counts the rest.
func named(names []string) string {
	const most = 3
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n)
	}
	return strings.Join(names, ", ")
}

// run names running members.
func run(names []string) string {
	const most = 3
	switch n := len(names); {
	case n == 1:
		return names[0] + " runs"
	case n > most:
		return fmt.Sprintf("%s and %d more run", strings.Join(names[:most], ", "), n-most)
	default:
		return fmt.Sprintf("%s and %s run", strings.Join(names[:n-1], ", "), names[n-1])
	}
}

// besides returns the reasons other than capacity.
func besides(r *plan.Refusal) (out string) {
	for _, d := range r.Deeper {
		out += fmt.Sprintf("; %s must be in one %s domain", d.Description(), d.Layer)
	}
	for i, t := range r.TooLarge {
		if i < mostDomains {
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
		out += "; its members have affinity or spread rules among themselves, and do not fit together"
	}
	if r.Incomplete {
		out += "; not all ways were tried"
	}
	return out
}

// mostLacks is how many reasons a sentence names.
const mostLacks = 4

// barrierWords describe the pods that may not be evicted.
var barrierWords = map[eligible.Barrier]string{
	eligible.PriorityAbove: "pods of equal or higher priority",
	eligible.QuotaProtects: "pods within the fair share of their quota",
	eligible.Protected:     "pods with a label that forbids eviction",
}

// nodes returns the numbers of nodes by what they lack, in parentheses; "" if unknown.
func nodes(s place.Shortage) string {
	type lack struct {
		nodes int
		words [2]string // of one node, of several
	}
	var all []lack
	for reason, n := range s.Lacks {
		words := lackWords(reason)
		i := slices.IndexFunc(all, func(l lack) bool { return l.words == words })
		if i < 0 {
			all = append(all, lack{n, words})
		} else {
			all[i].nodes = max(all[i].nodes, n)
		}
	}
	slices.SortFunc(all, func(a, b lack) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.words[1], b.words[1])) })
	var last []lack // the remaining reasons
	if s.ReservedNodes.Nodes > 0 {
		whose := reservedFor(s.ReservedNodes)
		last = append(last, lack{s.ReservedNodes.Nodes, [2]string{"has its free capacity reserved for " + whose, "have their free capacity reserved for " + whose}})
	}
	for _, barrier := range slices.Sorted(maps.Keys(s.BlockedNodes)) {
		usedBy := " used by " + barrierWords[barrier]
		last = append(last, lack{s.BlockedNodes[barrier], [2]string{"is" + usedBy, "are" + usedBy}})
	}
	if len(last) > 0 {
		all = append(all[:min(len(all), mostLacks-len(last))], last...)
	}
	var parts []string
	for i, l := range all {
		if i == mostLacks {
			parts = append(parts, fmt.Sprintf("%d more reasons", len(all)-i))
			break
		}
		noun, words := " nodes ", l.words[1]
		if l.nodes == 1 {
			noun, words = " node ", l.words[0]
		}
		if i > 0 {
			noun = " "
		}
		parts = append(parts, fmt.Sprint(l.nodes, noun, words))
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
		return clipped(h.Holder)
	case 1:
		return clipped(h.Holder) + " and 1 other"
	}
	return fmt.Sprintf("%s and %d others", clipped(h.Holder), h.OtherHolders)
}

// bare returns an unknown reason without the plugin's name and general advice. The middle of a long reason is left out.
func bare(reason string) string {
	const most = 160
	reason = strings.TrimPrefix(reason, "node(s) ")
	if _, says, ok := strings.Cut(reason, " filter plugin: "); ok && strings.HasPrefix(reason, "running ") {
		reason = says
	}
	reason, _, _ = strings.Cut(reason, ". consider using CEL")
	return squeeze(reason, most)
}

// lackWords returns a Filter's reason in plain words, for one node and for several.
func lackWords(reason string) [2]string {
	if what, ok := strings.CutPrefix(reason, "Insufficient "); ok {
		return [2]string{"lacks " + what, "lack " + what}
	}
	for _, known := range []struct {
		part string
		says [2]string
	}{
		{"were unschedulable", [2]string{"is cordoned", "are cordoned"}},
		{"node.kubernetes.io/unschedulable", [2]string{"is cordoned", "are cordoned"}},
		{"node.kubernetes.io/not-ready", [2]string{"is not ready", "are not ready"}},
		{"node.kubernetes.io/unreachable", [2]string{"is not ready", "are not ready"}},
		{"untolerated taint", [2]string{"has a taint that is not tolerated", "have taints that are not tolerated"}},
		{"node affinity/selector", [2]string{"does not match the node selector", "do not match the node selector"}},
		{"required nodes", [2]string{"does not match the node selector", "do not match the node selector"}},
		{"Too many pods", [2]string{"holds as many pods as it may", "hold as many pods as they may"}},
		{"existing pods anti-affinity", [2]string{"has a pod whose anti-affinity excludes members", "have pods whose anti-affinity excludes members"}},
		{"pod anti-affinity rules", [2]string{"has a pod that the members' anti-affinity excludes", "have pods that the members' anti-affinity excludes"}},
		{"pod affinity rules", [2]string{"has no pod that the members' affinity requires", "have no pods that the members' affinity requires"}},
		{"rdma VirtualFunctions", [2]string{"has too few free virtual functions (rdma)", "have too few free virtual functions (rdma)"}},
		{"free ports", [2]string{"has the host port taken", "have the host port taken"}},
	} {
		if strings.Contains(reason, known.part) {
			return known.says
		}
	}
	reason = bare(reason)
	return [2]string{"rejects members: " + reason, "reject members: " + reason}
}
