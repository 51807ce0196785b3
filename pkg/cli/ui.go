package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/page"
)

// pauseFactor times the duration of the last reading is the shortest pause before the next one: a large cluster must not keep this
// machine busy.
const pauseFactor = 3

func newUICommand() *cobra.Command {
	f := askFlags{}
	address := "127.0.0.1"
	port := 0
	refresh := delay(5 * time.Second)
	var target, requests string
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "A page for the browser: the network, the gangs on its nodes, and why gangs wait",
		Long: `Serve a page that shows the network as nested boxes, the gangs on its nodes, free and
reserved slots, broken nodes, and the waiting gangs with what they wait for. Click a gang to see
each domain's slots for it, or a domain to see its gangs and what fits. While the page is open, the
cluster is read again every few seconds, and files are read again when they change.

The page is served to this machine only, unless --address says otherwise. Every client that can
reach the page sees what you may see. The page fetches nothing from elsewhere and changes nothing.` + askSource,
		Example: `  kubectl muster ui
  musterctl ui -f cluster.yaml --port 8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			slotSize, err := f.slotSize(target, requests)
			if err != nil {
				return err
			}
			if port < 0 || port > 65535 {
				return usageError("--port %d: supported values: 0 to 65535", port)
			}
			w := &watched{flags: &f, cmd: cmd, slotSize: slotSize, turn: make(chan struct{}, 1)}
			return w.serve(cmd.Context(), net.JoinHostPort(strings.Trim(address, "[]"), strconv.Itoa(port)), time.Duration(refresh))
		},
	}
	f.add(cmd)
	f.addNamespace(cmd, "the gang that --for names")
	flags := cmd.Flags()
	if err := flags.MarkHidden("output"); err != nil {
		panic(err) // the flag was added above
	}
	flags.StringVar(&address, "address", address, "`ADDRESS` to serve on; clients that can reach it see what you may see")
	flags.IntVar(&port, "port", port, "`PORT` to serve on; 0 is one that is free")
	flags.Var(&refresh, "refresh", "how long after an answer the cluster is read again, at least")
	flags.StringVar(&target, "for", "", "`podgroup/NAME` of the gang to count slots for")
	flags.StringVar(&requests, "requests", "", "`REQUESTS` of a pod to count slots for, such as cpu=8,nvidia.com/gpu=8")
	return cmd
}

// watched reads a cluster, or files, repeatedly, and answers the page's queries about it.
type watched struct {
	flags    *askFlags
	cmd      *cobra.Command
	slotSize ask.SlotSize

	// turn is a mutex for views: a process can have one at a time. It is a channel, since the simulation waits until all goroutines
	// wait, and a goroutine that waits for a sync.Mutex counts as working.
	turn     chan struct{}
	options  ask.Options   // turn guards this and the fields below
	set      *simulate.Set // from the last read
	queue    []ask.Waiter  // of the set
	stamp    string        // of the files at the last read
	duration time.Duration // time to read and to answer
}

// takeTurn waits for the turn until ctx ends.
func (w *watched) takeTurn(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watched) releaseTurn() { <-w.turn }

// serve serves the page until ctx ends, and reads the cluster again while a browser is connected.
func (w *watched) serve(ctx context.Context, address string, refresh time.Duration) error {
	defer logTo(w.cmd.ErrOrStderr(), w.flags.verbosity)()
	first, err := w.read(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	served := net.JoinHostPort(host, port)
	p := page.New(page.Options{Address: served, First: *first, Queries: w})
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(w.cmd.OutOrStdout(), "http://%s/\n", served)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		fmt.Fprintln(w.cmd.ErrOrStderr(), "Note: every client that can reach this address sees what you may see of the cluster")
	}
	wait := refresh
	for {
		select {
		case <-ctx.Done():
			p.Close()
			_ = server.Close() // drops the answers in progress
			<-ended
			return nil
		case err := <-ended:
			p.Close()
			return err
		case <-time.After(wait):
		}
		if p.Watched() == 0 {
			continue // no browser is connected, so the cluster is not read
		}
		switch state, err := w.read(ctx); {
		case errors.Is(err, errSame) || ctx.Err() != nil:
		case err != nil:
			p.Trouble(err.Error())
		default:
			p.Show(state)
		}
		wait = max(refresh, pauseFactor*w.duration)
	}
}

// errSame says that the files have not changed since the last reading.
var errSame = errors.New("the files are as they were")

// read reads the cluster or the files and returns the state to show; errSame if nothing changed.
func (w *watched) read(ctx context.Context) (*page.State, error) {
	if err := w.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer w.releaseTurn()
	defer func(began time.Time) { w.duration = time.Since(began) }(time.Now())
	stamp := w.stampNow()
	if w.set != nil && stamp != "" && stamp == w.stamp {
		return nil, errSame
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.flags.timeout))
	defer cancel()
	w.stamp = "" // a failed read is retried
	o, set, err := w.flags.objects(ctx, w.cmd)
	if err != nil {
		return nil, err
	}
	var state *page.State
	var queue []ask.Waiter
	err = w.view(ctx, o, set, func(v *ask.View) (err error) {
		state, queue, err = stateOf(ctx, v, w.slotSize)
		return err
	})
	if err != nil {
		return nil, err
	}
	state.Source = w.source()
	w.options = o
	w.set = set
	w.queue = queue
	w.stamp = stamp
	return state, nil
}

// view calls do with a view of set, while it emulates that cluster's Kubernetes version. The caller must have the turn.
func (w *watched) view(ctx context.Context, o ask.Options, set *simulate.Set, do func(*ask.View) error) error {
	restore, err := emulate(w.cmd, w.flags.kubernetes, set)
	if err != nil {
		return err
	}
	defer restore()
	v, err := ask.Open(ctx, o, set)
	if err != nil {
		return simulateError(err, w.flags.config)
	}
	defer v.Close()
	return do(v)
}

// stampNow returns a text that differs from an earlier one if a file was added, removed or changed in between, by size and time; "" for a
// cluster. Standard input never changes.
func (w *watched) stampNow() string {
	var out strings.Builder
	for _, name := range w.flags.files {
		files, err := filesIn(name)
		fmt.Fprintln(&out, name, err)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				fmt.Fprintln(&out, file, info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	return out.String()
}

// source returns the name of the cluster's context, or of the files.
func (w *watched) source() string {
	if len(w.flags.files) > 0 {
		return strings.Join(w.flags.files, ", ")
	}
	if w.flags.context != "" {
		return w.flags.context
	}
	raw, err := w.flags.client().RawConfig()
	if err != nil || raw.CurrentContext == "" {
		return "the cluster"
	}
	return raw.CurrentContext
}

// stateOf returns the state that the page shows of a view, and the waiting gangs.
func stateOf(ctx context.Context, v *ask.View, slotSize ask.SlotSize) (*page.State, []ask.Waiter, error) {
	present, err := v.Occupancy(ctx)
	if err != nil {
		return nil, nil, err
	}
	t, err := v.Topology(ctx, slotSize)
	if err != nil {
		return nil, nil, err
	}
	queue, err := v.Queue(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	s := &page.State{At: v.At(), For: t.For, Layers: t.Layers(), Problem: t.Problem}
	kinds := map[ask.PodPhase]page.Kind{ask.Running: page.Runs, ask.Terminating: page.Terminating, ask.Reserved: page.Reserved}
	var walk func(b *ask.Branch, depth int)
	walk = func(b *ask.Branch, depth int) {
		for i := range b.Children {
			walk(&b.Children[i], depth+1)
		}
		if depth < len(s.Layers)-1 {
			return // a domain
		}
		n := page.Node{Path: b.Path, Free: b.Free, Broken: b.Broken > 0}
		for _, h := range present.Nodes[b.Path[strings.LastIndexByte(b.Path, '/')+1:]] {
			n.Places = append(n.Places, page.Place{Gang: h.Gang, Kind: kinds[h.Phase], Pods: h.Pods})
		}
		s.Nodes = append(s.Nodes, n)
	}
	walk(&t.Branch, 0)
	for _, g := range present.Gangs {
		s.Gangs = append(s.Gangs, page.Gang{Name: g.Gang, Pods: g.Pods, Domain: g.Domain})
	}
	for _, w := range queue {
		entry := page.Waiter{
			Gang: w.Gang, Priority: w.Priority, Bound: w.Members.Bound, Min: w.Members.Min,
			State: string(w.State), Reason: w.Reason,
		}
		if w.Start != nil {
			entry.Start = &page.Start{Kind: string(w.Start.Kind), Time: w.Start.Time, Domain: w.Start.Domain}
		}
		if !w.Since.IsZero() {
			entry.Since = &w.Since
		}
		s.Waiting = append(s.Waiting, entry)
	}
	return s, queue, nil
}

// explained is an explanation with the choice of victims as text.
type explained struct {
	*ask.Explanation
	Why string `json:"why,omitempty"` // one sentence about the choice of victims
}

// Explain implements page.Queries.
func (w *watched) Explain(ctx context.Context, gang string) (any, error) {
	namespace, name, _ := strings.Cut(gang, "/")
	if err := w.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer w.releaseTurn()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.flags.timeout))
	defer cancel()
	var out explained
	err := w.view(ctx, w.options, w.set, func(v *ask.View) (err error) {
		out.Explanation, err = v.Explain(ctx, ask.Target{Kind: "podgroup", Namespace: namespace, Name: name})
		return err
	})
	if unknown := (*ask.UnknownError)(nil); errors.As(err, &unknown) {
		return nil, fmt.Errorf("gang %s: %w", gang, page.ErrUnknown)
	}
	if err == nil && out.Next != nil && out.Next.Why != nil {
		out.Why = "It " + out.Next.Why.String() + "."
	}
	return out, err
}

// Fits implements page.Queries, for the first maxRows gangs in the queue.
func (w *watched) Fits(ctx context.Context, domain string) (fits []page.DomainFit, err error) {
	if err := w.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer w.releaseTurn()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(w.flags.timeout))
	defer cancel()
	if len(w.queue) == 0 {
		return nil, nil
	}
	err = w.view(ctx, w.options, w.set, func(v *ask.View) error {
		for _, waits := range w.queue[:min(len(w.queue), maxRows)] {
			namespace, name, _ := strings.Cut(waits.Gang, "/")
			capacity, err := v.DomainCapacity(ctx, ask.Target{Kind: "podgroup", Namespace: namespace, Name: name}, domain)
			if err != nil {
				return err
			}
			if capacity == nil {
				return fmt.Errorf("domain %s: %w", domain, page.ErrUnknown)
			}
			fits = append(fits, page.DomainFit{Gang: waits.Gang, Needs: capacity.Needs, Slots: capacity.Slots, Fits: capacity.Fits})
		}
		return nil
	})
	return fits, err
}
