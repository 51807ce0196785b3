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

// connection are the flags that choose the cluster and the user.
type connection struct{ kubeconfig, context, user string }

func (c *connection) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "`PATH` of the kubeconfig (default: as kubectl has it)")
	flags.StringVar(&c.context, "context", "", "`NAME` of the kubeconfig's context")
	flags.StringVar(&c.user, "as", "", "`USER` to impersonate")
}

func (c *connection) client() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

// restConfig returns the configuration of the connection.
func (c *connection) restConfig() (*rest.Config, error) {
	config, err := c.client().ClientConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Impersonate.UserName = c.user
	config.QPS = -1 // one list of each kind needs no limit
	return config, nil
}

// history reads the events of a gang. If they may not be read, it reports that on standard error.
func (c *connection) history(ctx context.Context, cmd *cobra.Command, v *ask.View, target ask.Target) ([]ask.PastEvent, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	all, note, err := v.History(ctx, config, target)
	if note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note)
	}
	return all, err
}

// list returns the objects of the cluster. It names on standard error the kinds that may not be listed.
func (c *connection) list(ctx context.Context, cmd *cobra.Command) (*simulate.Set, error) {
	config, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	set, notes, err := ask.List(ctx, config)
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note)
	}
	if err == nil {
		set.SetMoment(time.Now())
	}
	return set, err
}

// complete sets the shell completions of a flag: its values, or prefixes that end with "=".
func complete(cmd *cobra.Command, flag string, values ...string) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(values, func(v string) bool { return strings.HasSuffix(v, "=") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, directive)); err != nil {
		panic(err) // the flag exists
	}
}
