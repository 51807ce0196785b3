package ask

import (
	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

var topologies = v1alpha1.ClusterNetworkTopologies.GroupResource().String()

// unknown says of a gang that nobody knows what it waits for.
func (e *Explanation) unknown(resource string) {
	e.State, e.Reason = Waiting, ""
	e.WaitsFor = simulate.Unknown(resource)
	e.Cure = &Cure{Words: simulate.AskAgain(resource)}
}

// unlisted says that domains above the nodes may be there which nobody sees who may not list the topology.
func (v *View) unlisted(what string) error {
	if v.cache().Topology().Object != nil || !v.missed(topologies) {
		return nil
	}
	return &UnlistedError{what}
}

// UnlistedError says that it is not known whether there is what somebody asks about, as "a domain spine-0", since the topology
// may not be listed.
type UnlistedError struct{ What string }

func (e *UnlistedError) Error() string {
	return "whether there is " + e.What + " is not known: " + topologies + " may not be listed with your permissions; what would help: " + simulate.AskAgain(topologies)
}
