package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// reporter reports the progress of slow steps: on a terminal in one line with the seconds, else in a line at the start, every 30 s, and
// at the end.
type reporter struct {
	w        io.Writer
	terminal bool
}

func newReporter(w io.Writer) reporter {
	if w == nil {
		return reporter{w: io.Discard}
	}
	file, ok := w.(*os.File)
	return reporter{w: w, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// during runs step, reports its progress under the name what, and returns its error.
func (r reporter) during(what string, step func() error) error {
	every, line := 30*time.Second, "%s: %d s\n"
	if r.terminal {
		every, line = time.Second, "\r\033[K%s: %d s"
		fmt.Fprint(r.w, what)
	} else {
		fmt.Fprintln(r.w, what)
	}
	start := time.Now()
	seconds := func() int { return int(time.Since(start).Round(time.Second).Seconds()) }
	tick := time.NewTicker(every)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- step() }()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(r.w, line, what, seconds())
		case err := <-done:
			result := "done"
			switch {
			case errors.Is(err, context.Canceled):
				result = "interrupted"
			case err != nil:
				result = "failed"
			}
			if r.terminal {
				fmt.Fprint(r.w, "\r\033[K")
			}
			fmt.Fprintf(r.w, "%s: %s after %d s\n", what, result, seconds())
			return err
		}
	}
}
