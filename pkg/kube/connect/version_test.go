package connect_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
)

// serving is the configuration of a client whose server answers so, in turn; the last answer stays.
func serving(t *testing.T, codes []int, body string) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code := codes[0]
		if len(codes) > 1 {
			codes = codes[1:]
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if code == http.StatusOK {
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestServerVersion(t *testing.T) {
	for body, want := range map[string]string{
		`{"major":"1","minor":"34","gitVersion":"v1.34.4"}`:                           "1.34",
		`{"major":"1","minor":"35+","gitVersion":"v1.35.1-eks-1"}`:                    "1.35",
		`{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"34"}`:       "1.34",
		`{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"37"}`:       "1.37",
		`{"major":"1","minor":"36","minCompatibilityMajor":"1","gitVersion":"v1.36"}`: "1.36",
	} {
		got, err := connect.ServerVersion(t.Context(), serving(t, []int{200}, body))
		require.NoError(t, err, body)
		require.Equal(t, want, got.String(), body)
	}
}

// A server that is just starting is asked again, one that hides its version is not.
func TestServerVersionErrors(t *testing.T) {
	got, err := connect.ServerVersion(t.Context(), serving(t, []int{503, 200}, `{"major":"1","minor":"36"}`))
	require.NoError(t, err)
	require.Equal(t, "1.36", got.String())

	for _, code := range []int{401, 403} {
		_, err = connect.ServerVersion(t.Context(), serving(t, []int{code}, ""))
		require.ErrorIs(t, err, connect.ErrHidden)
	}

	_, err = connect.ServerVersion(t.Context(), serving(t, []int{200}, `{"major":"","minor":"x"}`))
	require.ErrorContains(t, err, `the API server says that it is of version ""."x"`)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = connect.ServerVersion(ctx, serving(t, []int{503}, ""))
	require.ErrorIs(t, err, context.Canceled)
}

func TestSupported(t *testing.T) {
	for v, ok := range map[string]bool{"1.33": false, "1.34": true, "1.35": true, "1.36": true, "1.37": true, "1.38": true, "1.39": false, "2.0": false} {
		err := connect.Supported(version.MustParseGeneric(v))
		require.Equal(t, ok, err == nil, v)
		if !ok {
			require.ErrorContains(t, err, "the API server is of Kubernetes "+v+"; muster-scheduler runs with 1.34 to 1.38")
		}
	}
}
