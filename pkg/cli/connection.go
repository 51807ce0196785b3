package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// connection are the flags that say which cluster is read, and as whom.
type connection struct{ kubeconfig, context, as string }

func (c *connection) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "`PATH` of the kubeconfig (default: as kubectl has it)")
	flags.StringVar(&c.context, "context", "", "`NAME` of the kubeconfig's context")
	flags.StringVar(&c.as, "as", "", "`USER` to impersonate")
}

func (c *connection) client() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

// rest is how the cluster is reached.
func (c *connection) rest() (*rest.Config, error) {
	config, err := c.client().ClientConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = c.as
	config.QPS = -1 // one list of each kind: there is nothing to hold back
	return config, nil
}

// history reads what a cluster was told of a gang. If that may not be read, standard error says so.
func (c *connection) history(ctx context.Context, cmd *cobra.Command, v *ask.View, of ask.Target) ([]ask.Told, error) {
	config, err := c.rest()
	if err != nil {
		return nil, err
	}
	told, note, err := v.History(ctx, config, of)
	if note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note)
	}
	return told, err
}

// list reads a cluster as it is now. What may not be read is named on standard error.
func (c *connection) list(ctx context.Context, cmd *cobra.Command) (*simulate.Set, error) {
	config, err := c.rest()
	if err != nil {
		return nil, err
	}
	set, notes, err := ask.List(ctx, config)
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note)
	}
	if err == nil {
		set.Found(time.Now())
	}
	return set, err
}

// complete names the values that a flag can have, or how they can begin.
func complete(cmd *cobra.Command, flag string, values ...string) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(values, func(v string) bool { return strings.HasSuffix(v, "=") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive)); err != nil {
		panic(err) // the flag is there
	}
}
