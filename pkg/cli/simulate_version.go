package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// emulate makes this process emulate the Kubernetes version requested, or for "" that of the newest kubelet in set: no API server is
// older. restore undoes that.
func emulate(cmd *cobra.Command, requested string, set *simulate.Set) (restore func(), err error) {
	wanted, err := emulatedVersion(cmd, requested, set)
	if err != nil {
		return nil, err
	}
	gates := utilfeature.DefaultMutableFeatureGate
	previous := gates.EmulationVersion()
	if wanted.EqualTo(previous) {
		return func() {}, nil
	}
	if err := gates.SetEmulationVersion(wanted); err != nil {
		return nil, fmt.Errorf("emulating Kubernetes %s: %w", wanted, err)
	}
	return func() { _ = gates.SetEmulationVersion(previous) }, nil // the version before was valid
}

// emulatedVersion returns the version to emulate. It reports a kubelet of an unsupported version on standard error.
func emulatedVersion(cmd *cobra.Command, requested string, set *simulate.Set) (*version.Version, error) {
	if requested != "" {
		v, err := version.ParseGeneric(requested)
		if err == nil {
			v = version.MajorMinor(v.Major(), v.Minor())
		}
		if err != nil || connect.Supported(v) != nil || v.GreaterThan(connect.Newest) {
			return nil, usageError("--kubernetes-version %s: supported values: %s to %s", requested, connect.Oldest, connect.Newest)
		}
		return v, nil
	}
	kubelet := set.NewestKubelet()
	if kubelet == nil {
		return connect.Newest, nil
	}
	v, emulated := version.MajorMinor(kubelet.Major(), kubelet.Minor()), connect.Newest
	switch {
	case v.LessThan(connect.Oldest):
		emulated = connect.Oldest
	case !v.GreaterThan(connect.Newest):
		return v, nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Note: the newest kubelet is of Kubernetes %s; simulated is %s\n", v, emulated)
	return emulated, nil
}
