package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
)

// TestLargeLists: the objects of a JSON list keep their order, however many goroutines read them, and the
// first mistake is reported with its line.
func TestLargeLists(t *testing.T) {
	list := func(bad ...int) []byte {
		var out strings.Builder
		out.WriteString("{\n\"metadata\": {\"items\": [{}], \"note\": \"\\\"items\\\": [{\"},\n\"items\": [\n")
		for i := range 3 * batchSize {
			if i > 0 {
				out.WriteString(",\n")
			}
			name := fmt.Sprintf(`"pod-%d"`, i)
			for _, b := range bad {
				if i == b {
					name = `{"not": "a name"}`
				}
			}
			fmt.Fprintf(&out, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %s, "annotations": {"x": "]}[{\\\""}}}`, name)
		}
		out.WriteString("],\n\"apiVersion\": \"v1\", \"kind\": \"PodList\"}\n")
		require.True(t, json.Valid([]byte(out.String())))
		return []byte(out.String())
	}
	set := &Set{}
	require.NoError(t, set.Add("list.json", list()))
	require.Len(t, set.objects, 3*batchSize)
	for i, o := range set.objects {
		require.Equal(t, fmt.Sprintf("pod-%d", i), o.Object.(*corev1.Pod).Name)
		require.Equal(t, Position{File: "list.json", Document: 1, Line: 4 + i}, o.at)
	}
	err := (&Set{}).Add("list.json", list(batchSize+7, 2*batchSize+9))
	require.ErrorContains(t, err, fmt.Sprintf("list.json: document 1, line %d: ", 4+batchSize+7))
}

// TestFastDecodeEqualsDecoder: decodeFast returns what the decoder returns, and leaves flawed objects to it.
func TestFastDecodeEqualsDecoder(t *testing.T) {
	seen := 0
	for _, name := range []string{"example-nodes.yaml", "example2-pods.yaml", "example2-priorityclasses.yaml"} {
		data, err := examples.FS.ReadFile(name)
		require.NoError(t, err)
		for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
			raw, err := yaml.YAMLToJSON(doc)
			require.NoError(t, err)
			want, gvk, err := strictDecoder.Decode(raw, nil, nil)
			require.NoError(t, err)
			is, ok := decodeFast(raw, *gvk)
			require.True(t, ok)
			require.Equal(t, want, is)
			_, ok = decodeFast(bytes.Replace(raw, []byte(`"metadata":{`), []byte(`"metadata":{"nonsense":1,`), 1), *gvk)
			require.False(t, ok)
			seen++
		}
	}
	require.Greater(t, seen, 10)
}
