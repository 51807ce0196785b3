package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileOf is where what was seen of a play is.
func fileOf(folder string, t Trace, contender string) string {
	return filepath.Join(folder, fmt.Sprintf("%s-%d-%s.txt", t.Kind, t.Seed, contender))
}

// seen is what was seen of a play.
type seen struct {
	trace    string // sum of the trace that was played
	requests float64
	events   []Event
}

// requested begins the line that says how many requests the scheduler has made, played the one that says which trace was played.
const (
	requested = "# requests "
	played    = "# trace "
)

// sum tells traces apart.
func (t Trace) sum() string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // of a type of ours
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))[:16]
}

// write has a line for each event, below the number of requests and the trace's sum.
func write(file string, s seen) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s%.0f\n%s%s\n", requested, s.requests, played, s.trace)
	for _, e := range s.events {
		fmt.Fprintf(&text, "%9.3f %-8s %s %d %s %s\n", e.At.Seconds(), e.Kind, e.Gang, e.Run, e.Pod, e.Node)
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// read returns what write wrote.
func read(file string) (s seen, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return seen{}, err
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		if text, is := strings.CutPrefix(lines.Text(), requested); is {
			s.requests, err = strconv.ParseFloat(text, 64)
		} else if text, is := strings.CutPrefix(lines.Text(), played); is {
			s.trace = text
		} else {
			var e Event
			e, err = eventOf(lines.Text())
			s.events = append(s.events, e)
		}
		if err != nil {
			return seen{}, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return s, lines.Err()
}

// eventOf reads a line.
func eventOf(line string) (e Event, err error) {
	words := strings.Fields(line)
	if len(words) < 4 || len(words) > 6 {
		return e, fmt.Errorf("%q: want time, what, gang, run, pod, node", line)
	}
	at, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return e, err
	}
	e.At, e.Gang = time.Duration(at*float64(time.Second)), words[2]
	if e.Run, err = strconv.Atoi(words[3]); err != nil {
		return e, err
	}
	kind := slices.IndexFunc(kinds, func(k EventKind) bool { return k.String() == words[1] })
	if kind < 0 {
		return e, fmt.Errorf("%q: want one of %v", words[1], kinds)
	}
	e.Kind = kinds[kind]
	words = append(words[4:], "", "")
	e.Pod, e.Node = words[0], words[1]
	return e, nil
}

// kinds are all that is seen.
var kinds = []EventKind{Created, Bound, Evicted, Gone, Finished, Stopped}

// noGang stands in the line of an event without a gang.
const noGang = "-"

// judgeAgain judges plays from the events that -events has kept.
func judgeAgain(o options, traces []Trace) (results []Result, err error) {
	for _, t := range traces {
		for _, c := range o.contenders {
			file := fileOf(o.again, t, c)
			s, err := read(file)
			if err != nil {
				return nil, err
			}
			if s.trace != t.sum() {
				return nil, fmt.Errorf("%s: trace %q was played, and %s with seed %d and -for %v is %q: was it played with another -for, or by another version?",
					file, s.trace, t.Kind, t.Seed, o.during, t.sum())
			}
			results = append(results, Result{Contender: c, Trace: t.Kind, Seed: t.Seed, Columns: Judge(t, s.events), Requests: s.requests})
		}
	}
	return results, nil
}
