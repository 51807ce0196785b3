package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// emulate has the scheduler's parts behave as on the cluster that is simulated: on the Kubernetes
// version that is named, else on that of the newest kubelet, than which no API server is older. The
// function that it returns undoes that.
func emulate(cmd *cobra.Command, named string, set *simulate.Set) (restore func(), err error) {
	wanted, err := simulated(cmd, named, set)
	if err != nil {
		return nil, err
	}
	gates := utilfeature.DefaultMutableFeatureGate
	before := gates.EmulationVersion()
	if wanted.EqualTo(before) {
		return func() {}, nil
	}
	if err := gates.SetEmulationVersion(wanted); err != nil {
		return nil, fmt.Errorf("emulating Kubernetes %s: %w", wanted, err)
	}
	return func() { _ = gates.SetEmulationVersion(before) }, nil // it was so before
}

// simulated is the version that is meant. A kubelet that is too old or too new for a scheduler is
// named on standard error.
func simulated(cmd *cobra.Command, named string, set *simulate.Set) (*version.Version, error) {
	if named != "" {
		v, err := version.ParseGeneric(named)
		if err == nil {
			v = version.MajorMinor(v.Major(), v.Minor())
		}
		if err != nil || connect.Supported(v) != nil {
			return nil, usageError("--kubernetes-version %s: supported values: %s to %s", named, connect.Oldest, connect.Newest)
		}
		return v, nil
	}
	kubelet := set.NewestKubelet()
	if kubelet == nil {
		return connect.Newest, nil
	}
	v, as := version.MajorMinor(kubelet.Major(), kubelet.Minor()), connect.Newest
	switch {
	case v.LessThan(connect.Oldest):
		as = connect.Oldest
	case !v.GreaterThan(connect.Newest):
		return v, nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Note: the newest kubelet is of Kubernetes %s; simulated is %s\n", v, as)
	return as, nil
}
