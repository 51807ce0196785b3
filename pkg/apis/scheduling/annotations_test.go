package scheduling_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

func TestAnnotations(t *testing.T) {
	for _, c := range []struct {
		parse func(string) (any, error)
		value string
		want  any
	}{
		{parser(scheduling.ParseMode), "NonStrict", scheduling.ModeNonStrict},
		{parser(scheduling.ParseMatchPolicy), "waiting-and-running", scheduling.MatchWaitingAndRunning},
		{parser(scheduling.ParseMinAvailable), "4", 4},
		{parser(scheduling.ParseTotalNumber), "8", 8},
		{parser(scheduling.ParseTopologyIndex), "0", 0},
		{parser(scheduling.ParseTopologyIndex), "12", 12},
		{parser(scheduling.ParseWaitingTime), "1m30s", 90 * time.Second},
		{parser(scheduling.ParseGroups), "[\"default/a\", \"other/b\"]\n", []string{"default/a", "other/b"}},
		{parser(scheduling.ParseGroups), "[]", []string{}},
	} {
		got, err := c.parse(c.value)
		require.NoError(t, err, c.value)
		require.Equal(t, c.want, got, c.value)
	}
}

func parser[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(v string) (any, error) { return parse(v) }
}

// TestAnnotationErrors: what is said of each value of testdata/annotations.
func TestAnnotationErrors(t *testing.T) {
	const domain = "gang.scheduling.koordinator.sh/"
	for key, parse := range map[string]func(string) (any, error){
		scheduling.AnnotationMode:          parser(scheduling.ParseMode),
		scheduling.AnnotationMatchPolicy:   parser(scheduling.ParseMatchPolicy),
		scheduling.AnnotationWaitingTime:   parser(scheduling.ParseWaitingTime),
		scheduling.AnnotationMinAvailable:  parser(scheduling.ParseMinAvailable),
		scheduling.AnnotationTotalNumber:   parser(scheduling.ParseTotalNumber),
		scheduling.AnnotationTopologyIndex: parser(scheduling.ParseTopologyIndex),
		scheduling.AnnotationGroups:        parser(scheduling.ParseGroups),
		scheduling.AnnotationTopologySpec:  parser(scheduling.ParseGatherSpec),
	} {
		data, err := os.ReadFile(filepath.Join("testdata/annotations", strings.TrimPrefix(key, domain)+".yaml"))
		require.NoError(t, err)
		var cases []struct{ Value, Error, Policy string }
		require.NoError(t, yaml.UnmarshalStrict(data, &cases))
		for _, c := range cases {
			_, err := parse(c.Value)
			if c.Error == "" {
				require.NoError(t, err, c.Value)
				continue
			}
			require.ErrorContains(t, err, domain, c.Value)
			require.Equal(t, c.Error, strings.ReplaceAll(err.Error(), domain, ""), c.Value)
		}
	}
}
