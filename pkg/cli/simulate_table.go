package cli

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// tableWidth is the maximal width of a table in characters.
const tableWidth = 100

// simulateTable formats a result: a summary line, the changes, the gangs, the new pods, the held pods, warnings, quotas, and the
// explanations of evictions. wide shows whole messages, with the text that tools match.
func simulateTable(r *simulate.Result, wide bool) string {
	message, podLines := status.Plain, maxPodMessageLines
	if wide {
		message, podLines = func(whole string) string { return whole }, maxMessageLines
	}
	var out strings.Builder
	out.WriteString(summaryLine(r.Summary) + "\n\n")
	for _, c := range r.Changes {
		out.WriteString("What if " + c.Change + ":\n" + indented(c.Did, maxMessageLines))
	}
	if len(r.Changes) > 0 {
		out.WriteByte('\n')
	}
	if len(r.Gangs) > 0 {
		gangs := newTable("GANG", "STATE", "BOUND", "DOMAIN")
		if slices.ContainsFunc(r.Gangs, func(g simulate.Gang) bool { return g.Start != nil }) {
			gangs = newTable("GANG", "STATE", "BOUND", "DOMAIN", "START")
		}
		for _, g := range r.Gangs {
			note := message(g.Message)
			if g.State.Started() {
				note = ""
			}
			if r := g.Repair; r != nil {
				note = fmt.Sprintf("%s: %s.", r.State, strings.TrimSuffix(r.Message, "."))
			}
			row := []string{g.Namespace + "/" + g.Name, string(g.State), fmt.Sprintf("%d/%d", g.Bound, g.Min), g.Domain}
			if g.Start != nil {
				row = append(row, startText(g.Start, r.Time))
			}
			gangs.add(indented(note, maxMessageLines), row...)
		}
		gangs.write(&out)
		out.WriteByte('\n')
	}
	pods := newTable("POD", "STATE", "NODE")
	devices := slices.ContainsFunc(r.Pods, func(p simulate.Pod) bool { return p.Devices != "" && !p.Ran })
	if devices {
		pods = newTable("POD", "STATE", "NODE", "DEVICES")
	}
	for _, p := range r.Pods {
		if p.Ran && p.State == simulate.Bound {
			continue
		}
		node := p.Node
		if p.NominatedNode != "" {
			node = p.NominatedNode + " (nominated)"
		}
		row := []string{p.Namespace + "/" + p.Name, string(p.State), node}
		if devices {
			row = append(row, p.Devices)
		}
		pods.add(indented(message(p.Message), podLines), row...)
	}
	pods.writeFirst(&out)
	held := newTable("NOT MADE YET", "WAITS FOR")
	for _, h := range r.Held {
		held.add("", h.Namespace+"/"+h.Name, h.WaitsFor)
	}
	held.writeFirst(&out)
	warnings := newTable("WARNING", "REASON")
	for _, w := range r.Warnings {
		note := w.Message
		if w.At != "" {
			note += "; see " + w.At
		}
		warnings.add(indented(note, maxMessageLines), w.Object, w.Reason)
	}
	warnings.writeFirst(&out)
	if len(r.Quotas) > 0 {
		out.WriteString(quotaText(r.Quotas, false) + "\n")
	}
	writeEvictions(&out, r.Gangs)
	return strings.TrimSuffix(out.String(), "\n")
}

// The maximal lines of a message: maxMessageLines is enough for every message, maxPodMessageLines for its beginning and end.
const (
	maxMessageLines    = 12
	maxPodMessageLines = 3
)

// wordStarts matches the borders between the words of a state, such as NeverFits.
var wordStarts = regexp.MustCompile("([a-z])([A-Z])")

// summaryLine counts gangs and pods by state, without the zero counts.
func summaryLine(s simulate.Summary) string {
	counts := func(all ...any) string {
		var words []string
		for i := 0; i < len(all); i += 2 {
			if n := all[i].(int); n > 0 {
				words = append(words, fmt.Sprintf("%d %s", n, all[i+1]))
			}
		}
		return strings.Join(words, ", ")
	}
	gangs := fmt.Sprintf("%d gangs", s.Gangs)
	if s.Gangs == 1 {
		gangs = "1 gang"
	}
	states := []any{s.States[simulate.Scheduled], "scheduled"}
	for _, state := range slices.Sorted(maps.Keys(s.States)) {
		if state != simulate.Scheduled {
			states = append(states, s.States[state], strings.ToLower(wordStarts.ReplaceAllString(string(state), "$1 $2")))
		}
	}
	if text := counts(states...); text != "" {
		gangs += ": " + text
	}
	pods := counts(s.Bound, "bound", s.Pending, "pending", s.Evicted, "evicted", s.Ran, "untouched")
	if pods == "" {
		return gangs + "; no pods."
	}
	return gangs + "; pods: " + pods + "."
}

// maxConsidered bounds the domains in the explanation of an eviction.
const maxConsidered = 5

// writeEvictions lists, for each gang that evicted pods, the domains that were compared and their costs.
func writeEvictions(out *strings.Builder, gangs []simulate.Gang) {
	t := newTable("EVICTION FOR", "DOMAIN", "BUDGETS", "PODS", "HIGHEST", "SUM", "") // last, why there is no cost
	for _, g := range gangs {
		if g.Eviction == nil {
			continue
		}
		won := cmp.Or(g.Eviction.Won, "the cluster")
		note := indented(fmt.Sprintf("%s won: %s", won, g.Eviction.Why()), 2)
		add := func(cells ...string) { t.add(note, append([]string{g.Namespace + "/" + g.Name}, cells...)...) }
		for i, c := range g.Eviction.Considered {
			domain := cmp.Or(c.Domain, "the cluster")
			switch {
			case i == maxConsidered:
				add(fmt.Sprintf("and %d more", len(g.Eviction.Considered)-i))
			case i > maxConsidered:
			case c.Untried:
				add(domain, "-", "-", "-", "-", "search limit reached")
			case !c.Possible:
				add(domain, "-", "-", "-", "-", "impossible")
			default:
				add(domain, fmt.Sprint(c.Violations), fmt.Sprint(c.Pods), fmt.Sprint(c.HighestPriority), fmt.Sprint(c.Sum))
			}
		}
		if len(g.Eviction.Considered) == 0 {
			add(won)
		}
	}
	t.writeFirst(out)
}

func countPods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// table has rows of cells, the titles first, and a note below each row.
type table struct {
	rows  [][]string
	notes []string
}

func newTable(titles ...string) *table { return &table{[][]string{titles}, []string{""}} }

// add appends a row. Missing cells are empty.
func (t *table) add(note string, cells ...string) {
	t.rows = append(t.rows, append(cells, make([]string, len(t.rows[0])-len(cells))...))
	t.notes = append(t.notes, note)
}

// addMore appends a row that stands for n rows.
func (t *table) addMore(n int) { t.add("", fmt.Sprintf("and %d more", n)) }

// write prints the table.
func (t *table) write(out *strings.Builder) { writeRows(out, t.rows, t.notes) }

// writeFirst prints the table and an empty line, unless it has no rows.
func (t *table) writeFirst(out *strings.Builder) {
	if len(t.rows) > 1 {
		t.write(out)
		out.WriteByte('\n')
	}
}

// writeLast prints an empty line and the table, unless it has no rows.
func (t *table) writeLast(out *strings.Builder) {
	if len(t.rows) > 1 {
		out.WriteByte('\n')
		t.write(out)
	}
}

// writeRows writes rows in aligned columns, with each row's note below it; once for consecutive rows with equal notes. If a row is wider
// than tableWidth, the first columns, which contain names, are cut first.
func writeRows(out *strings.Builder, rows [][]string, notes []string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for i := range widths { // names first, then the columns after them
		if excess := total - tableWidth; excess > 0 {
			narrow := max(widths[i]-excess, 12)
			total -= max(widths[i]-narrow, 0)
			widths[i] = min(widths[i], narrow)
		}
	}
	for i, row := range rows {
		var line strings.Builder
		for c, cell := range row {
			cell = cutFront(oneLine(cell), widths[c])
			line.WriteString(cell + strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell)+2))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if i+1 == len(notes) || notes[i+1] != notes[i] {
			out.WriteString(notes[i])
		}
	}
}

// cutFront returns the last width characters of a longer text, after "…": names differ least at the front.
func cutFront(text string, width int) string {
	if n := utf8.RuneCountInString(text); n > width {
		runes := []rune(text)
		return "…" + string(runes[n-width+1:])
	}
	return text
}

// indented returns text wrapped and indented, in at most lines lines. It cuts the middle of a longer text, since the end says what helps.
func indented(text string, lines int) string {
	const margin = "    "
	all := wrapped(text, tableWidth-len(margin))
	if len(all) > lines {
		head := (lines + 1) / 2
		all = append(all[:head:head], ending(text, lines-head)...)
		if lines == 1 {
			all[0] += " ..."
		}
	}
	var out strings.Builder
	for _, line := range all {
		out.WriteString(margin + line + "\n")
	}
	return out.String()
}

// ending returns the end of text, as much as fits in lines wrapped lines.
func ending(text string, lines int) (tail []string) {
	words := strings.Fields(text)
	for i := len(words) - 1; i > 0; i-- {
		longer := wrapped("... "+strings.Join(words[i:], " "), tableWidth-4)
		if len(longer) > lines {
			break
		}
		tail = longer
	}
	return tail
}

// wrapped breaks text at spaces into lines of at most width characters, and also breaks longer words. It reserves space for " ...".
func wrapped(text string, width int) (lines []string) {
	for text = strings.Join(strings.Fields(text), " "); text != ""; {
		line := text
		if utf8.RuneCountInString(text) > width {
			line = string([]rune(text)[:width-len(" ...")])
			if i := strings.LastIndexByte(line, ' '); i > 0 {
				line = line[:i]
			}
		}
		lines = append(lines, line)
		text = strings.TrimLeft(text[len(line):], " ")
	}
	return lines
}
