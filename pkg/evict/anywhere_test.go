package evict_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
)

// TestAnywhere: which pods are evicted for a quota that needs so much, wherever they are. A victim "a=2" frees 2, and "a=2:b" counts towards budget b,
// which allows one eviction; members of a gang have its name and a number.
func TestAnywhere(t *testing.T) {
	many := strings.Repeat("s=1 ", 13)
	for name, test := range map[string]struct {
		victims, gangs string
		need           int
		want           string
	}{
		"nothing is needed":                                {"a=1", "", 0, ""},
		"too little":                                       {"a=1 b=1", "", 3, ""},
		"one rather than two":                              {"a=1 b=1 c=2", "", 2, "c"},
		"a gang whole":                                     {"g0=1 g1=1", "g=0", 1, "g0 g1"},
		"a member that the gang can spare":                 {"g0=1 g1=1", "g=1", 1, "g0"},
		"a pod rather than a gang":                         {"g0=1 g1=1 a=1", "g=0", 1, "a"},
		"one of a shared budget":                           {"a=1:b b=1:b c=1", "", 2, "a c"},
		"one of many":                                      {many + "big=5", "", 5, "big"},
		"of many, those whom a shared budget allows":       {strings.Repeat("s=1:b ", 70) + "t=1 u=1", "", 3, "s t u"},
		"of many, against a budget where nothing else can": {strings.Repeat("s=1:b ", 13), "", 2, "s s"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &needs{need: test.need}
			var gangs []evict.Gang
			number := map[string]int{}
			for word := range strings.FieldsSeq(test.gangs) {
				var spare int
				_, err := fmt.Sscanf(word[2:], "%d", &spare)
				require.NoError(t, err)
				gangs = append(gangs, evict.Gang{Gang: bundle.Gang{Spare: spare}, Whole: true})
				number[word[:1]] = len(gangs)
			}
			var victims []evict.Victim
			for word := range strings.FieldsSeq(test.victims) {
				word, budget, counts := strings.Cut(word, ":")
				name, frees, _ := strings.Cut(word, "=")
				v := evict.Victim{Name: name, Started: int64(100 - len(victims)), Gang: number[name[:1]]}
				if counts {
					v.Budgets = []evict.Budget{{Name: budget, Allowed: 1}}
				}
				if v.Gang > 0 {
					g := &gangs[v.Gang-1]
					g.Cost = g.Cost.Add(evict.CostOf(v))
				}
				var n int
				_, err := fmt.Sscanf(frees, "%d", &n)
				require.NoError(t, err)
				victims, q.frees = append(victims, v), append(q.frees, n)
			}
			var got []string
			for _, p := range evict.Cheapest(evict.Anywhere(victims, gangs, q)).Victims {
				got = append(got, victims[p.Victim].Name)
			}
			slices.Sort(got)
			require.Equal(t, test.want, strings.Join(got, " "))
		})
	}
}

// needs is a quota check that admits once the victims free so much.
type needs struct {
	need  int
	frees []int // by victim
}

func (n *needs) Check(gone []evict.Pick) evict.Verdict {
	sum := 0
	for _, p := range gone {
		sum += n.frees[p.Victim]
	}
	if sum < n.need {
		return evict.Short
	}
	return evict.Admitted
}
func (n *needs) Short() bool           { return false }
func (n *needs) Frees(evict.Pick) bool { return true }
func (n *needs) Own(evict.Pick) bool   { return false }
func (n *needs) Turns() evict.Turns    { return always{} }

type always struct{}

func (always) May([]evict.Pick) bool { return true }
func (always) Evict([]evict.Pick)    {}
