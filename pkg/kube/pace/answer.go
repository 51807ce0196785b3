package pace

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	fwk "k8s.io/kube-scheduler/framework"
)

// unansweredKey is where a cycle keeps that its binding has failed for want of an answer.
const unansweredKey = fwk.StateKey("pace.unanswered")

type unanswered struct{}

// Clone implements fwk.StateData.
func (unanswered) Clone() fwk.StateData { return unanswered{} }

// Unanswered says that a pod was not bound since the API server did not answer, or could not do then what it was asked: that says nothing of
// the pod or its node. It is false if the server has refused the binding (a policy, a pod that has gone), if the cycle did not get
// that far, and if plugins of somebody's own bind, whose errors may mean anything.
func Unanswered(state fwk.CycleState) bool {
	_, err := state.Read(unansweredKey)
	return err == nil
}

// noting writes down of what a binding has failed, and returns it.
func noting(state fwk.CycleState, s *fwk.Status) *fwk.Status {
	if s.Code() == fwk.Error && !refuses(s.AsError()) {
		state.Write(unansweredKey, unanswered{})
	}
	return s
}

// refuses says whether an error is an answer, which will be the same as long as nothing changes.
func refuses(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
