package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// churnTable writes the figures of churns: a line for each phase, and below what else is
// known of the contenders.
func (r Report) churnTable(w io.Writer) error {
	for rest := r.Churns; len(rest) > 0; {
		title := rest[0].title()
		n := 1
		for n < len(rest) && rest[n].title() == title {
			n++
		}
		if err := churnsTable(w, title, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func (c *Churn) title() string { return fmt.Sprintf("%s that do not fit, %d nodes", c.Shape, c.Nodes) }

// churnsTable writes the figures that are compared with one another.
func churnsTable(w io.Writer, title string, all []*Churn) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "\n%s\n\t\ts\tchanges\tpods/s\tCPU s\tFilter runs\tplans\tcycles\t/gang\t/gang/change\twrites\t/gang\t/gang/change\t\n",
		title)
	for _, c := range all {
		for _, p := range c.Phases {
			fmt.Fprintln(out, p.row(c))
		}
	}
	for _, c := range all {
		fmt.Fprintf(out, "%s: longest message %d bytes (%s); peak %.0f MB; at most %d nodes free in a spine. %s\n",
			c.Contender, c.Longest.Bytes, cmp.Or(c.Longest.Of, "none"), c.PeakMB, c.Free, verdict(c.Failures))
	}
	return out.Flush()
}

// row is a phase as a line of the table.
func (p *Phase) row(c *Churn) string {
	gangs, writes := float64(c.Shape.Gangs), sum(p.Writes)
	return strings.Join([]string{
		c.Contender, p.Name, fmt.Sprintf("%.1f", p.Seconds), fmt.Sprint(p.Changes), p.speed(), fmt.Sprintf("%.2f", p.CPU),
		maybe(p.FilterRuns), maybe(p.Plans),
		maybe(p.Cycles), maybe(share(p.Cycles, gangs)), p.perChange(share(p.Cycles, gangs)),
		fmt.Sprintf("%.0f", writes), number(writes / gangs), p.perChange(share(&writes, gangs)),
		kinds(p.Writes),
	}, "\t")
}

// speed is empty where nothing was to be bound.
func (p *Phase) speed() string {
	if p.PodsPerS == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", p.PodsPerS)
}

// perChange is empty where nothing changed.
func (p *Phase) perChange(n *float64) string {
	if p.Changes == 0 {
		return ""
	}
	return maybe(share(n, float64(p.Changes)))
}

// kinds lists what was written, the most frequent first.
func kinds(writes map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(writes), func(a, b string) int {
		return cmp.Or(cmp.Compare(writes[b], writes[a]), cmp.Compare(a, b))
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s %.0f", n, writes[n])
	}
	return strings.Join(names, ", ")
}
