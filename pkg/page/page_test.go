package page_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/page"
	_ "github.com/muster-scheduler/muster/test/seed"
)

const address = "127.0.0.1:8080"

// asked answers from maps.
type asked struct {
	explain map[string]any
	fits    []page.DomainFit
	err     error
	times   atomic.Int32 // it was asked to explain
}

func (a *asked) Explain(_ context.Context, gang string) (any, error) {
	a.times.Add(1)
	if a.err != nil {
		return nil, a.err
	}
	if e, ok := a.explain[gang]; ok {
		return e, nil
	}
	return nil, fmt.Errorf("gang %s: %w", gang, page.ErrUnknown)
}

func (a *asked) Fits(context.Context, string) ([]page.DomainFit, error) { return a.fits, a.err }

func get(t *testing.T, h http.Handler, target string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = address
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestFiles: the page is served whole, refers to nothing else, and each answer, refusals too, says
// what a browser may do with it.
func TestFiles(t *testing.T) {
	p := page.New(page.Options{Address: address, Queries: &asked{}})
	for path, kind := range map[string]string{
		"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/layout.js": "text/javascript", "/state.js": "text/javascript",
		"/draw.js": "text/javascript", "/details.js": "text/javascript", "/icon.svg": "image/svg+xml", "/state": "application/json",
	} {
		w := get(t, p, path)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Header().Get("Content-Type"), kind)
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "") // a name, not an address
		require.NotContains(t, text, "http:", path)
		require.NotContains(t, text, "https:", path)
		require.NotContains(t, text, "innerHTML", path)
	}
	for _, path := range []string{"/", "/nothing", "/state", "/../site/index.html"} {
		h := get(t, p, path).Header()
		csp := h.Get("Content-Security-Policy")
		require.Contains(t, csp, "default-src 'none'")
		require.Contains(t, csp, "frame-ancestors 'none'")
		require.NotContains(t, csp, "unsafe")
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Empty(t, h.Get("Access-Control-Allow-Origin"))
	}
	require.Equal(t, http.StatusNotFound, get(t, p, "/nothing").Code)
	require.Equal(t, http.StatusNotFound, get(t, p, "/site/index.html").Code)
}

// TestHosts: a request under a foreign name that resolves to this address is rejected.
func TestHosts(t *testing.T) {
	for _, c := range []struct {
		address, host string
		ok            bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "localhost:8080", true},
		{"127.0.0.1:8080", "LOCALHOST", true},
		{"127.0.0.1:8080", "[::1]:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:9", true}, // of a forwarded port
		{"127.0.0.1:8080", "evil.example:8080", false},
		{"127.0.0.1:8080", "127.0.0.1.evil.example", false},
		{"127.0.0.1:8080", "localhost.evil.example", false},
		{"127.0.0.1:8080", "192.0.2.1:8080", false},
		{"127.0.0.1:8080", "", false},
		{"[::1]:8080", "[::1]:8080", true},
		{"[::1]:8080", "evil.example", false},
		{"localhost:8080", "127.0.0.1:8080", true},
		{"192.0.2.1:8080", "192.0.2.1:8080", true},
		{"192.0.2.1:8080", "localhost:8080", false},
		{"0.0.0.0:8080", "192.0.2.1:8080", true},
		{"0.0.0.0:8080", "[2001:db8::1]:8080", true},
		{":8080", "192.0.2.1:8080", true},
		{"0.0.0.0:8080", "evil.example:8080", false},
		{"muster.example:8080", "muster.example:8080", true},
		{"muster.example:8080", "evil.example:8080", false},
		{":8080", "", false},
	} {
		p := page.New(page.Options{Address: c.address, Queries: &asked{}})
		for _, path := range []string{"/", "/state", "/explain?gang=a/a"} {
			w := get(t, p, path, func(r *http.Request) { r.Host = c.host })
			require.Equal(t, c.ok, w.Code != http.StatusForbidden, "%s asked for %s as %q", c.address, path, c.host)
			if !c.ok {
				require.NotContains(t, w.Body.String(), "layers")
			}
		}
	}
}

// TestForeign: other pages may open this one, but can neither read nor change anything.
func TestForeign(t *testing.T) {
	p := page.New(page.Options{Address: address, Queries: &asked{explain: map[string]any{"a/b": 1}}})
	from := func(site string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }
	}
	for _, site := range []string{"cross-site", "same-site"} {
		for _, path := range []string{"/state", "/events", "/explain?gang=a/b", "/fits", "/page.js"} {
			require.Equal(t, http.StatusForbidden, get(t, p, path, from(site)).Code, path)
		}
		require.Equal(t, http.StatusOK, get(t, p, "/", from(site)).Code)
	}
	require.Equal(t, http.StatusOK, get(t, p, "/state", from("same-origin")).Code)
	require.Equal(t, http.StatusOK, get(t, p, "/state", from("none")).Code)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"} {
		require.Equal(t, http.StatusMethodNotAllowed, get(t, p, "/state", func(r *http.Request) { r.Method = method }).Code, method)
	}
	require.Equal(t, http.StatusOK, get(t, p, "/state", func(r *http.Request) { r.Method = http.MethodHead }).Code)
	require.Equal(t, http.StatusOK, get(t, p, "/events", func(r *http.Request) { r.Method = http.MethodHead }).Code)
}

func TestAsked(t *testing.T) {
	a := &asked{
		explain: map[string]any{"a/b": map[string]string{"waitsFor": "<room>"}}, fits: []page.DomainFit{{Gang: "a/b", Needs: 4, Slots: 3}},
	}
	p := page.New(page.Options{Address: address, Queries: a})
	w := get(t, p, "/explain?gang=a%2Fb")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"waitsFor": "<room>"}`, w.Body.String())
	w = get(t, p, "/explain?gang=a/c")
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "gang a/c")
	for _, bad := range []string{"/explain", "/explain?gang=", "/explain?gang=a", "/explain?gang=/a", "/explain?gang=a/"} {
		require.Equal(t, http.StatusBadRequest, get(t, p, bad).Code, bad)
	}
	require.JSONEq(t, `[{"gang": "a/b", "needs": 4, "slots": 3, "fits": false}]`, get(t, p, "/fits?domain=s").Body.String())
	a.fits = nil
	require.JSONEq(t, `[]`, get(t, p, "/fits?domain=s").Body.String())
	a.err = errors.New("the API server does not answer")
	require.Equal(t, http.StatusInternalServerError, get(t, p, "/explain?gang=a/b").Code)
	require.Equal(t, http.StatusInternalServerError, get(t, p, "/fits").Code)
}

// TestLetters: a gang keeps its letter while it is shown; one that has gone gives it to the next.
func TestLetters(t *testing.T) {
	p := page.New(page.Options{Address: address, First: page.State{Gangs: []page.Gang{{Name: "n/one"}, {Name: "n/two"}}}})
	is := func() (words []string) {
		var s page.State
		require.NoError(t, json.Unmarshal(get(t, p, "/state").Body.Bytes(), &s))
		for _, g := range s.Gangs {
			words = append(words, fmt.Sprint(g.Name, " ", g.Letter, " ", g.Number))
		}
		return words
	}
	require.Equal(t, []string{"n/one a 0", "n/two b 1"}, is())
	p.Show(&page.State{Gangs: []page.Gang{{Name: "n/new"}, {Name: "n/two"}}})
	require.Equal(t, []string{"n/new a 0", "n/two b 1"}, is())
	p.Show(&page.State{Gangs: []page.Gang{{Name: "n/newer"}, {Name: "n/new"}, {Name: "n/two"}}})
	require.Equal(t, []string{"n/newer c 2", "n/new a 0", "n/two b 1"}, is())
	p.Show(&page.State{})
	var many page.State
	for i := range 60 {
		many.Gangs = append(many.Gangs, page.Gang{Name: fmt.Sprint("n/", i)})
	}
	p.Show(&many)
	words := is()
	require.Equal(t, "n/50 Z 50", words[50])
	require.Equal(t, "n/51 aa 51", words[51])
	require.Equal(t, "n/52 ab 52", words[52])
}

// event is what a browser is sent.
type event struct {
	id, name, data string
}

func read(t require.TestingT, in *bufio.Reader) (e event) {
	for {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if line == "" && e.name != "" {
				return e
			}
		}
	}
}

// become is what a browser shows that had a State, after an event.
func become(t require.TestingT, had *page.State, e event) *page.State {
	if e.name == "state" {
		var s page.State
		require.NoError(t, json.Unmarshal([]byte(e.data), &s))
		return &s
	}
	var p page.Patch
	require.Equal(t, "patch", e.name)
	require.NotNil(t, had)
	require.NoError(t, json.Unmarshal([]byte(e.data), &p))
	return p.Apply(had)
}

// TestEvents: a browser gets the whole state first, then each change in order, and always has the state that
// /state returns. A later browser gets the whole state again.
func TestEvents(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rapid.Check(t, func(rt *rapid.T) {
		p := page.New(page.Options{Address: address, First: states.Draw(rt, "first")})
		server := httptest.NewServer(p)
		defer server.Close()
		defer p.Close()
		client := server.Client()
		open := func() *bufio.Reader {
			r, err := client.Get(server.URL + "/events")
			require.NoError(rt, err)
			rt.Cleanup(func() { r.Body.Close() })
			require.Equal(rt, "text/event-stream", r.Header.Get("Content-Type"))
			return bufio.NewReader(r.Body)
		}
		now := func() (s page.State) {
			require.NoError(rt, json.Unmarshal(get(t, p, "/state").Body.Bytes(), &s))
			return s
		}
		one := open()
		e := read(rt, one)
		require.Equal(rt, event{"1", "state", e.data}, e)
		has := become(rt, nil, e)
		sameJSON(rt, now(), has)
		for i, s := range rapid.SliceOfN(states, 1, 4).Draw(rt, "then") {
			p.Show(&s)
			e := read(rt, one)
			require.Equal(rt, event{fmt.Sprint(i + 2), "patch", e.data}, e)
			has = become(rt, has, e)
			sameJSON(rt, now(), has)
		}
		e = read(rt, open())
		require.Equal(rt, "state", e.name)
		sameJSON(rt, now(), become(rt, nil, e))
		p.Close()
		_, err := one.ReadString('\n')
		require.Error(rt, err, "it ends when the page is closed")
	})
}

// slow is a browser that reads nothing until it is told to.
type slow struct {
	*httptest.ResponseRecorder
	wrote chan string
	ready chan struct{}
}

func (s *slow) Write(data []byte) (int, error) {
	s.wrote <- string(data)
	<-s.ready
	return len(data), nil
}

// TestSlow: nothing is buffered for a slow browser. The next event leads to the current state.
func TestSlow(t *testing.T) {
	p := page.New(page.Options{Address: address, First: page.State{Nodes: []page.Node{{Path: "n"}}}})
	s := &slow{httptest.NewRecorder(), make(chan string), make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := httptest.NewRequest(http.MethodGet, "/events", nil)
		r.Host = address
		p.ServeHTTP(s, r)
	}()
	next := func(text string) event { return read(t, bufio.NewReader(strings.NewReader(text))) }
	has := become(t, nil, next(<-s.wrote))
	for i := range 1000 {
		s := page.State{Nodes: []page.Node{{Path: "n", Free: i}, {Path: fmt.Sprint("m-", i)}}}
		if i >= 500 {
			s.For = "that has changed in between"
		}
		p.Show(&s)
	}
	s.ready <- struct{}{}
	e := next(<-s.wrote)
	require.Equal(t, "1001", e.id)
	require.Equal(t, "patch", e.name)
	has = become(t, has, e)
	sameJSON(t, []page.Node{{Path: "n", Free: 999}, {Path: "m-999"}}, has.Nodes)
	require.Equal(t, "that has changed in between", has.For)
	p.Close()
	s.ready <- struct{}{}
	<-ended
}
