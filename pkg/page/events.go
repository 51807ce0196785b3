package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// sendTimeout is the time limit for sending one event. A browser whose connection is closed connects again.
	sendTimeout = 30 * time.Second
	// keepAliveInterval is the time without events after which a comment keeps the connection alive.
	keepAliveInterval = 15 * time.Second
)

// events handles /events: it sends the whole State first, then changes. It buffers nothing for a slow browser: each event is the
// difference between the State that the browser has and the current one.
//
//	id: 7                       the number of the State
//	event: state | patch
//	data: {…}                   a State, or a Patch from the State that this stream sent before
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	p.addStreams(1)
	defer p.addStreams(-1)
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(sendTimeout)) // some writers have no deadline
		if _, err := w.Write(text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	var sent *version
	alive := time.NewTicker(keepAliveInterval)
	defer alive.Stop()
	for {
		latest, more := p.current()
		if latest != sent {
			text, err := p.event(sent, latest)
			if err != nil || !send(text) {
				return
			}
			sent = latest
		}
		if !more {
			return
		}
		select {
		case <-latest.next:
		case <-alive.C:
			if !send([]byte(": still here\n\n")) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// event returns the event for a browser that has version sent, nil for none: the State latest, or the patch to it.
func (p *Page) event(sent, latest *version) ([]byte, error) {
	name, value := "state", any(latest.state)
	if sent != nil {
		p.mu.Lock()
		patch, follows := latest.patch, latest.previous == sent
		p.mu.Unlock()
		if !follows {
			patch = Diff(sent.state, latest.state)
		}
		name, value = "patch", patch
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "id: %d\nevent: %s\ndata: ", latest.number, name)
	out.Write(data) // JSON has no line breaks
	out.WriteString("\n\n")
	return out.Bytes(), nil
}
