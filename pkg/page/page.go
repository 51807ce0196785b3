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

// files are all that is served as it stands, by path.
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

// policy has the browser fetch and run nothing that does not come from this handler.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ErrUnknown says that there is no such gang, or no such domain.
var ErrUnknown = errors.New("there is no such thing")

// Asked answers what the page asks only when somebody looks. What it returns is sent as JSON; an
// error that is ErrUnknown is the asker's fault.
type Asked interface {
	// Explain says why a gang, namespace/name, waits, or where it is.
	Explain(ctx context.Context, gang string) (any, error)
	// Fits says what a domain, by its path, has for each gang that waits; "" is the cluster.
	Fits(ctx context.Context, domain string) ([]Fit, error)
}

// Options say how a page is served.
type Options struct {
	// Address is where it listens. Requests that name another host are refused: else a name that
	// somebody lets point here would have a foreign page read the cluster in the user's browser.
	Address string
	// First is what is shown until Show is called.
	First State
	Asked Asked
}

// Page is the handler. Show may be called at any time.
type Page struct {
	hosts func(host string) bool
	asked Asked

	mu      sync.Mutex
	letters letters
	latest  *version
	closed  bool
	looking int // who listens to events
}

// version is a State that was shown, with what it takes to come to it from the one before.
type version struct {
	number int
	state  *State
	before *version      // nil once nobody needs it
	patch  *Patch        // from before
	next   chan struct{} // closed when there is a later one, or none will come
}

// New makes a page. The address must be like 127.0.0.1:8080.
func New(o Options) *Page {
	p := &Page{hosts: hosts(o.Address), asked: o.Asked, letters: letters{}}
	first := o.First
	p.latest = &version{number: 1, state: p.dress(&first), next: make(chan struct{})}
	return p
}

// dress gives gangs their letters, and lists that are empty a length: p.mu is held, or nobody else
// knows of p.
func (p *Page) dress(s *State) *State {
	out := *s
	out.Gangs = p.letters.give(s.Gangs)
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

// Show shows a State from now on. It must not be changed later.
func (p *Page) Show(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	old := p.latest
	now := p.dress(s)
	v := &version{number: old.number + 1, state: now, before: old, patch: Diff(old.state, now), next: make(chan struct{})}
	old.before, old.patch = nil, nil // who is further behind is told all differences at once
	p.latest = v
	close(old.next)
}

// Trouble shows what was shown with a problem, until Show is called again.
func (p *Page) Trouble(words string) {
	v, _ := p.now()
	s := *v.state
	s.Problem = words
	p.Show(&s)
}

// Watched is how many look at it.
func (p *Page) Watched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looking
}

func (p *Page) look(more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking += more
}

// Close ends what is still being sent.
func (p *Page) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.latest.next)
	}
}

// now is what is shown, and whether more may come.
func (p *Page) now() (*version, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest, !p.closed
}

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
	case r.URL.Path != "/" && foreign(r.Header.Get("Sec-Fetch-Site")):
		http.Error(w, "Other pages may not ask this one.", http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/state":
		v, _ := p.now()
		answer(w, v.state, nil)
	case "/events":
		p.events(w, r)
	case "/explain":
		name := r.URL.Query().Get("gang")
		if namespace, rest, ok := strings.Cut(name, "/"); !ok || namespace == "" || rest == "" {
			http.Error(w, "Say gang=namespace/name.", http.StatusBadRequest)
			return
		}
		value, err := p.asked.Explain(r.Context(), name)
		answer(w, value, err)
	case "/fits":
		fits, err := p.asked.Fits(r.Context(), r.URL.Query().Get("domain"))
		if fits == nil {
			fits = []Fit{}
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
			panic(err) // it is part of the program
		}
		h.Set("Content-Type", f.kind)
		_, _ = w.Write(data) // who has gone away needs no answer
	}
}

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

// foreign says whether a browser asks for another page than ours. One that does not say so, and
// whatever is no browser, has only the host to show.
func foreign(site string) bool { return site != "" && site != "same-origin" && site != "none" }

// hosts says which hosts a request may name, with or without a port: that of the address; for one
// of this machine all of these, and "localhost"; for all addresses of it each address, as no
// name has to be looked up for that.
func hosts(address string) func(string) bool {
	own := hostOf(address)
	ip, err := netip.ParseAddr(own)
	return func(host string) bool {
		host = hostOf(host)
		other, no := netip.ParseAddr(host)
		switch {
		case strings.EqualFold(host, own):
			return host != ""
		case own == "" || err == nil && ip.IsUnspecified():
			return no == nil || strings.EqualFold(host, "localhost")
		case err == nil && ip.IsLoopback() || strings.EqualFold(own, "localhost"):
			return no == nil && other.IsLoopback() || strings.EqualFold(host, "localhost")
		}
		return no == nil && err == nil && other == ip
	}
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
