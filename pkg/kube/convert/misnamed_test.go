package convert_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// TestMisnamedSuggestsNoUnrelatedJob: names that differ only in digits are no misspellings of one another.
func TestMisnamedSuggestsNoUnrelatedJob(t *testing.T) {
	others := map[string][]string{"train-27": {"default/a"}, "other": {"default/b"}}
	require.Empty(t, convert.Misnamed("train-1", false, nil, others))
	others["trian-1"] = []string{"default/c", "default/d"}
	require.Equal(t, "; did you mean trian-1, which has no members?", convert.Misnamed("train-1", false, nil, others))
	require.Equal(t, "; pod default/c (and 1 more) names gang trian-1, which does not exist; did you mean train-1?",
		convert.Misnamed("train-1", true, nil, others))
}
