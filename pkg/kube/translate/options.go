// Package translate is the program muster-controller: it parses the flags and connects the parts. It decides nothing about gangs.
package translate

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/kube/controller"
	"github.com/muster-scheduler/muster/pkg/version"
)

// options are the values of the flags.
type options struct {
	sources           []string
	backendConfig     string
	gatePods          bool
	workers           int
	discoveryInterval time.Duration

	kubeconfig string
	qps        float32
	burst      int

	leaderElect                bool
	namespace, leaseName       string
	lease, renew, retry        time.Duration
	metricsAddress, healthAddr string
	metricsSecure              bool

	webhookPort                  int
	webhookSecret, webhookConfig string
	webhookNames                 []string

	version bool
	logs    *logsapi.LoggingConfiguration
}

// Command returns the command muster-controller.
func Command() *cobra.Command {
	o := &options{logs: logsapi.NewLoggingConfiguration()}
	cmd := &cobra.Command{
		Use:   "muster-controller",
		Short: "Write gangs of one API as the objects that one scheduler reads",
		Long: `Write gangs of one API (PodGangs, PodCliqueSets, LeaderWorkerSets, Volcano's PodGroups)
as the objects that one scheduler reads (PodGroups of Muster, Koordinator, Volcano, or
Kubernetes itself). Which scheduler that is says the schedulerName of the pods.

muster-scheduler itself does not need it: it reads these APIs. See docs/admins/controller.md.`,
		Example: `  # Grove's PodGangs for koord-scheduler
  muster-controller --enable-source=podgang --backend-config=backends.yaml`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.version {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get())
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(o.logs, nil); err != nil {
				return err
			}
			return run(cmd.Context(), o)
		},
	}
	o.add(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

// add adds the flags to f.
func (o *options) add(f *pflag.FlagSet) {
	f.StringSliceVar(&o.sources, "enable-source", nil,
		"APIs that PodGroups are written for, any of "+strings.Join(controller.SourceNames(), ", ")+"; each starts when its CRD is there")
	f.StringVar(&o.backendConfig, "backend-config", "",
		"`FILE` that says which backends there are, and what they are to do; without it all of them, with their defaults")
	f.BoolVar(&o.gatePods, "gate-pods", false,
		"pods of LeaderWorkerSets are made with a scheduling gate, which goes when their gang is ready; needs the webhook")
	f.IntVar(&o.workers, "workers", 8, "how many objects of one source are handled at a time")
	f.DurationVar(&o.discoveryInterval, "discovery-interval", 10*time.Second, "how often it looks for CRDs that were not there")

	f.StringVar(&o.kubeconfig, "kubeconfig", "", "`FILE`; without it the service account of the pod")
	f.Float32Var(&o.qps, "kube-api-qps", 500, "requests a second")
	f.IntVar(&o.burst, "kube-api-burst", 1000, "requests at once")

	f.BoolVar(&o.leaderElect, "leader-elect", true, "only one of several writes")
	f.StringVar(&o.namespace, "namespace", "muster-system", "of the Lease, of the webhooks' Secret and Service")
	f.StringVar(&o.leaseName, "leader-elect-resource-name", controller.Name, "of the Lease: controllers of one Lease write one at a time")
	f.DurationVar(&o.lease, "leader-elect-lease-duration", 15*time.Second, "after so long without a sign of the leader another one leads")
	f.DurationVar(&o.renew, "leader-elect-renew-deadline", 10*time.Second, "after so long without success the leader gives up")
	f.DurationVar(&o.retry, "leader-elect-retry-period", 2*time.Second, "between two attempts")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "metrics; 0 is none")
	f.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"serve HTTPS, only to users with permission to get /metrics; else HTTP without authorization")
	f.StringVar(&o.healthAddr, "health-probe-bind-address", ":8081", "healthz and readyz; 0 is none")

	f.IntVar(&o.webhookPort, "webhook-port", 0, "serves the admission webhooks; 0 is none")
	f.StringVar(&o.webhookSecret, "webhook-secret", "muster-controller-webhook",
		"where their certificate is kept, which is made and renewed here")
	f.StringVar(&o.webhookConfig, "webhook-configuration", "muster-controller",
		"the webhook configurations in which muster-controller writes the certificate")
	f.StringSliceVar(&o.webhookNames, "webhook-names", nil,
		"names and addresses by which the API server calls; the names of the Service muster-controller if none is given")

	f.BoolVar(&o.version, "version", false, "say the version and end")
	logsapi.AddFlags(o.logs, f)
}

// validate returns an error for invalid or conflicting flags. It sends no request to a cluster.
func (o *options) validate() error {
	var errs []error
	if len(o.sources) == 0 && o.webhookPort == 0 {
		errs = append(errs, fmt.Errorf("there is nothing to do: --enable-source takes any of %s", strings.Join(controller.SourceNames(), ", ")))
	}
	if _, err := controller.SourcesOf(o.sources); err != nil {
		errs = append(errs, fmt.Errorf("--enable-source: %w", err))
	}
	if _, err := o.backends(); err != nil {
		errs = append(errs, err)
	}
	if o.gatePods && o.webhookPort == 0 {
		errs = append(errs, errors.New("--gate-pods needs --webhook-port: the webhook adds the gate"))
	}
	if o.webhookPort < 0 || o.webhookPort > math.MaxUint16 {
		errs = append(errs, fmt.Errorf("--webhook-port=%d is invalid; supported values: 1 to %d, or 0 for none", o.webhookPort, math.MaxUint16))
	}
	if o.workers < 1 {
		errs = append(errs, fmt.Errorf("--workers=%d is invalid; supported values: 1 or more", o.workers))
	}
	if o.discoveryInterval < time.Second {
		errs = append(errs, fmt.Errorf("--discovery-interval=%s is invalid; supported values: a second or more", o.discoveryInterval))
	}
	return errors.Join(errs...)
}

// backends returns the configuration of the backends. The defaults must not replace an invalid file: gangs would start by other rules.
func (o *options) backends() (*backend.Config, error) {
	if o.backendConfig == "" {
		return &backend.Config{}, nil
	}
	data, err := os.ReadFile(o.backendConfig)
	if err != nil {
		return nil, fmt.Errorf("--backend-config: %w", err)
	}
	config, err := backend.ReadConfig(data)
	if err != nil {
		return nil, fmt.Errorf("--backend-config=%s: %w", o.backendConfig, err)
	}
	return config, nil
}

// restConfig returns the client configuration, with the rate limits of the flags.
func (o *options) restConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, err
	}
	return controller.QuietConfig(config, o.qps, o.burst), nil
}

// webhookHosts returns the host names by which the API server calls the webhooks.
func (o *options) webhookHosts() []string {
	if len(o.webhookNames) > 0 {
		return o.webhookNames
	}
	service := controller.Name + "." + o.namespace
	return []string{service + ".svc", service + ".svc.cluster.local", service}
}
