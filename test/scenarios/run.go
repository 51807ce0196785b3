// Package scenarios runs files of pictures over the core: draw a cluster, ask for a place or an eviction, look at the
// answer. The core's packages keep such files in their testdata; files that need several packages are here.
//
// Run with -rewrite to redraw the expected answers; then read the diff.
package scenarios

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/pictures"
	"github.com/muster-scheduler/muster/test/request"
)

// Run runs every text file in a folder. The commands:
//
//	cluster                     reads a picture, which holds until the next one
//	offers [multiple=…]         what each domain offers
//	place want=… […] [keep]     a plan; keep leaves the members where they are
//	evict want=… […] [keep]     an eviction and its plan
//
// A gang asks in the words of request.Parse. With penalty=n1:2,n2:1 soft preferences charge each member on these nodes.
func Run(t *testing.T, folder string) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no pictures in %s: %v", folder, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			var s scene
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				out, err := s.do(d)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return strings.TrimSuffix(out, "\n") + "\n"
			})
		})
	}
}

type scene struct {
	*pictures.Cluster
	penalty []int64 // of the command
}

// World is the cluster's, with the penalties of the command.
func (s *scene) World() plan.World {
	w := s.Cluster.World()
	w.Penalty = s.penalty
	return w
}

func (s *scene) do(d *datadriven.TestData) (string, error) {
	if d.Cmd == "cluster" {
		if len(d.CmdArgs) > 0 {
			return "", fmt.Errorf("cluster takes no arguments")
		}
		c, err := pictures.Parse(d.Input)
		if err != nil {
			return "", err
		}
		s.Cluster = c
		return c.String(), nil
	}
	if s.Cluster == nil || d.Input != "" {
		return "", fmt.Errorf("%s needs a cluster before it and no input", d.Cmd)
	}
	words, keep := argWords(d.CmdArgs)
	words, err := s.penalties(words)
	if err != nil {
		return "", err
	}
	r, err := request.Parse(s.Tree, words)
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "offers":
		if keep || r.Want != 0 {
			return "", fmt.Errorf("offers takes multiples only")
		}
		return s.offers(r), nil
	case "place":
		return s.place(r, keep), nil
	case "evict":
		return s.evict(r, keep), nil
	}
	return "", fmt.Errorf("unknown command %q", d.Cmd)
}

func argWords(args []datadriven.CmdArg) (words []string, keep bool) {
	for _, a := range args {
		if a.Key == "keep" && len(a.Vals) == 0 {
			keep = true
			continue
		}
		words = append(words, a.Key+"="+strings.Join(a.Vals, ","))
	}
	return words, keep
}

// penalties reads what soft preferences charge, and returns the other words.
func (s *scene) penalties(words []string) (others []string, err error) {
	s.penalty = nil
	for _, w := range words {
		nodes, is := strings.CutPrefix(w, "penalty=")
		if !is {
			others = append(others, w)
			continue
		}
		s.penalty = make([]int64, s.Tree.NumNodes())
		for one := range strings.SplitSeq(nodes, ",") {
			name, n, _ := strings.Cut(one, ":")
			node, known := s.Tree.NodeIndex(name)
			if s.penalty[node], err = strconv.ParseInt(n, 10, 64); err != nil || !known {
				return nil, fmt.Errorf("%s: no node or no number", one)
			}
		}
	}
	return others, nil
}

func (s *scene) offers(r plan.Request) string {
	t := s.Tree
	slots := offer.Roll(t, s.World().Free, r.Multiple.Steps(t.Depth()+1))
	layers := make([][]string, t.Depth()+1)
	for d := topology.Root; int(d) < t.Len(); d++ {
		layers[t.Layer(d)] = append(layers[t.Layer(d)], fmt.Sprintf(" %s=%d", pathOf(t, d), slots[d]))
	}
	var out strings.Builder
	for l, all := range layers {
		fmt.Fprintf(&out, "%s:%s\n", t.LayerNames()[l], strings.Join(all, ""))
	}
	return out.String()
}

func (s *scene) place(r plan.Request, keep bool) string {
	p, refusal := plan.Choose(s.World(), r)
	if refusal != nil {
		return refusal.String()
	}
	return s.show(s.Cluster, p, keep)
}

func (s *scene) evict(r plan.Request, keep bool) string {
	nodes, gangs := s.Running()
	e := evict.Cheapest(evict.Problem{World: s.World(), Request: r, Nodes: nodes, Gangs: gangs})
	if e.Plan == nil {
		return "no eviction makes a plan"
	}
	var names []string
	for _, v := range e.Victims {
		names = append(names, s.Tree.NodeName(v.Node)+"/"+s.Letter(v))
	}
	if len(names) == 0 {
		names = []string{"nobody"}
	}
	pods := fmt.Sprintf("%d pods", e.Cost.Pods)
	if e.Cost.Requeued > 0 {
		pods += fmt.Sprintf(", %d sent back", e.Cost.Requeued)
	}
	head := fmt.Sprintf("evict %s (%d violations, %s, highest %d, sum %d)\n",
		strings.Join(names, ", "), e.Cost.Violations, pods, e.Cost.Highest, e.Cost.Sum)
	return head + s.show(s.Cluster.Evict(e.Victims), e.Plan, keep)
}

// show names the places in rank order and draws them.
func (s *scene) show(c *pictures.Cluster, p *plan.Plan, keep bool) string {
	places := make([]string, len(p.Places))
	for i, at := range p.Places {
		places[i] = c.Tree.NodeName(at.Node)
		if at.Count > 1 {
			places[i] += fmt.Sprintf("=%d", at.Count)
		}
	}
	after := c.Place(p)
	if keep {
		s.Cluster = after.Mark(picture.Placed, picture.Taken)
	}
	return fmt.Sprintf("%s: %s\n%s", pathOf(c.Tree, p.Domain), strings.Join(places, " "), after)
}

// pathOf names a domain, with "-" for what has no name.
func pathOf(t *topology.Tree, d topology.ID) string {
	if d == topology.Root {
		return "cluster"
	}
	var names []string
	for ; d != topology.Root; d = t.Parent(d) {
		name := t.Name(d)
		if name == "" {
			name = "-"
		}
		names = append(names, name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}
