package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Types of the ClusterNetworkTopology's conditions. Truncated is there as long as not all domains are listed.
const (
	Ready     = "Ready"
	Truncated = "Truncated"
)

// Reasons of the conditions.
const (
	ReasonInUse          = "InUse"
	ReasonInvalidSpec    = "InvalidSpec"
	ReasonNotUsed        = "NotUsed"
	ReasonTooManyDomains = "TooManyDomains"
)

// mostListed bounds what the list of domains takes, in bytes. etcd takes 1.5 MiB, in which the spec and what tools note
// of the object have their place, too.
const mostListed = 1 << 20

// notUsed is said of every ClusterNetworkTopology but one.
const notUsed = "this object has no effect: only ClusterNetworkTopology " + scheduling.TopologyName + " is used"

// AboutWhatIsWritten says whether events of a reason tell what is wrong with an object as somebody
// wrote it; others tell what became of it.
func AboutWhatIsWritten(reason string) bool {
	switch reason {
	case cache.InvalidAnnotation, cache.InvalidTopologyIndex, cache.TwoGangs, cache.UnknownKey, cache.TierMissing, cache.TierTooHigh, cache.TierIsNode, cache.LeaderFirst, cache.QuotaNotFound, cache.QuotaNotUsable, ReasonInvalidSpec, ReasonNotUsed:
		return true
	}
	return false
}

// Topology returns the status of a ClusterNetworkTopology: the tree that is in use,
// and whether it is the one of this spec (problem says why not).
func Topology(object *koordinator.ClusterNetworkTopology, tree *topology.Tree, problem string, now metav1.Time) koordinator.ClusterNetworkTopologyStatus {
	out := *object.Status.DeepCopy()
	var left []convert.LeftOut
	out.DetailStatus, out.UnnamedDomains, left = convert.DetailStatus(tree, mostListed)
	c := metav1.Condition{
		Type: Ready, Status: metav1.ConditionTrue, Reason: ReasonInUse, Message: "the tree in use is built from this spec",
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	}
	if problem != "" {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonInvalidSpec
		c.Message = Clip(problem + "; the last good tree stays in use")
	}
	meta.SetStatusCondition(&out.Conditions, c)
	if len(left) == 0 {
		meta.RemoveStatusCondition(&out.Conditions, Truncated)
		return out
	}
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: Truncated, Status: metav1.ConditionTrue, Reason: ReasonTooManyDomains, Message: Clip(notListed(left)),
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	})
	return out
}

// notListed says which layers the list ends above, and how many domains they have.
func notListed(left []convert.LeftOut) string {
	var layers []string
	for _, l := range left {
		layers = append(layers, fmt.Sprintf("%s (%d domains)", l.Layer, l.Domains))
	}
	return fmt.Sprintf("detailStatus ends above %s: not listed are %s, for which one object has no room; they are in the tree, plans use them, and musterctl topology shows them",
		left[0].Layer, strings.Join(layers, ", "))
}

// Unused returns the status of a ClusterNetworkTopology that has no effect. What others wrote into it
// stays.
func Unused(object *koordinator.ClusterNetworkTopology, now metav1.Time) koordinator.ClusterNetworkTopologyStatus {
	out := *object.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: Ready, Status: metav1.ConditionFalse, Reason: ReasonNotUsed, Message: notUsed,
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	})
	return out
}
