package command

import (
	"context"
	"errors"
	"os"
	"reflect"

	"github.com/spf13/pflag"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
)

// emulation is the Kubernetes version whose scheduler this process behaves as: that of the API
// server. A scheduler that is newer would wait for APIs that are not served.
type emulation struct {
	server *utilversion.Version // nil if it was not asked for its version
	unsaid error                // why it is not known
	before feature.Features     // of the version of which this binary is
}

// emulate asks the API server for its version and sets --emulated-version, unless that is set. The
// error says that the server does not answer, or is too old or too new.
func emulate(ctx context.Context, opts *options.Options, flags *pflag.FlagSet, gates featuregate.FeatureGate) (emulation, error) {
	e := emulation{before: feature.NewSchedulerFeaturesFromGates(gates)}
	if flags.Changed("emulated-version") || opts.WriteConfigTo != "" {
		return e, nil
	}
	config, err := clientConfig(opts)
	if err != nil {
		return e, nil //nolint:nilerr // kube-scheduler says so itself, when it has checked the rest
	}
	switch e.server, err = connect.ServerVersion(ctx, config); {
	case errors.Is(err, connect.ErrHidden):
		e.unsaid = err
		return e, nil
	case err != nil:
		return e, err
	}
	if err := connect.Supported(e.server); err != nil {
		return e, err
	}
	return e, flags.Set("emulated-version", "kube="+e.server.String())
}

// tell logs what is emulated, and what of this scheduler it therefore lacks.
func (e emulation) tell(logger klog.Logger, gates featuregate.FeatureGate) {
	switch {
	case e.unsaid != nil:
		logger.Info("This scheduler behaves as that of the newest Kubernetes; set --emulated-version if the API server is older", "newest", connect.Newest, "because", e.unsaid)
	case e.server != nil && e.server.LessThan(connect.Newest):
		logger.Info("The API server's Kubernetes is emulated", "version", e.server, "newest", connect.Newest, "lacks", missing(e.before, feature.NewSchedulerFeaturesFromGates(gates)))
	}
}

// missing names the features that are on in the first and not in the second.
func missing(all, some feature.Features) (names []string) {
	x, y := reflect.ValueOf(all), reflect.ValueOf(some)
	for i := range x.NumField() {
		if x.Field(i).Kind() == reflect.Bool && x.Field(i).Bool() && !y.Field(i).Bool() {
			names = append(names, x.Type().Field(i).Name)
		}
	}
	return names
}

// clientConfig is how kube-scheduler connects by these options.
func clientConfig(opts *options.Options) (*rest.Config, error) {
	kubeconfig := opts.Deprecated.Kubeconfig
	if opts.ConfigFile != "" {
		content, err := os.ReadFile(opts.ConfigFile)
		if err != nil {
			return nil, err
		}
		var file struct{ ClientConnection struct{ Kubeconfig string } }
		if err := yaml.Unmarshal(content, &file); err != nil {
			return nil, err
		}
		kubeconfig = file.ClientConnection.Kubeconfig
	}
	if kubeconfig == "" && opts.Master == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags(opts.Master, kubeconfig)
}
