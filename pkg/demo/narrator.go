package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// demoWidth is the width of the demo's output in characters.
const demoWidth = 100

// narrator prints titles, prose, commands with their output, and the results of checks, which it counts.
type narrator struct {
	out    io.Writer
	began  time.Time
	colour bool
	passed int
	failed []string
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{out: out, began: time.Now(), colour: mayColour(out)}
}

// mayColour says whether out is a terminal whose user wants colours.
func mayColour(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Colours, as terminal escape codes.
const (
	bold  = "1"
	green = "32"
	red   = "31"
)

// paint returns text in a colour, if the output is a terminal with colours.
func (n *narrator) paint(colour, text string) string {
	if !n.colour {
		return text
	}
	return "\033[" + colour + "m" + text + "\033[0m"
}

// title prints the title of a part of the demo.
func (n *narrator) title(text string) { fmt.Fprintf(n.out, "\n%s\n", n.paint(bold, "== "+text)) }

// say prints the sentences as one paragraph.
func (n *narrator) say(sentences ...string) {
	fmt.Fprintf(n.out, "\n%s\n", wrap(strings.Join(sentences, " "), 0, demoWidth))
}

// show prints text as it is.
func (n *narrator) show(text string) { fmt.Fprint(n.out, text) }

// command prints a kubectl command as typed.
func (n *narrator) command(args ...string) {
	fmt.Fprintf(n.out, "\n%s\n", n.paint(bold, commandLine(args)))
}

// check is the result of a comparison. A failed check prints the expected and the actual text.
type check struct {
	what      string
	ok        bool
	want, got string
}

// equal checks that two texts are equal. Of long texts it shows only lines from the first difference on.
func equal(what, want, got string) check {
	ok := want == got
	if w, g := strings.Split(want, "\n"), strings.Split(got, "\n"); !ok && max(len(w), len(g)) > fewLines {
		same := 0
		for same < min(len(w), len(g)) && w[same] == g[same] {
			same++
		}
		want, got = linesFrom(w, same), linesFrom(g, same)
	}
	return check{what, ok, want, got}
}

const fewLines = 8

// linesFrom returns a few lines from line at on, with their position.
func linesFrom(lines []string, at int) string {
	quoted := lines[at:min(len(lines), at+fewLines/2)]
	return fmt.Sprintf("from line %d of %d:\n%s", at+1, len(lines), strings.Join(quoted, "\n"))
}

// contains checks that text contains part.
func contains(what, text, part string) check {
	return check{what, strings.Contains(text, part), "… " + part + " …", text}
}

// checks prints the results of checks and counts them.
func (n *narrator) checks(results []check) {
	fmt.Fprintln(n.out)
	for _, c := range results {
		if c.ok {
			n.passed++
			n.item(green, "✓", c.what)
			continue
		}
		n.failed = append(n.failed, c.what)
		n.item(red, "✗", c.what)
		n.side("expected", c.want)
		n.side("got", c.got)
	}
}

// item prints a line with a mark.
func (n *narrator) item(colour, mark, text string) {
	text = strings.TrimPrefix(wrap("    "+text, 4, demoWidth), "    ")
	fmt.Fprintf(n.out, "  %s %s\n", n.paint(colour, mark), text)
}

// side prints one side of a comparison.
func (n *narrator) side(name, text string) {
	fmt.Fprintf(n.out, "      %s:\n", name)
	if text = strings.Trim(text, "\n"); text == "" {
		text = "(nothing)"
	}
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(n.out, wrap("        "+line, 8, demoWidth))
	}
}

// verdict prints the sum of all checks and returns an error if one has failed.
func (n *narrator) verdict(took time.Duration) error {
	n.title("Result")
	all := n.passed + len(n.failed)
	if len(n.failed) == 0 && all > 0 {
		n.say(fmt.Sprintf("All %d checks passed: the examples end as documented. That took %d seconds.", all, int(took.Seconds())))
		return nil
	}
	n.say(fmt.Sprintf("%d of %d checks failed:", len(n.failed), all))
	for _, what := range n.failed {
		n.item(red, "✗", what)
	}
	return fmt.Errorf("%w: %d of %d checks", errChecksFailed, len(n.failed), all)
}

var errChecksFailed = errors.New("the examples did not end as documented")

// wrap returns text broken at spaces into lines of at most width characters; a longer word is not broken. Lines after the first are
// indented by hang spaces.
func wrap(text string, hang, width int) string {
	var out strings.Builder
	line := text
	for utf8.RuneCountInString(line) > width {
		at := breakAt(line, width)
		if at < 0 {
			break
		}
		out.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", hang) + strings.TrimLeft(line[at:], " ")
	}
	out.WriteString(line)
	return out.String()
}

// breakAt returns the index of the last space within width characters, else of the first space after; -1 if only the indentation has
// spaces.
func breakAt(line string, width int) int {
	at, column, text := -1, 0, false
	for i, r := range line {
		if r == ' ' && text {
			if column > width && at >= 0 {
				return at
			}
			at = i
		}
		text = text || r != ' '
		column++
	}
	return at
}

// commandLine returns a kubectl command for a shell, in several lines if it is too long.
func commandLine(args []string) string {
	const more = ` \`
	line := "$ kubectl"
	var out strings.Builder
	for i := 0; i < len(args); i++ {
		word := quote(args[i])
		if isFlag := strings.HasPrefix(args[i], "-") && !strings.Contains(args[i], "="); isFlag && i+1 < len(args) {
			i++
			word += " " + quote(args[i]) // a flag and its value stay together
		}
		if utf8.RuneCountInString(line+" "+word+more) > demoWidth {
			out.WriteString(line + more + "\n")
			line = "   "
		}
		line += " " + word
	}
	return out.String() + line
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote quotes a word for a shell if necessary.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// kubeTable is a table as kubectl prints it: columns begin where their titles do.
type kubeTable struct {
	titles []string
	rows   [][]string
}

// Titles are separated by two spaces or more, and may contain single ones.
var tableTitle = regexp.MustCompile(`\S+(?: \S+)*`)

// parseTable parses a table as kubectl prints it: the first line has the titles.
func parseTable(text string) kubeTable {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	starts := tableTitle.FindAllStringIndex(lines[0], -1)
	cells := func(line string) []string {
		out := make([]string, len(starts))
		for i, at := range starts {
			end := len(line)
			if i+1 < len(starts) {
				end = min(end, starts[i+1][0])
			}
			out[i] = strings.TrimSpace(line[min(at[0], end):end])
		}
		return out
	}
	t := kubeTable{titles: cells(lines[0])}
	for _, line := range lines[1:] {
		t.rows = append(t.rows, cells(line))
	}
	return t
}

// rowsOf returns each row as text with only these columns, sorted. A missing column is "?".
func (t kubeTable) rowsOf(columns ...string) []string {
	var out []string
	for _, row := range t.rows {
		var cells []string
		for _, c := range columns {
			cell := "?"
			if i := slices.Index(t.titles, c); i >= 0 {
				cell = row[i]
			}
			cells = append(cells, cell)
		}
		out = append(out, strings.Join(cells, "  "))
	}
	slices.Sort(out)
	return out
}

// sameTable checks that two tables have the same rows in these columns. It shows only the rows that differ.
func sameTable(what, want, got string, columns ...string) check {
	w, g := parseTable(want).rowsOf(columns...), parseTable(got).rowsOf(columns...)
	return check{what, slices.Equal(w, g), rowsWithout(w, g), rowsWithout(g, w)}
}

// rowsWithout returns the rows that are not in excluded, as text.
func rowsWithout(rows, excluded []string) string {
	remaining := slices.DeleteFunc(slices.Clone(rows), func(r string) bool { return slices.Contains(excluded, r) })
	if len(remaining) == 0 {
		return "no such row"
	}
	return strings.Join(remaining, "\n")
}

// uninteresting is a column that "-o wide" adds and the documents do not show.
const uninteresting = "READINESS GATES"

// present returns kubectl's output without the column READINESS GATES, wrapped to demoWidth. Longer lines continue below the last column,
// or indented if there are no columns.
func present(text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if at := strings.Index(lines[0], uninteresting); at >= 0 {
		for i, line := range lines {
			lines[i] = strings.TrimRight(line[:min(at, len(line))], " ")
		}
	}
	hang := 4
	if starts := tableTitle.FindAllStringIndex(lines[0], -1); len(lines) > 1 && lines[0] == strings.ToUpper(lines[0]) {
		if last := starts[len(starts)-1][0]; last <= demoWidth*2/3 {
			hang = last
		}
	}
	for i, line := range lines {
		lines[i] = wrap(line, hang, demoWidth)
	}
	return strings.Join(lines, "\n") + "\n"
}
