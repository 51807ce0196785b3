package evict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/choice"
	"github.com/muster-scheduler/muster/pkg/evict"
)

// TestLeaveAndApart: who leaves when gangs lose more than they can spare, and which of those who
// leave take nobody of the others along.
func TestLeaveAndApart(t *testing.T) {
	gang := func(group int, above ...choice.Level) evict.Gang { return evict.Gang{Group: group, Above: above} }
	level := func(name string, least int) choice.Level { return choice.Level{Name: name, Least: least} }
	root := func(least int) choice.Level { return level("root", least) }
	for name, test := range map[string]struct {
		gangs []evict.Gang
		lose  string // the gangs that lose one member each
		leave string // who leaves whole
		apart string // their parts
	}{
		"nobody":                           {gangs: []evict.Gang{gang(0)}},
		"alone":                            {gangs: []evict.Gang{gang(0), gang(0)}, lose: "1", leave: "1", apart: "1"},
		"what it can spare":                {gangs: []evict.Gang{{Spare: 1}}, lose: "0"},
		"two that are alone":               {gangs: []evict.Gang{gang(0), gang(0)}, lose: "0 1", leave: "0 1", apart: "0, 1"},
		"a group":                          {gangs: []evict.Gang{gang(1), gang(0), gang(1)}, lose: "0", leave: "0 2", apart: "0 2"},
		"two groups":                       {gangs: []evict.Gang{gang(1), gang(2), gang(1), gang(2)}, lose: "0 3", leave: "0 1 2 3", apart: "0 2, 1 3"},
		"one of three, of which two do":    {gangs: []evict.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "1", leave: "1", apart: "1"},
		"two of three, of which two do":    {gangs: []evict.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "0 1", leave: "0 1 2", apart: "0 1 2"},
		"two of four, of which two do":     {gangs: []evict.Gang{gang(1, root(2)), gang(1, root(2)), gang(1, root(2)), gang(1, root(2))}, lose: "0 1", leave: "0 1", apart: "0, 1"},
		"one that is short does not count": {gangs: []evict.Gang{gang(1, root(1)), {Group: 1, Above: []choice.Level{root(1)}, Short: true}}, lose: "0", leave: "0 1", apart: "0 1"},
		"a level below": {
			gangs: []evict.Gang{gang(1, level("a", 2), root(1)), gang(1, level("a", 2), root(1)), gang(1, level("b", 1), root(1))},
			lose:  "0", leave: "0 1", apart: "0 1",
		},
		"a level below that the root needs": {
			gangs: []evict.Gang{gang(1, level("a", 2), root(2)), gang(1, level("a", 2), root(2)), gang(1, level("b", 1), root(2))},
			lose:  "0", leave: "0 1 2", apart: "0 1 2",
		},
		"levels that are apart": {
			gangs: []evict.Gang{
				gang(1, level("a", 2), root(1)), gang(1, level("a", 2), root(1)),
				gang(1, level("b", 2), root(1)), gang(1, level("b", 2), root(1)), gang(1, level("c", 1), root(1)),
			},
			lose: "0 3", leave: "0 1 2 3", apart: "0 1, 2 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			lose := make([]int, len(test.gangs))
			for _, i := range strings.Fields(test.lose) {
				lose[i[0]-'0'] = 1
			}
			leave := evict.Leave(test.gangs, lose)
			var who, parts []string
			for i, leaves := range leave {
				if leaves {
					who = append(who, fmt.Sprint(i))
				}
			}
			for _, part := range evict.Apart(test.gangs, leave) {
				parts = append(parts, strings.Trim(fmt.Sprint(part), "[]"))
			}
			require.Equal(t, test.leave, strings.Join(who, " "))
			require.Equal(t, test.apart, strings.Join(parts, ", "))
		})
	}
}
