package cache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// TestSubGroups: what each sub-group of a gang needs to start, which of them may be left out ("?"), and
// what is missing. Members are written as their sub-group ("-" is none), and with their node if they
// have one.
func TestSubGroups(t *testing.T) {
	pairs := source.SubGroups{Name: "p", Size: 2, MinSubGroups: 2, Selects: labels.Everything(), Keys: []string{"part"}}
	optional := pairs
	optional.MinSubGroups = 0
	for name, c := range map[string]struct {
		policy  source.SubGroups
		min     int32
		members string
		want    string // part:need/min, then what all need; or what is missing
	}{
		"all of them":          {pairs, 4, "0 0 1 1", "p 0:2/2? p 1:2/2? 2 of all, 4"},
		"two of three":         {pairs, 4, "0 0 1 1 2 2", "p 0:2/2? p 1:2/2? p 2:2/2? 2 of all, 4"},
		"three, for minMember": {pairs, 6, "0 0 1 1 2 2", "p 0:2/2? p 1:2/2? p 2:2/2? 2 of all, 6"},
		"whole ones only":      {pairs, 4, "0 1 1 2 2", "p 0:2/2? p 1:2/2? p 2:2/2? 2 of all, 4"},
		"too few whole ones": {
			pairs, 3, "0 1 1",
			`spec.subGroupPolicy "p" needs 2 complete sub-groups of 2 members, and has 1: create members, or lower minSubGroups and minMember`,
		},
		"no sub-groups": {pairs, 3, "- - -", `spec.subGroupPolicy "p" selects none of 3 members, and the gang waits: correct its selector or the members' labels`},
		"members without a sub-group come before further ones": {pairs, 5, "- 0 0 1 1 2 2", "p 0:2/2? p 1:2/2? p 2:2/2? :1/1 2 of all, 5"},
		"and as far as they are":                               {pairs, 6, "- 0 0 1 1 2 2", "p 0:2/2? p 1:2/2? p 2:2/2? :1/1 2 of all, 6"},
		"without minSubGroups no sub-group comes first":        {optional, 4, "- 0 0 1 1", "p 0:2/2? p 1:2/2? :0/0 0 of all, 4"},
		"more in one than its size":                            {optional, 3, "0 0 0", "p 0:2/2? 0 of all, 3"},
		"too few in whole ones": {
			optional, 3, "0 0 1", "members of incomplete sub-groups do not count, and minMember lacks 1 members: create the missing members of " +
				"a sub-group, or lower minMember",
		},
		"some run":                                       {pairs, 4, "0@n 0@n 1@n 1", "p 0:0/2 p 1:1/2? 2 of all, 1"},
		"was whole, and needs no member":                 {pairs, 3, "0@n 0@n 1@n 1", "p 0:0/2 p 1:0/1"},
		"was whole, and may evict for one":               {pairs, 4, "0@n 0@n 1@n 1", "p 0:0/2 p 1:0/2"},
		"was whole, and for members without a sub-group": {optional, 4, "0@n 0@n - - -", "p 0:0/2 :0/2"},
		"was whole, and lacks a sub-group":               {optional, 4, "0@n 0@n 1 1 2 2", "p 0:0/2 p 1:2/2? p 2:2/2? 0 of all, 1"},
		"was whole, and first for replacements":          {optional, 4, "0@n 0@n 1@n 1 2 2", "p 0:0/2 p 1:0/2 p 2:2/2? 0 of all, 0"},
		"nor does it start in part then":                 {pairs, 4, "0@n 0@n 1@n 1@n 2 2", "p 0:0/2 p 1:0/2 p 2:2/2? 0 of all, 0"},
		"an incomplete sub-group waits":                  {pairs, 2, "0@n 0@n 1 2 2", "p 0:0/2 p 1:2/2? p 2:2/2? 0 of all, 0"},
	} {
		t.Run(name, func(t *testing.T) {
			ca, _, _ := open(t)
			pg := podGroup("u")
			pg.Spec.MinMember = c.min
			ca.setObject(ref("a"), pg, source.More{SubGroups: []source.SubGroups{c.policy}})
			for i, says := range strings.Fields(c.members) {
				part, node, _ := strings.Cut(says, "@")
				ca.setPod(member(fmt.Sprint("m-", i), func(p *v1.Pod) {
					p.Spec.NodeName = node
					if part != "-" {
						p.Labels["part"] = part
					}
				}))
			}
			if strings.HasPrefix(name, "was whole") {
				ca.Handle(gang.WasComplete{Gang: ref("a")})
			}
			g, refusal := ca.GroupOf(ref("a"))
			if refusal.Exists() {
				require.Equal(t, c.want, refusal.Words)
				return
			}
			var got []string
			for i, of := range g.Gangs {
				require.Equal(t, ref("a"), of.Ref.Whole())
				require.Equal(t, "ns/a", of.Ref.String())
				_, part, _ := strings.Cut(of.Ref.Source, "/")
				part = strings.ReplaceAll(part, "\x1f", " ")
				one := fmt.Sprintf("%s:%d/%d", part, of.Need, of.Min)
				if g.Choice.Gangs[i].Open {
					one += "?"
				}
				got = append(got, one)
			}
			if g.Choice.Any() {
				got = append(got, fmt.Sprintf("%d of all, %d", g.Choice.Gangs[0].Above[0].Least, g.Choice.Totals[0]))
			}
			require.Equal(t, c.want, strings.Join(got, " "))
			require.Equal(t, []gang.Ref{ref("a")}, g.Whole())
			for _, m := range g.Pending {
				part := ""
				if value, ok := g.Pods[m.Pod].Labels["part"]; ok {
					part = "p\x1f" + value
				}
				require.Equal(t, ref("a").Part(part), m.Gang)
			}
		})
	}
}

// Each task of a gang with spare members starts with its own minimum, and the first members make up the rest.
// Members are written as their task.
func TestTasks(t *testing.T) {
	for name, c := range map[string]struct {
		tasks   map[string]int
		min     int32
		members string
		want    string // task:need/min
	}{
		"all are needed":                {map[string]int{"a": 1, "b": 2}, 3, "b b a", ":3/3"},
		"one more":                      {map[string]int{"a": 1, "b": 2}, 3, "b b b a", "a:1/1 b:2/2"},
		"two beyond the tasks' own":     {map[string]int{"a": 1, "b": 1}, 4, "b b b a a", "a:2/2 b:2/2"},
		"members without a task":        {map[string]int{"a": 1}, 2, "- - a", ":1/1 a:1/1"},
		"one task, and no other member": {map[string]int{"a": 1}, 1, "a a", ":1/1"},
		"some run":                      {map[string]int{"a": 1, "b": 2}, 3, "b@n b b a a", "a:1/1 b:1/2"},
		"one runs for nothing":          {map[string]int{"a": 1, "b": 2}, 3, "b@n b@n a a b", "a:1/1 b:0/2"},
	} {
		t.Run(name, func(t *testing.T) {
			ca, _, _ := open(t)
			pg := podGroup("u")
			pg.Spec.MinMember = c.min
			volcano := gang.Ref{Source: "podgroup-volcano", Namespace: "ns", Name: "a"}
			ca.setObject(volcano, pg, source.More{Tasks: c.tasks})
			for i, says := range strings.Fields(c.members) {
				task, node, _ := strings.Cut(says, "@")
				ca.setPod(member(fmt.Sprint("m-", i), func(p *v1.Pod) {
					p.Labels = map[string]string{"volcano.sh/task-spec": strings.TrimPrefix(task, "-")}
					p.Annotations = map[string]string{"scheduling.k8s.io/group-name": "a"}
					p.Spec.NodeName = node
				}))
			}
			g, refusal := ca.GroupOf(volcano)
			require.False(t, refusal.Exists(), refusal.Words)
			var got []string
			for _, of := range g.Gangs {
				require.Equal(t, volcano, of.Ref.Whole())
				got = append(got, fmt.Sprintf("%s:%d/%d", of.Ref.PartName(), of.Need, of.Min))
			}
			require.Equal(t, c.want, strings.Join(got, " "))
		})
	}
}
