// Package document checks that a text in YAML or JSON has only one document.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// One returns an error if text has a second document, or is invalid after the first one. legal names the expected document, for the
// error. Decoders ignore text after the first document, without an error. If the first document is invalid, One returns nil: its
// decoder reports that.
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
	var head struct{ Kind string }
	if object.Decode(&head) != nil || head.Kind == "" {
		return "without a kind"
	}
	return "kind " + head.Kind
}
