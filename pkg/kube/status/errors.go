package status

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Final says whether an answer of the API server will be the same the next time. A time-out,
// a conflict or an outage is no answer: the same request is made again, and nothing is
// concluded from it.
func Final(err error) bool {
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
