package extend

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TurnsName is how profiles name Turns.
const TurnsName = "Turns"

// Turns is a check: of the gangs of a namespace one runs at a time.
type Turns struct{ pods corelisters.PodLister }

// NewTurns is its factory.
func NewTurns(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	return &Turns{h.SharedInformerFactory().Core().V1().Pods().Lister()}, nil
}

// Name implements fwk.Plugin.
func (*Turns) Name() string { return TurnsName }

// EventsToRegister says when an unschedulable pod is retried: when a pod that has a node is deleted, or ends.
func (*Turns) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}}}, nil
}

// Check implements plugin.Checker.
func (t *Turns) Check(_ context.Context, q plugin.Question) *fwk.Status {
	pods, err := t.pods.List(labels.Everything())
	if err != nil {
		return fwk.AsStatus(err)
	}
	for _, pod := range pods {
		gang := source.GangOf(pod).Whole()
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if gang.Namespace == q.Group.Key.Namespace && !gang.IsZero() && !ended && q.Has(pod) && !slices.Contains(q.Group.Whole(), gang) {
			return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("gang %s of the namespace runs", gang))
		}
	}
	return nil
}
