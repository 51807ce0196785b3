package place_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNever: a gang is reported as never fitting only if no eviction could help. The report contains the most members
// that the cluster, or the largest domain, could take.
func TestNever(t *testing.T) {
	for name, test := range map[string]struct {
		lines string
		claim string // "" for none
	}{
		"members are larger than any node": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=2
			pods a 2 cpu=5`, "Needs 2, 0 with every pod gone, 2 nodes lack cpu"},
		"there are too few nodes": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=3
			pods a 3 cpu=3
			pod x cpu=4 on=n1`, "Needs 3, 2 with every pod gone"},
		"others are in the way": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=2
			pods a 2 cpu=3
			pod x cpu=4 on=n1`, ""},
		"no domain is large enough": {`
			node s1/b1/n1 4
			node s1/b2/n2 4
			gang a min=2 must=BlockLayer
			pods a 2 cpu=3`, "Needs 2, 1 with every pod gone"},
		"they may not go to the nodes": {`
			node s1/b1/n1 4
			gang a min=1
			pods a 1 wants=gpu`, "Needs 1, 0 with every pod gone, 1 nodes node(s) didn't match Pod's node affinity/selector"},
		"larger than any node, and apart from one another": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=2
			pods a 2 cpu=5 apart=a app=a`, "Needs 2, at most 0 with every pod gone, 2 nodes lack cpu"},
		"larger than any node, and near pods that do not exist": {`
			node s1/b1/n1 4
			gang a min=2
			pods a 2 cpu=5 near=x`, "Needs 2, at most 0 with every pod gone, 1 nodes lack cpu"},
		"near pods that do not exist": {`
			node s1/b1/n1 4
			gang a min=2
			pods a 2 cpu=2 near=x`, ""},
		"apart from one another, and too few nodes: unknown": {`
			node s1/b1/n1 4
			gang a min=2
			pods a 2 cpu=2 apart=a app=a`, ""},
		"apart from pods that are there": {`
			node s1/b1/n1 4
			gang a min=1
			pods a 1 cpu=2 apart=x
			pod x cpu=1 on=n1`, ""},
		"one of unlike members is larger than any node": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=3
			pods a 2 cpu=1 apart=a app=a
			pods a 2-3 cpu=5`, "Needs 3, at most 2 with every pod gone, 2 nodes lack cpu"},
		"larger than the nodes on which they are allowed": {`
			node s1/b1/n1 4 gpu=yes
			node s1/b1/n2 8
			gang a min=1
			pods a 1 cpu=5 wants=gpu near=x`, "Needs 1, at most 0 with every pod gone, 1 nodes lack cpu, 1 nodes node(s) didn't match Pod's node affinity/selector"},
		"too many pending members, with none bound to a running one": {`
			node s1/b1/n1 4
			node s1/b1/n2 4
			gang a min=4
			pods a 1 cpu=3 on=n1
			pods a 1-4 cpu=3`, "Needs 3, 2 with every pod gone"},
		"one that runs binds the group to a small domain": {`
			node s1/b1/n1 4
			node s1/b2/n2 4
			node s1/b2/n3 4
			node s1/b2/n4 4
			gang a min=3 must=BlockLayer
			pods a 2 cpu=3
			pods a 2-3 cpu=3 on=n1`, ""},
		"one that runs binds its gang of the group": {`
			node s1/b1/n1 4
			node s1/b2/n2 4
			node s1/b2/n3 4
			node s1/b2/n4 4
			gang a min=3 groups=a,b each=BlockLayer
			pods a 2 cpu=3
			pods a 2-3 cpu=3 on=n1
			gang b min=1 groups=a,b each=BlockLayer
			pods b 1 cpu=1`, ""},
		"running members are in two domains": {`
			node s1/b1/n1 4
			node s1/b2/n2 4
			node s1/b3/n3 12
			gang a min=3 groups=a,b each=BlockLayer
			pods a 1 cpu=3
			pods a 1-2 cpu=3 on=n1
			pods a 2-3 cpu=3 on=n2
			gang b min=1 groups=a,b each=BlockLayer
			pods b 1 cpu=1`, ""},
		"one that runs fills no multiple where it is": {`
			node s1/b1/n1 1
			node s1/b2/n2 4
			gang a min=2 multiple=BlockLayer:2
			pods a 1 cpu=2
			pods a 1-2 cpu=2 on=n1
			pod x cpu=4 on=n2`, ""},
		"another gang of the group runs, whole": {`
			node s1/b1/n1 4
			node s1/b2/n2 4
			gang a min=2 groups=a,b each=BlockLayer
			pods a 2 cpu=3
			gang b min=1 groups=a,b each=BlockLayer
			pods b 1 cpu=1 on=n1`, "Needs 2, 1 with every pod gone"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newWorld(t, test.lines).attempt("a")
			_, refusal, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.NotNil(t, refusal)
			s := a.Shortage(t.Context(), refusal, false)
			claim := ""
			if s.Never != nil {
				most := map[bool]string{true: "at most "}[s.AtMost]
				claim = fmt.Sprintf("Needs %d, %s%d with every pod gone", s.Never.Want, most, s.Never.Domains[0].Slots)
				var lacks []string
				for reason, n := range s.Lacks {
					lacks = append(lacks, fmt.Sprintf(", %d nodes %s", n, strings.Replace(reason, "Insufficient", "lack", 1)))
				}
				slices.Sort(lacks)
				claim += strings.Join(lacks, "")
			}
			require.Equal(t, test.claim, claim)
		})
	}
}
