package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// column is something that is compared. Less of it is better, unless more is.
type column struct {
	name   string
	more   bool
	format string
	of     func(Result) float64
}

// columns are what is compared, in the order of the tables.
var columns = []column{
	{"gangs that ended", true, "%.1f", func(r Result) float64 { return float64(r.Finished) }},
	{"starts in one leaf, % of those of several pods", true, "%.0f", func(r Result) float64 { return part(r.OneLeaf, r.Several) }},
	{"leafs above the least, for 100 starts", false, "%.1f", func(r Result) float64 { return part(r.ExcessLeafs, r.Started) }},
	{"spines above the least, for 100 starts", false, "%.1f", func(r Result) float64 { return part(r.ExcessSpines, r.Started) }},
	{"Musts broken", false, "%.1f", func(r Result) float64 { return float64(len(r.BrokenMust)) }},
	{"makespan, s", false, "%.1f", func(r Result) float64 { return r.Makespan }},
	{"wait of 1 or 2 pods, s, p50", false, "%.1f", func(r Result) float64 { return r.Waits["1-2"].P50 }},
	{"… p99", false, "%.1f", func(r Result) float64 { return r.Waits["1-2"].P99 }},
	{"wait of 3 to 8 pods, s, p50", false, "%.1f", func(r Result) float64 { return r.Waits["3-8"].P50 }},
	{"… p99", false, "%.1f", func(r Result) float64 { return r.Waits["3-8"].P99 }},
	{"wait of 9 and more pods, s, p50", false, "%.1f", func(r Result) float64 { return r.Waits["9-"].P50 }},
	{"… p99", false, "%.1f", func(r Result) float64 { return r.Waits["9-"].P99 }},
	{"gangs evicted, for 100 starts", false, "%.1f", func(r Result) float64 { return part(r.Evicted, r.Started) }},
	{"victims, pods for 100 starts", false, "%.1f", func(r Result) float64 { return part(r.Victims, r.Started) }},
	{"needless victims, gangs", false, "%.1f", func(r Result) float64 { return float64(r.Needless) }},
	{"work lost, pods × s for 100 starts", false, "%.0f", func(r Result) float64 { return 100 * r.Lost / float64(max(1, r.Started)) }},
	{"partial gangs", false, "%.1f", func(r Result) float64 { return float64(r.Partial) }},
	{"held by gangs that are not whole, pods × s", false, "%.0f", func(r Result) float64 { return r.PartialHeld }},
	{"largest gang that fits a leaf, mean", true, "%.1f", func(r Result) float64 { return r.LargestFit }},
	{"utilisation, %", true, "%.0f", func(r Result) float64 { return 100 * r.Utilisation }},
	{written, false, "%.1f", func(r Result) float64 { return r.Requests / float64(max(1, r.Pods)) }},
}

// written is the column that no trace decides.
const written = "requests of the scheduler that write, a pod"

func part(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }

// cell is what the seeds of one contender came to.
type cell struct {
	mean, least, most float64
	format            string
}

func newCell(c column, of []Result) cell {
	out := cell{format: c.format}
	for i, r := range of {
		v := c.of(r)
		out.mean += v / float64(len(of))
		if i == 0 {
			out.least, out.most = v, v
		}
		out.least, out.most = min(out.least, v), max(out.most, v)
	}
	return out
}

// said is the mean as it is shown.
func (c cell) said() string { return fmt.Sprintf(c.format, c.mean) }

// String is the mean and, where seeds differ, from where to where they go.
func (c cell) String() string {
	least, most := fmt.Sprintf(c.format, c.least), fmt.Sprintf(c.format, c.most)
	if least == most {
		return c.said()
	}
	return fmt.Sprintf("%s (%s–%s)", c.said(), least, most)
}

// better says whether a value is shown as better than another one.
func (c column) better(a, b cell) bool {
	return a.said() != b.said() && (a.mean < b.mean) != c.more
}

// table is what contenders made of one kind of trace.
type table struct {
	kind       string
	seeds      []uint64
	gangs      int // of all seeds
	contenders []string
	cells      [][]cell // by column, by contender
}

// tables has one for each kind, in the order of the results.
func tables(results []Result) (all []table) {
	for _, r := range results {
		if slices.ContainsFunc(all, func(t table) bool { return t.kind == r.Trace }) {
			continue
		}
		t := table{kind: r.Trace}
		by := map[string][]Result{}
		for _, o := range results {
			if o.Trace != r.Trace {
				continue
			}
			if !slices.Contains(t.contenders, o.Contender) {
				t.contenders = append(t.contenders, o.Contender)
			}
			by[o.Contender] = append(by[o.Contender], o)
		}
		for _, o := range by[t.contenders[0]] {
			t.seeds, t.gangs = append(t.seeds, o.Seed), t.gangs+o.Gangs
		}
		for _, c := range columns {
			var row []cell
			for _, name := range t.contenders {
				row = append(row, newCell(c, by[name]))
			}
			t.cells = append(t.cells, row)
		}
		all = append(all, t)
	}
	return all
}

// first returns the best contenders of a row: several if they are shown as equal.
func (t table) first(row int) (of []int) {
	for i := range t.contenders {
		if !slices.ContainsFunc(t.cells[row], func(o cell) bool { return columns[row].better(o, t.cells[row][i]) }) {
			of = append(of, i)
		}
	}
	return of
}

// behind lists the columns in which another contender is better than this one.
func (t table) behind(contender string) (names []string) {
	at := slices.Index(t.contenders, contender)
	for row, c := range columns {
		if at >= 0 && !slices.Contains(t.first(row), at) {
			names = append(names, c.name)
		}
	}
	return names
}

// write writes the table in Markdown; the best ones are in bold type.
func (t table) write(out io.Writer) {
	fmt.Fprintf(out, "**%s**: %d gangs with seeds %s\n\n", t.kind, t.gangs, strings.Trim(fmt.Sprint(t.seeds), "[]"))
	rows := [][]string{append([]string{""}, t.contenders...)}
	for i, c := range columns {
		row := []string{c.name}
		for j := range t.contenders {
			text := t.cells[i][j].String()
			if slices.Contains(t.first(i), j) {
				text = "**" + text + "**"
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	writeRows(out, rows)
}

// writeRows writes rows of equally wide cells, the first one above a line.
func writeRows(out io.Writer, rows [][]string) {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			wide[i] = max(wide[i], len([]rune(text)))
		}
	}
	for i, row := range rows {
		for j, text := range row {
			pad := strings.Repeat(" ", wide[j]-len([]rune(text)))
			if j == 0 {
				fmt.Fprintf(out, "| %s%s ", text, pad)
			} else {
				fmt.Fprintf(out, "| %s%s ", pad, text)
			}
		}
		fmt.Fprintln(out, "|")
		if i > 0 {
			continue
		}
		for j := range row {
			right := ":"
			if j == 0 {
				right = "-"
			}
			fmt.Fprintf(out, "|%s%s", strings.Repeat("-", wide[j]+1), right)
		}
		fmt.Fprintln(out, "|")
	}
}

// report writes all tables, and says in what Muster is not the first.
func report(out io.Writer, results []Result) {
	for _, t := range tables(results) {
		t.write(out)
		if !slices.Contains(t.contenders, "muster") {
			fmt.Fprintln(out)
			continue
		}
		behind := t.behind("muster")
		fmt.Fprintf(out, "\nMuster is first, or equal to the first, in %d of %d columns", len(columns)-len(behind), len(columns))
		if len(behind) > 0 {
			fmt.Fprintf(out, "; not in: %s", strings.Join(behind, "; "))
		}
		fmt.Fprint(out, ".\n\n")
	}
}

// Where the tables stand in a page.
const (
	tablesBegin = "<!-- tables: begin -->\n"
	tablesEnd   = "<!-- tables: end -->\n"
)

// replace replaces the tables of a page.
func replace(path string, results []Result) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(page, []byte(tablesBegin))
	_, after, ends := bytes.Cut(rest, []byte(tablesEnd))
	if !begins || !ends {
		return fmt.Errorf("%s: want a line %q, and behind it a line %q", path, strings.TrimSpace(tablesBegin), strings.TrimSpace(tablesEnd))
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(tablesBegin)
	report(&out, results)
	out.WriteString(tablesEnd)
	out.Write(after)
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// faults are what may never be, of all results of a contender.
func faults(results []Result, contender string) error {
	var all []error
	for _, r := range results {
		if r.Contender != contender {
			continue
		}
		if err := r.faults(); err != nil {
			all = append(all, fmt.Errorf("%s, seed %d: %w", r.Trace, r.Seed, err))
		}
	}
	slices.SortStableFunc(all, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}
