package main

import (
	"fmt"
	"html/template"
	"os"
	"strings"
)

// charted are the columns that are drawn.
var charted = []string{
	"starts in one leaf, % of those of several pods", "leafs above the least, for 100 starts", "wait of 9 and more pods, s, p50",
	"victims, pods for 100 starts", "held by gangs that are not whole, pods × s", "largest gang that fits a leaf, mean",
}

// mark is a bar or some words; lengths are in pixels.
type mark struct {
	X, Y, Width int
	Text        string
	Colour      string
	Bold        bool
}

type chart struct {
	Wide, High  int
	Bars, Words []mark
}

const (
	rowHigh  = 15
	barsFrom = 110
	barsWide = 190
	panel    = 380 // of one kind
)

var chartText = template.Must(template.New("chart").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Wide}}" height="{{.High}}" font-family="sans-serif" font-size="11">
<rect width="100%" height="100%" fill="#ffffff"/>
{{range .Bars}}<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="11" fill="{{.Colour}}"/>
{{end}}{{range .Words}}<text x="{{.X}}" y="{{.Y}}"{{if .Bold}} font-weight="bold"{{end}}>{{.Text}}</text>
{{end}}</svg>
`))

// drawTo draws some columns of all tables: a kind of trace beside the other, a column below the other.
func drawTo(path string, all []table) error {
	c := chart{Wide: panel * len(all)}
	for i, t := range all {
		x, y := panel*i+8, rowHigh
		c.word(x, y, t.kind, true)
		for row, of := range columns {
			if y = c.column(t, row, of, x, y); y > c.High {
				c.High = y
			}
		}
	}
	c.High += rowHigh
	var text strings.Builder
	if err := chartText.Execute(&text, c); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// column draws one column, unless the chart leaves it out, and returns where the next begins.
func (c *chart) column(t table, row int, of column, x, y int) int {
	is := false
	for _, name := range charted {
		is = is || name == of.name
	}
	if !is {
		return y
	}
	y += 3 * rowHigh / 2
	better := "less is better"
	if of.more {
		better = "more is better"
	}
	c.word(x, y, fmt.Sprintf("%s (%s)", of.name, better), false)
	most := 0.0
	for _, one := range t.cells[row] {
		most = max(most, one.mean)
	}
	for i, name := range t.contenders {
		y += rowHigh
		colour := "#c9a25b"
		if name == "muster" {
			colour = "#2f6fba"
		}
		width := 0
		if most > 0 {
			width = int(t.cells[row][i].mean / most * barsWide)
		}
		c.word(x+8, y, name, false)
		c.Bars = append(c.Bars, mark{X: x + barsFrom, Y: y - 10, Width: max(1, width), Colour: colour})
		c.word(x+barsFrom+width+5, y, t.cells[row][i].said(), false)
	}
	return y
}

func (c *chart) word(x, y int, text string, bold bool) {
	c.Words = append(c.Words, mark{X: x, Y: y, Text: text, Bold: bold})
}
