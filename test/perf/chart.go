package main

import (
	"fmt"
	"html/template"
	"os"
	"strings"
)

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
