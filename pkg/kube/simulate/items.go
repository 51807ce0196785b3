package simulate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jsonItems cuts a JSON list into its items, whose lines count from that of the document. What is around the
// items is checked, and that nothing but a comma is between two of them; they themselves are not: so it is
// JSON if each of them is.
//
// A cluster's list is hundreds of megabytes: each byte is looked at once here, and again by who reads its item.
func jsonItems(text []byte) (items []chunk, of metav1.TypeMeta, ok bool) {
	w := walk{text: text}
	if !w.toItems() {
		return nil, of, false
	}
	from, line := w.at, w.line
	if items, ok = w.atIndent(); !ok {
		w.at, w.line = from, line
		items, ok = w.list(w.object)
	}
	if !ok {
		return nil, of, false
	}
	head := slices.Concat(text[:from], []byte("[]"), text[w.at+1:])
	if json.Unmarshal(head, &of) != nil || !strings.HasSuffix(of.Kind, "List") || of.APIVersion == "" {
		return nil, of, false
	}
	return items, of, true
}

// atIndent cuts the list that begins here where kubectl has it end an item: at the next brace that stands under its first
// one. Whether that is one object is asked of several items at a time. It says false if one is not, and knows nothing then.
func (w *walk) atIndent() (items []chunk, ok bool) {
	if items, ok = w.list(w.toBrace); !ok {
		return nil, false
	}
	var wrong atomic.Bool
	inParallel((len(items)+together-1)/together, func(part int) {
		for i := part * together; i < min((part+1)*together, len(items)) && !wrong.Load(); i++ {
			one := walk{text: items[i].text, line: items[i].line}
			is, ok := one.object()
			if !ok || one.at != len(one.text) {
				wrong.Store(true)
			}
			items[i] = is
		}
	})
	return items, !wrong.Load()
}

// toBrace goes past the line that closes the item that begins here, if the item's indent tells.
func (w *walk) toBrace() (c chunk, ok bool) {
	begin := w.at
	last := bytes.LastIndexByte(w.text[:begin], '\n')
	if last < 0 || begin == len(w.text) || w.text[begin] != '{' || len(bytes.Trim(w.text[last+1:begin], " ")) > 0 {
		return c, false
	}
	end := append(w.text[last:begin:begin], '}')
	n := bytes.Index(w.text[begin:], end)
	if n < 0 {
		return c, false
	}
	w.at += n + len(end)
	c = chunk{text: w.text[begin:w.at:w.at], line: w.line, json: true}
	w.line += bytes.Count(c.text, []byte("\n"))
	return c, true
}

// list goes through the list that begins here, and past what lies between its items.
func (w *walk) list(item func() (chunk, bool)) (items []chunk, ok bool) {
	w.at++
	for w.space() != ']' || len(items) > 0 {
		one, ok := item()
		if !ok {
			return nil, false
		}
		items = append(items, one)
		end := w.space()
		if end == ']' {
			break
		}
		if end != ',' {
			return nil, false
		}
		w.at++
	}
	return items, true
}

// header is what an object says of itself in the first place.
type header struct {
	metav1.TypeMeta
	odd   bool      // only its reader can say what it is
	parts [3]extent // its first values that others are in
}

// extent is where in an object a value begins that others are in, and where it ends; zero is none.
//
//	{"kind": "Pod", "metadata": {"name": "p"}, "spec": …
//	                            from         to
type extent struct{ from, to int }

// walk goes through JSON.
type walk struct {
	text     []byte
	at, line int
	known    [3]extent // of values that somebody else went past
}

// told are the bytes outside of texts that a walk looks at.
var told = [256]bool{'\n': true, '"': true, ':': true, ',': true, '{': true, '[': true, '}': true, ']': true}

// toItems goes to the bracket that begins a list's items, if there are some.
func (w *walk) toItems() bool {
	var key []byte // the last text on the list's own level
	for depth := 0; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; c {
		case '\n':
			w.line++
		case '"':
			word, ok := w.word()
			if !ok {
				return false
			}
			if depth == 1 {
				key = word
			}
		case '{', '[':
			if depth == 1 && c == '[' && string(key) == "items" {
				return true
			}
			depth++
		case '}', ']':
			depth--
		}
	}
	return false
}

// space goes on to what is no space, and returns it; 0 at the end.
func (w *walk) space() byte {
	for ; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; c {
		case '\n':
			w.line++
		case ' ', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// squeeze appends JSON without the space that says nothing, which is more than half of what kubectl prints. What is no
// JSON is none afterwards.
func squeeze(into, text []byte) []byte {
	w := walk{text: text}
	for w.at < len(text) {
		from := w.at
		switch text[w.at] {
		case ' ', '\t', '\r', '\n':
			if next := w.space(); next != 0 && len(into) > 0 && !parts[next] && !parts[into[len(into)-1]] {
				into = append(into, ' ')
			}
			continue
		case '"':
			if _, ok := w.word(); !ok {
				return append(into, text[from:]...)
			}
		}
		w.at++
		into = append(into, text[from:w.at]...)
	}
	return into
}

// parts are the bytes beside which space says nothing.
var parts = [256]bool{':': true, ',': true, '{': true, '[': true, '}': true, ']': true}

// word goes to the end of the text that begins here, and returns what is between its quotes.
func (w *walk) word() (word []byte, ok bool) {
	begin := w.at + 1
	for from := begin; ; {
		n := bytes.IndexByte(w.text[from:], '"')
		if n < 0 {
			return nil, false
		}
		w.at = from + n
		escape := w.at
		for w.text[escape-1] == '\\' {
			escape--
		}
		if (w.at-escape)%2 == 0 {
			return w.text[begin:w.at], true
		}
		from = w.at + 1
	}
}

// fields goes past the object that is all there is, and says what its fields are until each says no. Values are not looked
// at: who reads them does.
func (w *walk) fields(each func(key, value []byte) bool) bool {
	if w.space() != '{' {
		return false
	}
	w.at++
	for first := true; w.space() != '}' || !first; first = false {
		if w.space() != '"' {
			return false
		}
		key, ok := w.word()
		if w.at++; !ok || w.space() != ':' {
			return false
		}
		w.at++
		w.space()
		from := w.at
		if !w.value() || !each(key, w.text[from:w.at]) {
			return false
		}
		if w.space() == '}' {
			break
		}
		if w.space() != ',' {
			return false
		}
		w.at++
	}
	w.at++
	w.space()
	return w.at == len(w.text)
}

// value goes past the value that begins here.
func (w *walk) value() bool {
	begin, depth := w.at, 0
	for ; w.at < len(w.text); w.at++ {
		switch w.text[w.at] {
		case '"':
			if _, ok := w.word(); !ok {
				return false
			}
		case '{', '[':
			if depth == 0 {
				if end := w.end(); end > 0 {
					w.at = end - 1
					continue
				}
			}
			depth++
		case '}', ']':
			if depth == 0 {
				return w.at > begin
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return w.at > begin
			}
		}
	}
	return false
}

// end is where the value ends that begins here, if that is known; else 0.
func (w *walk) end() int {
	for _, e := range w.known {
		if e.from == w.at {
			return e.to
		}
	}
	return 0
}

// object goes past the object that begins here.
func (w *walk) object() (c chunk, ok bool) {
	if w.at == len(w.text) || w.text[w.at] != '{' {
		return c, false
	}
	c = chunk{line: w.line, json: true}
	begin, depth := w.at, 0
	var key, word []byte // on its own level; there is a key until its value ends
	part := 0
	for ; w.at < len(w.text); w.at++ {
		at := w.text[w.at]
		if !told[at] {
			continue
		}
		switch {
		case at == '\n':
			w.line++
		case at == '"':
			if word, ok = w.word(); !ok {
				return c, false
			}
			if depth == 1 {
				c.header.take(key, word)
			}
		case at == '{' || at == '[':
			if depth == 1 && part < len(c.header.parts) {
				c.header.parts[part].from = w.at - begin
			}
			depth++
		case at == '}' || at == ']':
			depth--
			switch {
			case depth == 0:
				w.at++
				c.text = w.text[begin:w.at:w.at]
				return c, true
			case depth == 1 && part < len(c.header.parts):
				c.header.parts[part].to = w.at + 1 - begin
				part++
			}
		case depth == 1 && at == ':':
			key = word
			value := bytes.TrimLeft(w.text[w.at+1:], " \t\r\n")
			c.header.see(key, len(value) > 0 && value[0] == '"')
		case depth == 1 && at == ',':
			key = nil
		}
	}
	return c, false
}

func isHead(key []byte) bool { return string(key) == "kind" || string(key) == "apiVersion" }

// see notes that an object has a field, whose value is a text or not. One whose name is written in another way may
// be meant all the same.
func (h *header) see(key []byte, text bool) {
	odd := func(c byte) bool { return c == '\\' || c >= 0x80 }
	for _, known := range []string{"kind", "apiVersion", "items"} {
		if len(key) == len(known) && strings.EqualFold(string(key), known) {
			h.odd = h.odd || string(key) != known || known == "items"
		}
	}
	h.odd = h.odd || isHead(key) && !text || slices.ContainsFunc(key, odd)
}

// take notes a text that is the value of a field.
func (h *header) take(key, word []byte) {
	switch {
	case !isHead(key):
	case bytes.IndexByte(word, '\\') >= 0:
		h.odd = true
	case string(key) == "kind":
		h.Kind = string(word)
	default:
		h.APIVersion = string(word)
	}
}
