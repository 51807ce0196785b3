package status

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Permanent says whether err is a final answer of the API server: repeating the request would give the same error. It is false for
// a time-out, a conflict, an outage and 401. The caller repeats such a request.
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
