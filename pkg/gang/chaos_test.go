package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// chaos draws events in senseless order: pods change their ranks, gates and gangs, and gangs change their groups.
type chaos struct {
	*rapid.T
	book *gang.Book
}

func (c chaos) sometimes() bool { return rapid.IntRange(0, 3).Draw(c.T, "sometimes") == 0 }

func (c chaos) one(of string) string {
	return rapid.SampledFrom(strings.Fields(of)).Draw(c.T, "one")
}

func (c chaos) pod() string { return c.one("a-0 a-1 a-2 a-3 b-0 b-1 b-2 c-0") }

func (c chaos) member() gang.Member {
	pod := c.pod()
	m := gang.Member{
		Gang: ref(pod[:1]), Pod: pod, UID: "1", Row: rapid.SampledFrom([]string{"", "r"}).Draw(c.T, "row"),
		Rank: rapid.IntRange(0, 2).Draw(c.T, "rank"), Gate: map[bool]string{true: "has a scheduling gate"}[c.sometimes()],
	}
	if node, _ := c.book.Place(pod); c.sometimes() {
		m.Node = node
	}
	m.Done, m.Succeeded = m.Node != "" && c.sometimes(), c.sometimes()
	m.Owner = c.one("x y")
	if c.sometimes() {
		m.Gang, m.UID = ref(c.one("a b c")), c.one("1 2")
	}
	return m
}

func (c chaos) spec() gang.Spec {
	s := gang.Spec{
		Ref: ref(c.one("a b c")), Min: rapid.IntRange(1, 3).Draw(c.T, "min"), NonStrict: c.sometimes(), Policy: gang.OnceSatisfied, Wait: wait,
	}
	if c.sometimes() {
		s.Group = refs(strings.Split(c.one("a,b b,c a,b,c"), ",")...)
	}
	return s
}

// group returns mostly a known group.
func (c chaos) group() gang.Ref {
	if g, ok := c.book.Group(c.pod()); ok && !c.sometimes() {
		return g.Key
	}
	return ref(c.one("a b c"))
}

// plan returns a plan for some members of a group in some order.
func (c chaos) plan() gang.Planned {
	p := gang.Planned{Group: ref("a"), Reserved: c.sometimes(), InOrder: !c.sometimes()}
	if g, ok := c.book.Group(c.pod()); ok {
		p.Group = g.Key
		for _, m := range rapid.Permutation(g.Pending).Draw(c.T, "pending") {
			if !c.sometimes() {
				p.Places = append(p.Places, gang.Assignment{Pod: m.Pod, Node: c.one("n0 n1")})
			}
		}
	}
	return p
}

func (c chaos) event() gang.Event {
	group := c.group()
	switch c.one("Declared Removed Seen Seen Seen Left Planned Planned Confirmed Assumed Assumed Assumed Held Held Held Released Dropped " +
		"Refused NodeGone NodeClosed Evicted Spared Tick") {
	case "Declared":
		return gang.Declared{Spec: c.spec()}
	case "Removed":
		return gang.Removed{Gang: ref(c.one("a b c"))}
	case "Seen":
		return gang.Seen{Member: c.member()}
	case "Left":
		return gang.MemberDeleted{Pod: c.pod(), UID: "1"}
	case "Planned":
		return c.plan()
	case "Confirmed":
		return gang.Confirmed{Group: group, Turn: []string{c.pod(), c.pod(), c.pod()}}
	case "Assumed":
		return gang.Assumed{Pod: c.pod()}
	case "Held":
		return gang.Held{Pod: c.pod()}
	case "Released":
		return gang.Released{Pod: c.pod(), Why: "test"}
	case "Dropped":
		return gang.Dropped{Group: group, Node: "n0", Why: "test"}
	case "Refused":
		return gang.Unschedulable{Group: group, Refusal: gang.Obstacle{By: gang.Plan, Words: "test"}}
	case "NodeGone":
		return gang.NodeGone{Node: c.one("n0 n1")}
	case "NodeClosed":
		return gang.NodeClosed{Node: c.one("n0 n1")}
	case "Evicted":
		return gang.Evicted{Pods: []gang.Victim{{Pod: c.pod(), UID: "1"}}}
	case "Spared":
		return gang.Spared{Pods: []gang.Victim{{Pod: c.pod(), UID: "1"}}}
	}
	return gang.Tick{}
}

// After any events in any order, the derived state of the book equals a full recount.
func TestDerivedStateMatchesRecount(t *testing.T) {
	said := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		c := chaos{T: t, book: gang.New(strings.Compare)}
		for _, name := range []string{"a", "b", "c"} {
			c.book.Apply(declared(name, 1), time.Unix(0, 0))
		}
		for i := range 60 {
			ev := c.event()
			said[fmt.Sprintf("%T", ev)]++
			c.book.Apply(ev, time.Unix(int64(i), 0))
			if err := c.book.CheckDerived(); err != nil {
				t.Fatalf("after %T %+v: %v", ev, ev, err)
			}
		}
	})
	t.Logf("events: %v", said)
}
