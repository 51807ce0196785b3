package command

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerserverconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/pace"
	"github.com/muster-scheduler/muster/pkg/version"
)

// whenMade is called with a scheduler before it starts. An error prevents the start.
type whenMade func(context.Context, *options.Options, *schedulerserverconfig.CompletedConfig, *scheduler.Scheduler) error

// newSchedulerCommand returns kube-scheduler's command with one more step: before the scheduler starts, lane limits its writes, and
// complete is called. See docs/decisions/0013-pace.md.
func newSchedulerCommand(lane *pace.Lane, complete whenMade, plugins ...app.Option) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:  "muster-scheduler",
		RunE: func(cmd *cobra.Command, _ []string) error { return runScheduler(cmd, opts, lane, complete, plugins) },
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, func(arg string) bool { return arg != "" }) {
				return fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args)
			}
			return nil
		},
	}
	sets := opts.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, *sets, columns)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json") // for shell completion
	return cmd
}

// runScheduler runs the scheduler until a signal ends it, as kube-scheduler's command does.
func runScheduler(cmd *cobra.Command, opts *options.Options, lane *pace.Lane, complete whenMade, plugins []app.Option) error {
	if cmd.Flags().Lookup("version").Value.String() == string(verflag.VersionTrue) {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get())
		return err
	}
	verflag.PrintAndExitIfRequested() // --version=raw, which is all of Kubernetes' own
	if err := oneConfiguration(opts.ConfigFile); err != nil {
		return err
	}
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	emulated, err := applyProcessFlags(cmd, opts, gates)
	if err != nil {
		return err
	}
	if opts.InformerName == nil {
		name, err := cache.NewInformerName("kube-scheduler")
		if err != nil {
			return err
		}
		opts.InformerName = name
	}
	ctx, cancel := context.WithCancel(server.SetupSignalContext())
	defer cancel()
	cfg, sched, err := app.Setup(ctx, opts, plugins...)
	if err != nil {
		return err
	}
	if g, ok := gates.(featuregate.MutableFeatureGate); ok {
		g.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	lane.Pace(ctx, sched)
	if err := complete(ctx, opts, cfg, sched); err != nil {
		return err
	}
	if w := emulated.warning(); w != "" {
		go reportLater(ctx, leaseEvents(cfg, sched), reasons.APIServerNewer, w)
	}
	return app.Run(ctx, cfg, sched)
}

// oneConfiguration returns an error if file has a second document. kube-scheduler reports other mistakes.
func oneConfiguration(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil //nolint:nilerr // kube-scheduler says so itself
	}
	if err := config.OneDocument(text); err != nil {
		return fmt.Errorf("--config=%s: %w", file, err)
	}
	return nil
}

// applyProcessFlags determines the Kubernetes version to emulate, and then applies the flags for feature gates and logs.
func applyProcessFlags(cmd *cobra.Command, opts *options.Options, gates featuregate.FeatureGate) (emulation, error) {
	emulated, err := emulate(cmd.Context(), opts, cmd.Flags(), gates)
	if err != nil {
		return emulated, err
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return emulated, err
	}
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cliflag.PrintFlags(cmd.Flags())
	emulated.log(klog.FromContext(cmd.Context()), gates)
	return emulated, nil
}
