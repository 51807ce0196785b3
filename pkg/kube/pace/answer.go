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

// unansweredKey is where a cycle keeps that its binding has failed for want of an answer.
const unansweredKey = fwk.StateKey("pace.unanswered")

type unanswered struct{}

// Clone implements fwk.StateData.
func (unanswered) Clone() fwk.StateData { return unanswered{} }

// Unanswered says that a pod was not bound since the API server did not answer, or could not do then what it was asked: that says nothing of
// its node. It is false if the server has refused the binding (a policy), if the cycle did not get
// that far, and if plugins of somebody's own bind, whose errors may mean anything. It is known of the schedulers of ReadAnswers.
func Unanswered(state fwk.CycleState) bool {
	_, err := state.Read(unansweredKey)
	return err == nil
}

// ReadAnswers has a scheduler note of what bindings have failed, and run before them only the plugins that have something to do. Call it before the
// scheduler runs; Lane.Pace does.
func ReadAnswers(sched *scheduler.Scheduler) {
	for name, p := range sched.Profiles {
		sched.Profiles[name] = &answers{Framework: p, bare: bindsItself(p)}
	}
}

// answers is a profile that notes of what bindings have failed.
type answers struct {
	framework.Framework
	bare bool // other plugins bind
}

// RunPreBindPlugins implements framework.Framework.
func (a *answers) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := preFlight(ctx, a.Framework, state, pod, node); s.IsSkip() {
		return nil
	} else if !s.IsSuccess() {
		return s
	}
	return a.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// preFlight asks the PreBind plugins what they have to do, and notes in the state which of them have nothing to do: Skip is all of them.
// kube-scheduler asks them only with the feature NominatedNodeNameForExpectation, which Muster leaves out, and would run all.
func preFlight(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if state.GetSkipPreBindPlugins() != nil {
		return nil // it has asked them, or this is the second time
	}
	return f.RunPreBindPreFlights(ctx, state, pod, node)
}

// RunBindPlugins implements framework.Framework.
func (a *answers) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	s := a.Framework.RunBindPlugins(ctx, state, pod, node)
	if a.bare {
		return s
	}
	if unanswered := s.Code() == fwk.Error && !refuses(s.AsError()); unanswered && a.bound(ctx, pod, node) {
		return nil
	}
	return noting(state, s)
}

// bound asks the API server whether a pod has its node although nobody has said so: then only the answer was lost. A cycle that has failed gives back
// what the pod runs with (DynamicResources deletes the claim of its extended resources), and somebody else would be given it.
func (a *answers) bound(ctx context.Context, pod *v1.Pod, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	is, err := a.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return err == nil && is.UID == pod.UID && is.Spec.NodeName == node
}

// noting writes down of what a binding has failed, and returns it.
func noting(state fwk.CycleState, s *fwk.Status) *fwk.Status {
	if s.Code() == fwk.Error && !refuses(s.AsError()) {
		state.Write(unansweredKey, unanswered{})
	}
	return s
}

// boundTimeout is how long it is waited for what a pod has now, where the API server has not answered already.
const boundTimeout = 5 * time.Second

// denied is what the API server says of a webhook's refusal, whose code the webhook chooses.
const denied = "denied the request"

// refuses says whether an error is an answer, which will be the same as long as nothing changes. A conflict, or that the pod is not there, is none: it is
// bound already, or is another one now.
func refuses(err error) bool {
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
