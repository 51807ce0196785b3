package simulate

import (
	"bytes"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chunk is one object as text.
type chunk struct {
	text []byte
	line int  // of the first byte, from 0, counted from where the reading began
	json bool // otherwise YAML
	head metav1.TypeMeta
	// items are the items of a list, whose texts are parts of this one. Their heads are not read yet.
	items []chunk
}

// cutter splits a text into JSON objects, and lists into their items. It copies no text: a cluster has hundreds of megabytes.
type cutter struct {
	*jsontext.Decoder
	text    []byte
	line    int // the number of lines that end before offset counted
	counted int
}

// cutObjects returns the objects of a text, or an error if it contains anything but JSON objects.
func cutObjects(text []byte) (all []chunk, err error) {
	// The decoder of an object reports mistakes in its fields later. Here only the ends of values count.
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	c := &cutter{Decoder: jsontext.NewDecoder(bytes.NewBuffer(text), options...), text: text}
	for {
		found, err := c.object()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
}

// object reads the next object.
func (c *cutter) object() (found chunk, err error) {
	if _, err = c.expect('{'); err != nil {
		return found, err
	}
	begin := int(c.InputOffset()) - 1
	found = chunk{line: c.lineAt(begin), json: true}
	for c.PeekKind() != '}' {
		name, err := c.ReadToken()
		if err != nil {
			return found, err
		}
		switch key := name.String(); {
		case key == "kind" && c.PeekKind() == '"':
			err = c.readString(&found.head.Kind)
		case key == "apiVersion" && c.PeekKind() == '"':
			err = c.readString(&found.head.APIVersion)
		case key == "items" && c.PeekKind() == '[':
			found.items, err = c.list()
		default:
			err = c.SkipValue()
		}
		if err != nil {
			return found, err
		}
	}
	if _, err = c.ReadToken(); err != nil {
		return found, err
	}
	found.text = c.text[begin:c.InputOffset():c.InputOffset()]
	if !strings.HasSuffix(found.head.Kind, "List") {
		found.items = nil
	}
	return found, nil
}

// list reads an array. The result is not nil.
func (c *cutter) list() (items []chunk, err error) {
	if _, err = c.expect('['); err != nil {
		return nil, err
	}
	items = []chunk{}
	for c.PeekKind() != ']' {
		value, err := c.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(c.InputOffset())
		begin := end - len(value)
		items = append(items, chunk{text: c.text[begin:end:end], line: c.lineAt(begin), json: true})
	}
	_, err = c.ReadToken()
	return items, err
}

// expect reads a token, or returns errNoObject if it is of another kind. At the end of the text the error is io.EOF.
func (c *cutter) expect(kind jsontext.Kind) (jsontext.Token, error) {
	token, err := c.ReadToken()
	if err == nil && token.Kind() != kind {
		err = errNoObject
	}
	return token, err
}

// readString reads a string token into *into.
func (c *cutter) readString(into *string) error {
	token, err := c.ReadToken()
	if err == nil {
		*into = token.String()
	}
	return err
}

// lineAt returns how many lines end before offset. The offset must not be less than in the previous call.
func (c *cutter) lineAt(offset int) int {
	c.line += bytes.Count(c.text[c.counted:offset], []byte("\n"))
	c.counted = offset
	return c.line
}
