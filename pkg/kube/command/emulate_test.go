package command

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// TestSchedulerRunsWithNewerAPIServer: the scheduler emulates an older API server, and behaves as its own version, with a warning, if the
// API server is one minor version newer. With two it does not start.
func TestSchedulerRunsWithNewerAPIServer(t *testing.T) {
	const warning = "The API server is of Kubernetes 1.38, and this scheduler behaves as that of 1.37: what is new in 1.38 has no effect; " +
		"upgrade Muster to a version for 1.38"
	for _, c := range []struct {
		minor                    int
		emulated, warning, error string
	}{
		{minor: 33, error: "the API server is of Kubernetes 1.33; muster-scheduler runs with 1.34 to 1.38"},
		{minor: 34, emulated: "kube=1.34"},
		{minor: 37, emulated: "kube=1.37"},
		{minor: 38, warning: warning},
		{minor: 39, error: "the API server is of Kubernetes 1.39; muster-scheduler runs with 1.34 to 1.38"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"major":"1","minor":"%d"}`, c.minor)
		}))
		t.Cleanup(server.Close)
		opts := options.NewOptions()
		opts.Master = server.URL
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		emulated := flags.String("emulated-version", "", "")
		e, err := emulate(t.Context(), opts, flags, utilfeature.DefaultFeatureGate)
		if c.error != "" {
			require.ErrorContains(t, err, c.error)
			continue
		}
		require.NoError(t, err, c.minor)
		require.Equal(t, c.emulated, *emulated, c.minor)
		require.Equal(t, c.warning, e.warning(), c.minor)
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		e.log(logger, utilfeature.DefaultFeatureGate)
		if text := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); c.warning != "" {
			require.Contains(t, text, c.warning)
		} else {
			require.NotContains(t, text, "upgrade Muster")
		}
	}
}

// TestWarningAwaitsEvents: a warning is recorded once, when the scheduler sends events, and not after its end.
func TestWarningAwaitsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var recorded []string
		record := func(kind, reason, message string) { recorded = append(recorded, kind+" "+reason+" "+message) }
		go reportLater(ctx, record, reasons.APIServerNewer, "text")
		time.Sleep(eventDelay - time.Second)
		require.Empty(t, recorded)
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"Warning APIServerNewer text"}, recorded)
		go reportLater(ctx, record, reasons.APIServerNewer, "text")
		cancel()
		synctest.Wait()
		require.Len(t, recorded, 1)
	})
}
