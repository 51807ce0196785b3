package ask

import (
	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Of a kind that may not be listed nothing is known: a gang whose object seems to be missing may have one, and so may the
// network. What would be said of it otherwise were wrong.

// unread is the kind on which depends what is said of a gang, and that could not be listed; "" if there is none.
func (v *View) unread(ref gang.Ref, r cache.Report) string {
	if v.cache().Topology().Object == nil && r.Refusal.By == gang.Declaration && v.missed(topologies) {
		return topologies
	}
	if r.Refusal.By != gang.Missing || r.PodGroup != nil || r.Min != 0 {
		return ""
	}
	for i := range source.All {
		if s := &source.All[i]; s.Space == ref.Source && s.Object != nil {
			if name := s.Object.Resource.GroupResource().String(); v.missed(name) {
				return name
			}
		}
	}
	return ""
}

var topologies = v1alpha1.ClusterNetworkTopologies.GroupResource().String()

// unknown says of a gang that nobody knows what it waits for.
func (e *Explanation) unknown(resource string) {
	e.State, e.Reason = Waiting, ""
	e.WaitsFor = "What it waits for is not known: " + resource + " may not be listed by whoever asks."
	e.Cure = &Cure{Words: "to ask with the right to list " + resource + " in the whole cluster"}
}
