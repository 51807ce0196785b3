package gang_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/gang"
)

const wait = 10 * time.Second

// world simulates the scheduler and the API server for a book. It knows the true state of pods, carries out effects,
// and delivers events late, twice or never.
type world struct {
	book  *gang.Book
	now   time.Time
	pods  map[string]*truth
	least map[string]int
	uid   int

	multiples bool // it matters how many members are where

	played int // events
}

type truth struct {
	gang.Member
	assumed, held, allowed bool
	since                  time.Time
	nominated              string // for a reservation
	evicted                bool   // it runs, and is being evicted
}

// apply plays one event, carries out the effects and checks the book.
func (w *world) apply(t *rapid.T, ev gang.Event) {
	w.played++
	allowed := map[string]bool{}
	before := w.allowed()
	for _, e := range w.book.Apply(ev, w.now) {
		p := w.pods[e.Pod]
		switch e.Verb {
		case gang.Clear:
			if p != nil {
				p.nominated = ""
			}
		case gang.Allow:
			if p == nil || !p.held {
				t.Fatalf("%s may bind and holds nothing", e.Pod)
			}
			p.allowed = true
			allowed[p.Gang.String()] = true
		case gang.Reject:
			if p != nil && p.held && !p.allowed { // the scheduler unreserves it a little later
				p.held = false
			}
		}
	}
	for name := range allowed {
		w.wholeOrFatal(t, name)
		w.completeOrFatal(t, ref(name), before)
	}
	w.nominatedOrFatal(t)
	if err := w.book.Check(); err != nil {
		t.Fatal(err)
	}
}

// wholeOrFatal checks that at least minMember members pass the barrier.
func (w *world) wholeOrFatal(t *rapid.T, name string) {
	n := 0
	for _, p := range w.pods {
		if p.Gang == ref(name) && (p.Node != "" || p.allowed) {
			n++
		}
	}
	if least := w.least[name]; n < least && !w.ran(name) {
		t.Fatalf("gang %s: %d members go, of at least %d", name, n, least)
	}
}

// allowed counts, by group, the members that may bind.
func (w *world) allowed() map[gang.Ref]int {
	n := map[gang.Ref]int{}
	for key, p := range w.pods {
		if group, ok := w.book.GroupKey(key); ok && p.allowed {
			n[group]++
		}
	}
	return n
}

// completeOrFatal checks that a plan in multiples opens the barrier only when all its members have arrived.
func (w *world) completeOrFatal(t *rapid.T, name gang.Ref, before map[gang.Ref]int) {
	var g *gang.Group
	for key, p := range w.pods {
		if p.Gang == name {
			g, _ = w.book.Group(key)
		}
	}
	if !w.multiples || g == nil || before[g.Key] > 0 {
		return
	}
	for pod := range g.Places {
		if p := w.pods[pod]; p != nil && !p.held { // nodes may be reserved for future members
			t.Fatalf("members of %s go without %s", g.Key, pod)
		}
	}
}

// nominatedOrFatal checks that a pending nominated pod is assigned that node.
func (w *world) nominatedOrFatal(t *rapid.T) {
	for key, p := range w.pods {
		if place, _ := w.book.Place(key); p.Node == "" && p.nominated != "" && place != p.nominated {
			t.Fatalf("%s is nominated for %s, its place is %q", key, p.nominated, place)
		}
	}
}

// ran reports whether the gang was whole before, so that single members may follow.
func (w *world) ran(name string) bool { return w.least[name+"/ran"] == 1 }

func (w *world) noteRan(name string) {
	n := 0
	for _, p := range w.pods {
		if p.Gang == ref(name) && p.Node != "" {
			n++
		}
	}
	if n >= w.least[name] {
		w.least[name+"/ran"] = 1
	}
}

func (w *world) draw(t *rapid.T, keep func(*truth) bool) *truth {
	var keys []string
	for _, g := range []string{"ns/a", "ns/b"} {
		for i := range 4 {
			key := fmt.Sprintf("%s-%d", g, i)
			if p := w.pods[key]; p != nil && keep(p) {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return w.pods[rapid.SampledFrom(keys).Draw(t, "pod")]
}

// In random histories no gang starts in part, no wait outlives its timeout, and the book is consistent after every
// step.
func TestHistories(t *testing.T) {
	played := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{book: gang.New(strings.Compare), now: time.Unix(0, 0), pods: map[string]*truth{}, least: map[string]int{"ns/a": 2, "ns/b": 3}}
		lists := map[string]bool{}
		nonStrict := rapid.IntRange(0, 2).Draw(t, "nonStrict") > 0
		w.multiples = rapid.IntRange(0, 2).Draw(t, "multiples") == 0
		some := rapid.IntRange(0, 2).Draw(t, "one gang is enough") == 0
		declare := func(name string) gang.Declared {
			s := gang.Spec{Ref: ref(name), Min: w.least[name], Policy: gang.OnceSatisfied, Wait: wait, NonStrict: nonStrict, Multiples: w.multiples}
			if lists[name] {
				s.Group = refs("ns/a", "ns/b")
				if some {
					s.Levels = []choice.Level{{Name: "root", Least: 1}}
				}
			}
			return gang.Declared{Spec: s}
		}
		names := rapid.SampledFrom([]string{"ns/a", "ns/b"})
		// act counts the steps that found something to do.
		act := func(name string, do func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				before := w.played
				if do(t); w.played > before {
					played[name]++
				}
			}
		}
		w.book.Starve = 2 * time.Second
		lists["ns/a"] = rapid.Bool().Draw(t, "together")
		lists["ns/b"] = lists["ns/a"]
		w.apply(t, declare("ns/a"))
		w.apply(t, declare("ns/b"))
		steps := map[string]func(*rapid.T){
			"declare": act("declare", func(t *rapid.T) { w.apply(t, declare(names.Draw(t, "gang"))) }),
			"regroup": act("regroup", func(t *rapid.T) { // with the other's consent, or without
				if rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
					return
				}
				name := names.Draw(t, "gang")
				lists[name] = !lists[name]
				if lists["ns/a"] && lists["ns/b"] {
					played["consent"]++
				}
				if w.book.AnyPlaces() {
					played["regroup with places"]++
				}
				w.apply(t, declare(name))
			}),
			"remove": act("remove", func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					return
				}
				name := names.Draw(t, "gang")
				w.apply(t, gang.Removed{Gang: ref(name)}) // it is the same gang when it is declared again
			}),
			"come": act("come", func(t *rapid.T) {
				g := names.Draw(t, "gang")
				key := fmt.Sprintf("%s-%d", g, rapid.IntRange(0, 3).Draw(t, "i"))
				if w.pods[key] == nil {
					w.uid++
					w.pods[key] = &truth{Member: gang.Member{Gang: ref(g), Pod: key, UID: fmt.Sprint(w.uid), Rank: rapid.IntRange(0, 2).Draw(t, "rank")}}
				}
				w.apply(t, gang.Seen{Member: w.pods[key].Member}) // or told once more
			}),
			"go": act("go", func(t *rapid.T) {
				if p := w.draw(t, func(*truth) bool { return true }); p != nil && rapid.IntRange(0, 4).Draw(t, "rarely") == 0 {
					delete(w.pods, p.Pod)
					w.apply(t, gang.MemberDeleted{Pod: p.Pod, UID: p.UID})
					w.apply(t, gang.MemberDeleted{Pod: p.Pod, UID: p.UID})
					for _, o := range w.pods {
						if o.Gang == p.Gang {
							return
						}
					}
					delete(w.least, p.Gang.String()+"/ran")
				}
			}),
			"plan": act("plan", func(t *rapid.T) {
				p := w.draw(t, func(p *truth) bool { ok, _ := w.book.Admit(p.Pod); return ok && p.Node == "" })
				if p == nil {
					return
				}
				ok, _ := w.book.Admit(p.Pod)
				g, known := w.book.Group(p.Pod)
				if !ok || !known || g.InFlight > 0 || len(g.Places) > 0 && !g.Waiting && !g.Holding {
					return
				}
				ev := gang.Planned{Group: g.Key, Reserved: !g.Holding && rapid.Bool().Draw(t, "reserved")}
				if g.Holding {
					played["plan beside others"]++
				}
				if g.Choice.Any() {
					var sets []choice.Set
					all := g.Choice.Sets(10)
					for set := all.Next(); set != nil; set = all.Next() {
						sets = append(sets, set)
					}
					if len(sets) == 0 {
						t.Fatalf("%s may be planned, and none of its gangs may", g.Key)
					}
					g, _ = g.Restricted(rapid.SampledFrom(sets).Draw(t, "gangs"))
					if played["plan for some"]++; len(g.Pending) == 0 {
						return
					}
				}
				for i, m := range g.Pending {
					ev.Places = append(ev.Places, gang.Assignment{Pod: m.Pod, Node: fmt.Sprint("n", i)})
				}
				for i := range rapid.IntRange(0, 2).Draw(t, "ahead") {
					ev.Future = append(ev.Future, gang.Assignment{Pod: fmt.Sprint(p.Pod, "~", i), Node: fmt.Sprint("n", i)})
				}
				if ev.Reserved {
					for _, p := range ev.Places {
						w.pods[p.Pod].nominated = p.Node
					}
				}
				w.apply(t, ev)
			}),
			"refuse": act("refuse", func(t *rapid.T) {
				p := w.draw(t, func(p *truth) bool { ok, _ := w.book.Admit(p.Pod); return ok && p.Node == "" })
				if p == nil {
					return
				}
				g, known := w.book.Group(p.Pod)
				if ok, _ := w.book.Admit(p.Pod); !ok || !known || len(g.Places) > 0 {
					return
				}
				w.apply(t, gang.Unschedulable{Group: g.Key, Refusal: gang.Obstacle{By: gang.Plan, Words: "test"}})
				save := gang.CapacityHeld{
					Group: g.Key, Places: []gang.Assignment{{Pod: p.Pod, Node: fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "n"))}},
				}
				if !g.Starving && rapid.Bool().Draw(t, "for a moment") {
					played["save for a moment"]++
					save.For = time.Second
				} else if g.Starving {
					played["save"]++
				}
				w.apply(t, save)
			}),
			"confirm": act("confirm", func(t *rapid.T) {
				if p := w.draw(t, func(p *truth) bool { return p.Node == "" }); p != nil {
					if g, ok := w.book.Group(p.Pod); ok && g.InFlight == 0 {
						w.apply(t, gang.Confirmed{Group: g.Key})
					}
				}
			}),
			"cycle": act("cycle", func(t *rapid.T) { // assume, and mostly reach the barrier
				p := w.draw(t, func(p *truth) bool { return p.Node == "" && !p.assumed })
				if p == nil {
					return
				}
				if node, confirmed := w.book.Place(p.Pod); node == "" || !confirmed {
					return
				}
				p.assumed = true
				w.apply(t, gang.Assumed{Pod: p.Pod})
				if rapid.IntRange(0, 5).Draw(t, "fails") == 0 {
					p.assumed = false
					w.apply(t, gang.Released{Pod: p.Pod, Why: "test"})
					return
				}
				p.held, p.since = true, w.now
				w.apply(t, gang.Held{Pod: p.Pod})
			}),
			"drop": act("drop", func(t *rapid.T) { // a node refuses a member
				p := w.draw(t, func(p *truth) bool { return p.Node == "" && !p.assumed })
				if p == nil || rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
					return
				}
				if node, confirmed := w.book.Place(p.Pod); node != "" && confirmed {
					g, _ := w.book.Group(p.Pod)
					w.apply(t, gang.Dropped{Group: g.Key, Node: node, Why: "test", Learned: rapid.Bool().Draw(t, "learned")})
				}
			}),
			"evict": act("evict", func(t *rapid.T) { // a group is evicted whole, and planned at the same moment
				p := w.draw(t, func(p *truth) bool { return p.Node != "" })
				if p == nil || rapid.IntRange(0, 2).Draw(t, "rarely") > 0 {
					return
				}
				g, ok := w.book.Group(p.Pod)
				if !ok {
					return
				}
				var ev gang.Evicted
				for _, m := range g.Bound {
					if at := w.pods[m.Pod]; at.Node != "" {
						at.evicted = true
						ev.Pods = append(ev.Pods, gang.Victim{Pod: m.Pod, UID: m.UID})
					}
				}
				w.apply(t, ev)
				late := gang.Planned{Group: g.Key, Reserved: rapid.Bool().Draw(t, "reserved")}
				for _, m := range g.Pending {
					late.Places = append(late.Places, gang.Assignment{Pod: m.Pod, Node: "n0"})
				}
				w.apply(t, late)
			}),
			"spare": act("spare", func(t *rapid.T) {
				if p := w.draw(t, func(p *truth) bool { return p.evicted }); p != nil {
					p.evicted = false
					w.apply(t, gang.Spared{Pods: []gang.Victim{{Pod: p.Pod, UID: p.UID}}})
				}
			}),
			"unreserve": act("unreserve", func(t *rapid.T) { // a rejected member releases its node
				if p := w.draw(t, func(p *truth) bool { return p.Node == "" && p.assumed && !p.held }); p != nil {
					p.assumed, p.allowed = false, false
					w.apply(t, gang.Released{Pod: p.Pod, Why: "rejected"})
				}
			}),
			"bind": act("bind", func(t *rapid.T) {
				p := w.draw(t, func(p *truth) bool { return p.allowed && p.Node == "" })
				if p == nil {
					return
				}
				if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
					p.assumed, p.held, p.allowed = false, false, false
					if nonStrict { // the barrier was open: the members that fit follow
						w.least[p.Gang.String()+"/ran"] = 1
					}
					w.apply(t,
						gang.Released{Pod: p.Pod, Why: "bind failed", By: rapid.SampledFrom([]gang.ObstacleKind{gang.NoObstacle, gang.API}).Draw(t, "by")})
					return
				}
				p.Node, _ = w.book.Place(p.Pod)
				if p.Node == "" {
					p.Node = "elsewhere"
				}
				p.assumed, p.held, p.allowed = false, false, false
				w.noteRan(p.Gang.String())
				w.apply(t, gang.Seen{Member: p.Member})
			}),
			"time": act("time", func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 7).Draw(t, "s")) * time.Second)
				w.apply(t, gang.Tick{})
			}),
			"": func(t *rapid.T) {
				for key, p := range w.pods {
					if p.held && !p.allowed && w.now.Sub(p.since) > wait {
						t.Fatalf("%s has been held since %v, now %v", key, p.since, w.now)
					}
				}
				w.oneSpeaks(t)
				w.noReplacement(t)
			},
		}
		// What takes a gang on is drawn more often, or hardly any gang would get there.
		for _, name := range []string{"come", "plan", "refuse", "cycle", "bind"} {
			for i := range 3 {
				steps[fmt.Sprint(name, i)] = steps[name]
			}
		}
		t.Repeat(steps)
	})
	for _, name := range []string{
		"declare", "regroup", "consent", "regroup with places", "plan beside others", "remove", "come", "go", "plan", "plan for some", "refuse",
		"save", "confirm", "cycle", "drop", "evict", "spare", "unreserve", "bind", "time",
	} {
		least := 20
		if name == "plan beside others" {
			least = 10 // each run draws other histories; this is about 30
		}
		if played[name] < least && !testing.Short() {
			t.Errorf("all histories together have %d steps %q: they prove little", played[name], name)
		}
	}
	t.Logf("steps played: %v", played)
}

// noReplacement checks that a group with evicted running members has no assignment and no admitted member.
func (w *world) noReplacement(t *rapid.T) {
	for key := range w.pods {
		g, ok := w.book.Group(key)
		if !ok || !slices.ContainsFunc(g.Bound, func(m gang.Member) bool { return w.pods[m.Pod].evicted }) {
			continue
		}
		if ok, _ := w.book.Admit(key); ok || len(g.Places) > 0 {
			t.Fatalf("%s is evicted, and %s may enter (%t) or has a place among %v", g.Key, key, ok, g.Places)
		}
	}
}

// oneSpeaks fails if more than one member of a group without a plan is let in.
func (w *world) oneSpeaks(t *rapid.T) {
	in := map[gang.Ref]string{}
	for key, p := range w.pods {
		g, ok := w.book.Group(key)
		if !ok || p.Node != "" || len(g.Places) > 0 && !g.Waiting {
			continue
		}
		if ok, _ := w.book.Admit(key); ok {
			if other := in[g.Key]; other != "" {
				t.Fatalf("%s and %s both speak for %s", other, key, g.Key)
			}
			in[g.Key] = key
		}
	}
}

// The same events in random orders, some twice, lead to the same state.
func TestEventOrderDoesNotChangeState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var facts []gang.Event
		for _, name := range []string{"ns/a", "ns/b", "ns/c"} {
			if rapid.Bool().Draw(t, "declared") {
				s := gang.Spec{Ref: ref(name), Min: rapid.IntRange(1, 3).Draw(t, "min"), Policy: gang.OnceSatisfied, Wait: wait}
				if rapid.Bool().Draw(t, "grouped") {
					s.Group = refs("ns/a", "ns/b")
				}
				facts = append(facts, gang.Declared{Spec: s})
			}
			for i := range rapid.IntRange(0, 3).Draw(t, "members") {
				m := gang.Member{Gang: ref(name), Pod: fmt.Sprintf("%s-%d", name, i), UID: "u", Rank: rapid.IntRange(0, 2).Draw(t, "rank")}
				if rapid.Bool().Draw(t, "bound") {
					m.Node = "n"
				}
				facts = append(facts, gang.Seen{Member: m})
			}
		}
		seed := rapid.Uint64().Draw(t, "seed")
		tell := func(shuffle bool) string {
			b := gang.New(strings.Compare)
			all := append([]gang.Event(nil), facts...)
			if shuffle {
				all = append(all, facts[:len(facts)/2]...)
				r := rand.New(rand.NewPCG(seed, 1))
				r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			for _, ev := range all {
				b.Apply(ev, time.Unix(0, 0))
			}
			var out strings.Builder
			for _, name := range b.Gangs() {
				fmt.Fprintf(&out, "%+v\n", b.State(name))
			}
			for _, ev := range facts {
				if s, ok := ev.(gang.Seen); ok {
					ok, why := b.Admit(s.Member.Pod)
					fmt.Fprintln(&out, s.Member.Pod, ok, why)
				}
			}
			return out.String()
		}
		if a, b := tell(false), tell(true); a != b {
			t.Fatalf("told in order:\n%s\ntold in another:\n%s", a, b)
		}
	})
}
