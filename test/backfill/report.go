package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/test/history"
)

// late is how much later than its first promise a gang may start: the scheduler tries it every ten seconds.
const late = 30 * time.Second

// counts returns whether a job came after the begin of the history.
func counts(w *history.Wait) bool { return w.At > 0 }

// waits returns the percentiles of the waits of jobs. A job that has not started has waited for longer than until the end.
func waits(r history.Result, of func(*history.Wait) bool) string {
	var all []*history.Wait
	for _, w := range r.Waits {
		if counts(w) && of(w) {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return "–"
	}
	slices.SortFunc(all, func(x, y *history.Wait) int { return cmp.Compare(x.For, y.For) })
	var texts []string
	for _, percent := range []int{50, 95, 100} {
		w := history.Percentile(all, percent)
		text := history.Text(w.For)
		if !w.Started {
			text = "> " + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " / ")
}

// judged returns the jobs with a promise that was due in the history, and which of these have started in time.
func judged(r history.Result, o history.Options) (all, kept []*history.Wait) {
	for _, w := range r.Waits {
		started := w.At + w.For
		if w.Promised == 0 || !w.Started && w.Promised+late > o.During() {
			continue
		}
		all = append(all, w)
		if w.Started && started <= w.Promised+late {
			kept = append(kept, w)
		}
	}
	return all, kept
}

// latest returns how much later than promised a gang has started, at the most.
func latest(r history.Result, o history.Options) (most time.Duration) {
	all, _ := judged(r, o)
	for _, w := range all {
		most = max(most, w.At+w.For-w.Promised)
	}
	return most
}

// nodes returns how many of the cluster's nodes a sum of node times is on the mean.
func nodes(sum time.Duration, o history.Options, seeds int) string {
	return fmt.Sprintf("%.1f", sum.Hours()/(o.During().Hours()*float64(seeds)))
}

// number returns how many jobs there are of a kind.
func number(r history.Result, of func(*history.Wait) bool) string {
	n := 0
	for _, w := range r.Waits {
		if of(w) {
			n++
		}
	}
	return fmt.Sprint(n)
}

// rows returns the lines of the table.
func rows(o history.Options, seeds int, results []history.Result) (all []history.Row) {
	sizes, causes := map[int]int{}, map[string]bool{} // sizes: how many jobs have so many GPUs
	for _, w := range results[0].Waits {
		if counts(w) {
			sizes[w.Nodes*w.GPUs]++
		}
	}
	for _, r := range results {
		for _, w := range r.Waits {
			for _, cause := range w.Moves {
				causes[cause] = true
			}
		}
	}
	for _, gpus := range slices.Sorted(maps.Keys(sizes)) {
		all = append(all, history.Row{Name: fmt.Sprintf("wait of %d GPUs (%d jobs)", gpus, sizes[gpus]), Text: func(r history.Result) string {
			return waits(r, func(w *history.Wait) bool { return w.Nodes*w.GPUs == gpus })
		}})
	}
	all = append(all,
		history.Row{Name: "jobs that have not started", Text: func(r history.Result) string {
			return number(r, func(w *history.Wait) bool { return !w.Started })
		}},
		history.Row{Name: "GPUs in use, mean", Text: func(r history.Result) string { return r.Utilisation(o, seeds) }},
		history.Row{Name: "nodes held for waiting gangs, mean", Text: func(r history.Result) string { return nodes(r.Holds, o, seeds) }},
		history.Row{Name: "… of these with backfilled work, mean", Text: func(r history.Result) string { return nodes(r.Backfilled, o, seeds) }},
		history.Row{Name: "gangs with a promised start", Text: func(r history.Result) string {
			promised, _ := judged(r, o)
			return fmt.Sprint(len(promised))
		}},
		history.Row{Name: "… that started by the first promise", Text: func(r history.Result) string {
			promised, kept := judged(r, o)
			if len(promised) == 0 {
				return "–"
			}
			return fmt.Sprintf("%.1f %% (%d)", 100*float64(len(kept))/float64(len(promised)), len(kept))
		}},
		history.Row{Name: "… latest start after the first promise", Text: func(r history.Result) string { return history.Text(latest(r, o)) }},
	)
	for _, cause := range slices.Sorted(maps.Keys(causes)) {
		all = append(all, history.Row{Name: "promises moved: " + cause, Text: func(r history.Result) string {
			n := 0
			for _, w := range r.Waits {
				for _, c := range w.Moves {
					if c == cause {
						n++
					}
				}
			}
			return fmt.Sprint(n)
		}})
	}
	return all
}

// report writes the table.
func report(out io.Writer, o history.Options, seeds []uint64, results []history.Result) {
	fmt.Fprintf(out, "\n**%s**: %d nodes in spines of %d, %g days, load %g, jobs of %v to %v, seeds %s. Waits are p50 / p95 / longest.\n\n",
		o.Mix, o.Nodes, o.Spine, o.Days, o.Load, o.Shortest, o.Longest, strings.Trim(fmt.Sprint(seeds), "[]"))
	history.WriteTable(out, configurations, rows(o, len(seeds), results), results)
}
