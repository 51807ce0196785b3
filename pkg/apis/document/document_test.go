package document_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/document"
)

// TestOne: everything besides the first document is reported with its line. Comments and separators are no documents.
// Errors in the first document are not reported here.
func TestOne(t *testing.T) {
	const legal = "; supported values: one document, a Thing"
	for text, want := range map[string]string{
		"":                                      "",
		"kind: Thing\n":                         "",
		"---\nkind: Thing\n":                    "",
		"# first\n---\n# second\nkind: Thing\n": "",
		"kind: Thing\n---\n":                    "",
		"kind: Thing\n---\n# nothing\n\n---\n":  "",
		"kind: Thing\n...\n":                    "",
		"text: |\n  ---\n  kind: Other\n":       "",
		`{"kind": "Thing"}`:                     "",
		"{\n\t\"kind\": \"Thing\"\n}\n":         "",
		"kind: [\n":                             "",

		"kind: Thing\n---\nkind: Thing\n":                 "second document at line 3, kind Thing" + legal,
		"kind: Thing\n---\n# a comment\n\nkind: Other\n":  "second document at line 5, kind Other" + legal,
		"kind: Thing\n---\n# nothing\n---\nkind: Other\n": "second document at line 5, kind Other" + legal,
		"kind: Thing\n---\nprofiles: []\n":                "second document at line 3, without a kind" + legal,
		"kind: Thing\n---\n- kind: Other\n":               "second document at line 3, without a kind" + legal,
		"kind: Thing\n---\nkind: [Other]\n":               "second document at line 3, without a kind" + legal,
		"kind: Thing\n...\n---\nkind: Other\n":            "second document at line 4, kind Other" + legal,
		"kind: Thing\n...\nkind: Other\n": "after the first document: yaml: line 2: did not find expected <document start>" +
			legal,
		"kind: Thing\n--- {kind: Other}\n": "second document at line 2, kind Other" + legal,
		"kind: Thing\n---\na: b: c\n": "after the first document: yaml: line 3: mapping values are not allowed in this context" +
			legal,
		`{"kind": "Thing"}` + "\n---\n" + `{"kind": "Other"}`: "second document at line 3, kind Other" + legal,
		"{\n\t\"kind\": \"Thing\"\n}\n---\nkind: Other\n":     "second document at line 5, kind Other" + legal,
	} {
		if err := document.One([]byte(text), "a Thing"); want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
}
