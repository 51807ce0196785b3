package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCutObjects: each object keeps its text, line and kind. A list keeps the texts, lines and kinds of its items.
func TestCutObjects(t *testing.T) {
	pod := `{"metadata": {"kind": "no", "items": [1]},
 "kind": "Pod", "apiVersion": "v1"}`
	text := "{\"apiVersion\": \"v1\",\n\"items\": [" + pod + ",\n" + pod + "], \"kind\": \"PodList\"}\n" + pod +
		` {"kind": 1, "items": [{}]} {"kind": "List", "items": []}`
	all, err := cutObjects([]byte(text))
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Equal(t, metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, all[0].head)
	require.Len(t, all[0].items, 2)
	for i, line := range []int{1, 3} {
		require.Equal(t, pod, string(all[0].items[i].text))
		require.Equal(t, line, all[0].items[i].line)
	}
	require.Equal(t, pod, string(all[1].text))
	require.Equal(t, chunk{text: all[1].text, line: 5, json: true, head: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}, all[1])
	require.Equal(t, metav1.TypeMeta{}, all[2].head)
	require.Nil(t, all[2].items)
	require.NotNil(t, all[3].items)
	whole := 0 // texts that end where objects do
	for end := range text {
		cut, err := cutObjects([]byte(text[:end]))
		if err != nil {
			continue
		}
		whole++
		joined := ""
		for _, c := range cut {
			joined += string(c.text)
		}
		require.Equal(t, strings.Join(strings.Fields(text[:end]), ""), strings.Join(strings.Fields(joined), ""))
	}
	require.Equal(t, 1+2+2+2, whole) // nothing, and each of three objects with and without the space after it
}

// TestListsThatAreAlmostJSON: what looks like a list in JSON and is none is read as YAML, or its reader says where
// it ends.
func TestListsThatAreAlmostJSON(t *testing.T) {
	node := `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d"}}`
	list := `{"apiVersion": "v1", "kind": "List", "items": [` + "\n" + node + ",\n" + node + "%s\n]}"
	for _, c := range []struct{ after, says string }{
		{"", ""},
		{"# YAML has comments", ""},
		{`, {"apiVersion": "v1", "kind": "Node", "metadata": {name: n2}}`, ""},
		{"}", "list.json: document 1, line 3: invalid character '}' after array element"},
		{` {"apiVersion": "v1", "kind": "Node"}`, "list.json: document 1, line 3: invalid character '{' after array element"},
		{
			`, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2" "labels": {}}}`,
			`list.json: document 1, line 3: invalid character '"' after object key:value pair`,
		},
		{`, {"apiVersion": "v1", "kind": "Other", "metadata": {"name": tru}}`, ""},
		{
			`, {"apiVersion": "v1", "kind": "Other", "spec": {"a": 1 "b": 2}}`,
			`list.json: document 1, line 3: invalid character '"' after object key:value pair`,
		},
	} {
		s := &Set{}
		err := s.Add("list.json", fmt.Appendf(nil, list, 0, 1, c.after))
		if c.says != "" {
			require.EqualError(t, err, c.says, c.after)
			require.Empty(t, s.objects, c.after)
			continue
		}
		require.NoError(t, err, c.after)
		require.GreaterOrEqual(t, len(s.objects), 2, c.after)
	}
}

// TestGivenSetIsNotCopied: the objects of a given set belong to the cluster. The objects of any other set do not
// change.
func TestGivenSetIsNotCopied(t *testing.T) {
	for _, given := range []bool{false, true} {
		s := &Set{}
		require.NoError(t, s.Add("node.yaml", []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 8}}}")))
		if given {
			s.GiveObjects()
		}
		w, err := Open(t.Context(), Options{}, s)
		require.NoError(t, err)
		w.Close()
		m, err := meta.Accessor(s.objects[0].Object)
		require.NoError(t, err)
		require.Equal(t, given, m.GetUID() != "")
	}
}
