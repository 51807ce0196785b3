package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/version"
)

func TestVersion(t *testing.T) {
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = Main(t.Context(), append([]string{"version"}, args...), &out, &errs)
		return code, out.String(), errs.String()
	}
	code, out, _ := run()
	require.Zero(t, code)
	require.Equal(t, version.Get().String()+"\n", out)

	code, out, _ = run("-o", "json")
	require.Zero(t, code)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got, 5)
	require.Equal(t, version.Get().Kubernetes, got["kubernetes"])
	for name, value := range got {
		require.NotEmpty(t, value, name)
	}

	code, out, errs := run("-o", "yaml")
	require.Equal(t, exitUsage, code)
	require.Empty(t, out)
	require.Contains(t, errs, "--output yaml: must be text or json")
	code, _, errs = run("short")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, `unknown command "short"`)
}
