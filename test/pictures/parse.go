package pictures

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/topology"
)

var defaultLayers = []string{"SpineLayer", "BlockLayer", topology.NodeLayer}

// Parse reads a picture.
func Parse(text string) (*Cluster, error) {
	p := parser{
		layers: defaultLayers,
		marks:  map[string]picture.Marks{},
		pods:   map[string]PodKind{},
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if err := p.line(line, i == 0); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if err := p.closeDomains(0); err != nil {
		return nil, err
	}
	if len(p.nodes) == 0 {
		return nil, fmt.Errorf("there are no nodes")
	}
	c := &Cluster{Cluster: picture.Cluster{Tree: topology.Build(p.layers[:p.depth()], p.nodes)}, Pods: p.pods}
	c.Nodes = make([]picture.Marks, c.Tree.NumNodes())
	for i := range c.Nodes {
		c.Nodes[i] = p.marks[c.Tree.NodeName(i)]
	}
	return c, nil
}

type parser struct {
	layers []string
	path   []openDomain // the domains that contain the line
	nodes  []topology.Node
	marks  map[string]picture.Marks // by node name
	pods   map[string]PodKind
}

// openDomain is a domain whose lines are being read.
type openDomain struct {
	name   string // "" if it has none
	indent int
	nodes  int // number of nodes before it
}

// depth counts the layers above the nodes.
func (p *parser) depth() int { return len(p.layers) - 1 }

func (p *parser) line(line string, first bool) error {
	words := strings.Fields(line)
	if len(words) == 0 {
		return fmt.Errorf("there is nothing on it")
	}
	if key, ok := strings.CutSuffix(words[0], ":"); ok {
		if key == "layers" && first {
			p.layers = words[1:]
			if len(p.layers) == 0 || p.layers[p.depth()] != topology.NodeLayer {
				return fmt.Errorf("the last layer must be %s", topology.NodeLayer)
			}
			return nil
		}
		return p.kind(key, words[1:])
	}
	indent := len(line) - len(strings.TrimLeft(line, " "))
	if err := p.closeDomains(indent); err != nil {
		return err
	}
	if len(p.path) < p.depth() {
		name := words[0]
		if name == "-" {
			name = ""
		}
		p.path = append(p.path, openDomain{name, indent, len(p.nodes)})
		words = words[1:]
		if len(p.path) < p.depth() && len(words) > 0 {
			return fmt.Errorf("%q stands at %s, only a domain of the lowest layer holds nodes", words[0], p.layers[len(p.path)-1])
		}
	}
	return p.pairs(words)
}

// closeDomains removes the domains that do not contain a line with this indent.
func (p *parser) closeDomains(indent int) error {
	for len(p.path) > 0 && p.path[len(p.path)-1].indent >= indent {
		last := p.path[len(p.path)-1]
		if last.nodes == len(p.nodes) {
			return fmt.Errorf("domain %q has no nodes", last.name)
		}
		p.path = p.path[:len(p.path)-1]
	}
	return nil
}

// pairs reads nodes and their marks.
func (p *parser) pairs(words []string) error {
	if len(words)%2 != 0 {
		return fmt.Errorf("node %q has no marks", words[len(words)-1])
	}
	path := make([]string, len(p.path))
	for i, o := range p.path {
		path[i] = o.name
	}
	for pair := range slices.Chunk(words, 2) {
		name := pair[0]
		if _, twice := p.marks[name]; twice {
			return fmt.Errorf("node %q is there twice", name)
		}
		marks, err := parseMarks(pair[1])
		if err != nil {
			return fmt.Errorf("node %q: %w", name, err)
		}
		p.marks[name] = marks
		p.nodes = append(p.nodes, topology.Node{Name: name, Path: path})
	}
	return nil
}

// kind reads the declaration of a letter.
func (p *parser) kind(letter string, words []string) error {
	if len(letter) != 1 || !isVictim(letter) {
		return fmt.Errorf("%q is not a victim's letter", letter)
	}
	k, declared := p.pods[letter]
	if !declared {
		k = ordinary
	}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch {
		case w == "pdb":
			k.Budget = true
		case w == "waits":
			k.Waits = true
		case key == "pdb":
			k.Share.Name, k.Share.Allowed, err = nameAndNumber(value)
		case key == "gang":
			k.Gang.Name, k.Gang.Min, err = nameAndNumber(value)
		case key == "priority":
			var n int64
			n, err = strconv.ParseInt(value, 10, 32)
			k.Priority = int32(n)
		case key == "started":
			k.Started, err = strconv.ParseInt(value, 10, 64)
		default:
			return fmt.Errorf("%s: unknown word %q", letter, w)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", letter, err)
		}
	}
	p.pods[letter] = k
	return nil
}

// nameAndNumber reads NAME:NUMBER.
func nameAndNumber(value string) (name string, n int, err error) {
	name, number, _ := strings.Cut(value, ":")
	n, err = strconv.Atoi(number)
	if name == "" || err != nil || n < 1 {
		return "", 0, fmt.Errorf("%q: want a name, a colon and a number from 1 on", value)
	}
	return name, n, nil
}

// parseMarks reads the marks of one node.
func parseMarks(s string) (picture.Marks, error) {
	var out picture.Marks
	for s != "" {
		times := 1
		if digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]; digits != "" {
			var err error
			if times, err = strconv.Atoi(digits); err != nil || times > 4096 {
				return nil, fmt.Errorf("%s slots are too many", digits)
			}
			s = s[len(digits):]
		}
		var mark string
		mark, s = cutMark(s)
		if !isMark(mark) {
			return nil, fmt.Errorf("%q is not a mark", mark)
		}
		out = append(out, slices.Repeat(picture.Marks{mark}, times)...)
	}
	return out, nil
}

// cutMark splits off the first mark, a shared slot without its parentheses.
func cutMark(s string) (mark, rest string) {
	if shared, ok := strings.CutPrefix(s, "("); ok {
		if letters, rest, ok := strings.Cut(shared, ")"); ok {
			return letters, rest
		}
	}
	return s[:min(1, len(s))], s[min(1, len(s)):]
}

func isMark(m string) bool {
	switch m {
	case "":
		return false
	case picture.Free, picture.Taken, picture.Placed, Bound, Other:
		return true
	}
	for i := range len(m) {
		if !isLetter(m[i]) || m[i:i+1] == picture.Placed {
			return false
		}
	}
	return true
}
