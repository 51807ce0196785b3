package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// extender is what a scheduler asks about every pod for which it has found a node. It
// agrees to everything, and answers about some pods only when the script lets it: so
// one member of a gang is on its way while the others wait at the barrier.
type extender struct {
	server *httptest.Server

	mu    sync.Mutex
	delay map[string]chan struct{} // by pod; closed when it may be answered
	asked map[string]bool
}

// extenderConfig is the configuration of a scheduler that asks it.
const extenderConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: muster-scheduler}]
extenders:
- {urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true, httpTimeout: 60s}
`

func (s *script) useExtender(_ context.Context, args []string) error {
	if len(args) != 1 || s.extender != nil {
		return usage("extender FILE, once")
	}
	s.extender = &extender{delay: map[string]chan struct{}{}, asked: map[string]bool{}}
	s.extender.server = httptest.NewServer(s.extender)
	s.ts.Defer(s.extender.close)
	return os.WriteFile(s.ts.MkAbs(args[0]), fmt.Appendf(nil, extenderConfig, s.extender.server.URL), 0o600)
}

// ServeHTTP answers "filter": all nodes will do.
func (e *extender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.asked[args.Pod.Name] = true
	delay := e.delay[args.Pod.Name]
	e.mu.Unlock()
	if delay != nil {
		<-delay
	}
	_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: args.NodeNames}) // it may have gone
}

func (e *extender) close() {
	e.mu.Lock()
	for pod := range e.delay {
		e.proceed(pod)
	}
	e.mu.Unlock()
	e.server.Close()
}

// proceed answers about a pod. e.mu is held.
func (e *extender) proceed(pod string) {
	if c := e.delay[pod]; c != nil {
		close(c)
		delete(e.delay, pod)
	}
}

func (s *script) delay(_ context.Context, args []string) error {
	if s.extender == nil || len(args) == 0 {
		return usage("delay POD..., after extender")
	}
	s.extender.mu.Lock()
	defer s.extender.mu.Unlock()
	for _, pod := range args {
		s.extender.delay[pod], s.extender.asked[pod] = make(chan struct{}), false
	}
	return nil
}

func (s *script) proceed(_ context.Context, args []string) error {
	if s.extender == nil || len(args) == 0 {
		return usage("proceed POD..., after delay")
	}
	s.extender.mu.Lock()
	defer s.extender.mu.Unlock()
	for _, pod := range args {
		s.extender.proceed(pod)
	}
	return nil
}

func (s *script) waitDelayed(ctx context.Context, args []string) error {
	if s.extender == nil || len(args) == 0 {
		return usage("wait-delayed POD..., after delay")
	}
	return s.await(ctx, func() (string, bool, error) {
		s.extender.mu.Lock()
		defer s.extender.mu.Unlock()
		var missing []string
		for _, pod := range args {
			if s.extender.delay[pod] == nil || !s.extender.asked[pod] {
				missing = append(missing, pod)
			}
		}
		if len(missing) > 0 {
			return "not asked about: " + strings.Join(missing, ", "), false, nil
		}
		return "asked about all", true, nil
	})
}
