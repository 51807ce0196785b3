package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lossy is a proxy before the API server. It answers errors in its place to some requests
// of some rounds, each so often; then it lets them pass.
type lossy struct {
	server *httptest.Server
	pass   http.Handler

	mu     sync.Mutex
	losses map[string]*losses // by round
}

// losses are the requests of a round that are lost.
type losses struct {
	what  string // one of lostBindings, ...
	code  int
	done  bool // only the answer is lost
	times int  // of each request

	tried map[string]int
	lost  int // so far
}

// What may be lost.
const (
	lostBindings    = "bindings"
	lostEvictions   = "evictions"
	lostNominations = "nominations"
)

// newLossy starts a proxy before the API server of a kubeconfig.
func newLossy(kubeconfig string) (*lossy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	l := &lossy{losses: map[string]*losses{}, pass: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(host) },
		Transport: transport, FlushInterval: -1, // watches
	}}
	l.server = httptest.NewServer(l)
	return l, nil
}

// close ends the proxy. It stops listening before it closes the connections: a scheduler that still runs connects again
// otherwise, and httptest.Server.Close waits for its watches, up to ten minutes.
func (l *lossy) close() {
	_ = l.server.Config.Close()
	l.server.Close()
}

// kubeconfig writes one for the proxy.
func (l *lossy) kubeconfig(file string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["lossy"] = &clientcmdapi.Cluster{Server: l.server.URL}
	config.Contexts["lossy"] = &clientcmdapi.Context{Cluster: "lossy"}
	config.CurrentContext = "lossy"
	return clientcmd.WriteToFile(*config, file)
}

// ServeHTTP implements http.Handler.
func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lost := l.lose(r)
	if lost == nil {
		l.pass.ServeHTTP(w, r)
		return
	}
	if lost.done {
		answer := httptest.NewRecorder()
		if l.pass.ServeHTTP(answer, r); answer.Code >= http.StatusBadRequest {
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
			return
		}
	}
	reason := map[int]metav1.StatusReason{
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout, http.StatusConflict: metav1.StatusReasonConflict,
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	}[lost.code]
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: "lost by the proxy", Reason: reason, Code: int32(lost.code),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(lost.code)
	_ = json.NewEncoder(w).Encode(status)
}

// lose returns the losses that a request is one of; nil if it passes.
func (l *lossy) lose(r *http.Request) *losses {
	path, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/pods/")
	if !ok || r.Method == http.MethodGet {
		return nil
	}
	pod, sub, _ := strings.Cut(path, "/")
	round, suffix, _ := strings.Cut(pod, "-")
	what := ""
	switch {
	case sub == "binding":
		what = lostBindings
	case r.Method == http.MethodDelete, strings.HasPrefix(suffix, "v"):
		what = lostEvictions // the condition that comes before it is one
	case sub == "status":
		what = lostNominations
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.losses[round]
	if of == nil || of.what != what {
		return nil
	}
	key := r.Method + " " + path
	if of.tried[key]++; of.tried[key] > of.times {
		return nil
	}
	of.lost++
	return of
}

// play has requests of a round lost from now on.
func (l *lossy) play(round string, what *losses) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if what != nil {
		what.tried = map[string]int{}
		l.losses[round] = what
	}
}

// lost counts the requests of a round that were lost.
func (l *lossy) lost(round string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.losses[round]; of != nil {
		return of.lost
	}
	return 0
}

// loseBindings is the command of scripts. Through the API server of a kubeconfig, the first bindings of each pod with
// this name prefix are lost. With -done the bindings are made, and only the answers are lost.
func (s *script) loseBindings(_ context.Context, args []string) error {
	const text = "lossy [-done] FILE POD-PREFIX CODE TIMES, once"
	done := len(args) > 0 && args[0] == "-done"
	if done {
		args = args[1:]
	}
	if len(args) != 4 || s.lossy != nil {
		return usage(text)
	}
	code, err := strconv.Atoi(args[2])
	if err != nil {
		return usage(text)
	}
	times, err := strconv.Atoi(args[3])
	if err != nil {
		return usage(text)
	}
	if s.lossy, err = newLossy(s.cluster.kubeconfig); err != nil {
		return brokenError{err}
	}
	s.ts.Defer(s.lossy.close)
	s.lossy.play(args[1], &losses{what: lostBindings, code: code, done: done, times: times})
	return s.lossy.kubeconfig(s.ts.MkAbs(args[0]))
}

// waitLost waits until so many bindings have been lost.
func (s *script) waitLost(ctx context.Context, args []string) error {
	if len(args) != 2 || s.lossy == nil {
		return usage("wait-lost POD-PREFIX N, after lossy")
	}
	return s.await(ctx, func() (string, bool, error) {
		n := strconv.Itoa(s.lossy.lost(args[0]))
		return fmt.Sprintf("%s bindings were lost", n), n == args[1], nil
	})
}
