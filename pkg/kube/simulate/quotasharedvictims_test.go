package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counted returns a gang g of quota ofG and a gang h of quota b with a higher priority. Gang g evicts low-0 and
// cannot write its nominated nodes. Gang h would also evict low-1 if it counted on that.
func counted(ofG string, least, priority int) history {
	pod := func(name, gang, quota, node string, priority, gpu int) *podSpec {
		return &podSpec{name: name, gang: gang, room: room{cpu: 8, gpu: gpu}, priority: priority, rank: -1, node: node, quota: quota}
	}
	salt := uint64(0) // with which nothing is lost but what is written of g
	for (nameHash("g-0")^salt)%3 != 0 || (nameHash("h-0")^salt)%3 == 0 || (nameHash("h-1")^salt)%3 == 0 {
		salt++
	}
	return history{
		{kind: quotaPut, quota: &quotaSpec{name: "a", min: &room{cpu: least}}},
		{kind: quotaPut, quota: &quotaSpec{name: "b", min: &room{cpu: 64}}},
		{kind: nodePut, node: &nodeSpec{name: "n0", cpu: 8, gpu: 2}},
		{kind: nodePut, node: &nodeSpec{name: "n1", cpu: 8, gpu: 1}},
		{kind: nodePut, node: &nodeSpec{name: "n2", cpu: 64}},
		{kind: podPut, pod: pod("low-0", "", "a", "n0", priority, 0)},
		{kind: podPut, pod: pod("low-1", "", "b", "n1", 1, 0)},
		{kind: settledDown},
		{kind: requestsFail, fail: &failSpec{What: podStatus, How: unavailable, Times: 20, Share: 1, Salt: salt}},
		{kind: gangPut, gang: &gangSpec{name: "g", min: 1, timeout: 600}},
		{kind: memberPut, pod: pod("g-0", "g", ofG, "", 5, 2)},
		{kind: turnsGiven, n: 2},
		{kind: gangPut, gang: &gangSpec{name: "h", min: 2, timeout: 600}},
		{kind: memberPut, pod: pod("h-0", "h", "b", "", 7, 1)},
		{kind: memberPut, pod: pod("h-1", "h", "b", "", 7, 1)},
		{kind: longTimeLeft},
	}
}

// TestQuotaSharesVictimsOfAnotherPreemptor: a preemptor that counts on another preemptor's victim requests
// its eviction as well, if the quotas allow it, whatever the victim's priority. Otherwise it counts on the
// victim only when the API server has accepted the eviction.
func TestQuotaSharesVictimsOfAnotherPreemptor(t *testing.T) {
	quietLogs(t)
	for name, test := range map[string]struct {
		h       history
		evicted []string
		on      string
	}{
		"the victim borrows, and is more important": {counted("b", 0, 9), []string{"h evicts low-0 low-1"}, "h-0=n0 h-1=n1"},
		"the victim is guaranteed":                  {counted("a", 16, 2), []string{"g evicts low-0", "h evicts low-1"}, "h-0=n0 h-1=n1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := playFor(t, test.h)
			require.NoError(t, err, "%v", w.trace)
			var evicted, on []string
			for _, line := range w.trace {
				if _, what, _ := strings.Cut(line, " "); strings.Contains(what, " evicts ") {
					evicted = append(evicted, what)
				}
			}
			for _, p := range w.sorted() {
				if p.Spec.NodeName != "" {
					on = append(on, p.Name+"="+p.Spec.NodeName)
				}
			}
			require.Equal(t, test.evicted, evicted)
			require.Equal(t, test.on, strings.Join(on, " "))
		})
	}
}
