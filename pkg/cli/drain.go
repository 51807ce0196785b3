package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// drainHow describes the effect of emptying a domain in the help of both commands.
const drainHow = `

The command simulates this. First the scheduler places the waiting gangs and pods. Then the domain's
nodes are cordoned, and their pods are evicted. Controllers recreate the pods, and the scheduler
places them. The other members of a gang run on if the scheduler repairs the gang: if it finds other
nodes for the evicted members in the gang's domain. Otherwise the other members are evicted, too. Of
a LeaderWorkerSet the whole group is evicted. Pods of a DaemonSet and static pods stay. The command
does not check PodDisruptionBudgets.

The verdict is one of three, as text and in the field "verdict":
  fits          every evicted pod runs on another node, and no further pod is evicted
  does not fit  some pod has no other node, or other pods would be evicted for it
  not known     another scheduler places a pod, no controller recreates it, or it depends on
                objects that you may not list; the field "unknown" says which`

// drainCodes is the help text about exit codes.
const drainCodes = `

The exit code is 0 for "fits", 1 for "does not fit", and 2 for "not known", which is also the code
of every error.`

// verdictError returns an ExitError without text for a verdict that is not "fits"; else nil. The printed answer has the verdict.
func verdictError(v ask.Verdict) error {
	switch v {
	case ask.Fits:
		return nil
	case ask.NotKnown:
		return &ExitError{Code: exitUsage}
	}
	return &ExitError{Code: exitFailed}
}

// unknownError returns err as an ExitError with the code of "not known": without an answer it is unknown whether the pods fit.
func unknownError(err error) error {
	if exit := (*ExitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	return &ExitError{exitUsage, err}
}

func newDrainPlanCommand() *cobra.Command {
	f := askFlags{}
	at := ""
	cmd := &cobra.Command{
		Use:   "drain-plan DOMAIN",
		Short: "What stops if a domain is taken out of service, where it goes, and what does not fit",
		Long: `List the gangs that maintenance of a domain stops, the domain where each gang restarts, the pods
that are evicted for them, and the gangs and pods that do not fit elsewhere. DOMAIN is a path as
"topology" prints it (LAYER/PATH also works), or the name of a node.` + drainHow + `

With --at the answer is for a later time: ` + atHelp + askReads + drainCodes,
		Example: `  kubectl muster drain-plan spine-1/block-2
  kubectl muster drain-plan node-7 -o wide
  kubectl muster drain-plan spine-1/block-2 --at 2026-12-01T02:00:00Z
  musterctl drain-plan SpineLayer/spine-1 -f cluster.yaml -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("name a domain: a path as \"topology\" prints it, or the name of a node")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			var d *ask.Drain
			moment, err := parseAt(at)
			if err != nil {
				return err
			}
			err = f.read(cmd, func(ctx context.Context, o ask.Options, set *simulate.Set) (_ any, _ func(bool) string, err error) {
				o.At = moment
				d, err = ask.DrainDomain(ctx, o, set, args[0])
				return d, func(wide bool) string { return drainText(d, wide) }, err
			})
			if err != nil {
				return unknownError(err)
			}
			return verdictError(d.Verdict)
		},
	}
	f.add(cmd)
	addAt(cmd, &at)
	return cmd
}

func newEmptyCommand() *cobra.Command {
	f := askFlags{}
	layer := ""
	cmd := &cobra.Command{
		Use:   "empty --layer LAYER",
		Short: "The domain of a layer that can be emptied by moving the fewest pods",
		Long: `Find the domain of a layer that can be emptied by moving the fewest pods, and say what
"drain-plan" says of it. A domain can be emptied if all its pods fit elsewhere without evicting
other pods. Among equal domains the first name wins. If there is none, each domain's reason is listed.` + drainHow + askReads + drainCodes,
		Example: `  kubectl muster empty --layer SpineLayer
  musterctl empty --layer BlockLayer -f cluster.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if layer == "" {
				return usageError("--layer is missing: name the layer of the domain to empty")
			}
			err := f.read(cmd, func(ctx context.Context, o ask.Options, set *simulate.Set) (any, func(bool) string, error) {
				d, err := ask.Empty(ctx, o, set, layer)
				return d, func(wide bool) string { return drainText(d, wide) }, layerError(err)
			})
			if full := (*ask.FullError)(nil); errors.As(err, &full) && !full.Unknown {
				return err
			}
			return unknownError(err)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&layer, "layer", "", "`LAYER` of which a domain shall be emptied, as \"topology\" lists them")
	return cmd
}

// layerError returns err, as a usage error if it is about an unknown layer.
func layerError(err error) error {
	if unknown := (*ask.LayerError)(nil); errors.As(err, &unknown) {
		return usageError("--layer %w", err)
	}
	return err
}

// drainText formats the effect of emptying a domain.
func drainText(d *ask.Drain, wide bool) string {
	var out strings.Builder
	nodes := fmt.Sprintf("%d nodes", d.Nodes)
	if d.Nodes == 1 {
		nodes = "1 node"
	}
	flow := func(text string) {
		for _, line := range wrapped(text, tableWidth) {
			out.WriteString(line + "\n")
		}
	}
	if d.At != "" {
		flow("At " + d.At + ": " + counted(len(d.Ended), "pod has", "pods have") + " ended as declared.")
	}
	flow(fmt.Sprintf("%s (%s, %s): %s", orCluster(d.Domain), d.Layer, nodes, evictionSentence(d)))
	if d.Pods > 0 {
		flow(verdict(d))
	}
	if b := d.Before; len(b.Starts) > 0 {
		verb := " start"
		if len(b.Starts) == 1 {
			verb = " starts"
		}
		text := "Before that " + severalNames(b.Starts, wide) + verb + " anyway"
		if len(b.Evicted) > 0 {
			text += ", and these are evicted: " + severalNames(b.Evicted, wide)
		}
		flow(text + ".")
	}
	writeMoves(&out, d, wide)
	pods := newTable("POD", "FROM", "TO")
	for i, p := range d.Others {
		if i == maxRows && !wide {
			pods.addMore(len(d.Others) - i)
			break
		}
		to := orDash(p.To)
		if p.Unknown != "" || p.Elsewhere {
			to = notKnown
		}
		pods.add(indented(p.Reason, 3), p.Pod, p.From, to)
	}
	pods.writeLast(&out)
	last := func(what string, names []string) {
		if len(names) > 0 {
			out.WriteByte('\n')
			flow(what + severalNames(names, wide) + ".")
		}
	}
	last("Evicted for the moved pods: ", d.Evicted)
	last("No controller recreates these pods: ", d.Uncontrolled)
	return out.String()
}

// notKnown replaces an unknown node.
const notKnown = "not known"

// writeMoves lists the gangs with evicted members.
func writeMoves(out *strings.Builder, d *ask.Drain, wide bool) {
	t := newTable("GANG", "PRIORITY", "LEAVE", "HERE", "FROM", "TO")
	for i, g := range d.Gangs {
		if i == maxRows && !wide {
			t.addMore(len(d.Gangs) - i)
			break
		}
		leave, to := strconv.Itoa(len(g.Pods)), orCluster(g.To)
		if g.Stops {
			leave = "all " + leave
		}
		switch {
		case g.Unknown != "":
			to = notKnown
		case !g.Fits:
			to = "does not fit"
		}
		note := indented(g.Reason, maxMessageLines)
		if wide {
			for _, p := range g.Pods {
				note += indented(fmt.Sprintf("%s: %s to %s", p.Pod, p.From, orDash(p.To)), maxMessageLines)
			}
		}
		t.add(note, g.Gang, strconv.Itoa(int(g.Priority)), leave, strconv.Itoa(g.MembersInside), orCluster(g.From), to)
	}
	t.writeLast(out)
}

// evictionSentence returns how many pods are evicted and how many gangs stop.
func evictionSentence(d *ask.Drain) string {
	if d.Pods == 0 {
		return "no pod would have to be evicted."
	}
	stops := 0
	for _, g := range d.Gangs {
		if g.Stops {
			stops++
		}
	}
	text := counted(d.Pods, "pod leaves", "pods leave")
	if elsewhere := d.Pods - d.PodsInside; elsewhere > 0 {
		text += fmt.Sprintf(", %d of them from elsewhere", elsewhere)
	}
	if stops > 0 {
		text += "; " + counted(stops, "gang stops", "gangs stop")
	}
	return text + "."
}

// verdict returns whether all evicted pods find another node, as text, or why that is not known.
func verdict(d *ask.Drain) string {
	var lost tally
	for _, g := range d.Gangs {
		if !g.Fits && g.Unknown == "" {
			lost.gangs++
		}
	}
	for _, p := range d.Others {
		if p.To == "" && !p.Elsewhere && p.Unknown == "" {
			lost.pods++
		}
	}
	var all []string
	if lost != (tally{}) {
		all = append(all, "Does not fit: no other nodes for "+lost.String()+".")
	}
	if n := len(d.Evicted); n > 0 {
		all = append(all, "Does not fit: "+counted(n, "other pod", "other pods")+" would be evicted.")
	}
	if len(d.Unknown) > 0 {
		all = append(all, "Not known: "+strings.Join(d.Unknown, "; ")+".")
	}
	if len(all) == 0 {
		return "Fits: all pods find other nodes, and no pod is evicted for them."
	}
	return strings.Join(all, " ")
}

// tally counts gangs, and pods without a gang.
type tally struct{ gangs, pods int }

func (w tally) String() string {
	var all []string
	if w.gangs > 0 {
		all = append(all, counted(w.gangs, "gang", "gangs"))
	}
	if w.pods > 0 {
		all = append(all, countPods(w.pods))
	}
	return strings.Join(all, ", ")
}

func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
