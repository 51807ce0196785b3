package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// maxRows bounds the listed domains and gangs, unless the output is wide.
const maxRows = 10

// explainText formats an explanation, with the state and the cause first.
func explainText(e *ask.Explanation, wide bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Gang %s: %s", oneLine(e.Gang), e.State)
	if !e.Since.IsZero() {
		fmt.Fprintf(&out, ", %s", age(e.Since, e.At()))
	}
	bound := counted(e.Members.Bound, "member", "members")
	if e.Members.Min > 0 { // it is known
		bound = fmt.Sprintf("%d of %d members", e.Members.Bound, e.Members.Min)
	}
	fmt.Fprintf(&out, ", %s bound%s\n", bound, finished(e.Members.Finished))
	paragraph(&out, e.WaitsFor)
	for _, warning := range e.Warnings {
		paragraph(&out, "Warning: "+warning)
	}
	if n := e.Next; n != nil && n.Why != nil {
		paragraph(&out, "It "+n.Why.String()+".")
	}
	if e.Remedy != nil {
		paragraph(&out, "What would help: "+e.Remedy.Message+".")
		if wide && len(e.Remedy.Plugins) > 0 {
			paragraph(&out, fmt.Sprintf("Rejected by %s. The gang is retried upon %s.",
				strings.Join(e.Remedy.Plugins, ", "), strings.Join(e.Remedy.Events, ", ")))
		}
	}
	if wide && e.Reason != "" {
		paragraph(&out, "The scheduler says: "+e.Reason)
	}
	writeDomains(&out, e, wide)
	if q := e.Queue; q != nil {
		out.WriteByte('\n')
		switch {
		case q.Position == 0:
			out.WriteString("Queue: no scheduler tries the gang now\n")
		case len(q.Ahead) == 0:
			fmt.Fprintf(&out, "Queue: first of %d\n", q.Of)
		default:
			fmt.Fprintf(&out, "Queue: %d of %d, after %s\n", q.Position, q.Of, oneLine(severalNames(q.Ahead, wide)))
		}
	}
	if s := e.Start; s != nil {
		text := "Start: " + startText(s, e.At())
		if !s.Time.IsZero() {
			text += " in " + orCluster(s.Domain)
		}
		for i, line := range wrapped(text+". "+s.Why, tableWidth) {
			fmt.Fprintf(&out, "%s%s\n", strings.Repeat("  ", min(i, 1)), line)
		}
	}
	for _, h := range e.Holders {
		fmt.Fprintf(&out, "Reserved for %s (priority %d): %s on %s\n", oneLine(h.Gang), h.Priority,
			counted(len(h.Nodes), "member", "members"), severalNames(h.Nodes, wide))
	}
	if w := e.Placement; w != nil {
		fmt.Fprintf(&out, "\nWhere: %s\n", orCluster(w.Domain))
		layers := newTable("LAYER", "DOMAINS", "LEAST POSSIBLE")
		for i, l := range w.Touched {
			layers.add("", l.Layer, strconv.Itoa(l.Domains), strconv.Itoa(w.LeastPossible[i].Domains))
		}
		layers.write(&out)
	}
	writeEvents(&out, e, wide)
	return out.String()
}

// writeEvents lists the latest events.
func writeEvents(out *strings.Builder, e *ask.Explanation, wide bool) {
	t := newTable("AGO", "EVENT", "TIMES")
	latest := e.PastEvents
	if !wide {
		latest = latest[max(0, len(latest)-maxRows):]
	}
	for _, event := range latest {
		t.add(indented(event.Message, 2), age(event.At, e.At()), event.Reason, strconv.Itoa(event.Times))
	}
	t.writeLast(out)
}

// finished returns how many members have finished, as text; "" for none.
func finished(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", 1 has finished"
	}
	return fmt.Sprintf(", %d have finished", n)
}

// writeDomains lists the capacity of each domain.
func writeDomains(out *strings.Builder, e *ask.Explanation, wide bool) {
	if len(e.Domains) == 0 {
		return
	}
	slots := []string{"SLOTS"}
	ahead := slices.ContainsFunc(e.Domains, func(d ask.Domain) bool { return d.FreeNow != nil })
	if ahead {
		slots = []string{"FREE NOW", "AT ITS TURN"}
	}
	t := newTable(slices.Concat([]string{strings.ToUpper(e.Layer), "NODES"}, slots, []string{"EVICTION"})...)
	for i, d := range e.Domains {
		if i == maxRows && !wide {
			t.addMore(len(e.Domains) - i)
			break
		}
		var lacks []string
		for reason, n := range d.Lacks {
			lacks = append(lacks, fmt.Sprintf("%d %s", n, reason))
		}
		slices.Sort(lacks)
		slots := strconv.Itoa(d.Slots)
		if d.AtLeast {
			slots = "at least " + slots
		}
		row := []string{orCluster(d.Path), strconv.Itoa(d.Nodes), slots, evictionText(d.Eviction, d.AtLeast)}
		if ahead {
			now := d.Slots
			if d.FreeNow != nil {
				now = *d.FreeNow
			}
			row = slices.Insert(row, 2, strconv.Itoa(now))
		}
		t.add(strings.Join(lacks, ", "), row...)
	}
	notes := t.notes
	each := make([]bool, len(notes)) // a note that is equal to the row's before or after is printed below the last of these rows
	for i, note := range notes {
		each[i] = note != "" && (i > 0 && notes[i-1] == note || i+1 < len(notes) && notes[i+1] == note)
	}
	for i := range notes {
		if each[i] {
			notes[i] = "each: " + notes[i]
		}
		notes[i] = indented(notes[i], 2)
	}
	t.writeLast(out)
	if e.Heterogeneous {
		out.WriteString("The members differ in size: unless a row says otherwise, slots are for the largest members.\n")
	}
}

// evictionText returns the cost of an eviction for a table; "-" for nil. lowerBound says that no upper limit of slots is known.
func evictionText(e *ask.Eviction, lowerBound bool) string {
	switch {
	case e == nil, e.Part && lowerBound:
		return "-"
	case e.Part:
		return fmt.Sprintf("at most %d", e.Slots)
	case e.Untried:
		return "not every set of victims was tried"
	case e.Possible && e.Pods == 0 && e.SentBack == 0:
		return "no pods"
	case e.Possible && e.Pods == 0:
		return fmt.Sprintf("none, but %d waiting pods are requeued", e.SentBack)
	case e.Possible:
		text := fmt.Sprintf("%s of priority up to %d", countPods(e.Pods), e.HighestPriority)
		if e.SentBack > 0 {
			text += fmt.Sprintf(", and %d waiting pods are requeued", e.SentBack)
		}
		if e.Violations > 0 {
			text += fmt.Sprintf(", %d against a budget", e.Violations)
		}
		return text
	}
	if lowerBound {
		return "impossible"
	}
	return fmt.Sprintf("impossible: at most %d", e.Slots)
}

// queueText formats the gangs that wait.
func queueText(all []ask.Waiter, now time.Time, wide bool) string {
	if len(all) == 0 {
		return "No gang waits.\n"
	}
	var out strings.Builder
	t := newTable("", "GANG", "PRIORITY", "AGE", "BOUND", "STATE", "RESERVED", "START")
	for _, w := range all {
		reserved := "-"
		if r := w.Reservation; r != nil {
			reserved = fmt.Sprintf("%d in %s", r.Places, orCluster(r.Domain[strings.LastIndexByte(r.Domain, '/')+1:]))
		}
		position := "-"
		if w.Position > 0 {
			position = strconv.Itoa(w.Position)
		}
		lines := 3
		if wide {
			lines = 10
		}
		text := indented(w.Reason, lines)
		for _, warning := range w.Warnings {
			text += indented("Warning: "+warning, lines)
		}
		t.add(text, position, w.Gang, strconv.Itoa(int(w.Priority)), age(w.Since, now),
			w.Members.String(), string(w.State), reserved, startText(w.Start, now))
	}
	t.write(&out)
	return out.String()
}

// startText returns when a gang starts, for a table; "-" for nil. Times are UTC, rounded up to a minute.
func startText(s *simulate.Start, now time.Time) string {
	switch {
	case s == nil:
		return "-"
	case s.Time.IsZero():
		return string(s.Kind)
	case s.Kind == simulate.Forecast && !s.Time.After(now):
		return "now"
	case s.Kind == simulate.Forecast && s.Time.Before(now.Add(time.Minute)):
		return "in " + duration.HumanDuration(s.Time.Sub(now).Round(time.Second))
	}
	at, layout := s.Time.UTC().Add(time.Minute-1).Truncate(time.Minute), "15:04Z"
	if at.Sub(now).Abs() >= 24*time.Hour {
		layout = "2006-01-02 15:04Z"
	}
	return string(s.Kind) + " " + at.Format(layout)
}

// maxDrawnNodes bounds the nodes in the picture.
const maxDrawnNodes = 200

// topologyText formats the network: as a picture, or as a list of domains if listed is true or there are too many nodes.
func topologyText(t *ask.Topology, listed, wide bool) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Slots for %s: %d free, %d used, %d reserved\nNodes: %d, of which %d are cordoned or not ready\n",
		oneLine(t.For), t.Free, t.Used, t.Reserved, t.Nodes, t.Broken)
	if t.Problem != "" {
		paragraph(&out, "Topology: "+t.Problem)
	}
	out.WriteByte('\n')
	if !listed && (wide || t.Nodes <= maxDrawnNodes) {
		out.WriteString(t.Picture())
	} else {
		domains := newTable("DOMAIN", "LAYER", "NODES", "BROKEN", "FREE", "USED", "RESERVED")
		bottom := ""
		if layers := t.Layers(); !listed && len(layers) > 1 {
			bottom = layers[len(layers)-1]
		}
		var add func(b *ask.Branch)
		add = func(b *ask.Branch) {
			if b.Layer == bottom {
				return
			}
			domains.add("", orCluster(b.Path), b.Layer, strconv.Itoa(b.Nodes), strconv.Itoa(b.Broken),
				strconv.Itoa(b.Free), strconv.Itoa(b.Used), strconv.Itoa(b.Reserved))
			for i := range b.Children {
				add(&b.Children[i])
			}
		}
		add(&t.Branch)
		domains.write(&out)
	}
	if len(t.Gangs)+t.Spare > 0 {
		out.WriteByte('\n')
	}
	if t.Spare > 0 {
		fmt.Fprintf(&out, "%s  spare: %s that new gangs leave unused (argument spares)\n", ask.SpareMark,
			map[bool]string{true: "1 node", false: fmt.Sprint(t.Spare, " nodes")}[t.Spare == 1])
	}
	for i, g := range t.Gangs {
		if i == maxRows && !wide {
			fmt.Fprintf(&out, "and %d more gangs\n", len(t.Gangs)-i)
			break
		}
		fmt.Fprintf(&out, "%s  %s, %s\n", g.Letter, oneLine(g.Gang), countPods(g.Pods))
	}
	if len(t.Unlabelled) > 0 {
		fmt.Fprintf(&out, "\nNodes without a name at some layer: %s\n", severalNames(t.Unlabelled, wide))
	}
	return out.String()
}

// age formats the time between since and now.
func age(since, now time.Time) string {
	return duration.HumanDuration(max(now.Sub(since), 0))
}

func orCluster(path string) string { return cmp.Or(path, "the cluster") }

// severalNames lists names, all of them if the output is wide.
func severalNames(names []string, wide bool) string {
	if len(names) <= maxRows || wide {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxRows], ", "), len(names)-maxRows)
}

// paragraph writes text, wrapped and indented; nothing for "".
func paragraph(out *strings.Builder, text string) {
	if text != "" {
		out.WriteString(strings.ReplaceAll(indented(text, 12), "    ", "  "))
	}
}
