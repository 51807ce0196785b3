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
		Long: `Say of a gang, or of that of a pod, what it does and since when, what it waits for in
one sentence, domain by domain how many places there are, what the nodes lack and what an
eviction there would cost, what would help, who is before it in the queue, and who holds places
that it must respect. Of a gang that runs: where, in how many domains of each layer, and in how
many at least it would be on empty nodes. A live cluster's events of it come last: whom it
evicted, what it waited for.` + askSource,
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
				var history []ask.Told
				if len(f.files) == 0 {
					if history, err = f.history(ctx, cmd, v, target); err != nil {
						return nil, nil, err
					}
				}
				e, err := v.Explain(ctx, target)
				if err != nil {
					return nil, nil, err
				}
				e.Told = history
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
		Long: `List the gangs of which members wait in the order in which the scheduler tries them:
since when, how many members are bound of how many that are needed, what they wait for, the
places that are reserved for them and who has yet to leave these. The estimated start is when
enough pods have reached their activeDeadlineSeconds, if gangs further ahead took nothing; a
dash where pods do not say. Last come the gangs that nobody tries: their members are missing.` + askSource,
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
node. Of members that differ those that need most count, of who can be on a node at all. Nodes
that are cordoned or not ready are broken.

In the picture each pod of a gang is a letter, each other pod #, a place that is reserved x, a
free slot a dot, a node with none of these -; ! stands before what is on a broken node. Up to 200 nodes are drawn, with
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
	cmd.Flags().StringVar(&target, "for", "", "`podgroup/NAME` for whose members room is counted")
	cmd.Flags().StringVar(&requests, "requests", "", "`REQUESTS` of a pod for which room is counted, such as cpu=8,nvidia.com/gpu=8")
	cmd.Flags().StringVar(&layer, "layer", "", "`LAYER` down to which domains are listed")
	return cmd
}
