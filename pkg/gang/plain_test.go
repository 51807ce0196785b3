package gang_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// TestPlain: a gang of which all wait, and nothing else, is like others; it is not with fewer or more, with a
// place, after a start, in a group, or when something else than room is in its way.
func TestPlain(t *testing.T) {
	s := newStory(t)
	plain := func() (names []string) {
		for ref, two := range s.book.Plain() {
			names = append(names, ref.Name+": "+two[0]+" "+two[1])
		}
		slices.Sort(names)
		return names
	}
	s.do(declared("a", 2), seen("a-0", 0, ""))
	require.Empty(t, plain(), "it is not whole")
	s.do(seen("a-1", 1, ""))
	require.Equal(t, []string{"a: a-0 a-1"}, plain())
	s.do(declared("b", 1), seen("b-0", 0, ""), noRoom("b"))
	require.Equal(t, []string{"a: a-0 a-1", "b: b-0 b-0"}, plain())
	s.do(seen("a-2", 2, ""))
	require.Equal(t, []string{"b: b-0 b-0"}, plain(), "one could do with fewer")
	s.do(left("a-2"))
	require.Len(t, plain(), 2)

	for what, events := range map[string][2][]gang.Event{
		"it has a plan":            {{planned("a", "a-0@n", "a-1@n")}, {gang.Dropped{Group: ref("a"), Node: "m", Learned: true}}},
		"a quota refuses it":       {{gang.Refused{Group: ref("a"), Refusal: gang.Refusal{By: gang.Quota, Words: "too little"}}}, {noRoom("a")}},
		"it will never fit":        {{gang.Refused{Group: ref("a"), Refusal: gang.Refusal{By: gang.Plan, Words: "no room", Never: true}}}, {noRoom("a")}},
		"it is not declared":       {{gang.Removed{Gang: ref("a")}}, {declared("a", 2)}},
		"it is one of two":         {{declared("a", 2, lists("a", "c")), declared("c", 1, lists("a", "c"))}, {declared("a", 2), gang.Removed{Gang: ref("c")}}},
		"some of it run":           {{seen("a-0", 0, "n")}, {left("a-0"), left("a-1"), seen("a-0", 0, ""), seen("a-1", 1, "")}},
		"it is refused as written": {{declared("a", 2, func(s *gang.Spec) { s.Problem = gang.Refusal{By: gang.Declaration, Words: "no"} })}, {declared("a", 2)}},
	} {
		s.do(events[0]...)
		require.Equal(t, []string{"b: b-0 b-0"}, plain(), what)
		s.do(events[1]...)
		require.Equal(t, []string{"a: a-0 a-1", "b: b-0 b-0"}, plain(), "no longer: %s", what)
	}
}
