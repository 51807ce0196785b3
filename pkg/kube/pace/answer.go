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

// unansweredKey is where a cycle records that its binding failed without an answer.
const unansweredKey = fwk.StateKey("pace.unanswered")

type unanswered struct{}

func (unanswered) Clone() fwk.StateData { return unanswered{} }

// Unanswered says that a pod was not bound because the API server did not answer or was temporarily unable. That
// says nothing about the node. It is false if the server rejected the binding (a policy), if the cycle ended
// earlier, or if added plugins bind. It works with schedulers that ReadAnswers changed.
func Unanswered(state fwk.CycleState) bool {
	_, err := state.Read(unansweredKey)
	return err == nil
}

// ReadAnswers makes a scheduler record why bindings fail, and run only the PreBind plugins that have work. Call it
// before the scheduler runs; Lane.Pace does.
func ReadAnswers(sched *scheduler.Scheduler) {
	for name, p := range sched.Profiles {
		sched.Profiles[name] = &answers{Framework: p, foreignBinder: bindsItself(p)}
	}
}

// answers is a profile that records why bindings fail.
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

// preFlight asks the PreBind plugins whether they have work, and records the answer in the state. Skip means that
// none has. kube-scheduler asks them only with the feature NominatedNodeNameForExpectation, which Muster leaves
// out.
func preFlight(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if state.GetSkipPreBindPlugins() != nil {
		return nil // it has asked them, or this is the second call
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

// bound asks the API server whether a pod has its node although the answer was lost. A failed cycle releases what
// the pod runs with: DynamicResources deletes the claim of its extended resources, and another pod would get the
// devices.
func (a *answers) bound(ctx context.Context, pod *v1.Pod, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	current, err := a.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && current.UID == pod.UID && current.Spec.NodeName == node
}

// recordUnanswered records in the state that a binding failed without an answer, and returns s.
func recordUnanswered(state fwk.CycleState, s *fwk.Status) *fwk.Status {
	if s.Code() == fwk.Error && !rejects(s.AsError()) {
		state.Write(unansweredKey, unanswered{})
	}
	return s
}

// boundTimeout is how long bound waits for the API server.
const boundTimeout = 5 * time.Second

// denied is what the API server says about a webhook's rejection, whose code the webhook chooses.
const denied = "denied the request"

// rejects returns whether an error is a final answer. A conflict or a missing pod is not: the pod is bound already, or
// was recreated.
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
