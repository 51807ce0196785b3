// Command muster-scheduler is the stock kube-scheduler with the Coscheduling plugin in
// every profile. It decides nothing: see pkg/kube/plugin.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of clients, queues and the election
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

const about = `muster-scheduler schedules gangs of pods, which start together and sit close
together on the network, and all other pods as kube-scheduler does. It is the
kube-scheduler with the plugin Coscheduling in every profile; all flags and the
KubeSchedulerConfiguration are kube-scheduler's. Without --config it serves pods
with spec.schedulerName muster-scheduler.`

func main() { os.Exit(cli.Run(newCommand())) }

func newCommand() *cobra.Command {
	manage, leader := true, &leadership{}
	config.InstallDefaults()
	leader.watchConfiguration()
	cmd := app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.NewFactory(plugin.Options{
		TopologyManager: &manage, Leading: leader.leads,
	})))
	leader.flag = cmd.Flags().Lookup("leader-elect")
	cmd.Use, cmd.Long = "muster-scheduler", about

	own := pflag.NewFlagSet("muster", pflag.ContinueOnError)
	own.BoolVar(&manage, "enable-network-topology-manager", manage,
		"Keep the status of ClusterNetworkTopology default up to date.")
	cmd.Flags().AddFlagSet(own)
	if f := cmd.Flags().Lookup("leader-elect-resource-name"); f != nil {
		f.DefValue = scheduling.SchedulerName // what config.InstallDefaults makes of an empty one
	}

	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprintf(cmd.OutOrStdout(), "\nMuster flags:\n\n%s", own.FlagUsages())
	})
	return cmd
}
