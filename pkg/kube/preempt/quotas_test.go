package preempt

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/bundle"
	"github.com/muster-scheduler/muster/pkg/evict"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/quota"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Lacking is Quotas with a number of pods that must be evicted from each quota; "*" is any quota. Most limits how
// many pods of a quota may be evicted. A pod's label "quota" is its quota. Pods of quota "theirs" may not be evicted,
// and pods in Gone count as gone already.
type Lacking struct {
	Pods, Most map[string]int
	Gone       []*v1.Pod
}

// Lack parses Lacking: "b c c * d<2" is one pod of quota b, two of c, one of any quota, and at most two of d.
func Lack(words string) Lacking {
	l := Lacking{Pods: map[string]int{}, Most: map[string]int{}}
	for word := range strings.FieldsSeq(words) {
		if of, most, ok := strings.Cut(word, "<"); ok {
			l.Most[of], _ = strconv.Atoi(most)
			continue
		}
		l.Pods[word]++
	}
	return l
}

func (l Lacking) SearchVictims(*cache.Group, time.Duration) VictimSearch { return l }
func (l Lacking) SearchOverdueVictims(*cache.Group) VictimSearch         { return nil }
func (l Lacking) Revoked([]*v1.Pod) string                               { return "" }
func (l Lacking) NotRevoked([]string)                                    {}
func (l Lacking) May(pod *v1.Pod, lower bool) bool                       { return lower && pod.Labels["quota"] != "theirs" }
func (l Lacking) QuotaOf(*v1.Pod) string                                 { return "" }
func (l Lacking) Uses(string, *v1.Pod) bool                              { return true }
func (l Lacking) Short() bool                                            { return len(l.Pods) > 0 }
func (l Lacking) Frees(pod *v1.Pod) bool                                 { return l.Pods[pod.Labels["quota"]]+l.Pods["*"] > 0 }
func (l Lacking) SameQuota(*v1.Pod) bool                                 { return true }
func (l Lacking) EqualPriority()                                         {}
func (l Lacking) OwnFirst() bool                                         { return false }
func (l Lacking) BelowMin(quota.Share) bool                              { return false }
func (l Lacking) Shortfall([]*v1.Pod) quota.Share                        { return 0 }
func (l Lacking) SeveralQuotas() bool                                    { return false }
func (l Lacking) Untried() bool                                          { return false }
func (l Lacking) RequestKey() string                                     { return "" }
func (l Lacking) Revision() uint64                                       { return 0 }
func (l Lacking) CountedAsGone() []*v1.Pod                               { return l.Gone }

func (l Lacking) Enough(gone []*v1.Pod) bool {
	left, all := maps.Clone(l.Pods), 0
	for name, n := range l.count(gone) {
		left[name] -= n
		all += n
	}
	for name, n := range l.Pods {
		if name != "*" {
			all -= n
		}
	}
	left["*"] -= all
	return l.Right(gone) && !slices.ContainsFunc(slices.Collect(maps.Values(left)), func(n int) bool { return n > 0 })
}

// count returns the number of evicted pods of each quota.
func (l Lacking) count(gone []*v1.Pod) map[string]int {
	of, known := map[string]int{}, map[types.UID]bool{}
	for _, pod := range gone {
		if !known[pod.UID] {
			known[pod.UID] = true
			of[pod.Labels["quota"]]++
		}
	}
	return of
}

func (l Lacking) Right(gone []*v1.Pod) bool {
	for name, n := range l.count(gone) {
		if most, is := l.Most[name]; is && n > most {
			return false
		}
	}
	return true
}

// Check returns Admitted for enough victims, and Exceeds for too many victims of one quota.
func (l Lacking) Check(gone []*v1.Pod) quota.Verdict {
	switch {
	case l.Enough(gone):
		return quota.Admitted
	case l.Right(gone):
		return quota.Short
	}
	return quota.Exceeds
}

func (l Lacking) Turns() (may func([]*v1.Pod) bool, leave func([]*v1.Pod)) {
	var gone []*v1.Pod
	may = func(pods []*v1.Pod) bool { return l.Right(slices.Concat(gone, pods)) }
	return may, func(pods []*v1.Pod) { gone = append(gone, pods...) }
}

func (l Lacking) AdmitsWithout(*cache.Group, func(*v1.Pod) bool) bool { return true }

// Fits does not depend on the quota of the pods.
func (l Lacking) Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool {
	return l.Enough(slices.DeleteFunc(slices.Collect(maps.Values(group.Pods)), func(p *v1.Pod) bool { return !leaves(p) }))
}

var candidateWord = regexp.MustCompile(`^((\w+)(-\d)?)=(\d+)(:\w+)?(@\d+)?$`)

// candidatesOf parses the candidates of each node.
//
//	In "x=10:b@5 g-0=20 | y=30" the first node has x and a member of gang g, the second node has y.
//	The pod x has priority 10 and quota b, and started at second 5.
//
// Gangs are listed with their number of spare members, and "!" for a gang that may not be evicted whole. Gangs in one
// word are a gang group: "g=1+h=0!". As in a cluster, the running pods of gangs are other objects than the pods on
// nodes.
func candidatesOf(t rapid.TB, there, gangs, lack string) *candidates {
	t.Helper()
	c, number := &candidates{search: Lack(lack)}, map[string]int{}
	for i, group := range strings.Fields(gangs) {
		for word := range strings.SplitSeq(group, "+") {
			name, spare, _ := strings.Cut(word, "=")
			n, err := strconv.Atoi(strings.TrimSuffix(spare, "!"))
			require.NoError(t, err)
			c.gangs = append(c.gangs, evict.Gang{Gang: bundle.Gang{Group: i + 1, Spare: n}, Whole: !strings.HasSuffix(spare, "!")})
			number[name] = len(c.gangs)
		}
	}
	c.runningPods = make([][]*v1.Pod, len(c.gangs))
	for i, node := range strings.Split(there, "|") {
		here := onNode{}
		for word := range strings.FieldsSeq(node) {
			is := candidateWord.FindStringSubmatch(word)
			require.NotNil(t, is, word)
			pod := at(fmt.Sprint("n", i), is[1])
			priority, err := strconv.ParseInt(is[4], 10, 32)
			require.NoError(t, err)
			pod.Spec.Priority = new(int32)
			*pod.Spec.Priority = int32(priority)
			pod.Labels = map[string]string{"quota": strings.TrimPrefix(is[5], ":")}
			since, _ := strconv.ParseInt(strings.TrimPrefix(is[6], "@"), 10, 64)
			pod.Status.StartTime = &metav1.Time{Time: time.Unix(since, 0)}
			victim := c.victim(pod)
			if victim.Gang = number[is[2]]; victim.Gang > 0 {
				g := &c.gangs[victim.Gang-1]
				c.runningPods[victim.Gang-1], g.Cost = append(c.runningPods[victim.Gang-1], pod.DeepCopy()), g.Cost.Add(evict.CostOf(victim))
			}
			here.victims, here.pods = append(here.victims, victim), append(here.pods, pod)
		}
		c.byNode = append(c.byNode, here)
	}
	return c
}

func namesOf(pods []*v1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return strings.Join(names, " ")
}

// TestQuotaNeedsMoreVictims: a member needs the capacity of some pods, and its quota needs more: which pods are evicted.
func TestQuotaNeedsMoreVictims(t *testing.T) {
	for name, test := range map[string]struct {
		there, gangs string
		room         string // the pods that the member replaces
		lack         string // what the quotas need
		want         string // the victims; "none" if no set is enough
	}{
		"they have enough":                      {"x=10:a y=1:b", "", "x", "a", "x"},
		"nothing is lacking":                    {"x=10:a y=1:b", "", "x", "", "x"},
		"one more":                              {"x=10:a y=20:b z=10:b", "", "x", "b", "x z"},
		"anywhere":                              {"x=10:a | y=20:b | z=10:b", "", "x", "b", "x z"},
		"no victim of the quota":                {"x=10:a y=20:c", "", "x", "b", "none"},
		"not as many":                           {"x=10:a y=20:b", "", "x", "b b", "none"},
		"two for one quota":                     {"x=10:a y=20:b z=10:b w=30:b", "", "x", "b b", "x z y"},
		"one for each of two quotas":            {"x=10:a y=20:b z=10:b w=30:c", "", "x", "b c", "x z w"},
		"the victim that frees the node counts": {"x=10:b y=20:b z=10:b", "", "x", "b b", "x z"},
		"three, without needless victims":       {"x=10:a v=5:c y=20:b z=10:b w=30:b", "", "x", "b b b", "x z y w"},
		"three, one of another quota":           {"x=10:a v=5:c u=6:c y=20:b z=10:b", "", "x", "c b b", "x v z y"},
		"one important pod rather than two":     {"x=10:a g-0=1:b g-1=1:b y=90:b", "g=0", "x", "b", "x y"},
		"a gang whole rather than three": {
			"x=10:a g-0=10:b g-1=10:b g-2=10:b y=20:b w=20:b v=20:b", "g=0", "x", "b b b", "x g-0 g-1 g-2",
		},
		"a spare member":                                     {"x=10:a g-0=10:b g-1=10:b", "g=1", "x", "b", "x g-0"},
		"the whole gang if that is not enough":               {"x=10:a g-0=10:b g-1=10:b", "g=1", "x", "b b", "x g-0 g-1"},
		"the victim that frees the node is the spare member": {"g-0=10:a g-1=10:b y=50:b", "g=1!", "g-0", "b", "g-0 y"},
		"a spare member is evicted with its gang": {
			"x=10:a g-0=1:b g-1=10:b h-0=30:b h-1=30:b", "g=1 h=0", "x", "b b b b", "x g-0 g-1 h-0 h-1",
		},
		"at most so many of one quota":                  {"x=10:a y=10:b z=10:b w=10:b v=20:c u=20:c", "", "x", "* * * * b<2", "x y w u"},
		"none, if too few may be evicted":               {"x=10:a y=10:b z=10:b w=10:b v=20:c", "", "x", "* * * * * b<2", "none"},
		"none, if the node needs too many of one quota": {"x=10:b y=10:b z=10:b w=10:c", "", "x y", "* * * b<1", "none"},
		"two spare members":                             {"x=10:a g-0=10:b g-1=20:b h-0=5:b", "g=1! h=1!", "x", "b b", "x h-0 g-0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := candidatesOf(t, test.there, test.gangs, test.lack)
			found := evict.Cheapest(c.needing(test.room))
			if test.want == "none" {
				require.Empty(t, found.Victims)
				require.True(t, found.Freeable)
				return
			}
			require.ElementsMatch(t, strings.Fields(test.want), strings.Fields(namesOf(c.victims(found.Victims))))
		})
	}
}

// needing is the problem of one member that fits where all of some pods are evicted, and nowhere else.
func (c *candidates) needing(room string) evict.Problem {
	p := evict.Problem{Request: plan.Request{Want: 1, Min: 1}, Gangs: c.gangs, Quota: quotaCheck{c}}
	var nodes []topology.Node
	for i, here := range c.byNode {
		nodes = append(nodes, topology.Node{Name: fmt.Sprint("n", i)})
		p.Nodes = append(p.Nodes, evict.RawNode{Victims: here.victims, Slots: func(gone []int) offer.Slots {
			evicted := namesOf(here.gone(gone))
			for _, name := range strings.Fields(room) {
				if !slices.Contains(strings.Fields(evicted), name) {
					return 0
				}
			}
			return 1
		}})
	}
	p.World.Tree = topology.Build(nil, nodes)
	return p
}
