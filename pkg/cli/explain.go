package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
)

func newExplainCommand() *cobra.Command {
	f := askFlags{}
	cmd := &cobra.Command{
		Use:   "explain podgroup|pod NAME",
		Short: "Why a gang waits and what would help, or where it runs and how near its members are",
		Long: `Explain a gang, or the gang of a pod: its state and since when, and in one sentence what it waits
for. For each domain: the free slots, what the nodes lack, and the pods that an eviction there would
cost. AT ITS TURN counts the slots that are left when the gangs ahead in the queue have started; FREE
NOW counts them before that, as "topology --for" does. Then what would help, the gangs ahead of it in
the queue, and the reservations that it must respect. For a running gang: its nodes, the number of
domains of each layer, and the smallest number possible on empty nodes. The gang's events in a live
cluster come last: evictions, and what it waited for.` + askSource,
		Example: `  kubectl muster explain podgroup training
  musterctl explain pod training-0 -n research -o json
  musterctl explain podgroup/training -f cluster.yaml`,
		Args: targetArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"podgroup", "pod"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := f.target(args...)
			if err != nil {
				return err
			}
			return f.answer(cmd, func(ctx context.Context, v *ask.View) (any, func(bool) string, error) {
				var history []ask.PastEvent
				if len(f.files) == 0 {
					if history, err = f.history(ctx, cmd, v, target); err != nil {
						return nil, nil, err
					}
				}
				e, err := v.Explain(ctx, target)
				if err != nil {
					return nil, nil, err
				}
				e.PastEvents = history
				return e, func(wide bool) string { return explainText(e, wide) }, nil
			})
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, "the gang")
	return cmd
}

func newQueueCommand() *cobra.Command {
	f := askFlags{}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Which gangs wait, in the order in which they will be tried, and for what",
		Long: `List the waiting gangs in the order in which the scheduler tries them: since when, bound and needed
members, what each gang waits for, its reserved nodes, and the victims that still terminate there.
START is the promised start of the gang for which the scheduler holds capacity, or a forecast. Both
are from the declared ends of running pods, in UTC. A forecast counts the gangs ahead and is not
kept; the first 20 gangs get one. A dash stands for gangs that wait for something else. Last come
gangs that the scheduler does not try: the user's input is rejected, members are missing, or the
members name another scheduler or no gang.` + askSource,
		Example: `  kubectl muster queue -A
  musterctl queue -f cluster.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			namespace := ""
			if f.all && f.namespace != "" {
				return usageError("-A and -n exclude one another")
			}
			if !f.all {
				var err error
				if namespace, err = f.namespaceName(); err != nil {
					return err
				}
			}
			return f.answer(cmd, func(ctx context.Context, v *ask.View) (any, func(bool) string, error) {
				all, err := v.Queue(ctx, namespace)
				return all, func(wide bool) string { return queueText(all, v.At(), wide) }, err
			})
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, "the gangs")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "gangs of all namespaces")
	return cmd
}

func newTopologyCommand() *cobra.Command {
	f := askFlags{}
	var target, requests, layer string
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "The network as a tree: what is free, used, reserved and broken, and which gang is where",
		Long: `Show the tree of the ClusterNetworkTopology with its slots: free, used by pods that run,
or reserved for members that wait. A slot is room for a member of the gang that --for names, or
for a pod with the --requests, as the scheduler's own Filters see it; without both it is a whole
node. If members differ, a slot is for the largest member that fits a node at all. Nodes
that are cordoned or not ready are broken.

In the picture each pod of a gang is a letter, each other pod #, a reserved slot x, a free slot
a dot, and a node with none of these -. A free slot is + on a node that new gangs leave unused
(argument spares). A broken node begins with !. Up to 200 nodes are drawn, with
-o wide all; with --layer the domains down to that layer are listed instead.` + askSource,
		Example: `  kubectl muster topology --requests cpu=8,nvidia.com/gpu=8 --layer SpineLayer
  musterctl topology --for podgroup/training -n research
  musterctl topology -f cluster.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			slotSize, err := f.slotSize(target, requests)
			if err != nil {
				return err
			}
			return f.answer(cmd, func(ctx context.Context, v *ask.View) (any, func(bool) string, error) {
				t, err := v.Topology(ctx, slotSize)
				if err != nil {
					return nil, nil, err
				}
				if layer != "" {
					if err := layerError(t.Cut(layer)); err != nil {
						return nil, nil, err
					}
				}
				return t, func(wide bool) string { return topologyText(t, layer != "", wide) }, nil
			})
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, "the gang that --for names")
	cmd.Flags().StringVar(&target, "for", "", "`podgroup/NAME` of the gang to count slots for")
	cmd.Flags().StringVar(&requests, "requests", "", "`REQUESTS` of a pod for which room is counted, such as cpu=8,nvidia.com/gpu=8")
	cmd.Flags().StringVar(&layer, "layer", "", "`LAYER` down to which domains are listed")
	return cmd
}
