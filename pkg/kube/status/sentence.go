package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cause"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/eligible"
	"github.com/muster-scheduler/muster/pkg/kube/maintenance"
	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Sentence returns the message on a gang without a plan: what it needs, what the best domain has, what nodes lack, and what helps.
// If running members fix the gang's domain, the message names them, and what may repair the gang. It has at most Limit bytes.
func Sentence(s place.Shortage) string {
	sentences := []string{causeSentence(s)}
	if s.Never == nil && !s.Closed.Time.IsZero() {
		sentences = append(sentences, maintenanceRemedy(s.Closed))
	}
	if s.Repair != "" {
		sentences = append(sentences, s.Repair)
	}
	return Clip(strings.Join(sentences, " "))
}

// maintenanceRemedy returns what opens nodes that are closed for maintenance, as a sentence.
func maintenanceRemedy(closed place.ClosedUntil) string {
	until := closed.Time.Format(time.RFC3339)
	switch {
	case closed.Began:
		return "Maintenance ends at " + until + ": the gang is retried then."
	case closed.Declared:
		return "Declare a shorter muster.sh/max-runtime that ends before the maintenance, or wait until " + until + "."
	}
	return "Declare muster.sh/max-runtime, so that the gang may start if it ends before the maintenance, or wait until " + until + "."
}

// causeSentence is Sentence without what may repair the gang.
func causeSentence(s place.Shortage) string {
	r := s.Plan
	if s.Pin != nil && !r.Split {
		return Clip(pinSentence(s))
	}
	if len(s.SplitOver) > 1 {
		return Clip(splitSentence(s.SplitOver, r.Layer))
	}
	when := " now"
	if s.Never != nil {
		r, when = s.Never, ", even when empty"
	}
	var out strings.Builder
	out.WriteString("Needs")
	if len(r.TooLarge) == 1 && r.TooLarge[0].Want == r.Want && r.TooLarge[0].Best.Path != "" { // only this set needs nodes
		set, whole := r.TooLarge[0], *r
		whole.Layer, whole.Domains, whole.Deeper, whole.TooLarge = set.Layer, []plan.Offer{set.Best}, nil, nil
		r = &whole
		out.Reset()
		out.WriteString(verb(set))
	}
	want := s.Want(r)
	fmt.Fprintf(&out, " %d%s", want, map[bool]string{true: " more"}[s.Joins && len(r.Multiple) > 0])
	inCluster := r.Layer == topology.RootLayer
	if inCluster {
		out.WriteString(" in the cluster")
	} else {
		fmt.Fprintf(&out, " in one %s domain", r.Layer)
	}
	for i, m := range r.Multiple {
		fmt.Fprintf(&out, "%s %d for each %s domain", map[bool]string{true: ", in multiples of", false: " and"}[i == 0], m.Count, m.Layer)
	}
	out.WriteString(map[bool]string{true: " (running and finished members count, too)"}[s.Joins && len(r.Multiple) > 0])
	unreachable := s.UnreachableMultiples(r)
	for _, m := range unreachable {
		lower := want - want%m.Count
		fmt.Fprintf(&out, "; %d is not a multiple of %d: use ", want, m.Count)
		if lower > 0 {
			fmt.Fprintf(&out, "%d or ", lower)
		}
		fmt.Fprintf(&out, "%d members", lower+m.Count)
	}
	if len(unreachable) > 0 { // the capacity does not matter
		return Clip(out.String() + ".")
	}
	if invalid := invalidRequest(s.Lacks); invalid != "" { // so does this
		return Clip(out.String() + "; the request of members is invalid: " + invalid + ". Recreate the pods with a valid request.")
	}
	constrained := len(r.Deeper)+len(r.TooLarge) > 0 // causes names these constraints
	empty, counted := len(r.Domains) > 0 && r.Domains[0].Slots == 0, nodes(s)
	switch {
	case len(s.Roles) > 0:
		var roles []string
		for _, role := range s.Roles[:min(len(s.Roles), maxDomains)] {
			if roles = append(roles, fmt.Sprintf("%s (%d needed)", role.Name, role.Need)); role.Fits > 0 {
				fmt.Fprintf(&out, "; the cluster has capacity for %d of %d needed members of %s%s", role.Fits, role.Need, role.Name, when)
				roles = roles[:len(roles)-1]
			}
		}
		if len(roles) > 0 {
			out.WriteString("; no node has capacity for a member of " + strings.Join(roles, " or ") + when)
		}
	case len(r.Domains) == 0:
		fmt.Fprintf(&out, "; no node is in any %s domain", r.Layer)
		if s.Unlabelled != "" {
			out.WriteString(": " + s.Unlabelled)
		}
	case s.Never == nil && r.Dependent && !r.LowerBounds: // the numbers of members forbid a plan: none was placed
	case inCluster && (s.Never == nil || !empty) && constrained:
		fmt.Fprintf(&out, "; with the constraints that follow, the cluster takes %s%s", slots(s, r), when)
	case inCluster && (s.Never == nil || !empty):
		fmt.Fprintf(&out, "; the cluster has capacity for %s%s", slots(s, r), when)
	case empty && len(r.Multiple) > 0: // fewer members may fit
		out.WriteString("; no domain has capacity for the smallest multiple" + when)
	case empty && s.Never != nil:
		out.WriteString("; no node has capacity for one member" + when)
	case empty:
		fmt.Fprintf(&out, "; no %s domain has capacity for a single member now", r.Layer)
	case s.Never != nil && constrained:
		fmt.Fprintf(&out, "; with the constraints that follow, the largest, %s, takes %s%s", clipPath(r.Domains[0].Path), slots(s, r), when)
	case s.Never != nil:
		fmt.Fprintf(&out, "; the largest, %s, has capacity for %s%s", clipPath(r.Domains[0].Path), slots(s, r), when)
	default:
		fmt.Fprintf(&out, "; best is %s with %s that would fit now", clipPath(r.Domains[0].Path), slots(s, r))
		counted = strings.Replace(counted, "(", "(in the whole cluster, ", 1)
	}
	sentences := append([]string{out.String() + counted}, causes(s, r, when)...)
	if s.Never == nil && counted == "" && len(sentences) == 1 && takesFewer(r) {
		sentences = append(sentences, "With these members placed, no node there has free capacity for one more", addNodes)
	}
	if s.Surplus && r.Optional == nil {
		sentences = append(sentences, beyondMinMember)
	}
	if s.Never != nil && len(s.Separations) == 0 && len(r.Domains) > 0 {
		sentences = append(sentences, remedy(s, r))
	}
	return Clip(strings.Join(sentences, ". ") + ".")
}

// beyondMinMember is the sentence on members that a gang does not need.
const beyondMinMember = "The waiting members are beyond minMember: the gang has started without them"

// invalidRequest returns which device request of members is invalid, and what is valid; "" if all are valid. lacks is Shortage.Lacks.
func invalidRequest(lacks map[string]int) string {
	for _, reason := range slices.Sorted(maps.Keys(lacks)) {
		text, ok := strings.CutPrefix(reason, "invalid resource ")
		if !ok {
			continue
		}
		_, text, _ = strings.Cut(text, " ") // "unit", or "device requests:" with the list of resources
		text = strings.TrimPrefix(text, "requests: ")
		if _, request, ok := strings.Cut(text, "]: "); ok && strings.Contains(request, "=") {
			return request
		}
		return text
	}
	return ""
}

// takesFewer returns whether the best domain takes some of the wanted members, and multiples do not limit how many.
func takesFewer(r *plan.Refusal) bool {
	return len(r.Multiple) == 0 && len(r.Domains) > 0 && r.Domains[0].Slots > 0 && r.Domains[0].Slots < r.Want
}

// addNodes is the remedy that helps whatever the constraints are.
const addNodes = "Add nodes, or use fewer or smaller members"

// remedy returns what helps a gang that does not fit into the empty cluster, for the reason r, which is s.Never or one set of gangs of it.
func remedy(s place.Shortage, r *plan.Refusal) string {
	free := r.Layer == topology.RootLayer && len(r.Multiple)+len(r.Deeper)+len(r.TooLarge) == 0 && !r.Dependent // of constraints
	layers := map[string]bool{}
	for _, d := range r.Deeper {
		layers[d.Layer] = true
	}
	switch {
	case len(s.Roles) > 0 && s.Roles[0].Fits == 0 || r.Domains[0].Slots == 0:
		return "Change what the pods require, or add nodes that meet it"
	case free || s.TooFewNodes:
		return addNodes
	case r.Layer == topology.RootLayer && len(r.TooLarge) > 0 && len(layers) == 1 && len(r.Multiple) == 0 && !s.AtMost:
		layer, gangs := r.TooLarge[0].Layer, "these gangs"
		if len(r.TooLarge) == 1 && len(r.TooLarge[0].Gangs) == 1 {
			gangs = "this gang"
		}
		return fmt.Sprintf("Do one of these: write a layer above %s, or none, for %s; add nodes to one %s domain; use fewer members",
			layer, gangs, layer)
	}
	return "Add nodes, use fewer members, or relax the constraint"
}

// slots returns how many members the best domain (r.Domains[0]) takes, as text: "4 members", "at least 4 members" or "at most 4 members".
func slots(s place.Shortage, r *plan.Refusal) string {
	n := memberCount(int(r.Domains[0].Slots))
	switch {
	case s.Never != nil && s.AtMost:
		return "at most " + n
	case s.Never == nil && r.LowerBounds && r.Domains[0].Slots > 0:
		return "at least " + n
	}
	return n
}

// memberCount returns n and the noun.
func memberCount(n int) string {
	return fmt.Sprintf("%d member%s", n, map[bool]string{false: "s"}[n == 1])
}

// causes returns sentences on what else prevents a plan. when is " now" or ", even when empty": what the numbers count.
func causes(s place.Shortage, r *plan.Refusal, when string) (all []string) {
	add := func(format string, args ...any) { all = append(all, upper(fmt.Sprintf(format, args...))) }
	if s.Least != nil {
		add("%s", LowestDecides(s.Least, s.Priority))
	}
	if s.Never != nil && s.Unlabelled != "" && r.Layer != topology.RootLayer && len(r.Domains) > 0 && r.Domains[0].Slots > 0 {
		add("%s", s.Unlabelled)
	}
	for _, apart := range s.Separations {
		noun := map[bool]string{true: "nodes", false: "values"}[apart.Key == v1.LabelHostname]
		has := map[bool]string{true: "the cluster has", false: "no " + apart.Layer + " domain has more than"}[apart.Layer == ""]
		add("%s. So the gang needs %d usable %s, and %s %d (%s help, larger nodes do not)",
			apart.Field, apart.Need, noun, has, apart.Have, apart.Helps())
	}
	for _, short := range s.Short {
		location := "the cluster"
		if s.Plan.Layer != topology.RootLayer && len(s.Plan.Domains) > 0 {
			location = clipPath(s.Plan.Domains[0].Path)
		}
		if add("The members need %d × %s, and %s has %d free", short.Need, short.What, location, short.Free); short.Waits != "" {
			all[len(all)-1] = upper(short.Waits) + ". No device of an incomplete pool counts as free: " +
				"see whether the DRA driver runs on the nodes of the pool"
		}
	}
	for _, shortage := range s.MinResourcesBeyondPods {
		add("%s", shortage)
	}
	for _, d := range r.Deeper {
		if len(r.TooLarge) == 0 {
			add("%s must be in one %s domain", orSubGroups.Replace(d.Description()), d.Layer)
		}
	}
	for _, t := range r.TooLarge[:min(len(r.TooLarge), maxDomains)] {
		best := cmp.Or(clipPath(t.Best.Path), map[bool]string{true: "the domain of its running members", false: "the best"}[t.JoinsRunning])
		add("%s %d in one %s domain, and %s has capacity for %s%s", verb(t), t.Want, t.Layer, best, memberCount(int(t.Best.Slots)), when)
	}
	if o := r.Optional; o != nil && o.Least == 0 {
		add("%s", optionalWait(s, o))
	} else if o != nil {
		if add("%s", o); len(r.Domains) > 0 && r.Domains[0].Slots >= s.Want(r) {
			add("The members that fit complete fewer gangs")
		}
	}
	if r.Split {
		add("The running members are in several %s domains", r.Layer)
	}
	if r.Dependent && len(s.SharedClaims) > 0 {
		add("Members share ResourceClaim %s: only nodes that reach its devices take them", FirstNames(s.SharedClaims))
	}
	if r.Dependent && len(s.Ties) > 0 {
		add("The members' affinity or spread rules among themselves also limit the placement")
		if len(s.Separations) == 0 { // these name their rules
			all[len(all)-1] += ": " + FirstNames(s.Ties)
		}
		if s.Never == nil {
			add("If free capacity does not help, relax these rules, or add nodes to one domain of their topologyKey")
		}
	}
	if r.Incomplete {
		add("Not all ways were tried: the search limit is reached")
	}
	return all
}

// orSubGroups completes the word gang in DeeperSets.Description: a sub-group of a PodGroup counts as a gang there.
var orSubGroups = strings.NewReplacer("gangs", "gangs or sub-groups", "gang", "gang or sub-group")

// LowestDecides returns the sentence on the member whose priority, the lowest of its gang, decides about victims, without a period.
func LowestDecides(member *v1.Pod, priority int32) string {
	return fmt.Sprintf("The gang evicts only pods of a priority below %d, the priority of its member %s", priority,
		clipPath(convert.PodKey(member)))
}

// upper returns a text with its first letter in upper case.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// verb returns the subject and the verb of a sentence about a set of gangs.
func verb(t plan.TooLarge) string {
	return upper(cmp.Or(t.Name, "gang")) + map[bool]string{true: " needs", false: " need"}[len(t.Gangs) == 1]
}

// optionalWait returns the sentence on optional gangs or sub-groups that wait while no further one is needed, without a period. A gang that
// has started may still need a member that it has lost.
func optionalWait(s place.Shortage, o *plan.OptionalGangs) string {
	text := fmt.Sprintf("Optional gangs or sub-groups that wait: %d; each starts whole or not at all", o.Of)
	if s.Surplus {
		return "The needed gangs or sub-groups are placed. " + text
	}
	return text
}

// pinSentence returns the message on new members that do not fit into the domain where their gang runs (s.Pin). Tools match the text up to
// the colon, so it does not change. If the gang needs the members, it may be recreated in another domain.
func pinSentence(s place.Shortage) string {
	p, lowerBound := s.Pin, s.Plan.LowerBounds
	need := "capacity for " + memberCount(int(p.Want))
	location := clipPath(p.DomainPath)
	if p.Layer != "" {
		location = fmt.Sprintf("one %s domain of %s", p.Layer, location)
	}
	switch {
	case p.Capacity >= p.Want: // but not for all rules together
		need = "more capacity"
	case p.Capacity > 0 && lowerBound:
		location += fmt.Sprintf(" (at least %d now)", p.Capacity)
	case p.Capacity > 0:
		location += fmt.Sprintf(" (%d now)", p.Capacity)
	}
	tooSmall, remedies := "", []string{fmt.Sprintf("free up %s in %s", need, location)}
	if p.Capacity >= p.Want && len(s.Plan.Multiple) > 0 { // the multiples prevent a plan
		remedies = []string{"change the number of members, or podCountMultiple"}
	}
	if p.TooSmall {
		tooSmall, remedies = "Even without other pods the domain is too small. ", []string{"add nodes there"}
	}
	if p.TooSmall && p.IsNode {
		remedies = nil
	}
	if !s.Surplus {
		remedies = append(remedies, "delete all pods of the gang if another domain takes all of them")
	}
	text := fmt.Sprintf("%s in %s, which has no room; the gang moves only as a whole: the members that wait must run in the same domain. %s",
		runText(p.Members), clipPath(p.DomainPath), tooSmall)
	for _, m := range s.Plan.Multiple {
		text += fmt.Sprintf("Each %s domain takes members in multiples of %d. ", m.Layer, m.Count)
	}
	if len(remedies) > 0 {
		text += upper(strings.Join(remedies, ", or ")) + ". "
	}
	switch o := s.Plan.Optional; {
	case s.Surplus && o != nil && o.Least == 0:
		text += optionalWait(s, o) + ". "
	case s.Surplus && o == nil:
		text += beyondMinMember + ". "
	}
	return strings.TrimSuffix(text, " ")
}

// splitSentence returns the message on members that run in several domains of layer but must share one, and on which to delete.
func splitSentence(locations []cause.RunningIn, layer string) string {
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
	return fmt.Sprintf("The members must share one %s domain, but run in %s%s. Delete the members outside of %s (%s): recreated "+
		"members may start only there; more nodes do not help.",
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

// runText returns the names and the verb: "a runs", "a and b run".
func runText(names []string) string {
	first, last := FirstNames(names), names[len(names)-1]
	if others, cut := strings.CutSuffix(first, ", "+last); cut {
		first = others + " and " + last
	}
	return first + map[bool]string{true: " runs", false: " run"}[len(names) == 1]
}

// maxLacks is how many reasons a sentence names.
const maxLacks = 4

// barrierWords describe the pods that may not be evicted.
var barrierWords = map[eligible.Barrier]string{
	eligible.PriorityAbove: "pods of equal or higher priority",
	eligible.QuotaProtects: "pods that quotas protect",
	eligible.Protected:     "pods with a label that forbids eviction",
}

// nodes returns, in parentheses, how many nodes lack what, at most maxLacks entries; "" if unknown.
func nodes(s place.Shortage) string {
	type lack struct {
		nodes int
		words string // of several nodes
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
	slices.SortFunc(entries, func(a, b lack) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.words, b.words)) })
	var tail []lack // reservations and barriers, which are always named
	if s.ReservedNodes.Nodes > 0 {
		holder := clipPath(s.ReservedNodes.Holder)
		if n := s.ReservedNodes.OtherHolders; n > 0 {
			holder += fmt.Sprintf(" and %d more", n)
		}
		tail = append(tail, lack{s.ReservedNodes.Nodes, "have free capacity reserved for " + holder})
	}
	for _, barrier := range slices.Sorted(maps.Keys(s.BlockedNodes)) {
		tail = append(tail, lack{s.BlockedNodes[barrier], "are used by " + barrierWords[barrier]})
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
		words := l.words
		if strings.HasPrefix(words, noNodeHas) {
			parts = append(parts, words)
			continue
		}
		if noun == "" {
			noun = map[bool]string{true: " node ", false: " nodes "}[l.nodes == 1]
		}
		if l.nodes == 1 {
			verb, rest, _ := strings.Cut(words, " ")
			words = ofOneNode[verb] + " " + rest
		}
		parts, noun = append(parts, fmt.Sprint(l.nodes, noun, words)), " "
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// trimReason returns a Filter's reason without the plugin's name and general advice, without the middle if it is long.
func trimReason(reason string) string {
	reason = strings.TrimPrefix(reason, "node(s) ")
	if _, detail, ok := strings.Cut(reason, " filter plugin: "); ok && strings.HasPrefix(reason, "running ") {
		reason = detail
	}
	reason, _, _ = strings.Cut(reason, ". consider using CEL")
	return squeeze(reason, 160)
}

// noNodeHas is the prefix of the words about a resource that is on no node.
const noNodeHas = "no node has "

// ofOneNode maps the plural verbs of lackWords to the singular.
var ofOneNode = map[string]string{"are": "is", "have": "has", "lack": "lacks", "do": "does", "reject": "rejects"}

// lackWords returns a Filter's reason in plain words, for several nodes. detail is one of place.Shortage.Causes, or "".
func lackWords(reason, detail string) string {
	if resource, ok := strings.CutPrefix(reason, "Insufficient "); ok {
		if detail != "" {
			return noNodeHas + detail
		}
		if strings.HasSuffix(strings.ToLower(resource), " devices") {
			return "have too few free " + resource
		}
		return "lack " + resource
	}
	for _, phrase := range [][2]string{
		{"were unschedulable", "are cordoned"},
		{"node.kubernetes.io/unschedulable", "are cordoned"},
		{"node.kubernetes.io/not-ready", "are not ready"},
		{"node.kubernetes.io/unreachable", "are not ready"},
		{"untolerated taint", "have taints that are not tolerated"},
		{"node affinity/selector", "do not match the node selector"},
		{"required nodes", "do not match the node selector"},
		{"Too many pods", "have the maximum number of pods"},
		{"existing pods anti-affinity", "are excluded by the anti-affinity of pods there or on other nodes"},
		{"pod anti-affinity rules", "are excluded by the members' anti-affinity to other pods"},
		{"pod affinity rules", "have no pod that the members' affinity requires"},
		{"rdma VirtualFunctions", "have too few free virtual functions (rdma)"},
		{"free ports", "have the host port in use"},
		{"cannot allocate all claims", "lack matching free devices for the ResourceClaims"},
		{"missing Device", "have no Device object of Koordinator"},
		{"another ComputeDomain", "are in another ComputeDomain, which must be deleted first"},
	} {
		switch part, words := phrase[0], phrase[1]; {
		case !strings.Contains(reason, part):
		case detail == "":
			return words
		case part == "untolerated taint":
			return "have the taint " + detail + ", which is not tolerated"
		default:
			return words + " " + detail
		}
	}
	if state, ok := strings.CutPrefix(reason, "node(s) are "); ok {
		return "are " + state
	}
	if rest, ok := strings.CutPrefix(reason, maintenance.ReasonPrefix); ok {
		return "have maintenance from" + rest
	}
	return "reject members: " + trimReason(reason)
}
