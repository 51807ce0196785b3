package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/page"
)

// These tests run the page in Chromium. Pictures of it are written where UI_SHOTS says.

// patience is only for a browser that hangs.
const patience = 3 * time.Minute

var stop = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// browser is one for all tests; each has a tab of its own.
var browser = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, errors.New("there is no Chromium on this machine: apt-get install --no-install-recommends chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which Chromium asks for
	}
	all, cancelAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(all)
	stop = func() {
		cancel()
		cancelAll()
	}
	return ctx, chromedp.Do(ctx)
})

// tab is a page in a browser.
type tab struct {
	*testing.T
	ctx  context.Context
	page *page.Page
	url  string
}

// theEnd is what a test says last.
const theEnd = "that is all"

// open shows a State, in light colours. The test fails if the browser complains of anything.
func open(t *testing.T, first page.State, answers page.Queries, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is not short")
	}
	b, err := browser()
	if err != nil && b == nil {
		t.Skip(err)
	}
	require.NoError(t, err)
	p := page.New(page.Options{Address: "127.0.0.1:0", First: first, Queries: answers})
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(p.Close)
	ctx, cancel := chromedp.NewContext(b)
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, patience)
	t.Cleanup(cancelTime)
	out := &tab{T: t, ctx: ctx, page: p, url: server.URL}
	out.media("", "light")
	out.size(1400, 900)
	out.do(before...)
	messages := chromedp.Console(ctx)
	out.do(chromedp.Navigate(server.URL))
	out.shows(1)
	t.Cleanup(func() {
		for m, err := range messages {
			if err != nil || m.Text == theEnd {
				break
			}
			t.Error("the browser complains: ", m.Type, m.Text, m.URL)
		}
	})
	t.Cleanup(func() { _ = chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void]("console.log('"+theEnd+"')")) })
	return out
}

func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(t.ctx, actions...))
}

// is evaluates an expression.
func is[T any](t *tab, expression string) T {
	t.Helper()
	out, err := chromedp.Run(t.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(t, err, expression)
	return out
}

// until waits until an expression is true.
func (t *tab) until(expression string) {
	t.Helper()
	ok := is[bool](t, `new Promise((done) => {
		const end = performance.now() + 60000, step = () => {
			let is = false;
			try { is = Boolean(`+expression+`); } catch { /* not yet */ }
			if (is || performance.now() > end) done(is); else requestAnimationFrame(step);
		};
		step(); })`)
	if !ok {
		t.Fatalf("%s never became true; on the page:\n%s", expression, is[string](t, "document.body.innerText"))
	}
}

// shows waits until so many States were drawn, and compares the last with what the server says.
func (t *tab) shows(n int) {
	t.Helper()
	t.until(fmt.Sprintf("Number(document.documentElement.dataset.shown) >= %d", n))
	w := get(t.T, t.page, "/state")
	require.JSONEq(t, w.Body.String(), is[string](t, "JSON.stringify(muster.state())"))
}

// media sets for what it is shown, "" is a screen, and what colours the system prefers.
func (t *tab) media(medium, scheme string) {
	t.Helper()
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(t, err)
}

func (t *tab) light(scheme string) { t.media("", scheme) }

func (t *tab) size(width, height int64) { t.do(chromedp.EmulateViewport(width, height)) }

func (t *tab) focus(selector string) {
	t.Helper()
	require.True(t,
		is[bool](t, fmt.Sprintf("(document.querySelector(%[1]q).focus(), document.activeElement === document.querySelector(%[1]q))", selector)),
		selector)
}

func (t *tab) key(keys ...string) {
	t.Helper()
	for _, k := range keys {
		t.do(chromedp.KeyEvent(k))
	}
}

// click presses the mouse in the middle of what is there.
func (t *tab) click(selector string) {
	t.Helper()
	at := is[[]float64](t,
		fmt.Sprintf("(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: 'nearest' }); const r = "+
			"e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()", selector))
	t.do(chromedp.MouseClickXY(at[0], at[1]))
}

// drawn counts the pixels of a colour, such as #56B4E9, on the canvas.
func (t *tab) drawn(colour string) int {
	t.Helper()
	return is[int](t, fmt.Sprintf(`(() => {
		const c = document.getElementById('canvas'), copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
		copy.drawImage(c, 0, 0);
		const d = copy.getImageData(0, 0, c.width, c.height).data;
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(%q.slice(i, i + 2), 16)); let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i] === r && d[i + 1] === g && d[i + 2] === b && d[i + 3] === 255) n++;
		return n; })()`, colour))
}

// shot keeps a picture of the window.
func (t *tab) shot(name string) {
	t.Helper()
	data, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	t.keep(name+".png", data)
}

func (t *tab) keep(name string, data []byte) {
	t.Helper()
	require.NotEmpty(t, data)
	if folder := os.Getenv("UI_SHOTS"); folder != "" {
		require.NoError(t, os.MkdirAll(folder, 0o755))                             //nolint:gosec // pictures are for all
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o644)) //nolint:gosec // pictures are for all
	}
}

// contrast finds text that is hard to read: the ratio of WCAG 2 of each text to what is behind it.
// Next to what is wrong it counts all texts.
const contrast = `(() => {
  const rgb = (text) => { const m = text.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c) return c; } return [255, 255, 255]; };
  const bad = []; let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || e.closest('noscript') || !e.getClientRects().length) continue;
    texts++;
    const style = getComputedStyle(e), r = ratio(rgb(style.color), behind(e));
    if (r < 4.5 || style.opacity !== '1') bad.push(walk.currentNode.textContent.trim().slice(0, 40) + ' ' + r.toFixed(2));
  }
  for (const [fill, ink] of muster.colours()) {
    const hex = (h) => [1, 3, 5].map((i) => parseInt(h.slice(i, i + 2), 16));
    texts++;
    if (ratio(hex(fill), hex(ink)) < 4.5) bad.push('letters on ' + fill);
  }
  return { bad, texts };
})()`

// readable fails for text with low contrast, and for elements without a name for screen readers.
func (t *tab) readable() {
	t.Helper()
	found := is[struct {
		Bad   []string
		Texts int
	}](t, contrast)
	require.Greater(t, found.Texts, 30)
	require.Empty(t, found.Bad)
	require.Empty(t, is[[]string](t, `[...document.querySelectorAll('button, input, [role=treeitem], [role=tree], [role=region], section, nav, aside')]
		.filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length || document.getElementById(e.getAttribute('aria-labelledby'))))
		.map((e) => e.outerHTML.slice(0, 120))`))
	require.Empty(t, is[[]string](t, `[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`))
	require.False(t, is[bool](t, `document.documentElement.scrollWidth > innerWidth`), "nothing is wider than the window")
}

// document is what package cli's tests have found of one of the documents' clusters.
type document struct {
	State   page.State
	Explain map[string]any
	Fits    []page.DomainFit
}

func documents(t *testing.T, name string) (d document) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "documents", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &d))
	return d
}

// The colours of the first gang, of pods of no gang, and of what is looked at, in light colours.
const (
	first  = "#56B4E9"
	nobody = "#767676"
	accent = "#0b57a4"
)

const gang = "default/high-priority-training"

// TestBrowserPreemption: the documents' second example before, during and after the preemption, as
// it happens, in dark and in light colours.
func TestBrowserPreemption(t *testing.T) {
	before, during, after := documents(t, "before"), documents(t, "during"), documents(t, "after")
	answers := &asked{explain: before.Explain, fits: before.Fits}
	b := open(t, before.State, answers)
	dark := func(name string) {
		t.Helper()
		b.readable()
		b.shot(name + "-light")
		b.light("dark")
		b.until("document.documentElement.dataset.theme === 'dark'")
		b.readable()
		b.shot(name + "-dark")
		b.light("light")
		b.until("document.documentElement.dataset.theme === 'light'")
	}
	require.Equal(t, 1, is[int](b, "document.querySelectorAll('#waiting button.gang').length"))
	require.Contains(t, is[string](b, "document.querySelector('#waiting').innerText"), before.State.Waiting[0].Reason)
	require.Contains(t, is[string](b, "document.querySelector('#summary').innerText"), "12 nodes, 9 free slots, 1 gang waits")
	require.Equal(t, 9, is[int](b, "document.querySelectorAll('[role=treeitem]').length"), "the cluster, 3 spines, 5 blocks")
	require.Zero(t, b.drawn(first))
	others := b.drawn(nobody)
	require.Greater(t, others, 3*100, "three pods of no gang")
	require.Zero(t, b.drawn(accent))
	dark("before")
	b.click("#waiting button.gang")
	b.until("document.querySelector('#details').innerText.includes('Each SpineLayer')")
	why := before.Explain[gang].(map[string]any)["why"].(string)
	require.Contains(t, is[string](b, "document.querySelector('#details').innerText"), why)
	require.Contains(t, is[string](b, "location.hash"), "gang=default")
	require.Greater(t, b.drawn(accent), 4*100, "where it would start")
	dark("before-gang")
	b.click(`[data-path="spine-1"] .name`)
	b.until("document.querySelector('#fits')?.innerText.includes('" + gang + "')")
	require.Contains(t, is[string](b, "document.querySelector('#details').innerText"), "spine-1")
	dark("before-domain")
	b.key(kb.Escape)

	answers.explain = during.Explain
	b.page.Show(&during.State)
	b.shows(2)
	require.Contains(t, is[string](b, "document.querySelector('#waiting').innerText"), during.State.Waiting[0].Reason)
	require.Equal(t, "spine-1", is[string](b, "document.querySelector('[data-path=\"spine-1\"] .name').innerText"))
	require.Equal(t, "0 free, 4 reserved", is[string](b, "document.querySelector('[data-path=\"spine-1\"] .sums').innerText"))
	reserved := b.drawn(first)
	require.NotZero(t, reserved)
	dark("during")
	b.click("#waiting button.gang")
	b.until("document.querySelector('#details').innerText.includes('Preempting')")
	dark("during-gang")

	answers.explain = after.Explain
	b.page.Show(&after.State)
	b.shows(3)
	require.Equal(t, "No gang waits.", is[string](b, "document.querySelector('#waiting').innerText"))
	require.Contains(t, is[string](b, "document.querySelector('#gangs').innerText"), "4 pods in spine-1")
	require.Greater(t, b.drawn(first), 2*reserved)
	require.Less(t, b.drawn(nobody), others)
	require.Contains(t, is[string](b, "document.querySelector('#said').innerText"), gang+" waits no more.")
	b.until("document.querySelector('#details').innerText.includes('How near')") // it is asked again
	dark("after")
}

// TestBrowserFirst: the documents' first example, whose gang starts, and a cluster without nodes.
func TestBrowserFirst(t *testing.T) {
	d := documents(t, "first")
	b := open(t, d.State, &asked{explain: d.Explain, fits: d.Fits})
	require.Contains(t, is[string](b, "document.querySelector('#waiting').innerText"), d.State.Waiting[0].Reason)
	b.readable()
	b.shot("first-light")
	b.page.Show(&page.State{Problem: "the API server does not answer"})
	b.shows(2)
	require.Contains(t, is[string](b, "document.body.innerText"), "There are no nodes.")
	require.Contains(t, is[string](b, "document.querySelector('[role=alert]').innerText"), "the API server does not answer")
	b.shot("problem-light")
}

// TestBrowserKeys: all that a mouse can do the keyboard can, and where the focus is can be seen.
func TestBrowserKeys(t *testing.T) {
	d := documents(t, "before")
	b := open(t, d.State, &asked{explain: d.Explain, fits: d.Fits})
	at := func() string {
		return is[string](b,
			"document.activeElement.dataset.path ?? document.activeElement.parentElement.dataset.gang ?? (document.activeElement.id || "+
				"document.activeElement.tagName)")
	}
	seen := func() {
		t.Helper()
		require.NotEqual(t, "none", is[string](b, "getComputedStyle(document.activeElement).outlineStyle"), at())
	}
	var order []string
	for range 40 {
		b.key(kb.Tab)
		if at() == "BODY" {
			break
		}
		seen()
		order = append(order, at())
	}
	// Each part is one stop.
	require.Equal(t, []string{"A", "theme", "print", "", gang}, order)
	b.focus(`[data-path=""]`)
	for _, step := range []struct{ key, at string }{
		{kb.ArrowRight, "spine-0"},
		{kb.ArrowDown, "spine-0/block-0"},
		{kb.ArrowUp, "spine-0"},
		{kb.End, "spine-2/block-4"},
		{kb.ArrowRight, "spine-2/block-4/node-9"},
		{kb.ArrowDown, "spine-2/block-4/node-10"},
		{kb.ArrowLeft, "spine-2/block-4"},
		{kb.ArrowLeft, "spine-2"},
		{kb.ArrowUp, "spine-1/block-3"},
		{kb.Home, ""},
	} {
		b.key(step.key)
		require.Equal(t, step.at, at())
		seen()
	}
	b.key(kb.ArrowRight, kb.Enter)
	require.Equal(t, "spine-0", is[string](b, "document.querySelector('#details-title').innerText"))
	require.Equal(t, "true", is[string](b, "document.activeElement.getAttribute('aria-selected')"))
	b.shot("keys-light")
	b.key("z")
	require.Equal(t, "Cluster\nspine-0", is[string](b, "document.querySelector('#crumbs').innerText"))
	require.Equal(t, 3, is[int](b, "document.querySelectorAll('[role=treeitem]').length"))
	b.shot("zoom-light")
	b.key(kb.Escape)
	require.True(t, is[bool](b, "document.querySelector('#details').hidden"))
	b.key(kb.Escape)
	require.Equal(t, 9, is[int](b, "document.querySelectorAll('[role=treeitem]').length"))
	require.Equal(t, "spine-0", at(), "one sees where one was")

	b.focus("#waiting button.gang")
	b.key(kb.Enter)
	b.until("document.querySelector('#details').innerText.includes('Each SpineLayer')")
	require.Equal(t, "details-title", at())
	b.key(kb.Escape)
	require.Equal(t, gang, at(), "the focus goes back to where it was")

	b.focus("#theme")
	b.key(kb.Enter, kb.Enter)
	require.Equal(t, "dark", is[string](b, "document.documentElement.dataset.theme"))
	b.do(chromedp.Reload())
	b.until("document.documentElement.dataset.shown === '1'")
	require.Equal(t, "dark", is[string](b, "document.documentElement.dataset.theme"), "it is remembered")
	require.True(t, is[bool](b, "(localStorage.clear(), true)"))
}

// TestBrowserAsks: what is looked at is asked again when it has changed, and not whenever something
// has; the focus stays near.
func TestBrowserAsks(t *testing.T) {
	before, during := documents(t, "before"), documents(t, "during")
	answers := &asked{explain: before.Explain, fits: before.Fits}
	b := open(t, before.State, answers)
	b.click("#waiting button.gang")
	b.until("document.querySelector('#details').innerText.includes('Each SpineLayer')")
	b.focus("#details-body button.link")
	later := before.State
	later.At = later.At.Add(time.Minute)
	later.Waiting = []page.Waiter{later.Waiting[0]}
	later.Waiting[0].Start = &page.Start{Kind: "forecast", Time: later.At}
	b.page.Show(&later)
	b.shows(2)
	require.EqualValues(t, 1, answers.times.Load())
	require.True(t, is[bool](b, "document.activeElement.matches('#details-body button.link')"))
	b.page.Show(&during.State)
	b.until("document.activeElement.id === 'details-title'")
	require.EqualValues(t, 2, answers.times.Load())
}

// TestBrowserPaper: on paper there is all of it, light, and nothing that one could only press.
func TestBrowserPaper(t *testing.T) {
	for _, c := range []struct {
		name  string
		state page.State
	}{{"documents", documents(t, "during").State}, {"large", large(1500)}} {
		b := open(t, c.state, &asked{})
		b.media("", "dark")
		b.until("document.documentElement.dataset.theme === 'dark'")
		b.media("print", "dark")
		b.until("document.documentElement.classList.contains('paper')")
		b.readable()
		require.Equal(t, "light", is[string](b, "document.documentElement.dataset.theme"))
		full, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		require.NoError(t, err)
		b.keep("paper-"+c.name+".png", full)
		require.True(t, is[bool](b, "canvas.clientHeight >= Math.floor(muster.plan().height)"), "all of the network is drawn")
		require.Empty(t,
			is[string](b, "[...document.querySelectorAll('#theme, #print')].filter((e) => e.getClientRects().length).map((e) => e.id).join()"))
		b.media("", "dark")
		b.until("!document.documentElement.classList.contains('paper')")
		pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
		require.NoError(t, err)
		b.keep("paper-"+c.name+".pdf", pdf)
	}
}

// TestBrowserNarrow: on a narrow window nothing is cut off.
func TestBrowserNarrow(t *testing.T) {
	d := documents(t, "during")
	b := open(t, d.State, &asked{explain: d.Explain}, chromedp.EmulateViewport(420, 800))
	b.readable()
	b.shot("narrow-light")
}

// TestBrowserPatches: the page makes of what it is sent what is shown, whatever that is.
func TestBrowserPatches(t *testing.T) {
	b := open(t, states.Example(0), &asked{})
	for i := range 60 {
		s := states.Example(i + 1)
		b.page.Show(&s)
		b.until(fmt.Sprintf("Number(document.documentElement.dataset.shown) >= %d", i+2))
		b.shows(i + 2)
	}
}

// large is a cluster of three layers with gangs of many sizes on it; some nodes are broken, some
// gangs wait.
func large(nodes int) page.State {
	s := page.State{
		At: time.Unix(1767225600, 0).UTC(), Source: fmt.Sprint(nodes, " nodes"), For: "whole nodes",
		Layers: []string{"Cluster", "BlockLayer", "SpineLayer", "RackLayer", "Node"},
	}
	one, left, pods := 0, 0, map[string]int{}
	for i := range nodes {
		n := page.Node{Path: fmt.Sprintf("block-%d/spine-%d/rack-%d/node-%d", i/1500, i/150, i/15, i), Broken: i%211 == 7}
		if left == 0 {
			one++
			left = 1 + (one*7919)%97
		}
		left--
		name := fmt.Sprintf("team-%d/training-%d", one%9, one)
		switch {
		case one%11 == 0:
			n.Free = 1
		case one%13 == 0:
			n.Places = []page.Place{{Gang: name, Kind: page.Reserved, Pods: 1}}
		case one%17 == 0:
			n.Places = []page.Place{{Kind: page.Runs, Pods: 1}}
		default:
			n.Places = []page.Place{{Gang: name, Kind: page.Runs, Pods: 1}}
			pods[name]++
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range one {
		name := fmt.Sprintf("team-%d/training-%d", (i+1)%9, i+1)
		s.Gangs = append(s.Gangs, page.Gang{Name: name, Pods: pods[name], Domain: fmt.Sprint("block-", i*10/one)})
		if i%13 == 12 {
			s.Waiting = append(s.Waiting,
				page.Waiter{
					Gang: name, Min: 32, State: "Unschedulable", Reason: "No SpineLayer has room for 32 members: the best, block-1/spine-12, has 17.",
				})
		}
	}
	return s
}

// TestBrowserLarge measures 15,000 nodes, and reports: what it takes depends on the machine.
func TestBrowserLarge(t *testing.T) {
	if os.Getenv("UI_SHOTS") == "" {
		t.Log("smaller than it is with UI_SHOTS, where it is measured")
	}
	nodes := map[bool]int{true: 1500, false: 15000}[os.Getenv("UI_SHOTS") == ""]
	s := large(nodes)
	b := open(t, s, &asked{}, chromedp.EmulateViewport(1600, 1000))
	painted := is[float64](b, "muster.timings().first")
	t.Logf("%d nodes: all of it has arrived after %.0f ms, and is drawn in %.0f ms", nodes, is[float64](b, "muster.timings().arrived"),
		is[float64](b, "muster.timings().script"))
	const updates = 20
	for k := range updates {
		next := s
		next.Nodes = append([]page.Node{}, s.Nodes...)
		for i := range 200 {
			n := &next.Nodes[(k*977+i*61)%nodes]
			n.Free, n.Places = 1-n.Free, nil
		}
		b.page.Show(&next)
		b.until(fmt.Sprintf("Number(document.documentElement.dataset.shown) >= %d", k+2))
		s = next
	}
	b.shows(updates + 1)
	b.readable()
	b.shot("large-light")
	all := is[[]float64](b, "muster.timings().updates.sort((a, b) => a - b)")
	require.Len(t, all, updates)
	scroll := is[float64](b, `new Promise((done) => {
		const m = document.getElementById('map'), began = performance.now(); let n = 0;
		const step = () => { m.scrollTop += 300; if (++n < 20) requestAnimationFrame(step); else done((performance.now() - began) / n); };
		requestAnimationFrame(step); })`)
	scripts := is[[]float64](b, "muster.timings().scripts.sort((a, b) => a - b)")
	t.Logf("%d nodes: first paint %.0f ms after the address was opened; an update of 200 nodes is painted after %.0f ms (median; %.0f to "+
		"%.0f ms), of which the script takes %.0f ms (median; %.0f to %.0f ms); %.0f ms a frame while scrolling",
		nodes, painted, all[updates/2], all[0], all[updates-1], scripts[updates/2], scripts[0], scripts[updates-1], scroll)
	b.click(`[data-path="block-0/spine-1"] .name`)
	b.key("z")
	b.shot("large-zoom-light")
	b.light("dark")
	b.until("document.documentElement.dataset.theme === 'dark'")
	b.readable()
	b.shot("large-zoom-dark")
	require.True(t, strings.HasPrefix(is[string](b, "location.hash"), "#in=block-0"))
}
