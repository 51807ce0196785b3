package pace

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// unansweredKey is the key in a cycle's state that says that its binding failed without an answer.
const unansweredKey = fwk.StateKey("pace.unanswered")

type unanswered struct{}

func (unanswered) Clone() fwk.StateData { return unanswered{} }

// Unanswered returns whether a cycle's binding failed because the API server did not answer or had a temporary error. Then the node is not
// the cause. It returns false if the server rejected the binding, the cycle failed earlier, or added plugins bind. The scheduler must be
// one that ReadAnswers has changed.
func Unanswered(state fwk.CycleState) bool {
	_, err := state.Read(unansweredKey)
	return err == nil
}

// ReadAnswers changes a scheduler's profiles so that they record why bindings fail, and run only PreBind plugins that have work. Call it
// before the scheduler runs; Lane.Pace calls it.
func ReadAnswers(sched *scheduler.Scheduler) {
	for name, p := range sched.Profiles {
		sched.Profiles[name] = &answers{Framework: p, foreignBinder: bindsItself(p)}
	}
}

// answers is a profile that records in the cycle's state whether a binding failed without an answer.
type answers struct {
	framework.Framework
	foreignBinder bool // added plugins bind
}

func (a *answers) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := preFlight(ctx, a.Framework, state, pod, node); s.IsSkip() {
		return nil
	} else if !s.IsSuccess() {
		return s
	}
	return a.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// preFlight calls PreBindPreFlight of the PreBind plugins, which records in the state which of them have work. It returns Skip if none has.
// kube-scheduler itself calls it only with the feature NominatedNodeNameForExpectation, which Muster does not use.
func preFlight(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if state.GetSkipPreBindPlugins() != nil {
		return nil // kube-scheduler has called them, or this is the second call
	}
	return f.RunPreBindPreFlights(ctx, state, pod, node)
}

func (a *answers) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s := a.Framework.RunBindPlugins(ctx, state, pod, node)
	if a.foreignBinder {
		return s
	}
	if unanswered := s.Code() == fwk.Error && !rejects(s.AsError()); unanswered && a.bound(ctx, pod, node) {
		return nil
	}
	return recordUnanswered(state, s)
}

// bound returns whether, according to the API server, a pod is bound to its node although the answer of the binding was lost. If the cycle
// failed nevertheless, DynamicResources would delete the claim of the pod's extended resources, and another pod would get the devices.
func (a *answers) bound(ctx context.Context, pod *v1.Pod, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	current, err := a.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && current.UID == pod.UID && current.Spec.NodeName == node
}

// recordUnanswered returns the status s of a binding. If s is a failure without an answer, it records that in the state.
func recordUnanswered(state fwk.CycleState, s *fwk.Status) *fwk.Status {
	if s.Code() == fwk.Error && !rejects(s.AsError()) {
		state.Write(unansweredKey, unanswered{})
	}
	return s
}

// boundTimeout is how long bound waits for the API server.
const boundTimeout = 5 * time.Second

// denied is in the API server's message about a webhook's rejection. The webhook chooses the status code.
const denied = "denied the request"

// rejects returns whether an error says that the API server rejected the binding. It returns false for temporary errors, and for a conflict
// or a missing pod: the pod is bound already or was recreated.
func rejects(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	if strings.Contains(answer.Status().Message, denied) {
		return true
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
