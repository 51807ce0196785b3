package cache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/watch"
)

// leaderOf makes a pod one of a LeaderWorkerSet's group.
func leaderOf(name, group, size string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		delete(p.Labels, scheduling.LabelPodGroup)
		p.Labels["leaderworkerset.sigs.k8s.io/name"], p.Labels["leaderworkerset.sigs.k8s.io/group-index"] = name, group
		p.Labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = "r"
		p.Annotations["leaderworkerset.sigs.k8s.io/size"] = size
	}
}

func ownedSet(name string, size int, words ...string) *source.Owned {
	o := &source.Owned{
		Key: source.OwnerKey{Kind: "LeaderWorkerSet", Namespace: "ns", Name: name}, Size: size, Values: map[string]string{},
		Object: &v1.ObjectReference{Kind: "LeaderWorkerSet", Namespace: "ns", Name: name},
	}
	for i := 0; i < len(words); i += 2 {
		o.Values[words[i]] = words[i+1]
	}
	return o
}

// TestOwners: what the owner of gangs says comes before its pods or after them, and changes.
func TestOwners(t *testing.T) {
	group := func(i string) gang.Ref { return gang.Ref{Source: "lws", Namespace: "ns", Name: "a-" + i + "-r"} }
	for _, first := range []string{"pods", "owner"} {
		t.Run(first+" first", func(t *testing.T) {
			c, _, notes := open(t)
			c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
			c.recordDiscovery("LeaderWorkerSet", true)
			owner := func() {
				c.setOwner(ownedSet("a", 2, scheduling.AnnotationTopologySpec, must))
			}
			if first == "owner" {
				owner()
			}
			for _, i := range []string{"0", "1"} {
				c.setPod(member("l"+i, leaderOf("a", i, "2")))
				c.setPod(member("w"+i, leaderOf("a", i, "2")))
			}
			if first == "pods" {
				require.Equal(t, "LeaderWorkerSet ns/a, which its members name, was not found", c.why(t, member("l0", leaderOf("a", "0", "2"))))
				owner()
			}
			require.Empty(t, c.why(t, member("l0", leaderOf("a", "0", "2"))))
			g, refusal := c.GroupOf(group("1"))
			require.False(t, refusal.Exists(), refusal.Words)
			require.Equal(t, "SpineLayer", g.Gather.Rules[0].Layer)
			require.Contains(t, fmt.Sprint(*notes), "rule from LeaderWorkerSet ns/a annotation "+scheduling.AnnotationTopologySpec)

			c.setOwner(ownedSet("a", 3))
			require.Empty(t, c.why(t, member("l0", leaderOf("a", "0", "2"))), "these groups have two; they may be of another revision")
			g, _ = c.GroupOf(group("1"))
			require.Nil(t, g.Gather)

			c.setOwner(ownedSet("a", 2, scheduling.AnnotationTopologySpec, must))
			c.dropOwner(ownedSet("a", 2).Key)
			require.Equal(t, "LeaderWorkerSet ns/a, which its members name, was not found", c.why(t, member("l0", leaderOf("a", "0", "2"))))
			g, _ = c.GroupOf(group("1"))
			require.Nil(t, g.Gather, "what it said has ended with it")
			for _, i := range []string{"0", "1"} {
				c.dropPod(member("l"+i, leaderOf("a", i, "2")))
				c.dropPod(member("w"+i, leaderOf("a", i, "2")))
			}
			require.Empty(t, c.gangs)
			require.Empty(t, c.lineage.Related(ownedSet("a", 2).Key))
			require.Empty(t, c.named)
			require.Empty(t, c.lineage.Objects)
		})
	}
}

// TestALeaderMadeAgain: a leader that is made again has workers still that were made for the one
// before, and are about to go. They are no members of the new gang, which waits for its own.
func TestALeaderMadeAgain(t *testing.T) {
	at := func(index string, second int64, change ...func(*v1.Pod)) *v1.Pod {
		return member("p"+index, slices.Concat([]func(*v1.Pod){leaderOf("a", "0", "2"), func(p *v1.Pod) {
			p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] = index
			p.CreationTimestamp, p.UID = metav1.Unix(second, 0), types.UID(fmt.Sprint("p", index, "-", second))
		}}, change)...)
	}
	for name, order := range map[string]func(c *Cache){
		"the worker was seen before": func(c *Cache) {
			c.setPod(at("0", 1, onNode))
			c.setPod(at("1", 1, onNode))
			c.dropPod(at("0", 1, onNode))
			c.setPod(at("0", 9))
			c.setPod(at("0", 9, func(p *v1.Pod) { p.Labels["x"] = "y" }))
		},
		"within a second": func(c *Cache) {
			c.setPod(at("0", 9, onNode, func(p *v1.Pod) { p.UID = "first" }))
			c.setPod(at("1", 9, onNode, func(p *v1.Pod) { p.UID = "p1-1" }))
			c.dropPod(at("0", 9, onNode, func(p *v1.Pod) { p.UID = "first" }))
			c.setPod(at("0", 9))
			c.setPod(at("1", 9, onNode, func(p *v1.Pod) { p.UID, p.Labels["x"] = "p1-1", "y" }))
		},
		"a process begins, and sees the leader first": func(c *Cache) {
			c.open.Store(false)
			c.setPod(at("0", 99))
			c.setPod(at("1", 1, onNode))
			c.open.Store(true)
		},
		"a process begins, and sees the worker first": func(c *Cache) {
			c.open.Store(false)
			c.setPod(at("1", 1, onNode))
			c.setPod(at("0", 99))
			c.open.Store(true)
			c.setPod(at("1", 1, onNode, func(p *v1.Pod) { p.Labels["x"] = "y" }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			order(c)
			require.Equal(t, "1 of 2 members exist", c.why(t, c.Pod("ns/p0")))
			c.dropPod(at("1", 1, onNode))
			c.setPod(at("1", 9))
			require.Empty(t, c.why(t, c.Pod("ns/p0")))
		})
	}
	t.Run("clocks differ", func(t *testing.T) {
		c, _, _ := open(t)
		c.open.Store(false)
		c.setPod(at("0", 30))
		c.setPod(at("1", 1, onNode))
		c.open.Store(true)
		require.Empty(t, c.why(t, c.Pod("ns/p0")), "another API server made it, of which the clock is late")
	})
	labelled := func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "a-0-r" }
	t.Run("its label comes late", func(t *testing.T) {
		c, _, _ := open(t)
		c.setObject(ref("a-0-r"), podGroup("1"), source.More{})
		c.setPod(at("0", 1, onNode, labelled))
		c.setPod(at("1", 1, onNode, labelled))
		c.dropPod(at("0", 1, onNode, labelled))
		c.setPod(at("0", 9))
		c.setPod(at("1", 9, labelled))
		c.setPod(at("0", 9, labelled))
		require.Empty(t, c.why(t, c.Pod("ns/p0")), "the new worker was made after it, and was in the gang before")
	})
	t.Run("its label comes late, and an older worker is there", func(t *testing.T) {
		c, _, _ := open(t)
		c.setObject(ref("a-0-r"), podGroup("1"), source.More{})
		c.setPod(at("0", 1, onNode, labelled))
		c.setPod(at("1", 1, onNode, labelled))
		c.dropPod(at("0", 1, onNode, labelled))
		c.setPod(at("0", 9))
		c.setPod(at("0", 9, labelled))
		require.Equal(t, "1 of 2 members exist", c.why(t, c.Pod("ns/p0")))
	})
	t.Run("a worker is made again", func(t *testing.T) {
		c, _, _ := open(t)
		c.setPod(at("0", 1, onNode))
		c.setPod(at("1", 1, onNode))
		c.dropPod(at("1", 1, onNode))
		c.setPod(at("1", 9))
		require.Empty(t, c.why(t, at("1", 9)), "it replaces a member of a gang that runs")
	})
}

// TestOwnersOfUnservedKinds: pods say how large their group is where LeaderWorkerSets cannot be
// read; when they can, they are waited for.
func TestOwnersOfUnservedKinds(t *testing.T) {
	c, _, _ := open(t)
	pod := func(name string) *v1.Pod { return member(name, leaderOf("a", "0", "2")) }
	c.setPod(pod("l"))
	require.Equal(t, "1 of 2 members exist", c.why(t, pod("l")))
	require.True(t, c.kinds["LeaderWorkerSet"].wanted)
	require.False(t, c.kinds["Job"].wanted)
	c.setPod(pod("w"))
	require.Empty(t, c.why(t, pod("l")))
	c.recordDiscovery("LeaderWorkerSet", true)
	require.Equal(t, "LeaderWorkerSet ns/a, which its members name, was not found", c.why(t, pod("l")))
	ready := ownedSet("a", 2)
	ready.LeaderFirst = "the test says so"
	c.setOwner(ready)
	c.dropPod(pod("w"))
	require.Empty(t, c.why(t, pod("l")), "the leader does not wait for the worker")
}

// TestTiersFollowTheTopology: a rule in tiers is another one when the layers are.
func TestTiersFollowTheTopology(t *testing.T) {
	c, _, _ := open(t)
	pod := member("l", leaderOf("a", "0", "1"))
	c.setOwner(ownedSet("a", 1, source.AnnotationVolcanoTier, "1"))
	c.setPod(pod)
	require.Equal(t, "rejected: volcano.sh/network-topology-highest-tier: tier 1 needs ClusterNetworkTopology default, which does not exist",
		c.why(t, pod))
	c.setTopology(topologyOf(spineLayer, nodeLayer))
	g, _ := c.Group(pod)
	require.Equal(t, "SpineLayer", g.Gather.Rules[0].Layer)
	c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
	g, _ = c.Group(pod)
	require.Equal(t, "BlockLayer", g.Gather.Rules[0].Layer)
}

// The next gang of an owner is created after all members of the first have finished.
func TestOwnersOfFinishedGangs(t *testing.T) {
	of := func(p *v1.Pod) {
		delete(p.Labels, scheduling.LabelPodGroup)
		p.Labels["batch.kubernetes.io/job-name"], p.Annotations[scheduling.AnnotationMinAvailable] = "j", "1"
	}
	c, _, _ := open(t)
	c.recordDiscovery("Job", true)
	c.setOwner(&source.Owned{Key: source.OwnerKey{Kind: "Job", Namespace: "ns", Name: "j"}, Size: 2})
	failed := member("j-0", of, func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodFailed })
	c.setFinished(failed)
	c.setPod(member("j-1", of))
	require.Empty(t, c.why(t, member("j-1", of)))
}

// jobSetMember makes a pod one of a ReplicatedJob of JobSet js.
func jobSetMember(part, uid string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		delete(p.Labels, scheduling.LabelPodGroup)
		p.Labels["jobset.sigs.k8s.io/jobset-name"], p.Labels["jobset.sigs.k8s.io/replicatedjob-name"] = "js", part
		if uid != "" {
			p.Labels["jobset.sigs.k8s.io/jobset-uid"] = uid
		}
	}
}

func ownedJobSet(uid types.UID, parts map[string]source.Part, words ...string) *source.Owned {
	o := ownedSet("js", 0, words...)
	o.Key.Kind, o.Object.Kind, o.Object.UID, o.Parts = "JobSet", "JobSet", uid, parts
	return o
}

func onNode(p *v1.Pod) { p.Spec.NodeName = "n" }

// It makes no difference whether a process knew the owner of a gang before its deletion. After the deletion of an
// owner nothing new starts, since the gang's constraint is unknown. Orphaned pods keep running as a gang: they count
// as a whole, and none is evicted alone.
func TestOwnersThatAreGone(t *testing.T) {
	owner := ownedJobSet("u", map[string]source.Part{"w": {Jobs: 1, Size: 3}}, scheduling.AnnotationTopologySpec, must)
	pods := []*v1.Pod{
		member("w0", jobSetMember("w", "u"), onNode), member("w1", jobSetMember("w", "u"), onNode), member("w2", jobSetMember("w", "u")),
	}
	for name, history := range map[string]func(*Cache){
		"a process that knew it": func(c *Cache) {
			c.setOwner(owner)
			for _, p := range pods {
				c.setPod(p)
			}
			c.dropOwner(owner.Key)
		},
		"one that knew it before a member was bound": func(c *Cache) {
			c.setOwner(owner)
			c.setPod(pods[0])
			c.setPod(member("w1", jobSetMember("w", "u")))
			c.setPod(pods[2])
			c.dropOwner(owner.Key)
			c.setPod(pods[1])
		},
		"one that begins now": func(c *Cache) {
			for _, p := range pods {
				c.setPod(p)
			}
		},
		"one that begins now, in another order": func(c *Cache) {
			for _, i := range []int{2, 1, 0} {
				c.setPod(pods[i])
			}
		},
		"one that knew more members": func(c *Cache) {
			more := member("w3", jobSetMember("w", "u"), onNode)
			c.setPod(more)
			for _, p := range pods {
				c.setPod(p)
			}
			c.dropPod(more)
		},
		"one that knows another of its name": func(c *Cache) {
			for _, p := range pods {
				c.setPod(p)
			}
			c.setOwner(ownedJobSet("other", owner.Parts))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
			c.recordDiscovery("JobSet", true)
			history(c)
			require.Equal(t, "JobSet ns/js, which its members name, was not found", c.why(t, pods[2]))
			running, least := c.Running(source.GangOf(pods[0]))
			require.Len(t, running, 2)
			require.Equal(t, 2, least, "they leave together, if at all")
			g, _ := c.Group(pods[2])
			require.Nil(t, g.Gather)

			c.setOwner(owner) // it was made again as it was
			require.Empty(t, c.why(t, pods[2]))
			g, _ = c.Group(pods[2])
			require.NotNil(t, g.Gather)
		})
	}
}

// TestJobSetsMadeAgain: pods of one JobSet are no members of the next one of its name, and each
// belongs to the parts of its own.
func TestJobSetsMadeAgain(t *testing.T) {
	c, _, _ := open(t)
	c.recordDiscovery("JobSet", true)
	parts := map[string]source.Part{"d": {Jobs: 1, Size: 1}, "w": {Jobs: 1, Size: 2}}
	c.setOwner(ownedJobSet("1", parts))
	for _, p := range []*v1.Pod{
		member("d0", jobSetMember("d", "1"), onNode), member("w0", jobSetMember("w", "1"), onNode), member("w1", jobSetMember("w", "1"), onNode),
	} {
		c.setPod(p)
	}
	c.setOwner(ownedJobSet("2", parts))
	worker := member("x0", jobSetMember("w", "2"))
	c.setPod(worker)
	require.Equal(t, "gang ns/js.d of the gang group does not exist: create it, or remove it from the group", c.why(t, worker))
	c.setPod(member("e0", jobSetMember("d", "2")))
	require.Equal(t, "1 of 2 members of gang ns/js.w exist", c.why(t, worker))
	c.setPod(member("x1", jobSetMember("w", "2")))
	require.Empty(t, c.why(t, member("e0", jobSetMember("d", "2"))))
	running, least := c.Running(source.GangOf(member("w0", jobSetMember("w", "1"))))
	require.Len(t, running, 2)
	require.Equal(t, 2, least)
}

// TestPartsThatHaveFinished: a part that has finished is waited for no more, whether its pods are
// there or not; in the next attempt it is.
func TestPartsThatHaveFinished(t *testing.T) {
	parts := map[string]source.Part{"d": {Jobs: 1, Size: 1}, "w": {Jobs: 1, Size: 2}, "x": {Jobs: 1, Size: 1}}
	c, _, _ := open(t)
	c.recordDiscovery("JobSet", true)
	c.setOwner(ownedJobSet("u", parts))
	worker := member("w1", jobSetMember("w", "u"))
	c.setPod(member("w0", jobSetMember("w", "u"), onNode))
	c.setPod(member("x0", jobSetMember("x", "u"), onNode))
	c.setPod(worker)
	require.Equal(t, "gang ns/js.d of the gang group does not exist: create it, or remove it from the group", c.why(t, worker))
	done := maps.Clone(parts)
	done["d"] = source.Part{Jobs: 1, Size: 1, Succeeded: 1}
	c.setOwner(ownedJobSet("u", done))
	require.Empty(t, c.why(t, worker))
	require.Len(t, c.Together(source.GangOf(worker)), 2, "the others are a group still")
	again := ownedJobSet("u", done)
	again.Attempt = "1"
	c.setOwner(again)
	require.Equal(t, "gang ns/js.d of the gang group does not exist: create it, or remove it from the group", c.why(t, worker), "it is another attempt that has finished")
}

// A gang that waits for a part whose pods name another gang says so, until they do not.
func TestPodsThatNameOtherGangs(t *testing.T) {
	const why = `gang ns/js.w of the group has no members: its pods from JobSet ns/js name another gang (label ` +
		`pod-group.scheduling.sigs.k8s.io: "other")`
	for _, first := range []string{"driver", "worker"} {
		c, _, notes := open(t)
		c.recordDiscovery("JobSet", true)
		c.setOwner(ownedJobSet("u", map[string]source.Part{"d": {Jobs: 1, Size: 1}, "w": {Jobs: 1, Size: 1}}))
		driver := member("d0", jobSetMember("d", "u"))
		worker := member("w0", jobSetMember("w", "u"), func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = "other" })
		if first == "worker" {
			c.setPod(worker)
		}
		c.setPod(driver)
		c.setPod(worker)
		require.Equal(t, why, c.why(t, driver))
		require.Contains(t, fmt.Sprint(*notes), reasons.TwoGangs+" "+why)
		c.dropPod(worker)
		require.Equal(t, "gang ns/js.w of the gang group does not exist: create it, or remove it from the group", c.why(t, driver))
		require.Empty(t, c.otherGangNames)
		c.setPod(worker)
		c.setPod(member("w0", jobSetMember("w", "u")))
		require.Empty(t, c.why(t, driver), "the label was taken away")
		require.Empty(t, c.otherGangNames)
	}
}

// TestGroupsOfOtherAPIs: a gang lists another one by its name, whatever makes it a gang.
func TestGroupsOfOtherAPIs(t *testing.T) {
	groups := `["ns/a","ns/j"]`
	worker := func(uid string) *v1.Pod {
		return member("j-0", func(p *v1.Pod) {
			delete(p.Labels, scheduling.LabelPodGroup)
			p.Labels["batch.kubernetes.io/job-name"], p.Labels["batch.kubernetes.io/controller-uid"] = "j", uid
			p.Annotations[scheduling.AnnotationMinAvailable], p.Annotations[scheduling.AnnotationGroups] = "1", groups
		})
	}
	for _, first := range []string{"PodGroup", "Job"} {
		for _, uid := range []string{"", "u"} {
			c, _, _ := open(t)
			c.recordDiscovery("Job", true)
			c.setOwner(&source.Owned{
				Key: source.OwnerKey{Kind: "Job", Namespace: "ns", Name: "j"}, Size: 1, Object: &v1.ObjectReference{UID: types.UID(uid)},
			})
			object := func() {
				pg := podGroup("1")
				pg.Spec.MinMember = 1
				pg.Annotations = map[string]string{scheduling.AnnotationGroups: groups}
				c.setObject(ref("a"), pg, source.More{})
				c.setPod(member("a-0"))
			}
			if first == "PodGroup" {
				object()
				require.Equal(t, "gang ns/j of the gang group does not exist: create it, or remove it from the group", c.why(t, member("a-0")))
			}
			c.setPod(worker(uid))
			if first == "Job" {
				require.Equal(t, "gang ns/a of the gang group does not exist: create it, or remove it from the group", c.why(t, worker(uid)))
				object()
			}
			require.ElementsMatch(t, []gang.Ref{ref("a"), source.GangOf(worker(uid))}, c.Together(ref("a")), first+" "+uid)
			require.Empty(t, c.why(t, member("a-0")))
		}
	}
}

// A gang of another API exists and does not list the gang that lists it. The message does not depend on which was declared first.
func TestGroupsOfOtherAPIsWithoutConsent(t *testing.T) {
	for _, first := range []string{"PodGroup", "Job"} {
		c, _, _ := open(t)
		c.recordDiscovery("Job", true)
		c.setOwner(&source.Owned{
			Key: source.OwnerKey{Kind: "Job", Namespace: "ns", Name: "j"}, Size: 1, Object: &v1.ObjectReference{UID: "u"},
		})
		job := func() {
			c.setPod(member("j-0", func(p *v1.Pod) {
				delete(p.Labels, scheduling.LabelPodGroup)
				p.Labels["batch.kubernetes.io/job-name"], p.Labels["batch.kubernetes.io/controller-uid"] = "j", "u"
				p.Annotations[scheduling.AnnotationMinAvailable] = "1"
			}))
		}
		if first == "Job" {
			job()
		}
		pg := podGroup("1")
		pg.Spec.MinMember = 1
		pg.Annotations = map[string]string{scheduling.AnnotationGroups: `["ns/a","ns/j"]`}
		c.setObject(ref("a"), pg, source.More{})
		c.setPod(member("a-0"))
		if first == "PodGroup" {
			job()
		}
		require.Equal(t, "gang ns/j does not list ns/a, which waits: each gang of a gang group must list the others", c.why(t, member("a-0")), first)
	}
}

// A gang that lists a JobSet gets a note with the names of its gangs.
func TestGroupsThatListOwners(t *testing.T) {
	c, _, notes := open(t)
	c.recordDiscovery("JobSet", true)
	c.setOwner(ownedJobSet("u", map[string]source.Part{"d": {Jobs: 1, Size: 1}, "w": {Jobs: 1, Size: 1}}))
	c.setPod(member("d0", jobSetMember("d", "u")))
	c.setPod(member("w0", jobSetMember("w", "u")))
	pg := podGroup("1")
	pg.Annotations = map[string]string{scheduling.AnnotationGroups: `["ns/a","ns/js","ns/other"]`}
	c.setObject(ref("a"), pg, source.More{})
	c.setPod(member("a-0"))
	require.Contains(t, fmt.Sprint(*notes),
		scheduling.AnnotationGroups+`: "ns/js" is no gang; did you mean the gangs of JobSet ns/js: ns/js.d, ns/js.w?`)
	require.NotContains(t, fmt.Sprint(*notes), `"ns/other" is no gang`, "it may still be made")
}

// Missing permissions reach the gangs, and are taken back when the role is applied.
func TestWatcherSaysWhatIsDenied(t *testing.T) {
	c, _, _ := open(t)
	worker := member("w0", jobSetMember("w", "u"))
	c.setPod(worker)
	allowed := false
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}: "JobSetList",
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := c.watcher(ctx, Source{
		Dynamic: client,
		Served: func(r schema.GroupVersionResource) (bool, error) {
			switch {
			case r.Resource != "jobsets":
				return false, nil
			case !allowed:
				return false, fmt.Errorf("%w: list jobsets", watch.ErrNoPermission)
			}
			return true, nil
		},
	})
	w.Discover(ctx, c.Clock.Now())
	require.Equal(t, "JobSet ns/js, which its members name, cannot be read, because Muster has no permission: apply "+
		"manifests/rbac/sources/jobset.yaml", c.why(t, worker))
	allowed = true
	w.Discover(ctx, c.Clock.Now())
	require.Equal(t, "JobSet ns/js, which its members name, was not found", c.why(t, worker))
}

// Gangs that need the objects name the file that grants the permission. They do not say that the objects are
// missing.
func TestObjectsThatMayNotBeRead(t *testing.T) {
	resource := func(kind string) schema.GroupVersionResource {
		i := slices.IndexFunc(source.Owners, func(o *source.Owner) bool { return o.Kind == kind })
		return source.Owners[i].Resource
	}
	c, _, notes := open(t)
	worker := member("w0", jobSetMember("w", "u"))
	c.setPod(worker)
	require.Equal(t,
		"JobSet ns/js, which its members name, was not found, and Muster has read no object of this kind: "+
			"check that Muster may read it (manifests/rbac/sources/jobset.yaml)",
		c.why(t, worker))
	c.setDenied(resource("JobSet"), true)
	require.Equal(t, "JobSet ns/js, which its members name, cannot be read, because Muster has no permission: apply "+
		"manifests/rbac/sources/jobset.yaml", c.why(t, worker))
	c.setDenied(resource("JobSet"), false)
	c.recordDiscovery("JobSet", true)
	c.setOwner(ownedJobSet("u", map[string]source.Part{"w": {Jobs: 1, Size: 1}}))
	require.Empty(t, c.why(t, worker))

	volcano := member("v0", func(p *v1.Pod) {
		delete(p.Labels, scheduling.LabelPodGroup)
		p.Annotations["scheduling.k8s.io/group-name"] = "vj"
	})
	c.setPod(volcano)
	require.Contains(t, c.why(t, volcano), "does not exist")
	kind := source.ObjectOf("podgroup-volcano").Resource
	c.setDenied(kind, true)
	require.Equal(t, "Muster has no permission to read PodGroup ns/vj: apply manifests/rbac/sources/volcano.yaml", c.why(t, volcano))
	c.setDenied(kind, false)
	require.Contains(t, c.why(t, volcano), "does not exist")

	leader := member("l", leaderOf("a", "0", "1"))
	c.setPod(leader)
	c.setDenied(resource("LeaderWorkerSet"), true)
	require.Empty(t, c.why(t, leader), "its pods say how large it is")
	require.Contains(t, fmt.Sprint(*notes),
		"Muster has no permission to read LeaderWorkerSet ns/a, and ignores its constraints for the gang: "+
			"apply manifests/rbac/sources/leaderworkerset.yaml")
}

// TestOwnersOfPodGroupsThatAreGone: without the rule that its owner may say a gang does not start,
// where owners of that kind are known.
func TestOwnersOfPodGroupsThatAreGone(t *testing.T) {
	c, _, _ := open(t)
	pg := podGroup("1")
	pg.Spec.MinMember = 1
	pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "t"}}
	c.setObject(ref("a"), pg, source.More{})
	c.setPod(member("p0"))
	require.Empty(t, c.why(t, member("p0")), "TrainJobs are not read")
	c.recordDiscovery("TrainJob", true)
	require.Equal(t, "TrainJob ns/t, which owns PodGroup ns/a, was not found", c.why(t, member("p0")))
	c.setOwner(&source.Owned{Key: source.OwnerKey{Kind: "TrainJob", Namespace: "ns", Name: "t"}})
	require.Empty(t, c.why(t, member("p0")))
}

// TestRulesApart: Kueue's annotations are about a part each, and each obeys its own. A rule about all
// of them is another one than none.
func TestRulesApart(t *testing.T) {
	kueue := func(label string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Annotations[source.AnnotationKueueRequired] = label }
	}
	c, _, _ := open(t)
	c.recordDiscovery("JobSet", true)
	c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
	c.setOwner(ownedJobSet("u", map[string]source.Part{"d": {Jobs: 1, Size: 2}, "w": {Jobs: 1, Size: 2}}))
	for i := range 2 {
		c.setPod(member(fmt.Sprintf("d%d", i), jobSetMember("d", "u"), kueue("block")))
		c.setPod(member(fmt.Sprintf("w%d", i), jobSetMember("w", "u"), kueue("spine")))
	}
	own := func() (lines []string, all *scheduling.GatherSpec) {
		g, refusal := c.Group(member("w0", jobSetMember("w", "u")))
		require.False(t, refusal.Exists(), refusal.Words)
		for _, o := range g.Constraints {
			lines = append(lines, fmt.Sprint(o.Gangs[0].Name, " ", o.Gather.Rules[0].Layer))
		}
		return lines, g.Gather
	}
	lines, all := own()
	require.Equal(t, []string{"js.d BlockLayer", "js.w SpineLayer"}, lines)
	require.Nil(t, all)

	for i := range 2 {
		c.setPod(member(fmt.Sprintf("w%d", i), jobSetMember("w", "u"),
			func(p *v1.Pod) { p.Annotations[scheduling.AnnotationTopologySpec] = must }))
	}
	lines, all = own()
	require.Equal(t, []string{"js.d BlockLayer"}, lines)
	require.Equal(t, "SpineLayer", all.Rules[0].Layer)
}

// TestRulesOfEach: PodGroups of one group may have other rules for themselves, as scope PodGroup says; what all say of the
// group counts for all, and if all say the same so do the rules for each.
func TestRulesOfEach(t *testing.T) {
	const both = `{"gatherStrategy":[{"layer":"SpineLayer","strategy":"MustGather"},` +
		`{"layer":"BlockLayer","strategy":"MustGather","scope":"PodGroup"}]}`
	const other = `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`
	for name, c := range map[string]struct {
		a, b, own, all string
		refused        bool
	}{
		"one has a rule of its own": {a: both, b: must, own: "a:BlockLayer ", all: "SpineLayer "},
		"all have the same":         {a: both, b: both, all: "SpineLayer BlockLayer "},
		"one says nothing":          {a: both, all: "SpineLayer BlockLayer "},
		"of all something else":     {a: must, b: other, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			cache, _, _ := open(t)
			cache.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
			for of, says := range map[string]string{"a": c.a, "b": c.b} {
				pg := podGroup("1")
				pg.Name = of
				pg.Annotations = map[string]string{scheduling.AnnotationGroups: `["ns/a","ns/b"]`}
				if says != "" {
					pg.Annotations[scheduling.AnnotationTopologySpec] = says
				}
				cache.setObject(ref(of), pg, source.More{})
			}
			g, refusal := cache.GroupOf(ref("a"))
			require.Equal(t, c.refused, refusal.Exists(), refusal.Words)
			if c.refused {
				return
			}
			own, all := "", ""
			for _, o := range g.Constraints {
				own += o.Gangs[0].Name + ":" + o.Gather.Rules[0].Layer + " "
			}
			for _, rule := range g.Gather.Rules {
				all += rule.Layer + " "
			}
			require.Equal(t, c.own, own)
			require.Equal(t, c.all, all)
		})
	}
}

// An owner that drops a topology constraint does not declare it any more.
func TestRulesThatAreTakenBack(t *testing.T) {
	c, _, _ := open(t)
	c.setTopology(topologyOf(spineLayer, blockLayer, belowBlock))
	gathers := func() bool {
		g, refusal := c.GroupOf(ref("a"))
		require.False(t, refusal.Exists(), refusal.Words)
		return g.Gather != nil
	}
	c.setObject(ref("a"), podGroup("1"), source.More{})
	says := func(p *v1.Pod) { p.Annotations[source.AnnotationVolcanoTier] = "1" }
	c.setPod(member("p0", says))
	require.True(t, gathers())
	c.setPod(member("p0"))
	require.False(t, gathers(), "its annotations are gone")

	c.setOwner(&source.Owned{
		Key: source.OwnerKey{Kind: "TrainJob", Namespace: "ns", Name: "t"}, Values: map[string]string{scheduling.AnnotationTopologySpec: must},
	})
	pg := podGroup("1")
	pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "trainer.kubeflow.org/v1alpha1", Kind: "TrainJob", Name: "t"}}
	c.setObject(ref("a"), pg, source.More{})
	require.True(t, gathers())
	c.setObject(ref("a"), podGroup("1"), source.More{})
	require.False(t, gathers(), "it has no owner")
}

// A tree that becomes valid in one branch reaches all its PodGroups.
func TestTreeIsMended(t *testing.T) {
	key := func(name string) source.OwnerKey {
		return source.OwnerKey{Kind: "CompositePodGroup", Namespace: "ns", Name: name}
	}
	ref := func(name string) gang.Ref {
		return gang.Ref{Source: "podgroup-native", Namespace: "ns", Name: name}
	}
	pod := func(name string) *v1.Pod {
		return member(name+"0", func(p *v1.Pod) {
			delete(p.Labels, scheduling.LabelPodGroup)
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		})
	}
	child := func(c *Cache, name, parent string) {
		pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
		c.setObject(ref(name), pg, source.More{Owner: key(parent)})
	}
	owner := func(c *Cache, name, parent string, least int) {
		o := &source.Owned{Key: key(name), Size: least, Object: &v1.ObjectReference{Kind: "CompositePodGroup", Namespace: "ns", Name: name}}
		if parent != "" {
			o.Parent = key(parent)
		}
		c.setOwner(o)
	}
	for name, mend := range map[string]func(c *Cache){
		"it needs all":          func(c *Cache) { owner(c, "inner", "root", 3) },
		"it can do without one": func(c *Cache) { owner(c, "inner", "root", 2) },
		"it is a root then":     func(c *Cache) { owner(c, "root", "", 1); owner(c, "inner", "", 3) },
		"all go to another one": func(c *Cache) {
			owner(c, "other", "root", 3)
			for _, name := range []string{"a", "b", "e"} {
				child(c, name, "other")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.recordDiscovery("CompositePodGroup", true)
			owner(c, "root", "", 2)
			owner(c, "inner", "root", 0)
			for _, name := range []string{"a", "b", "e"} {
				child(c, name, "inner")
				c.setPod(pod(name))
			}
			child(c, "d", "root")
			c.setPod(pod("d"))
			require.Contains(t, c.why(t, pod("a")), "schedulingPolicy.basic has no effect below another CompositePodGroup")
			require.NotEmpty(t, c.why(t, pod("d")))
			mend(c)
			for _, name := range []string{"a", "b", "d"} {
				_, refusal := c.Group(pod(name))
				require.False(t, refusal.Exists(), "%s: %s", name, refusal.Words)
			}
		})
	}
}

// TestFamily: the PodGroups of a CompositePodGroup form one group as soon as its minimum of them exists, in any
// order. The group ends when one is deleted.
func TestFamily(t *testing.T) {
	parent := source.OwnerKey{Kind: "CompositePodGroup", Namespace: "ns", Name: "all"}
	ref := func(name string) gang.Ref {
		return gang.Ref{Source: "podgroup-native", Namespace: "ns", Name: name}
	}
	pod := func(name string) *v1.Pod {
		return member(name+"0", func(p *v1.Pod) {
			delete(p.Labels, scheduling.LabelPodGroup)
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		})
	}
	child := func(c *Cache, name string, words ...string) {
		more := source.More{Owner: parent, Values: map[string]string{}}
		for i := 0; i < len(words); i += 2 {
			more.Values[words[i]] = words[i+1]
		}
		pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
		c.setObject(ref(name), pg, more)
	}
	owner := func(c *Cache, least int) {
		c.setOwner(&source.Owned{Key: parent, Size: least, Object: &v1.ObjectReference{Kind: parent.Kind, Namespace: "ns", Name: "all"}})
	}
	type step func(c *Cache)
	steps := []step{
		func(c *Cache) { child(c, "a") },
		func(c *Cache) { child(c, "b") },
		func(c *Cache) { owner(c, 2) },
		func(c *Cache) { c.setPod(pod("a")) },
		func(c *Cache) { c.setPod(pod("b")) },
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {2, 0, 3, 1, 4}, {3, 4, 0, 1, 2}, {4, 2, 1, 0, 3}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c, _, _ := open(t)
			c.recordDiscovery(parent.Kind, true)
			for _, i := range order {
				steps[i](c)
			}
			require.Empty(t, c.why(t, pod("a")))
			require.Equal(t, []gang.Ref{ref("a"), ref("b")}, c.Together(ref("b")))

			c.setObject(ref("a"), nil, source.More{})
			require.Equal(t, "CompositePodGroup ns/all has 1 of the 2 PodGroups that it needs", c.why(t, pod("b")))
			child(c, "a", source.FieldTopologyKey, "spine")
			require.Contains(t, c.why(t, pod("b")), "needs ClusterNetworkTopology default")
			child(c, "a")
			require.Empty(t, c.why(t, pod("a")))
			child(c, "c")
			g, refusal := c.GroupOf(ref("a"))
			require.False(t, refusal.Exists(), "a third one, which has no members, is not needed")
			require.True(t, g.Choice.Any())
			require.Equal(t, 2, g.Need())
			owner(c, 3)
			require.Equal(t, "0 of 1 members of gang ns/c exist", c.why(t, pod("a")))
			require.Len(t, c.Together(ref("a")), 3)
			for _, name := range []string{"a", "b", "c"} {
				c.setObject(ref(name), nil, source.More{})
				if name != "c" {
					c.dropPod(pod(name))
				}
			}
			require.Empty(t, c.gangs)
			require.Empty(t, c.lineage.Related(parent))
		})
	}
}

// A gang that is evicted as a whole has no members to spare.
func TestWhole(t *testing.T) {
	for _, whole := range []bool{false, true} {
		c, _, _ := open(t)
		ref := gang.Ref{Source: "podgroup-native", Namespace: "ns", Name: "a"}
		pg := &sigs.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}}
		pg.Spec.MinMember = 1
		c.setObject(ref, pg, source.More{EvictWhole: whole})
		for _, name := range []string{"p", "q"} {
			c.setPod(member(name, func(p *v1.Pod) {
				delete(p.Labels, scheduling.LabelPodGroup)
				p.Spec.SchedulingGroup, p.Spec.NodeName = &v1.PodSchedulingGroup{PodGroupName: &ref.Name}, "n1"
			}))
		}
		pods, least := c.Running(ref)
		require.Len(t, pods, 2)
		require.Equal(t, map[bool]int{false: 1, true: 2}[whole], least)
	}
}

// TestMinimaAreKept: a minimum that is released while its pods run is still theirs, as long as the
// object is there.
func TestMinimaAreKept(t *testing.T) {
	c, _, _ := open(t)
	c.recordDiscovery("PodGang", true)
	key := source.OwnerKey{Kind: "PodGang", Namespace: "ns", Name: "a"}
	says := func(uid types.UID, least int) {
		c.setOwner(&source.Owned{
			Key: key, Parts: map[string]source.Part{"w": {Jobs: 1, Size: least, Listed: 3}, "x": {Jobs: 1, Size: 1}},
			Object: &v1.ObjectReference{Kind: key.Kind, Namespace: "ns", Name: "a", UID: uid},
		})
	}
	for i := range 3 {
		c.setPod(member(fmt.Sprint("p", i), func(p *v1.Pod) { p.Labels = map[string]string{"grove.io/podgang": "a", "grove.io/podclique": "w"} }))
	}
	declared := func() *source.Declaration {
		return c.gangs[gang.Ref{Source: "podgang", Namespace: "ns", Name: "a/w"}].Declared
	}
	says("u", 3)
	require.Equal(t, 3, declared().Min)
	says("u", 0)
	says("u", 0)
	require.Equal(t, 3, declared().Min)
	require.Len(t, declared().Group, 2)
	says("u", 2)
	require.Equal(t, 2, declared().Min)

	x := member("x0", func(p *v1.Pod) { p.Labels = map[string]string{"grove.io/podgang": "a", "grove.io/podclique": "x"} })
	c.setPod(x)
	says("u", 0)
	require.Len(t, c.gangs[source.GangOf(x)].Declared.Group, 2)
	for i := range 3 {
		c.dropPod(c.Pod(fmt.Sprint("ns/p", i)))
	}
	require.Empty(t, c.why(t, x), "a podgroup that needs no pod and has none blocks none")
	w := func(p *v1.Pod) { p.Labels = map[string]string{"grove.io/podgang": "a", "grove.io/podclique": "w"} }
	c.setPod(member("p0", w))
	require.Equal(t, "1 of 2 members of gang ns/a/w exist", c.why(t, x))

	c.dropOwner(key)
	says("v", 0)
	require.Equal(t, 1, declared().Min, "another PodGang of that name")
	require.Empty(t, declared().Group)
}

// TestVersions: of the versions in which an API is served the first is watched, and no other; what
// is not served costs no informer.
func TestVersions(t *testing.T) {
	for name, c := range map[string]struct {
		served []string
		want   []string
	}{
		"none":           {nil, nil},
		"1.36":           {[]string{"v1alpha2"}, []string{"v1alpha2"}},
		"1.37":           {[]string{"v1alpha3", "v1beta1"}, []string{"v1beta1"}},
		"only its alpha": {[]string{"v1alpha3"}, []string{"v1alpha3"}},
	} {
		t.Run(name, func(t *testing.T) {
			object := source.ObjectOf("podgroup-native")
			lists := map[schema.GroupVersionResource]string{}
			for _, r := range object.Versions() {
				lists[r] = "PodGroupList"
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
			served := func(r schema.GroupVersionResource) (bool, error) {
				return r.GroupResource() == object.Resource.GroupResource() && slices.Contains(c.served, r.Version), nil
			}
			cache, _, _ := open(t)
			ctx, stop := context.WithCancel(t.Context())
			w := cache.watcher(ctx, Source{Dynamic: client, Served: served})
			watched := func() (versions []string) {
				for _, a := range client.Actions() {
					if a.Matches("watch", "podgroups") {
						versions = append(versions, a.GetResource().Version)
					}
				}
				return versions
			}
			for range 2 { // once more finds nothing new
				w.Discover(ctx, time.Unix(1000, 0))
			}
			require.Eventually(t, func() bool { return len(watched()) == len(c.want) }, 10*time.Second, time.Millisecond)
			require.Equal(t, c.want, watched())
			stop()
		})
	}
}

// The first gang that names an owner of an unserved kind waits for one discovery: the kind may have been installed
// a moment ago.
func TestInstalledLater(t *testing.T) {
	for name, served := range map[string]bool{"it was installed": true, "it is not there": false} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.laterServed = true
			of := schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
			is := false
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{of: "LeaderWorkerSetList"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := c.watcher(ctx, Source{
				Dynamic: client, Served: func(r schema.GroupVersionResource) (bool, error) { return r == of && is, nil },
			})
			w.Discover(ctx, c.Clock.Now())
			require.False(t, w.MustDiscover(time.Second))

			is = served
			leader := member("a-0", leaderOf("a", "0", "1"))
			c.setPod(leader)
			require.Contains(t, c.why(t, leader), "which its members name, was not found")
			require.True(t, w.MustDiscover(time.Second))
			require.False(t, w.MustDiscover(0), "it was asked for a moment ago")
			w.Discover(ctx, c.Clock.Now())
			require.False(t, w.MustDiscover(time.Second))
			if served {
				require.Contains(t, c.why(t, leader), "which its members name, was not found", "until it is seen")
			} else {
				require.Empty(t, c.why(t, leader), "its pods say enough")
			}
		})
	}
}

// A CRD that is deleted while the process starts delays no gang, and is read when it is back.
func TestGoneBeforeItIsRead(t *testing.T) {
	of := schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{of: "LeaderWorkerSetList"})
	var served, readable atomic.Bool
	client.PrependReactor("list", of.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return !readable.Load(), nil, apierrors.NewNotFound(of.GroupResource(), "")
	})
	c, _, _ := open(t)
	c.open.Store(false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := c.watcher(ctx, Source{
		Dynamic: client, Served: func(r schema.GroupVersionResource) (bool, error) { return r == of && served.Load(), nil },
	})
	served.Store(true)
	w.Discover(ctx, c.Clock.Now())
	w.Discover(ctx, c.Clock.Now())
	require.Equal(t, []string{of.GroupResource().String()}, w.Unsynced(), "it is served, and not read yet")
	served.Store(false)
	w.Discover(ctx, c.Clock.Now())
	require.Empty(t, w.Unsynced())
	served.Store(true)
	readable.Store(true)
	w.Discover(ctx, c.Clock.Now())
	watches := func(a clienttesting.Action) bool { return a.Matches("watch", of.Resource) }
	require.Eventually(t, func() bool { return slices.ContainsFunc(client.Actions(), watches) && len(w.Unsynced()) == 0 },
		10*time.Second, time.Millisecond)
}

// Missing first lists of other APIs delay all gangs for a minute, and then only their own. Missing lists of
// Muster's APIs and quotas delay all gangs.
func TestBeginsWithout(t *testing.T) {
	lws := schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
	quotas := schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
	for _, c := range []struct {
		missing schema.GroupVersionResource
		waited  time.Duration
		begins  bool
	}{
		{lws, watch.StartWithout - time.Second, false},
		{lws, watch.StartWithout, true},
		{quotas, 100 * watch.StartWithout, false},
		{sigs.PodGroups, 100 * watch.StartWithout, false},
		{koordinator.ClusterNetworkTopologies, 100 * watch.StartWithout, false},
	} {
		cache, _, _ := open(t)
		cache.ExtraResources = []ExtraResource{{Resource: quotas}}
		w := cache.watcher(t.Context(), Source{})
		w.Await("nodes", func() bool { return true })
		w.Await(c.missing.GroupResource().String(), func() bool { return false })
		require.Equal(t, c.begins, w.HasSeen(t.Context(), cache.Clock.Now(), c.waited), "%s after %s", c.missing.Resource, c.waited)
		w.Await("nodes", func() bool { return false })
		require.False(t, w.HasSeen(t.Context(), cache.Clock.Now(), 100*watch.StartWithout), "nodes are needed")
	}
}
