package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is all drains of one run.
type Report struct {
	Results []*Result `json:"results"`
}

// group is the drains that are compared with one another.
type group struct {
	title   string
	results []*Result
}

func (r Report) groups() (all []group) {
	for _, result := range r.Results {
		title := fmt.Sprintf("%s, %d nodes", result.Shape, result.Nodes)
		if result.Running {
			title += ", while pods come"
		}
		i := slices.IndexFunc(all, func(g group) bool { return g.title == title })
		if i < 0 {
			all = append(all, group{title: title})
			i = len(all) - 1
		}
		all[i].results = append(all[i].results, result)
	}
	return all
}

// of returns one contender's drain, or nil.
func (g group) of(contender string) *Result {
	i := slices.IndexFunc(g.results, func(r *Result) bool { return r.Contender == contender })
	if i < 0 {
		return nil
	}
	return g.results[i]
}

// ratio says how many times as fast as another contender a drain was.
func (g group) ratio(r *Result, to string) string {
	other := g.of(to)
	if other == nil || other.PodsPerS == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", r.PodsPerS/other.PodsPerS)
}

// table writes the figures for people.
func (r Report) table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range r.groups() {
		fmt.Fprintf(out, "\n%s\n\tpods/s\t÷ stock\t÷ floor\tgang p50 s\tp99 s\twrites/pod\tCPU ms/pod\tpeak MB\t\n", g.title)
		for _, one := range g.results {
			fmt.Fprintf(out, "%s\t%.0f\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\n", one.Contender, one.PodsPerS,
				g.ratio(one, "stock"), g.ratio(one, "floor"), one.P50, one.P99, one.allWrites(),
				1000*one.CPU/float64(one.Shape.Total()), one.PeakMB, one.verdict())
		}
	}
	return out.Flush()
}

func (r *Result) allWrites() (sum float64) {
	for _, n := range r.Writes {
		sum += n
	}
	return sum
}

// verdict is empty for a drain without faults.
func (r *Result) verdict() string {
	if len(r.Failures) == 0 {
		return ""
	}
	return fmt.Sprintf("WRONG: %s (%d in all)", r.Failures[0], len(r.Failures))
}

func (r Report) writeJSON(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// bar is one drain in the chart; lengths are in pixels.
type bar struct {
	Y, Label     int // of the bar's upper edge and of its words
	Width, After int // how long it is, and where its value stands
	Name, Value  string
	Colour       string
}

type chart struct {
	Height      int
	From, Names int // where bars begin, and where their names end
	Titles      []bar
	Bars        []bar
}

const (
	barHeight = 16
	barsFrom  = 170
	barsWide  = 500
)

var colours = map[string]string{"floor": "#999999", "muster": "#2f6fba"}

var chartText = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{{.Height}}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
{{range .Titles}}<text x="8" y="{{.Label}}" font-weight="bold">{{.Name}}</text>
{{end}}{{range .Bars}}<text x="{{$.Names}}" y="{{.Label}}" text-anchor="end">{{.Name}}</text>
<rect x="{{$.From}}" y="{{.Y}}" width="{{.Width}}" height="12" fill="{{.Colour}}"/>
<text x="{{.After}}" y="{{.Label}}">{{.Value}}</text>
{{end}}</svg>
`))

// writeSVG draws pods a second as bars; every group has a scale of its own.
func (r Report) writeSVG(path string) error {
	c := chart{From: barsFrom, Names: barsFrom - 8}
	y := barHeight
	for _, g := range r.groups() {
		c.Titles = append(c.Titles, bar{Label: y, Name: g.title + " (pods a second)"})
		y += barHeight / 2
		most := 1.0
		for _, one := range g.results {
			most = max(most, one.PodsPerS)
		}
		for _, one := range g.results {
			c.Bars = append(c.Bars, newBar(y, one, one.PodsPerS/most))
			y += barHeight
		}
		y += 2 * barHeight
	}
	c.Height = y
	return drawTo(path, c)
}

func newBar(y int, r *Result, part float64) bar {
	colour := colours[r.Contender]
	if colour == "" {
		colour = "#c9a25b"
	}
	width := int(part * barsWide)
	return bar{
		Y: y, Label: y + 10, Width: width, After: barsFrom + width + 6,
		Name: r.Contender, Colour: colour, Value: fmt.Sprintf("%.0f", r.PodsPerS),
	}
}

func drawTo(path string, c chart) error {
	var text strings.Builder
	if err := chartText.Execute(&text, c); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
