package command

import (
	"context"
	"errors"
	"fmt"
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

// emulation is the Kubernetes version that this scheduler emulates: the API server's. Else it would wait for APIs that are not served.
type emulation struct {
	server   *utilversion.Version // the API server's version; nil if it was not read
	unknown  error                // why the version is unknown
	features feature.Features     // the features of this binary's version
}

// emulate reads the API server's version and sets the flag --emulated-version to it, unless the user has set that flag. The error says
// that the server does not answer, or is too old or too new.
func emulate(ctx context.Context, opts *options.Options, flags *pflag.FlagSet, gates featuregate.FeatureGate) (emulation, error) {
	e := emulation{features: feature.NewSchedulerFeaturesFromGates(gates)}
	if flags.Changed("emulated-version") || opts.WriteConfigTo != "" {
		return e, nil
	}
	config, err := clientConfig(opts)
	if err != nil {
		return e, nil //nolint:nilerr // kube-scheduler says so itself, when it has checked the rest
	}
	switch e.server, err = connect.ServerVersion(ctx, config); {
	case errors.Is(err, connect.ErrHidden):
		e.unknown = err
		return e, nil
	case err != nil:
		return e, err
	}
	if err := connect.Supported(e.server); err != nil {
		return e, err
	}
	if e.warning() != "" {
		return e, nil
	}
	return e, flags.Set("emulated-version", "kube="+e.server.String())
}

// warning returns a message if the API server is newer than this scheduler; else "".
func (e emulation) warning() string {
	if e.server == nil || !e.server.GreaterThan(connect.Newest) {
		return ""
	}
	return fmt.Sprintf("The API server is of Kubernetes %[1]s, and this scheduler behaves as that of %[2]s: "+
		"what is new in %[1]s has no effect; upgrade Muster to a version for %[1]s", e.server, connect.Newest)
}

// log logs the emulated version, and the features that this scheduler therefore lacks.
func (e emulation) log(logger klog.Logger, gates featuregate.FeatureGate) {
	switch {
	case e.unknown != nil:
		logger.Info("The API server's version is unknown; Muster behaves like the newest kube-scheduler. "+
			"Set --emulated-version if the API server is older", "newest", connect.Newest, "because", e.unknown)
	case e.warning() != "":
		logger.Error(nil, e.warning())
	case e.server != nil && e.server.LessThan(connect.Newest):
		logger.Info("The API server's Kubernetes is emulated", "version", e.server, "newest", connect.Newest,
			"lacks", missing(e.features, feature.NewSchedulerFeaturesFromGates(gates)))
	}
}

// missing returns the names of the features that are on in all and off in enabled.
func missing(all, enabled feature.Features) (names []string) {
	x, y := reflect.ValueOf(all), reflect.ValueOf(enabled)
	for i := range x.NumField() {
		if x.Field(i).Kind() == reflect.Bool && x.Field(i).Bool() && !y.Field(i).Bool() {
			names = append(names, x.Type().Field(i).Name)
		}
	}
	return names
}

// clientConfig returns kube-scheduler's client configuration for these options.
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
