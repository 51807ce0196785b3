package device_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-scheduler/muster/pkg/device"
)

// TestPictures runs files of pictures. The commands:
//
//	node [word…]           reads a picture of a node for the commands up to the next picture.
//	slots ask…             counts such members on the node, at most most=….
//	place ask… [n=…]       returns the devices of members; more lines ask for more members; keep keeps them used.
//	free mark…             frees the devices of members.
//
// Run with -rewrite to redraw the expected answers; then read the diff.
func TestPictures(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" {
			return
		}
		var s *scene
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			words, rest := map[string]string{}, []string(nil)
			for _, a := range d.CmdArgs {
				v := strings.Join(a.Vals, ",")
				words[a.Key] = v
				rest = append(rest, strings.TrimSuffix(a.Key+"="+v, "="))
			}
			if d.Cmd == "node" {
				var err error
				if s, err = parse(words, d.Input); err != nil {
					return "error: " + err.Error() + "\n"
				}
				return s.draw()
			}
			out, err := s.do(d.Cmd, rest, d.Input)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			return out
		})
	})
}

func (s *scene) do(cmd string, words []string, input string) (string, error) {
	if cmd == "free" {
		for _, mark := range words {
			s.state.Free(s.held[mark])
			delete(s.held, mark)
		}
		return s.draw(), nil
	}
	n, most, keep, solver := 1, 4096, false, &device.Solver{}
	var left []string
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "n":
			n, _ = strconv.Atoi(v)
		case "most":
			most, _ = strconv.Atoi(v)
		case "packed":
			solver.Packed = true
		case "work":
			solver.Work, _ = strconv.Atoi(v)
		case "keep":
			keep = true
		default:
			left = append(left, w)
		}
	}
	members, bad, err := requests(left, input, n)
	if err != nil || bad != nil {
		if bad != nil {
			return bad.Text() + "\n", nil
		}
		return "", err
	}
	switch cmd {
	case "slots":
		c := solver.Slots(s.state, members[0], most)
		return s.count(solver, c.Slots, c.Exact, members), nil
	case "place":
		all, ok, exact := solver.Choose(s.state, members)
		if !ok {
			return s.count(solver, 0, exact, members), nil
		}
		return s.placed(all, keep), nil
	}
	return "", fmt.Errorf("unknown command %s", cmd)
}

// requests reads what members request: the members of the command's own line, so many of them, or of each line of the input.
func requests(words []string, input string, n int) (out []*device.Request, bad *device.Invalid, err error) {
	lines := []string{strings.Join(words, " ")}
	if input != "" {
		lines = strings.Split(strings.TrimSpace(input), "\n")
	}
	known := map[string]*device.Request{}
	for _, l := range lines {
		if known[l] == nil {
			a, err := ask(strings.Fields(l))
			if err != nil {
				return nil, nil, err
			}
			if known[l], bad = a.Request(); bad != nil {
				return nil, bad, nil
			}
			if known[l] == nil {
				return nil, nil, fmt.Errorf("%q asks for nothing", l)
			}
		}
		for range n {
			out = append(out, known[l])
		}
	}
	return out, nil, nil
}

func (s *scene) count(solver *device.Solver, slots int, exact bool, members []*device.Request) string {
	out := strconv.Itoa(slots)
	if !exact {
		return out + ", perhaps more\n"
	}
	if slots > 0 {
		return out + "\n"
	}
	if why := solver.Why(s.state, members); why != nil {
		out += ": " + why.Text()
		if why.Lasting {
			out += ", whoever leaves"
		}
	}
	return out + "\n"
}

// placed draws members with the next free marks.
func (s *scene) placed(all []device.Allocation, keep bool) string {
	var marks []string
	for _, a := range all {
		m := 'a'
		for s.held[string(m)] != nil {
			m++
		}
		marks = append(marks, string(m))
		s.held[string(m)] = a
		s.state.Take(a)
	}
	out := s.draw()
	if !keep {
		for i, m := range marks {
			s.state.Free(all[i])
			delete(s.held, m)
		}
	}
	return out
}
