// Package document says how many documents a text holds. It knows YAML, of which JSON is a part, and must not know
// what the documents are about.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// One says what a text holds besides the one document that is read of it; legal names that. Decoders stop at its end and
// never look at the rest: what somebody wrote there would count for nothing, and nobody would be told. Of a text whose
// first document is no YAML it says nothing, for its decoder does.
func One(text []byte, legal string) error {
	in := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; {
		var doc yaml.Node
		switch err := in.Decode(&doc); {
		case errors.Is(err, io.EOF), err != nil && n == 0:
			return nil
		case err != nil:
			return fmt.Errorf("after the first document: %w; supported values: one document, %s", err, legal)
		}
		if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
			continue // nothing but comments
		}
		if n++; n == 2 {
			return fmt.Errorf("second document at line %d, %s; supported values: one document, %s", doc.Content[0].Line,
				kindOf(doc.Content[0]), legal)
		}
	}
}

func kindOf(object *yaml.Node) string {
	var of struct{ Kind string }
	if object.Decode(&of) != nil || of.Kind == "" {
		return "without a kind"
	}
	return "kind " + of.Kind
}
