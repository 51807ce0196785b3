// Package command is the command line of muster-scheduler: kube-scheduler's command with the plugin Coscheduling in every profile,
// and optionally with a user's own plugins. It handles flags and processes. The plugin (pkg/kube/plugin) decides.
//
// Invariant: it makes no scheduling decision.
package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of clients, queues and the election
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/family"
	"github.com/muster-scheduler/muster/pkg/kube/pace"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

const longHelp = `muster-scheduler schedules gangs of pods, which start together and sit close
together on the network, and all other pods as kube-scheduler does. It is the
kube-scheduler with the plugin Coscheduling in every profile; all flags and the
KubeSchedulerConfiguration are kube-scheduler's. Without --config it serves pods
with spec.schedulerName muster-scheduler.`

// Options are the additions to Muster's own scheduler. See docs/contributing/extend.md.
type Options struct {
	// Plugins are the factories, by name, of plugins that profiles may name beside the plugins of kube-scheduler and Muster.
	Plugins frameworkruntime.Registry
}

// Main runs the command with the process's arguments and returns its exit code.
func Main(o Options) int {
	runtime.Must(connect.SetGates())
	return cli.Run(New(o))
}

// New returns the command muster-scheduler.
func New(o Options) *cobra.Command {
	manage, leader := true, &leadership{}
	config.InstallDefaults()
	leader.watchConfiguration()
	lane := pace.New(pace.Options{SuppressRepeats: plugin.IsMember})
	var shared *plugin.Shared
	registry := family.Factories(family.Options{Plugins: o.Plugins, Options: plugin.Options{
		Connect: connect.Cluster, TopologyManager: &manage, Leading: leader.leads, Busy: lane.Busy, Unanswered: pace.Unanswered,
		Started: func(s *plugin.Shared) { shared = s },
	}})
	complete := func(
		ctx context.Context, opts *options.Options, cfg *schedulerserverconfig.CompletedConfig, sched *scheduler.Scheduler,
	) error {
		if err := family.CheckConfig(cfg.ComponentConfig.Profiles, registry); err != nil {
			return fmt.Errorf("--config=%s: %w", opts.ConfigFile, err)
		}
		leader.settled = true
		if e := cfg.LeaderElection; e != nil {
			e.Lock = &lock{Interface: e.Lock, deposed: end}
		}
		if shared != nil {
			shared.Complete(sched)
		}
		watchConfiguration(ctx, opts.ConfigFile, cfg, sched, shared)
		return nil
	}
	var plugins []app.Option
	for name, factory := range registry {
		plugins = append(plugins, app.WithPlugin(name, factory))
	}
	cmd := newSchedulerCommand(lane, complete, plugins...)
	leader.flag = cmd.Flags().Lookup("leader-elect")
	cmd.Long = longHelp

	own := config.Flags(&manage)
	cmd.Flags().AddFlagSet(own)
	if f := cmd.Flags().Lookup("leader-elect-resource-name"); f != nil {
		f.DefValue = scheduling.SchedulerName // which config.InstallDefaults puts in place of an empty name
	}

	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprintf(cmd.OutOrStdout(), "\nMuster flags:\n\n%s", own.FlagUsages())
	})
	return cmd
}
