package wake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "github.com/muster-scheduler/muster/test/seed"

	"github.com/muster-scheduler/muster/pkg/gang"
)

func filing(group, class string, created int) Entry {
	return Entry{
		Group: gang.Ref{
			Namespace: "ns", Name: group,
		}, Class: class, TriedPod: "ns/" + group + "-0", Created: time.Unix(int64(created), 0), Plugins: []string{},
	}
}

// TestFirstInQueueLeads tells a story of one class.
func TestFirstInQueueLeads(t *testing.T) {
	var r Registry
	file := func(group, class string, created int) []string { return r.Record(filing(group, class, created)) }
	require.Empty(t, file("b", "c", 2))
	require.Empty(t, file("c", "c", 2), "of the same age the name decides")
	require.Equal(t, []string{"ns/b-0"}, file("a", "c", 1), "the oldest leads, whenever it was rejected, and the former leader is held back")
	require.Equal(t, []string{"ns/a-0"}, r.Leaders())
	require.False(t, r.HelpedByNodes("ns/b-0"))

	require.Empty(t, file("a", "c", 1), "refused again: the others need not be tried")
	require.Equal(t, []string{"ns/b-0"}, r.Leave(gang.Ref{Namespace: "ns", Name: "a"}))
	require.True(t, r.HelpedByNodes("ns/b-0"))
	nowhere := filing("b", "c", 2)
	nowhere.Template = true
	require.Empty(t, r.Record(nowhere))
	require.False(t, r.HelpedByNodes("ns/b-0"), "no node helps")
	require.Empty(t, file("b", "c", 2))
	require.Empty(t, r.Leave(gang.Ref{Namespace: "ns", Name: "a"}), "it is not there")
	require.Empty(t, r.Leave(gang.Ref{Namespace: "ns", Name: "c"}), "it did not lead")
	require.Empty(t, file("c", "c", 2))

	require.Equal(t, []string{"ns/c-0"}, file("b", "d", 2), "it leads another class now")
	require.Equal(t, []string{"ns/b-0", "ns/c-0"}, r.Leaders())
	require.Empty(t, r.Leave(gang.Ref{Namespace: "ns", Name: "c"}), "it was the last")

	f := filing("b", "d", 2)
	f.TriedPod = "ns/b-1"
	require.Empty(t, r.Record(f))
	require.Equal(t, []string{"ns/b-1"}, r.Leaders(), "another member was tried")
	require.Equal(t, "ns/b-1", r.RecordedPod(f.Group))
	require.Empty(t, r.RecordedPod(gang.Ref{Name: "nobody"}))
	require.Equal(t, "ns/b-1", r.TriedPod(f.Group))
	r.Begin(gang.Ref{Name: "somebody"}, "ns/s")
	require.Equal(t, "ns/s", r.TriedPod(gang.Ref{Name: "somebody"}), "it is being tried")
	require.Empty(t, r.TriedPod(gang.Ref{Name: "nobody"}))
}

func TestGroupsLikeNoOther(t *testing.T) {
	var r Registry
	r.Record(filing("a", "", 1))
	r.Record(filing("b", "", 2))
	require.Equal(t, []string{"ns/a-0", "ns/b-0"}, r.Leaders())
	require.Empty(t, r.Leave(gang.Ref{Namespace: "ns", Name: "a"}))
}

func TestLeadersForPlugin(t *testing.T) {
	var r Registry
	for i, plugins := range [][]string{{"Fit", "Volumes"}, {"Fit"}, nil, {}} {
		f := filing(fmt.Sprint("g", i), fmt.Sprint("c", i), i)
		f.Plugins = plugins
		r.Record(f)
	}
	follower := filing("h", "c0", 9)
	follower.Plugins = []string{"Fit", "Volumes"}
	r.Record(follower)
	require.Equal(t, []string{"ns/g0-0", "ns/g2-0"}, r.LeadersFor("Volumes"))
	require.Equal(t, []string{"ns/g0-0", "ns/g1-0", "ns/g2-0"}, r.LeadersFor("Fit"))
	require.True(t, r.WaitsFor("ns/g2-0", "Anybody"), "the rejecting plugin is unknown")
	require.False(t, r.WaitsFor("ns/g3-0", "Fit"), "no plugin has rejected it")
	require.False(t, r.WaitsFor("ns/h-0", "Fit"), "it does not lead")
}

// queue simulates a scheduler whose groups ask for a number of things that are free. It tries the woken groups one
// after the other, in any order, and keeps out the groups that follow.
type queue struct {
	room   *Registry // nil tries all groups at every change
	free   int
	groups map[string]*asking
	woken  []string
	tried  int
	during func(*asking) // happens while a group is tried; nil is nothing
}

type asking struct {
	Entry
	need   int
	placed bool
}

func (q *queue) wake(pods ...string) {
	for _, pod := range pods {
		g := q.of(pod)
		follows := q.room != nil && g != nil && q.room.Follows(g.Group, pod, g.UID, g.Since)
		if !follows && !slices.Contains(q.woken, pod) {
			q.woken = append(q.woken, pod)
		}
	}
}

// call is when a group has changed.
func (q *queue) call(g *asking) {
	if q.room != nil {
		q.room.Call(g.Group, g.TriedPod)
	}
	q.wake(g.TriedPod)
}

// of is the group for which a pod is tried.
func (q *queue) of(pod string) *asking {
	return q.groups[strings.TrimSuffix(strings.TrimPrefix(pod, "ns/"), "-0")]
}

// change is when something happens that may help.
func (q *queue) change() {
	if q.room != nil {
		q.wake(q.room.Leaders()...)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(q.groups)) {
		if !q.groups[name].placed {
			q.wake(q.groups[name].TriedPod)
		}
	}
}

func (q *queue) leave(g *asking) {
	if q.room != nil {
		q.wake(q.room.Leave(g.Group)...)
	}
}

// try tries the k-th woken group.
func (q *queue) try(k int) {
	pod := q.woken[k]
	q.woken = slices.Delete(q.woken, k, k+1)
	g := q.of(pod)
	if g == nil || g.placed {
		return
	}
	q.tried++
	if q.room != nil {
		q.room.Begin(g.Group, pod)
	}
	asks, free := *g, q.free // as they were when they were read
	if q.during != nil {
		q.during(g)
	}
	switch {
	case asks.need <= free:
		q.free -= asks.need
		g.placed = true
		q.leave(g)
	case q.room != nil:
		again := slices.Contains(q.woken, pod) // it was woken meanwhile, and comes back now
		q.woken = slices.DeleteFunc(q.woken, func(p string) bool { return p == pod })
		q.wake(q.room.Record(asks.Entry)...)
		if again {
			q.wake(pod)
		}
	}
}

// Random histories: when no group is left to be tried, no waiting group would be placed if all groups were tried.
func TestNoGroupWaitsBesideFreeCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &queue{room: &Registry{}, groups: map[string]*asking{}}
		made := 0
		steps := map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				made++
				name := fmt.Sprint("g", made)
				need := rapid.IntRange(1, 3).Draw(t, "need")
				f := filing(name, fmt.Sprint("needs ", need), rapid.IntRange(0, 3).Draw(t, "age"))
				if rapid.IntRange(0, 9).Draw(t, "alone") == 0 {
					f.Class = ""
				}
				q.groups[name] = &asking{Entry: f, need: need}
				q.call(q.groups[name])
			},
			"room": func(t *rapid.T) {
				q.free += rapid.IntRange(1, 8).Draw(t, "room")
				q.change()
			},
			"less": func(t *rapid.T) { q.free = max(0, q.free-rapid.IntRange(1, 8).Draw(t, "less")) },
			"go": func(t *rapid.T) {
				if name := q.any(t); name != "" {
					g := q.groups[name]
					delete(q.groups, name)
					q.leave(g)
				}
			},
			"other": func(t *rapid.T) { // it asks for something else now, and its own change wakes it
				if name := q.any(t); name != "" && !q.groups[name].placed {
					q.alter(t, q.groups[name])
				}
			},
			"meanwhile": func(t *rapid.T) { // it does while it is tried
				if len(q.woken) > 0 {
					q.during = func(g *asking) { q.alter(t, g) }
					q.try(rapid.IntRange(0, len(q.woken)-1).Draw(t, "who"))
					q.during = nil
				}
			},
			"room meanwhile": func(t *rapid.T) { // it is seen too late
				if len(q.woken) > 0 {
					q.during = func(*asking) {
						q.free += rapid.IntRange(1, 8).Draw(t, "room")
						q.change()
					}
					q.try(rapid.IntRange(0, len(q.woken)-1).Draw(t, "who"))
					q.during = nil
				}
			},
			"again": func(t *rapid.T) { // its pod is made again
				if name := q.any(t); name != "" && !q.groups[name].placed {
					q.groups[name].UID += "'"
					q.wake(q.groups[name].TriedPod)
				}
			},
			"": func(t *rapid.T) { q.agree(t) },
		}
		for i := range 3 {
			steps[fmt.Sprint("try", i)] = func(t *rapid.T) {
				if len(q.woken) > 0 {
					q.try(rapid.IntRange(0, len(q.woken)-1).Draw(t, "who"))
				}
			}
			steps[fmt.Sprint("come", i)] = steps["come"]
			steps[fmt.Sprint("rest", i)] = q.rest
		}
		t.Repeat(steps)
		q.rest(t)
	})
}

// alter has a group ask for something else.
func (q *queue) alter(t *rapid.T, g *asking) {
	g.need = rapid.IntRange(1, 3).Draw(t, "need")
	g.Class = fmt.Sprint("needs ", g.need)
	q.call(g)
}

// A group that does not lead need not be tried, except for itself, and not for ever.
func TestFollowersAreNotTried(t *testing.T) {
	var r Registry
	a, b := filing("a", "c", 1), filing("b", "c", 2)
	now := time.Unix(10, 0)
	b.Since, b.UID = now, "1"
	follows := func() bool { return r.Follows(b.Group, b.TriedPod, "1", now) }
	require.False(t, follows(), "it was not refused")
	r.Record(b)
	require.False(t, follows(), "it leads")
	r.Record(a)
	require.True(t, follows())
	require.False(t, r.Follows(b.Group, b.TriedPod, "2", now), "another pod of that name")
	require.False(t, r.Follows(b.Group, "ns/b-1", "1", now), "it was not tried")
	require.False(t, r.Follows(b.Group, b.TriedPod, "1", now.Add(longestFollow)), "the queue's own flush")

	r.Call(b.Group, b.TriedPod)
	require.False(t, follows(), "it has changed")
	r.Begin(a.Group, a.TriedPod)
	r.Record(a)
	require.False(t, follows(), "it was not tried since")
	r.Begin(b.Group, b.TriedPod)
	r.Record(b)
	require.True(t, follows())
	r.Begin(b.Group, b.TriedPod)
	r.Call(b.Group, b.TriedPod)
	r.Record(b)
	require.False(t, follows(), "it has changed while it was tried")

	r.Begin(b.Group, b.TriedPod)
	require.Equal(t, []string{b.TriedPod}, r.Leave(a.Group))
	require.False(t, follows(), "it leads again")
}

// TestAChangeCostsOneTry: however many ask for the same, and when room comes for some of them
// these are tried and one more.
func TestAChangeCostsOneTry(t *testing.T) {
	for room, want := range map[*Registry]int{{}: 1, nil: 1000} {
		q := &queue{room: room, groups: map[string]*asking{}}
		for i := range 1000 {
			g := &asking{Entry: filing(fmt.Sprint("g", i), "c", i), need: 8}
			q.groups[g.Group.Name] = g
			q.wake(g.TriedPod)
		}
		for len(q.woken) > 0 {
			q.try(0)
		}
		require.Equal(t, 1000, q.tried)
		q.tried = 0
		q.change()
		for len(q.woken) > 0 {
			q.try(0)
		}
		require.Equal(t, want, q.tried)
		if room != nil {
			q.tried, q.free = 0, 80
			q.change()
			for len(q.woken) > 0 {
				q.try(0)
			}
			require.Equal(t, 11, q.tried)
			require.Zero(t, q.free)
		}
	}
}

// rest tries the groups that are left.
func (q *queue) rest(t *rapid.T) {
	for len(q.woken) > 0 {
		q.try(0)
	}
	for name, g := range q.groups {
		if !g.placed && g.need <= q.free {
			t.Fatalf("%s waits for %d beside %d", name, g.need, q.free)
		}
	}
}

func (q *queue) any(t *rapid.T) string {
	if len(q.groups) == 0 {
		return ""
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(q.groups))).Draw(t, "group")
}

// agree compares what the room keeps in several ways.
func (q *queue) agree(t *rapid.T) {
	n := 0
	for key, of := range q.room.classes {
		if len(of) == 0 || !slices.IsSortedFunc(of, (*Entry).before) {
			t.Fatalf("class %s is %v", key, of)
		}
		if q.room.leaders[of[0].TriedPod] != of[0] {
			t.Fatalf("%s does not lead %s", of[0].TriedPod, key)
		}
		for _, f := range of {
			n++
			if q.room.groups[f.Group] != f || f.key() != key {
				t.Fatalf("%s is filed under %s", f.Group, key)
			}
		}
	}
	if n != len(q.room.groups) || len(q.room.leaders) != len(q.room.classes) {
		t.Fatalf("%d groups of %d, %d leaders of %d classes", n, len(q.room.groups), len(q.room.leaders), len(q.room.classes))
	}
}
