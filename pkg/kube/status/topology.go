package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Types of the ClusterNetworkTopology's conditions. Truncated exists while not all domains are listed, and SparesInvalid while entries of
// the argument spares have no effect with the topology.
const (
	Ready         = "Ready"
	Truncated     = "Truncated"
	SparesInvalid = "SparesInvalid"
)

// maxListedBytes bounds the list of domains, in bytes. etcd takes 1.5 MiB, including the spec and what tools write.
const maxListedBytes = 1 << 20

// notUsedMessage is the message in every ClusterNetworkTopology but one.
const notUsedMessage = "this object has no effect: only ClusterNetworkTopology " + scheduling.TopologyName + " is used"

// ReportsUserError says whether events of a reason report an error in what a user wrote.
func ReportsUserError(reason string) bool {
	return slices.Contains([]string{
		reasons.InvalidAnnotation, reasons.InvalidTopologyIndex, reasons.TwoGangs, reasons.UnknownKey, reasons.TierMissing, reasons.TierTooHigh,
		reasons.TierIsNode, reasons.LeaderFirst, reasons.QuotaNotFound, reasons.QuotaNotUsable, reasons.InvalidSpec, reasons.NotUsed,
		reasons.InvalidSpares,
	}, reason)
}

// Topology returns the status of a ClusterNetworkTopology: the tree in use, and whether it is built from object's spec. problem is
// why it is not; "" if it is.
func Topology(
	object *koordinator.ClusterNetworkTopology, tree *topology.Tree, problem string, now metav1.Time,
) koordinator.ClusterNetworkTopologyStatus {
	out := *object.Status.DeepCopy()
	var omissions []convert.LeftOut
	out.DetailStatus, out.UnnamedDomains, omissions = convert.DetailStatus(tree, maxListedBytes)
	c := metav1.Condition{
		Type: Ready, Status: metav1.ConditionTrue, Reason: reasons.InUse, Message: "the tree in use is built from this spec",
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	}
	if problem != "" {
		c.Status, c.Reason = metav1.ConditionFalse, reasons.InvalidSpec
		c.Message = Clip(problem + "; the last good tree stays in use")
	}
	meta.SetStatusCondition(&out.Conditions, c)
	if len(omissions) == 0 {
		meta.RemoveStatusCondition(&out.Conditions, Truncated)
		return out
	}
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: Truncated, Status: metav1.ConditionTrue, Reason: reasons.TooManyDomains, Message: Clip(truncatedMessage(omissions)),
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	})
	return out
}

// setSpares sets or removes the condition SparesInvalid. problem is as in ReporterOptions.SpareProblems.
func setSpares(conditions *[]metav1.Condition, generation int64, problem string, now metav1.Time) {
	if problem == "" {
		meta.RemoveStatusCondition(conditions, SparesInvalid)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: SparesInvalid, Status: metav1.ConditionTrue, Reason: reasons.InvalidSpares, Message: Clip(problem),
		ObservedGeneration: generation, LastTransitionTime: now,
	})
}

// truncatedMessage says which layers are not listed, with their numbers of domains.
func truncatedMessage(omissions []convert.LeftOut) string {
	var layers []string
	for _, l := range omissions {
		layers = append(layers, fmt.Sprintf("%s (%d domains)", l.Layer, l.Domains))
	}
	return fmt.Sprintf("detailStatus ends above %s: not listed are %s, because one object is too small for them. "+
		"Plans use these domains; musterctl topology lists them",
		omissions[0].Layer, strings.Join(layers, ", "))
}

// Unused returns the status of a ClusterNetworkTopology without effect. It keeps the fields of other writers.
func Unused(object *koordinator.ClusterNetworkTopology, now metav1.Time) koordinator.ClusterNetworkTopologyStatus {
	out := *object.Status.DeepCopy()
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: Ready, Status: metav1.ConditionFalse, Reason: reasons.NotUsed, Message: notUsedMessage,
		ObservedGeneration: object.Generation, LastTransitionTime: now,
	})
	return out
}
