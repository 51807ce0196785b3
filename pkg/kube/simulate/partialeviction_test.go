package simulate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// The judge's notes about gangs that were evicted in part. A gang is one victim (spec 6, case 50), but requests fail
// one by one, and a scheduler may be killed between two of them.

// noteHalves records the remaining members of groups that lost members to these evictions.
func (w *world) noteHalves(by map[string][]*v1.Pod, alone [][2]string) {
	var names []string
	for _, pods := range by {
		for _, p := range pods {
			names = append(names, p.Name)
		}
	}
	for _, e := range alone {
		names = append(names, e[1])
	}
	for _, victim := range names {
		group := w.groupOf(w.members[victim])
		if w.members[victim] == "" || !w.short([]string{w.members[victim]}) || w.chosenBefore(group) {
			continue // it was spared, or the group has changed since it was chosen
		}
		for _, p := range w.stay(w.leavesWith(group, w.members[victim])) {
			w.halves[p.UID] = true
		}
	}
}

// stay returns the running members of a group that do not terminate.
func (w *world) stay(group []string) (out []*v1.Pod) {
	for _, name := range group {
		_, bound := w.membersOf(name)
		out = append(out, slices.DeleteFunc(bound, func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })...)
	}
	return out
}

// short says whether some gang of a group has fewer members than it needs.
func (w *world) short(group []string) bool {
	return slices.ContainsFunc(group, func(name string) bool {
		g := w.gangs[name]
		return g != nil && len(w.stay([]string{name}))+len(w.finishedOf(name)) < g.min
	})
}

// half reports whether a pod is a remaining member of a partly evicted gang.
func (w *world) half(name string) bool {
	p := w.pods["default/"+name]
	return p != nil && w.halves[p.UID]
}

// forgetHalves is called after a restart. Partly evicted groups run on if no preemptor waits for a node of theirs: a new process cannot know
// what they were evicted for (a known issue).
func (w *world) forgetHalves() {
	awaited := map[string]bool{} // by node
	for _, p := range w.pods {
		if foreign(p) { // its nomination says nothing about Muster's victims (world 791681)
			continue
		}
		if node := p.Status.NominatedNodeName; node != "" && p.Spec.NodeName == "" && (w.members[p.Name] == "" || w.placeOf(p) == node) {
			awaited[node] = true
		}
	}
	for _, group := range w.groups() {
		stay := w.stay(group)
		if slices.ContainsFunc(stay, func(p *v1.Pod) bool { return w.halves[p.UID] && awaited[p.Spec.NodeName] }) {
			continue
		}
		for _, p := range stay {
			delete(w.halves, p.UID)
		}
	}
}

// starts reports whether a pod's group was being started: some members are bound, and further members have
// nodes that are not seen here. The group is one victim, since a part of it must not remain. So is a group
// that had started and lost members, if no object says so and the scheduler process that knew it has ended.
func (w *world) starts(name string) bool {
	return w.members[name] != "" && slices.ContainsFunc(w.groupOf(w.members[name]),
		func(of string) bool { return w.gangs[of] != nil && !(w.whole[of] && w.reached[of]) })
}

// judgeHalves: when the world has settled, no member of a partly evicted gang remains, except pods whose
// eviction is retried.
func (w *world) judgeHalves() error {
	for _, group := range w.groups() {
		for _, p := range w.stay(group) {
			if _, again := w.unasked[p.UID]; w.halves[p.UID] && !again && w.short(w.leavesWith(group, w.members[p.Name])) {
				return wrong(leftInPart, "%s stays of %s, of which others were evicted", p.Name, groupKey(group))
			}
		}
	}
	return nil
}

// running are four nodes and a gang of four that fills them, and a gang that is more important.
func running(grace int) (h history) {
	h = history{
		{kind: gangPut, gang: &gangSpec{name: "r", min: 4, timeout: 30}}, {kind: gangPut, gang: &gangSpec{name: "hi", min: 1, timeout: 30}},
	}
	for i := range 4 {
		node := fmt.Sprint("n", i)
		h = slices.Insert(h, i, event{kind: nodePut, node: &nodeSpec{name: node, spine: "s1", block: "b0", cpu: 4}})
		h = append(h,
			event{
				kind: memberRuns,
				pod:  &podSpec{name: fmt.Sprint("r-", i), gang: "r", room: room{cpu: 4}, priority: 1, rank: -1, node: node, grace: grace},
			})
	}
	return h
}

// TestVictimGangIsEvictedWhole: a pod needs one node of four, which a gang fills. Eviction requests are lost,
// the scheduler is killed, or the node becomes free by itself: the gang is evicted as a whole or not at all.
func TestVictimGangIsEvictedWhole(t *testing.T) {
	quietLogs(t)
	for name, of := range map[string]string{"a gang evicts": "hi", "a pod evicts": ""} {
		comes := event{kind: memberPut, pod: &podSpec{name: "big", gang: of, room: room{cpu: 4}, priority: 9, rank: -1}}
		for what, test := range map[string]struct {
			grace, times int
			then         []event
		}{
			"one request each is lost":             {5, 1, nil},
			"requests are lost for a while":        {5, 3, nil},
			"they leave at once":                   {0, 3, nil},
			"the scheduler is killed":              {30, 1, []event{{kind: turnsGiven, n: 1}, {kind: restarted}}},
			"it is killed, and they leave at once": {0, 1, []event{{kind: turnsGiven, n: 1}, {kind: timePassed, n: 1}, {kind: restarted}}},
			"it is killed later":                   {30, 3, []event{{kind: timePassed, n: 7}, {kind: restarted}}},
			"the preemptor is deleted":             {30, 3, []event{{kind: timePassed, n: 1}, {kind: podDeleted, name: "big"}}},
		} {
			t.Run(name+", and "+what, func(t *testing.T) {
				seen := map[string]bool{}
				for _, salt := range []uint64{0, 3, 4} { // one eviction request is lost, or all but one are
					lost := event{kind: requestsFail, fail: &failSpec{What: evictions, How: unavailable, Times: test.times, Share: 1, Salt: salt}}
					h := slices.Concat(running(test.grace), history{lost, comes}, test.then, history{{kind: timePassed, n: 90}, {kind: settledDown}})
					w, err := playFor(t, h)
					require.NoError(t, err, "salt %d\n%s", salt, h)
					left := len(w.stay([]string{"r"}))
					require.Contains(t, []int{0, 4}, left, "salt %d: %v", salt, w.trace)
					if w.pods["default/big"] != nil {
						require.NotEmpty(t, w.pods["default/big"].Spec.NodeName, "salt %d: %v", salt, w.trace)
					}
					seen[fmt.Sprint(left, w.counts[evictionsLost] > 0)] = true
				}
				require.True(t, seen["0 true"], "requests were lost, and the gang left: %v", seen)
			})
		}
	}
}

// TestPodWaitsForTheWholeVictimGang: the first requests to evict a gang for a pod are lost. Then some members
// terminate, and the one on the pod's node does not. The pod does not take a node of the terminated members.
// It records the remaining victims for the next scheduler process, too.
func TestPodWaitsForTheWholeVictimGang(t *testing.T) {
	quietLogs(t)
	for name, then := range map[string][]event{
		"the scheduler goes on":   nil,
		"the scheduler is killed": {{kind: restarted}},
	} {
		t.Run(name, func(t *testing.T) {
			lost := event{kind: requestsFail, fail: &failSpec{What: evictions, How: tooMany, Times: 2, Share: 3}}
			big := event{kind: memberPut, pod: &podSpec{name: "big", room: room{cpu: 4}, priority: 9, rank: -1}}
			h := append(running(0), lost, big, event{kind: timePassed, n: 33})
			w, err := playFor(t, h)
			require.NoError(t, err)
			require.Len(t, w.stay([]string{"r"}), 1, w.trace)
			require.Empty(t, w.pods["default/big"].Spec.NodeName, w.trace)
			w, err = playFor(t, slices.Concat(h, then, history{{kind: timePassed, n: 30}, {kind: settledDown}}))
			require.NoError(t, err)
			require.Empty(t, w.stay([]string{"r"}), w.trace)
			require.NotEmpty(t, w.pods["default/big"].Spec.NodeName, w.trace)
		})
	}
}

// TestPodStopsWaitingForAVictimThatStays: a victim cannot be evicted for longer than a minute. The pod takes
// a node of the terminated members.
func TestPodStopsWaitingForAVictimThatStays(t *testing.T) {
	quietLogs(t)
	lost := event{kind: requestsFail, fail: &failSpec{What: evictions, How: tooMany, Times: 8, Share: 3}}
	big := event{kind: memberPut, pod: &podSpec{name: "big", room: room{cpu: 4}, priority: 9, rank: -1}}
	for long, waits := range map[int]bool{190: true, 212: false} {
		w, err := playFor(t, append(running(0), lost, big, event{kind: timePassed, n: long}))
		require.NoError(t, err)
		require.Len(t, w.stay([]string{"r"}), 1, w.trace)
		require.Equal(t, waits, w.pods["default/big"].Spec.NodeName == "", w.trace)
	}
}

// TestRetriedEvictionStopsWhenCapacityIsFree: an eviction is retried after a failed request. Meanwhile
// another pod on the node terminates by itself: no pod is evicted.
func TestRetriedEvictionStopsWhenCapacityIsFree(t *testing.T) {
	quietLogs(t)
	for _, leaves := range []string{"low-a", "low-b", ""} {
		t.Run(leaves, func(t *testing.T) {
			h := history{
				{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 8}},
				{kind: podPut, pod: &podSpec{name: "low-a", room: room{cpu: 4}, priority: 1, rank: -1, node: "n0", grace: 30}},
				{kind: podPut, pod: &podSpec{name: "low-b", room: room{cpu: 4}, priority: 1, rank: -1, node: "n0", grace: 30}},
				{kind: gangPut, gang: &gangSpec{name: "hi", min: 1, timeout: 30}},
				{kind: requestsFail, fail: &failSpec{What: evictions, How: unavailable, Times: 3, Share: 3}},
				{kind: memberPut, pod: &podSpec{name: "hi-0", gang: "hi", room: room{cpu: 4}, priority: 9, rank: -1}},
				{kind: turnsGiven, n: 1},
			}
			if leaves != "" {
				h = append(h, event{kind: podDeleted, name: leaves})
			}
			w, err := playFor(t, append(h, event{kind: timePassed, n: 90}, event{kind: settledDown}))
			require.NoError(t, err)
			require.Equal(t, "n0", w.pods["default/hi-0"].Spec.NodeName)
			require.Equal(t, leaves == "", len(w.gone) > 0, w.trace)
			for _, p := range w.stayers() {
				for _, c := range p.Status.Conditions {
					require.False(t, c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue, "%s stays, and is told so", p.Name)
				}
			}
		})
	}
}

// stayers returns all running pods that do not terminate.
func (w *world) stayers() []*v1.Pod {
	return slices.DeleteFunc(w.sorted(), func(p *v1.Pod) bool { return p.Spec.NodeName == "" || p.DeletionTimestamp != nil })
}
