package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/survey"
)

func TestSourcesTable(t *testing.T) {
	table := sourcesTable(&survey.Report{
		Sources: []survey.Source{
			{Way: "label a", Resource: "podgroups.v1.a", State: survey.Read, Gangs: 2, Members: 9},
			{Way: "annotation b", State: survey.PodsOnly},
		},
		Owners: []survey.Owner{
			{
				Kind: "JobSet", Resource: "jobsets.v1.x", State: survey.Denied, Gangs: 1,
				Message: "permission is missing: apply manifests/rbac/sources/jobset.yaml",
			},
		},
		Gangs: []survey.Gang{
			{Namespace: "ns", Name: "a", Members: 4, Min: 4, Rule: "JobSet ns/a annotation k"},
			{Namespace: "ns", Name: "b", Members: 5, Problem: "PodGroup ns/b does not exist"},
			{Namespace: "ns", Name: "c", Members: 1, Min: 1, Elsewhere: true},
		},
	})
	require.Equal(t, `SOURCE          STATE  GANGS  MEMBERS
podgroups.v1.a  read   2      9
    pods say it by label a
pods            -      0      0
    pods say it by annotation b

OWNER   OBJECTS       STATE   GANGS
JobSet  jobsets.v1.x  denied  1
    permission is missing: apply manifests/rbac/sources/jobset.yaml

GANG  MEMBERS  RULE FROM
ns/a  4/4      JobSet ns/a annotation k
ns/b  5/0      -
    PodGroup ns/b does not exist
ns/c  1/1      -
    another scheduler's
`, table)
	require.Contains(t, sourcesTable(&survey.Report{}), "no gangs")
}

// TestSourcesMistakes: mistakes are reported before any request is sent.
func TestSourcesMistakes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"sources", "-o", "yaml"}, exitUsage, "--output yaml: supported values: table, json"},
		{[]string{"sources", "--kubeconfig", "/does/not/exist"}, exitFailed, "/does/not/exist"},
		{[]string{"sources", "--timeout", "soon"}, exitUsage, "--timeout"},
		{[]string{"sources", "x"}, exitUsage, "x"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, c.code, Main(t.Context(), c.args, &stdout, &stderr), c.args)
		require.Contains(t, stderr.String(), c.says)
		require.Empty(t, stdout.String())
	}
}
