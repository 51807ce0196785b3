package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/command"
	"github.com/muster-scheduler/muster/pkg/version"
)

// TestVersion: which Muster, and then kube-scheduler's own line. Nothing is started.
func TestVersion(t *testing.T) {
	var out bytes.Buffer
	cmd := command.New(command.Options{})
	cmd.SetArgs([]string{"--version", "--config=no-such-file"})
	cmd.SetOut(&out)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.NoError(t, cmd.Flags().Set("version", "false"), "it is one for the whole process")
	require.Equal(t, version.Get().String()+"\n", out.String())
	require.Regexp(t, `\nKubernetes v1\.[0-9]+\.[0-9]+\n$`, out.String())
}
