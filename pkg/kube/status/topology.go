package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Ready is the type of the ClusterNetworkTopology's condition.
const Ready = "Ready"

// Reasons of the condition.
const (
	ReasonInUse       = "InUse"
	ReasonInvalidSpec = "InvalidSpec"
	ReasonNotUsed     = "NotUsed"
)

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
	out.DetailStatus, out.UnnamedDomains = convert.DetailStatus(tree)
	c := metav1.Condition{
		Type: Ready, Status: metav1.ConditionTrue, Reason: ReasonInUse, Message: "the tree in use is built from this spec",
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	}
	if problem != "" {
		c.Status, c.Reason = metav1.ConditionFalse, ReasonInvalidSpec
		c.Message = Clip(problem + "; the last good tree stays in use")
	}
	meta.SetStatusCondition(&out.Conditions, c)
	return out
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
