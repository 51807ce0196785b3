package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/test/worlds"
)

// TestItemsOfLists: a list in JSON is cut as its reader would cut it, and what an item says of itself is what its
// reader would read; squeezed it is what is left without space. What is no JSON is not cut, or into items of which one is none.
func TestItemsOfLists(t *testing.T) {
	kinds := []string{"cut", "cut by indents", "cut as a pod", "cut at what was known", "cut in spite of indents", "valid and not cut", "an odd item", "an item that says what it is"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		text := []byte(drawList(t))
		if indented := (&bytes.Buffer{}); rapid.Bool().Draw(t, "as kubectl prints it") && json.Indent(indented, text, "", "    ") == nil {
			text = indented.Bytes()
		}
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "mistakes") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			switch by := rapid.SampledFrom([]string{"", "", `"`, `\`, ",", "{", "}", "[", "]", ":", "x", "\n"}).Draw(t, "by"); {
			case rapid.Bool().Draw(t, "more"):
				text = slices.Insert(text, at, []byte(by)...)
			default:
				text = slices.Replace(text, at, at+1, []byte(by)...)
			}
			if len(text) == 0 {
				return
			}
		}
		var compact bytes.Buffer
		switch squeezed := squeeze(nil, text); {
		case json.Valid(squeezed) != json.Valid(text):
			t.Fatalf("squeezed is %s: %s", squeezed, text)
		case json.Compact(&compact, text) == nil && !bytes.Equal(squeezed, compact.Bytes()):
			t.Fatalf("squeezed is %s, and not %s: %s", squeezed, &compact, text)
		}
		items, of, ok := jsonItems(text)
		var want struct {
			metav1.TypeMeta
			Items []json.RawMessage `json:"items"`
		}
		valid := json.Unmarshal(text, &want) == nil
		w := walk{text: text}
		indents := false
		if w.toItems() {
			_, indents = w.atIndent()
		}
		y.Count("cut", valid && ok)
		y.Count("cut by indents", valid && ok && indents && len(items) > 0)
		y.Count("cut in spite of indents", valid && ok && !indents && bytes.Contains(text, []byte("\n")))
		y.Count("valid and not cut", valid && !ok)
		y.Count("not valid and cut", !json.Valid(text) && ok)
		for _, c := range items {
			told, ok := podParts(c.text, c.header.parts)
			alone, is := podParts(c.text, [3]extent{})
			if ok != is || ok && !reflect.DeepEqual(told, alone) {
				t.Fatalf("cut at what was known it is %v %+v, else %v %+v: %s", ok, told, is, alone, c.text)
			}
			y.Count("cut as a pod", ok)
			y.Count("cut at what was known", ok && c.header.parts[0].to > 0)
		}
		switch {
		case !ok:
			if valid && strings.HasSuffix(want.Kind, "List") && want.APIVersion != "" && plainList(text, want.Items) {
				t.Fatalf("not cut: %s", text)
			}
			return
		case !json.Valid(text):
			if !slices.ContainsFunc(items, func(c chunk) bool { return !json.Valid(c.text) }) {
				t.Fatalf("cut into valid items, and is no JSON: %s", text)
			}
			return
		}
		if of != want.TypeMeta || len(items) != len(want.Items) {
			t.Fatalf("%d items of %v, not %d of %v: %s", len(items), of, len(want.Items), want.TypeMeta, text)
		}
		for i, c := range items {
			if !bytes.Equal(c.text, want.Items[i]) {
				t.Fatalf("item %d is %s, not %s: %s", i, c.text, want.Items[i], text)
			}
			if rest := bytes.Join(bytes.SplitAfter(text, []byte("\n"))[c.line:], nil); !bytes.Equal(rest, lineOf(text, c.text)) {
				t.Fatalf("item %d is said to begin on line %d: %s", i, c.line, text)
			}
			var head struct {
				metav1.TypeMeta
				Items *[]json.RawMessage `json:"items"`
			}
			err := json.Unmarshal(c.text, &head)
			y.Count("an odd item", c.header.odd)
			y.Count("an item that says what it is", !c.header.odd && c.header.Kind != "")
			if !c.header.odd && (err != nil || head.TypeMeta != c.header.TypeMeta || head.Items != nil) {
				t.Fatalf("item %d says it is %v, not %v (%v): %s", i, c.header, head, err, text)
			}
		}
	})
}

// plainList says whether nothing is odd about a list whose items are these: there are some, they are objects, and
// the only ones.
func plainList(text []byte, items []json.RawMessage) bool {
	return len(items) > 0 && bytes.Count(text, []byte(`"items"`)) == 1 && bytes.IndexByte(text, '\\') < 0 &&
		!slices.ContainsFunc(items, func(i json.RawMessage) bool { return i[0] != '{' })
}

// lineOf is the rest of a text from the line on which a part of it begins, which shares its memory.
func lineOf(text, part []byte) []byte {
	for i := range text {
		if &text[i] == &part[0] {
			return text[bytes.LastIndexByte(text[:i], '\n')+1:]
		}
	}
	return nil
}

// drawList draws a list, mostly as kubectl prints it.
func drawList(t *rapid.T) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n", "\n    "}).Draw(t, "space") }
	word := func() string {
		return rapid.SampledFrom([]string{`""`, `"v1"`, `"a\"b\\"`, `"kind"`, `"{[,:"`, `"Pod"`, `"items"`, `"é"`}).Draw(t, "word")
	}
	var value func(depth int) string
	object := func(depth int, keys ...string) string {
		var fields []string
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			fields = append(fields, rapid.SampledFrom(append(keys, `"a"`, `"b:{"`)).Draw(t, "key")+space()+":"+space()+value(depth+1))
		}
		return "{" + space() + strings.Join(fields, ","+space()) + space() + "}"
	}
	value = func(depth int) string {
		switch n := rapid.IntRange(0, 5).Draw(t, "value"); {
		case n == 0:
			return rapid.SampledFrom([]string{"1", "-2.5e3", "true", "null", "[]", "{}"}).Draw(t, "atom")
		case n > 3 && depth < 4:
			return object(depth)
		case n == 3 && depth < 4:
			return "[" + value(depth+1) + space() + "," + value(depth+1) + "]"
		}
		return word()
	}
	var items []string
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			items = append(items, value(2))
			continue
		}
		if rapid.Bool().Draw(t, "plain") {
			items = append(items, fmt.Sprintf(`{"apiVersion":%s"v1",%s"kind":"Pod",%s"metadata":%s}`, space(), space(), space(), object(3)))
			continue
		}
		items = append(items, object(2, `"kind"`, `"kind"`, `"apiVersion"`, `"Kind"`, `"items"`, `"k\u0069nd"`, `"metadata"`))
	}
	list := space() + "," + space()
	return fmt.Sprintf(`{%s"apiVersion":%s"v1",%s"kind": "%s",%s"items":%s[%s%s%s]%s,"metadata":{"items":[{}]}}%s`, space(), space(), space(),
		rapid.SampledFrom([]string{"List", "List", "PodList", "Pod"}).Draw(t, "kind"), space(), space(), space(), strings.Join(items, list), space(), space(), space())
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
		{`, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2" "labels": {}}}`, `list.json: document 1, line 3: invalid character '"' after object key:value pair`},
		{`, {"apiVersion": "v1", "kind": "Other", "metadata": {"name": tru}}`, ""},
		{`, {"apiVersion": "v1", "kind": "Other", "spec": {"a": 1 "b": 2}}`, `list.json: document 1, line 3: invalid character '"' after object key:value pair`},
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

// TestWhatIsGivenIsNotCopied: the objects of a set that is given away are the cluster's, and of one that is not they
// stay as they are.
func TestWhatIsGivenIsNotCopied(t *testing.T) {
	for _, given := range []bool{false, true} {
		s := &Set{}
		require.NoError(t, s.Add("node.yaml", []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 8}}}")))
		if given {
			s.Give()
		}
		w, err := Open(t.Context(), Options{}, s)
		require.NoError(t, err)
		w.Close()
		m, err := meta.Accessor(s.objects[0].Object)
		require.NoError(t, err)
		require.Equal(t, given, m.GetUID() != "")
	}
}
