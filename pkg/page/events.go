package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// patience is how long a browser may take to read one event before it is given up; it asks again.
	patience = 30 * time.Second
	// quiet is how long nothing is sent before it is said that somebody is still there.
	quiet = 15 * time.Second
)

// events sends all of the State first, then what changes. Nothing is kept for a browser that reads
// slowly: when it is ready for more it is sent what lies between what it has and what is shown by
// then, whatever was shown in between.
//
//	id: 7                       the number of the State
//	event: state | patch
//	data: {…}                   a State, or a Patch of the one before
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	p.look(1)
	defer p.look(-1)
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience)) // not each writer has one
		if _, err := w.Write(text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	var has *version
	alive := time.NewTicker(quiet)
	defer alive.Stop()
	for {
		is, more := p.now()
		if is != has {
			text, err := p.event(has, is)
			if err != nil || !send(text) {
				return
			}
			has = is
		}
		if !more {
			return
		}
		select {
		case <-is.next:
		case <-alive.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// event is what a browser is sent that has one version, or none, and is to have another.
func (p *Page) event(has, is *version) ([]byte, error) {
	name, value := "state", any(is.state)
	if has != nil {
		p.mu.Lock()
		patch, follows := is.patch, is.before == has
		p.mu.Unlock()
		if !follows {
			patch = Diff(has.state, is.state)
		}
		name, value = "patch", patch
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %d\nevent: %s\ndata: ", is.number, name)
	out.Write(data) // JSON has no line breaks
	out.WriteString("\n\n")
	return out.Bytes(), nil
}
