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

// cutter reads JSON objects one after the other and keeps where each object and its items begin and end. It copies no text: the
// list of a cluster is hundreds of megabytes.
type cutter struct {
	*jsontext.Decoder
	text    []byte
	line    int // at counted
	counted int
}

// cutObjects returns the objects of a text, or an error if it holds anything but JSON objects.
func cutObjects(text []byte) (all []chunk, err error) {
	// The decoder of an object reports mistakes in its fields. Here only the ends of values count.
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	c := &cutter{Decoder: jsontext.NewDecoder(bytes.NewBuffer(text), options...), text: text}
	for {
		one, err := c.object()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// object reads the next object.
func (c *cutter) object() (one chunk, err error) {
	if _, err = c.expect('{'); err != nil {
		return one, err
	}
	begin := int(c.InputOffset()) - 1
	one = chunk{line: c.lineAt(begin), json: true}
	for c.PeekKind() != '}' {
		name, err := c.ReadToken()
		if err != nil {
			return one, err
		}
		switch key := name.String(); {
		case key == "kind" && c.PeekKind() == '"':
			err = c.readString(&one.head.Kind)
		case key == "apiVersion" && c.PeekKind() == '"':
			err = c.readString(&one.head.APIVersion)
		case key == "items" && c.PeekKind() == '[':
			one.items, err = c.list()
		default:
			err = c.SkipValue()
		}
		if err != nil {
			return one, err
		}
	}
	if _, err = c.ReadToken(); err != nil {
		return one, err
	}
	one.text = c.text[begin:c.InputOffset():c.InputOffset()]
	if !strings.HasSuffix(one.head.Kind, "List") {
		one.items = nil
	}
	return one, nil
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

// expect reads a token of a kind. At the end of the text the error is io.EOF.
func (c *cutter) expect(kind jsontext.Kind) (jsontext.Token, error) {
	token, err := c.ReadToken()
	if err == nil && token.Kind() != kind {
		err = errNoObject
	}
	return token, err
}

func (c *cutter) readString(into *string) error {
	token, err := c.ReadToken()
	if err == nil {
		*into = token.String()
	}
	return err
}

// lineAt returns how many lines end before an offset, which does not decrease from call to call.
func (c *cutter) lineAt(offset int) int {
	c.line += bytes.Count(c.text[c.counted:offset], []byte("\n"))
	c.counted = offset
	return c.line
}
