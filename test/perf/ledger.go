package main

import (
	"maps"
	"net/http"
	"sync"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// writing are the verbs, in the API server's words, of requests that write.
var writing = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "DELETE": true, "DELETECOLLECTION": true}

// writesOf counts the API server's requests that write, by "VERB resource". Leases are
// left out: the API server renews its own, and no contender has any.
func writesOf(requests *dto.MetricFamily) map[string]float64 {
	out := map[string]float64{}
	for _, m := range requests.GetMetric() {
		if label := labels(m); writing[label["verb"]] && label["resource"] != "leases" {
			out[kind(label["verb"], label["resource"], label["subresource"])] += m.GetCounter().GetValue()
		}
	}
	return out
}

func kind(verb, resource, subresource string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	return verb + " " + resource
}

// ledger counts what the bench itself writes, so that it is not taken for the
// contender's.
type ledger struct {
	paths *request.RequestInfoFactory

	mu     sync.Mutex
	writes map[string]float64 // as in writesOf
}

func newLedger() *ledger {
	return &ledger{
		paths:  &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		writes: map[string]float64{},
	}
}

// wrap has a client's requests counted. Failed requests count, too, as the API server counts them.
func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.enter(r)
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *ledger) enter(r *http.Request) {
	info, err := l.paths.NewRequestInfo(r)
	if err != nil || !writing[r.Method] || !info.IsResourceRequest {
		return
	}
	verb := r.Method
	if info.Verb == "deletecollection" {
		verb = "DELETECOLLECTION"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes[kind(verb, info.Resource, info.Subresource)]++
}

// without takes off what the bench has written.
func (l *ledger) without(all map[string]float64) map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := maps.Clone(all)
	for what, n := range l.writes {
		out[what] -= n
	}
	return out
}
