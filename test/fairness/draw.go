package main

import (
	"fmt"
	"strings"
)

// Sizes of the drawing, in pixels.
const (
	wide, high = 680, 110 // of one team's part
	left, gap  = 60, 34
)

var colours = []string{"#2f6fba", "#c9a25b", "#4f9a63"}

// svg draws, for each team, what it used as an area and its fair share as a line.
func (m *market) svg() string {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		left+wide+16, len(teams)*(high+gap)+24)
	out.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	for i, t := range teams {
		top := gap - 8 + i*(high+gap)
		fmt.Fprintf(&out, `<text x="%d" y="%d">%s: min %d, weight %d</text>`+"\n", left, top-6, t.name, t.min, t.weight)
		fmt.Fprintf(&out, `<path d="%sL%d %dL%d %dZ" fill="%s" fill-opacity="0.45"/>`+"\n",
			m.steps(top, func(is moment) int64 { return is.used[i] }), left+wide, top+high, left, top+high, colours[i])
		fmt.Fprintf(&out, `<path d="%s" fill="none" stroke="#222222"/>`+"\n", m.steps(top, func(is moment) int64 { return is.entitled[i] }))
		for _, n := range []int{0, 64, 128, 192, 256} {
			y := top + high - n*high/places
			fmt.Fprintf(&out, `<path d="M%d %dH%d" stroke="#dddddd" stroke-width="0.5"/><text x="%d" y="%d" text-anchor="end">%d</text>`+"\n", left,
				y, left+wide, left-6, y+4, n)
		}
	}
	bottom := len(teams)*(high+gap) + 12
	for hour := 0; hour*60 <= m.now; hour += 12 {
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle">%d h</text>`+"\n", left+hour*60*wide/m.now, bottom, hour)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// steps is the path of an amount over time, by the column of pixels.
func (m *market) steps(top int, of func(moment) int64) string {
	var out strings.Builder
	at := 0
	last := int64(-1)
	for x := range wide {
		now := x * m.now / wide
		for at+1 < len(m.at) && m.at[at+1].now <= now {
			at++
		}
		n := of(m.at[at])
		if m.at[at].now > now {
			n = 0
		}
		n = min(n, places)
		y := top + high - int(n)*high/places
		switch {
		case last < 0:
			fmt.Fprintf(&out, "M%d %d", left, y)
		case n != last:
			fmt.Fprintf(&out, "H%dV%d", left+x, y)
		}
		last = n
	}
	fmt.Fprintf(&out, "H%d", left+wide)
	return out.String()
}
