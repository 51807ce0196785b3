package status

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Permanent returns whether the API server would give the same answer again. A time-out, a conflict or an outage is no answer: the
// request is repeated, and nothing is concluded from it.
func Permanent(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	switch code := s.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return 400 <= code && code < 500
	}
}
