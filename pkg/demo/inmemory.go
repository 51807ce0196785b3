package demo

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// The files of the two documented examples.
var (
	networkFiles  = []string{"clusternetworktopology.yaml", "example-nodes.yaml"}
	example1Files = []string{"example1-podgroup.yaml", "example1-pods.yaml"}
	victimFiles   = []string{"example2-priorityclasses.yaml", "example2-low-priority-pods.yaml"}
	example2Files = []string{"example2-podgroup.yaml", "example2-pods.yaml"}
)

// comparedInMemory are the documented columns that a simulation also has.
var comparedInMemory = []string{"NAME", "NODE", "NOMINATED NODE"}

// RunInMemory runs the two documented examples with the scheduler in this process, without a control plane, and prints to out. The error
// says what could not be done, or how many checks failed.
func RunInMemory(ctx context.Context, out io.Writer) error {
	n := newNarrator(out)
	n.say("Muster demo without a cluster: the scheduler runs in this process, over the YAML of the two documented examples.",
		"No API server and no node is needed.", "✓ marks what was compared with the documents and is the same.")
	n.title("Example 1: PreferGather and binpack")
	n.say("A gang of 4 pods, each as large as a node, would like to be in one block, or else in one spine.")
	m := inMemory{narrator: n, mayBeSeen: func(simulate.State) bool { return true }}
	err := m.play(ctx, "all 4 run, rank by rank on node-5 to node-8", example1Pods, networkFiles, example1Files)
	if err != nil {
		return err
	}
	n.say("Why spine-1? No block has 4 free slots (dots in the tree). " +
		"spine-0 had 5 and spine-1 had 4: binpack takes the spine with the fewest.")

	n.title("Example 2: MustGather and topology-aware preemption")
	n.say("Three low-priority pods (l) run on node-0, node-1 and node-5. A gang of 4 with high priority must be in one spine.",
		"No spine has 4 free slots, so the gang evicts one pod and reserves four nodes until that pod has terminated:")
	before := slices.Concat(networkFiles, victimFiles)
	m.options.VictimsStay = true
	err = m.play(ctx, "one victim terminates; all 4 wait, nominated by rank to node-5 to node-8", example2During, before, example2Files)
	if err != nil {
		return err
	}
	n.say("When the victim has terminated, the gang starts whole:")
	m.options.VictimsStay, m.mayBeSeen = false, func(s simulate.State) bool { return s != simulate.Evicted }
	err = m.play(ctx, "all 4 run where they were nominated; the other two low-priority pods run on", example2After, before, example2Files)
	if err != nil {
		return err
	}
	return n.verdict(time.Since(n.began))
}

// inMemory runs examples as simulations.
type inMemory struct {
	*narrator
	options   simulate.Options
	mayBeSeen func(simulate.State) bool // whether pods in this state still exist
}

// play simulates the files first and then later, shows the pods and the tree, and compares the pods with the table want.
func (m inMemory) play(ctx context.Context, what, want string, first, later []string) error {
	start, err := readExamples(first)
	if err != nil {
		return err
	}
	next, err := readExamples(later)
	if err != nil {
		return err
	}
	result, err := simulate.Run(ctx, m.options, start, next)
	if err != nil {
		return err
	}
	table := m.table(result)
	m.show("\n" + table)
	m.checks(rows(what, want, comparedInMemory...)(table))
	drawn, err := m.tree(result, slices.Concat(first, later))
	m.show("\n" + drawn)
	return err
}

// table formats the pods as "kubectl get pods -o wide" does.
func (m inMemory) table(r *simulate.Result) string {
	var out strings.Builder
	row := func(cells ...any) { fmt.Fprintf(&out, "%-20s  %-8s  %-8s  %s\n", cells...) }
	row("NAME", "STATE", "NODE", "NOMINATED NODE")
	for _, p := range r.Pods {
		if m.mayBeSeen(p.State) {
			row(p.Name, p.State, orNone(p.Node), orNone(p.NominatedNode))
		}
	}
	return out.String()
}

// orNone returns what kubectl prints for a value.
func orNone(value string) string {
	if value == "" {
		return "<none>"
	}
	return value
}

// tree draws the nodes of files with their pods where the result has them.
func (m inMemory) tree(r *simulate.Result, files []string) (string, error) {
	var list strings.Builder
	for _, name := range files {
		content, err := fs.ReadFile(examples.FS, name)
		if err != nil {
			return "", err
		}
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			item, err := yaml.YAMLToJSON([]byte(document))
			if err != nil {
				return "", err
			}
			list.WriteString("," + string(item))
		}
	}
	o, err := decodeObjects(`{"items":[` + list.String()[1:] + "]}")
	if err != nil {
		return "", err
	}
	nodes := map[string]string{}
	for _, p := range r.Pods {
		if m.mayBeSeen(p.State) {
			nodes[p.Name] = p.Node
		}
	}
	for i := range o.pods {
		o.pods[i].Spec.NodeName = nodes[o.pods[i].Name]
	}
	c, err := o.pictureForExamples()
	if err != nil {
		return "", err
	}
	return drawOffers(c), nil
}

// readExamples reads files of the examples.
func readExamples(files []string) (*simulate.Set, error) {
	set := &simulate.Set{}
	for _, name := range files {
		content, err := fs.ReadFile(examples.FS, name)
		if err != nil {
			return nil, err
		}
		if err := set.Add(name, content); err != nil {
			return nil, err
		}
	}
	return set, nil
}
