package place_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPin: running members may bind the rest of a gang to a domain without capacity. The report then names them, the
// smallest such domain, and the needed capacity.
func TestPin(t *testing.T) {
	const nodes = `
		node s1/b1/n1 4
		node s1/b2/n2 4
		node s1/b2/n3 4
		node s2/b3/n4 4
		node s2/b3/n5 4
		node s2/b3/n6 4`
	for name, test := range map[string]struct {
		lines string
		pin   string // "" for none
	}{
		"the group": {`
			gang a min=4 must=SpineLayer
			pods a 1 cpu=3 on=n1
			pods a 1-4 cpu=3`, "a-0 in s1: 3 of 2"},
		"its gang, in a smaller domain than the group": {`
			gang a min=2 groups=a,b must=SpineLayer each=BlockLayer
			pods a 1 cpu=3 on=n1
			pods a 1-2 cpu=3
			gang b min=1 groups=a,b must=SpineLayer each=BlockLayer
			pods b 1 cpu=1 on=n2`, "a-0 in s1/b1: 1 of 0"},
		"its gang, and nothing binds the group": {`
			gang a min=3 groups=a,b each=BlockLayer
			pods a 1 cpu=3 on=n2
			pods a 1-3 cpu=3
			gang b min=1 groups=a,b each=BlockLayer
			pods b 1 cpu=1 on=n1`, "a-0 in s1/b2: 2 of 1"},
		"the group, where a gang finds no domain": {`
			gang a min=1 groups=a,b must=SpineLayer each=BlockLayer
			pods a 1 cpu=3 on=n1
			gang b min=3 groups=a,b must=SpineLayer each=BlockLayer
			pods b 3 cpu=3`, "a-0 in s1: 3 of 2 in one BlockLayer"},
		"a gang that runs whole binds no member": {`
			gang a min=1 groups=a,b each=BlockLayer
			pods a 1 cpu=3 on=n1
			gang b min=4 groups=a,b each=BlockLayer
			pods b 4 cpu=3`, ""},
		"running members are in two domains": {`
			gang a min=3 groups=a,b each=BlockLayer
			pods a 1 cpu=3 on=n1
			pods a 1-2 cpu=3 on=n2
			pods a 2-3 cpu=3
			gang b min=1 groups=a,b each=BlockLayer
			pods b 1 cpu=1`, ""},
		"no rule binds": {`
			gang a min=8
			pods a 1 cpu=3 on=n1
			pods a 1-8 cpu=3`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newWorld(t, nodes+test.lines).attempt("a")
			_, refusal, err := a.Plan(t.Context())
			require.NoError(t, err)
			require.NotNil(t, refusal)
			got := ""
			if p := a.Shortage(t.Context(), refusal, false).Pin; p != nil {
				got = fmt.Sprintf("%s in %s: %d of %d", strings.Join(p.Members, " "), p.DomainPath, p.Want, p.Capacity)
				if p.Layer != "" {
					got += " in one " + p.Layer
				}
			}
			require.Equal(t, test.pin, got)
		})
	}
}
