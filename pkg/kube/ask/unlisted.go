package ask

import (
	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

var topologyResource = v1alpha1.ClusterNetworkTopologies.GroupResource().String()

// unknown sets e for a gang whose cause of waiting is unknown, because the caller may not list resource.
func (e *Explanation) unknown(resource string) {
	e.Reason = ""
	e.WaitsFor = simulate.UnknownCause(resource)
	e.Remedy = &Remedy{Message: simulate.UnknownRemedy(resource)}
}

// unlistedError returns an UnlistedError about what if the caller may not list the topology, so that domains are unknown; else nil.
func (v *View) unlistedError(what string) error {
	if v.cache().Topology().Object != nil || !v.kindUnlisted(topologyResource) {
		return nil
	}
	return &UnlistedError{what}
}

// UnlistedError says that it is unknown whether What, such as "a domain spine-0", exists, since the topology may not be listed.
type UnlistedError struct{ What string }

func (e *UnlistedError) Error() string {
	return "whether there is " + e.What + " is not known: no permission to list " + topologyResource +
		"; what would help: " + simulate.UnknownRemedy(topologyResource)
}
