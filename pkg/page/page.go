package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

//go:embed site
var site embed.FS

// files are the static files by path.
var files = map[string]struct{ file, kind string }{
	"/":           {"site/index.html", "text/html; charset=utf-8"},
	"/page.css":   {"site/page.css", "text/css; charset=utf-8"},
	"/page.js":    {"site/page.js", "text/javascript; charset=utf-8"},
	"/layout.js":  {"site/layout.js", "text/javascript; charset=utf-8"},
	"/state.js":   {"site/state.js", "text/javascript; charset=utf-8"},
	"/draw.js":    {"site/draw.js", "text/javascript; charset=utf-8"},
	"/details.js": {"site/details.js", "text/javascript; charset=utf-8"},
	"/icon.svg":   {"site/icon.svg", "image/svg+xml"},
}

// policy is the Content-Security-Policy: the browser loads and runs only what comes from this handler.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ErrUnknown says that a gang or a domain does not exist.
var ErrUnknown = errors.New("there is no such thing")

// Queries answers the page's questions on demand. A result is sent as JSON; ErrUnknown means that the request is wrong.
type Queries interface {
	// Explain says why a gang, namespace/name, waits, or where it runs.
	Explain(ctx context.Context, gang string) (any, error)
	// Fits returns the capacity of a domain, by its path, for each waiting gang; "" is the cluster.
	Fits(ctx context.Context, domain string) ([]DomainFit, error)
}

// Options are the options of a page.
type Options struct {
	// Address is the address of the page. Requests that name another host are rejected: otherwise a foreign page whose name
	// resolves to this address could read the cluster in the user's browser.
	Address string
	// First is shown until Show is called.
	First   State
	Queries Queries
}

// Page is the handler. Show may be called concurrently.
type Page struct {
	hosts   func(host string) bool // says whether a request may name this host
	queries Queries

	mu      sync.Mutex
	letters letters
	latest  *version
	closed  bool
	streams int // number of open event streams
}

// version is a State that was shown, with the patch from the version before.
type version struct {
	number   int
	state    *State
	previous *version      // nil when no longer needed
	patch    *Patch        // from previous to this version
	next     chan struct{} // closed when a later version exists, or none will come
}

// New returns a page. o.Address must be like 127.0.0.1:8080.
func New(o Options) *Page {
	p := &Page{hosts: hosts(o.Address), queries: o.Queries, letters: letters{}}
	first := o.First
	p.latest = &version{number: 1, state: p.withLetters(&first), next: make(chan struct{})}
	return p
}

// withLetters returns a copy of s with letters for gangs and no nil lists. p.mu is held, or p is not shared yet.
func (p *Page) withLetters(s *State) *State {
	out := *s
	out.Gangs = p.letters.assign(s.Gangs)
	if out.Nodes == nil {
		out.Nodes = []Node{}
	}
	if out.Waiting == nil {
		out.Waiting = []Waiter{}
	}
	if out.Layers == nil {
		out.Layers = []string{}
	}
	return &out
}

// Show makes s the State that browsers show. The caller must not change it afterwards.
func (p *Page) Show(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	old := p.latest
	current := p.withLetters(s)
	v := &version{number: old.number + 1, state: current, previous: old, patch: Diff(old.state, current), next: make(chan struct{})}
	old.previous, old.patch = nil, nil // a browser that is further behind gets one combined patch
	p.latest = v
	close(old.next)
}

// Trouble shows words as the problem of the current State, until the next Show.
func (p *Page) Trouble(words string) {
	v, _ := p.current()
	s := *v.state
	s.Problem = words
	p.Show(&s)
}

// Watched returns the number of connected browsers.
func (p *Page) Watched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams
}

func (p *Page) addStreams(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams += n
}

// Close ends the open event streams.
func (p *Page) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.latest.next)
	}
}

// current returns the latest version, and whether more may come.
func (p *Page) current() (*version, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest, !p.closed
}

// ServeHTTP implements http.Handler: it rejects foreign requests, and serves the files, the State, its changes, and the queries.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		h.Set(name, value)
	}
	switch {
	case !p.hosts(r.Host):
		http.Error(w, "This page is not served under that name.", http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "Nothing can be changed here.", http.StatusMethodNotAllowed)
		return
	case r.URL.Path != "/" && isForeignSite(r.Header.Get("Sec-Fetch-Site")):
		http.Error(w, "Other pages may not ask this one.", http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/state":
		v, _ := p.current()
		answer(w, v.state, nil)
	case "/events":
		p.events(w, r)
	case "/explain":
		name := r.URL.Query().Get("gang")
		if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" {
			http.Error(w, "Say gang=namespace/name.", http.StatusBadRequest)
			return
		}
		value, err := p.queries.Explain(r.Context(), name)
		answer(w, value, err)
	case "/fits":
		fits, err := p.queries.Fits(r.Context(), r.URL.Query().Get("domain"))
		if fits == nil {
			fits = []DomainFit{}
		}
		answer(w, fits, err)
	default:
		f, ok := files[r.URL.Path]
		if !ok {
			http.Error(w, "There is no such page.", http.StatusNotFound)
			return
		}
		data, err := fs.ReadFile(site, f.file)
		if err != nil {
			panic(err) // the file is embedded
		}
		h.Set("Content-Type", f.kind)
		_, _ = w.Write(data) // the browser may have disconnected
	}
}

// answer writes value as JSON, or err with its status code.
func answer(w http.ResponseWriter, value any, err error) {
	var data []byte
	if err == nil {
		data, err = json.Marshal(value)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	}
}

// isForeignSite says whether site, a header Sec-Fetch-Site, is that of another site's page; false without the header.
func isForeignSite(site string) bool { return site != "" && site != "same-origin" && site != "none" }

// hosts returns a function that says whether a request may name a host, with or without a port: the host of address. For a loopback
// address these are all loopback addresses and "localhost", for the unspecified address every IP address.
func hosts(address string) func(string) bool {
	own := hostOf(address)
	ip, err := netip.ParseAddr(own)
	return func(host string) bool {
		host = hostOf(host)
		other, invalid := netip.ParseAddr(host)
		switch {
		case strings.EqualFold(host, own):
			return host != ""
		case own == "" || err == nil && ip.IsUnspecified():
			return invalid == nil || strings.EqualFold(host, "localhost")
		case err == nil && ip.IsLoopback() || strings.EqualFold(own, "localhost"):
			return invalid == nil && other.IsLoopback() || strings.EqualFold(host, "localhost")
		}
		return invalid == nil && err == nil && other == ip
	}
}

// hostOf returns the host of an address, without port and brackets.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
