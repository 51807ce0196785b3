package gang_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

func lists(names ...string) func(*gang.Spec) {
	return func(s *gang.Spec) { s.Group = refs(names...) }
}

// Case 41: a gang that lists a gang which does not list it waits. The listed gang does not.
func TestForeignGangStartsThoughAnotherListsIt(t *testing.T) {
	s := newStory(t)
	require.Equal(t, []string{"wake victim/train-0"},
		s.do(declared("victim/train", 2), seen("victim/train-0", 0, ""), seen("victim/train-1", 1, "")))
	require.Empty(t, s.do(declared("attacker/x", 1000, lists("attacker/x", "victim/train"))))
	require.Equal(t, "yes", s.admits("victim/train-0"))
	g := mustGroup(t, s, "victim/train-0")
	require.Equal(t, ref("victim/train"), g.Key)
	require.Len(t, g.Gangs, 1, "neither its rules nor its priority are the other's")
	state := s.book.State(ref("attacker/x"))
	require.Equal(t, gang.Obstacle{By: gang.Consent, Words: "gang victim/train does not list attacker/x, which waits: each gang " +
		"of a gang group must list the others"}, state.Refusal)
	require.Empty(t, s.do(seen("attacker/x-0", 0, "")))
	require.Equal(t, "gang victim/train does not list attacker/x, which waits: each gang of a gang group must list the others", s.admits("attacker/x-0"))

	require.Equal(t, []string{"wake victim/train-0", "wake victim/train-1"},
		s.do(planned("victim/train", "victim/train-0@n0", "victim/train-1@n1")))
	require.Empty(t, s.do(gang.Removed{Gang: ref("attacker/x")}), "its plan stays")
	require.Empty(t, s.do(declared("attacker/x", 1, lists("attacker/x", "victim/train"))))
	require.Equal(t, []string{"victim/train-0"}, s.book.PlacesOn("n0"))
}

// The group forms when the second gang lists the first one, and ends when one stops. The free gangs are woken.
func TestConsentComesAndGoes(t *testing.T) {
	s := newStory(t)
	s.do(declared("ns/a", 1, lists("ns/a", "ns/b")), seen("ns/a-0", 0, ""))
	require.Equal(t, "gang ns/b of the gang group does not exist: create it, or remove it from the group", s.admits("ns/a-0"))
	s.do(declared("ns/b", 1), seen("ns/b-0", 0, ""))
	require.Equal(t, "gang ns/b does not list ns/a, which waits: each gang of a gang group must list the others", s.admits("ns/a-0"))
	require.Equal(t, "yes", s.admits("ns/b-0"))

	require.Equal(t, []string{"wake ns/a-0"}, s.do(declared("ns/b", 1, lists("ns/a", "ns/b"))), "one speaks for both")
	require.Len(t, mustGroup(t, s, "ns/b-0").Gangs, 2)
	require.Equal(t, "waits for ns/a-0, with which Muster tries the whole gang", s.admits("ns/b-0"))

	require.Equal(t, []string{"wake ns/b-0"}, s.do(declared("ns/b", 1)))
	require.Equal(t, "gang ns/b does not list ns/a, which waits: each gang of a gang group must list the others", s.admits("ns/a-0"))
	require.Equal(t, []string{"wake ns/a-0"}, s.do(declared("ns/a", 1)))
	require.Equal(t, "yes", s.admits("ns/a-0"))

	s.do(declared("ns/a", 1, lists("ns/b")), declared("ns/b", 1, lists("ns/a")))
	require.Len(t, mustGroup(t, s, "ns/b-0").Gangs, 2)
	require.Empty(t, s.do(gang.Removed{Gang: ref("ns/b")}))
	require.Equal(t, "gang ns/b of the gang group does not exist: create it, or remove it from the group", s.admits("ns/a-0"))
}

// A gang that joins another group releases the reservation of the old one, whichever gang changed.
func TestRegroupingLeavesNoNomination(t *testing.T) {
	both := lists("ns/a", "ns/b")
	for name, c := range map[string]struct {
		before []gang.Event
		group  string
		then   gang.Event
	}{
		"the first joins":               {[]gang.Event{declared("ns/a", 1), declared("ns/b", 1, both)}, "ns/a", declared("ns/a", 1, both)},
		"the second joins":              {[]gang.Event{declared("ns/a", 1, both), declared("ns/b", 1)}, "ns/b", declared("ns/b", 1, both)},
		"the first no longer lists it":  {[]gang.Event{declared("ns/a", 1, both), declared("ns/b", 1, both)}, "ns/a", declared("ns/a", 1)},
		"the second no longer lists it": {[]gang.Event{declared("ns/a", 1, both), declared("ns/b", 1, both)}, "ns/a", declared("ns/b", 1)},
		"the second goes": {
			[]gang.Event{declared("ns/a", 1, both), declared("ns/b", 1, both)}, "ns/a", gang.Removed{Gang: ref("ns/b")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.do(c.before...)
			s.do(seen("ns/a-0", 0, ""), seen("ns/b-0", 0, ""))
			r := reserved(c.group, c.group+"-0@n0")
			if len(mustGroup(t, s, c.group+"-0").Gangs) == 2 {
				r = reserved(c.group, "ns/a-0@n0", "ns/b-0@n1")
			}
			s.do(r)
			require.True(t, s.book.AnyPlaces())
			out := s.do(c.then)
			for _, p := range r.Places {
				require.Contains(t, out, "clear "+p.Pod)
			}
			require.False(t, s.book.AnyPlaces())
			for _, pod := range []string{"ns/a-0", "ns/b-0"} {
				if g, ok := s.book.Group(pod); ok {
					require.Empty(t, g.Places)
				}
			}
		})
	}
}

// A gang that lists too many gangs waits alone, and so do the gangs of a chain that is too long.
func TestGroupSizeIsLimited(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("ns/g%03d", i) }
	s := newStory(t)
	var many []string
	for i := range gang.MaxGroupSize + 1 {
		many = append(many, name(i))
	}
	s.do(declared("ns/x", 1, lists(many...)), seen("ns/x-0", 0, ""))
	require.Equal(t, "rejected: the gang lists 65 gangs; list at most 64", s.admits("ns/x-0"))

	link := func(i int) gang.Event { return declared(name(i), 1, lists(name(i-1), name(i), name(i+1))) }
	s.book.Apply(declared(name(0), 1, lists(name(0), name(1))), s.now)
	for i := range gang.MaxGroupSize {
		if i > 0 {
			s.book.Apply(link(i), s.now)
		}
		s.book.Apply(seen(name(i)+"-0", 0, ""), s.now)
	}
	require.Contains(t, s.admits(name(5)+"-0"), "gang ns/g064 of the gang group does not exist: create it, or remove it from the group")
	s.do(declared(name(gang.MaxGroupSize), 1, lists(name(gang.MaxGroupSize-1))))
	require.Equal(t, "the gang group has more than 64 gangs", s.admits(name(5)+"-0"))
	require.Len(t, mustGroup(t, s, name(5)+"-0").Gangs, 1)

	s.do(declared(name(30), 1)) // the chain breaks
	require.Len(t, mustGroup(t, s, name(5)+"-0").Gangs, 30)
	require.Equal(t, "gang ns/g030 does not list ns/g029, which waits: each gang of a gang group must list the others", s.admits(name(5)+"-0"))
	s.do(declared(name(29), 1, lists(name(28))))
	require.Equal(t, "waits for "+name(0)+"-0, with which Muster tries the whole gang", s.admits(name(5)+"-0"))
}

// BenchmarkLists is what PodGroups cost that list thousands of gangs, of which each exists.
func BenchmarkLists(b *testing.B) {
	for _, n := range []int{64, 8_000} {
		b.Run(fmt.Sprint("listed=", n), func(b *testing.B) {
			book, now := gang.New(strings.Compare), time.Unix(0, 0)
			var all []string
			for i := range n {
				all = append(all, fmt.Sprintf("ns/g%05d", i))
				book.Apply(declared(all[i], 1), now)
				book.Apply(seen(all[i]+"-0", 0, ""), now)
			}
			group := refs(all...)
			list := func(s *gang.Spec) { s.Group = group }
			for b.Loop() {
				for i := range 20 {
					book.Apply(declared(fmt.Sprintf("x/x%02d", i), 1, list), now)
				}
				for i := range 20 {
					book.Apply(gang.Removed{Gang: ref(fmt.Sprintf("x/x%02d", i))}, now)
				}
			}
		})
	}
}
