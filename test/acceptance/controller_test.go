package acceptance

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/backend"
	"github.com/muster-scheduler/muster/pkg/podgang"
)

// controllers are the cases that write to an API server, one after another.
var controllers = map[string]func(*run, *cluster){
	"S000-10": rollingUpdate,
	"S000-11": func(r *run, c *cluster) {
		lws := leaderWorkerSet("x", 3)
		a := backend.Adapter{Registry: c.registry(r, "koordinator")}
		pods := leaders("x", "rev", 0, 1, 2)
		r.sync(a, lws, pods)
		require.Equal(r, []any{"x-0-rev", "x-1-rev", "x-2-rev"}, c.names(r))
		lws = leaderWorkerSet("x", 1)
		c.writes = nil
		r.sync(a, lws, pods[:1])
		require.Equal(r, replaced(in(r.Then, "podGroupsAfter")), c.names(r))
		require.Equal(r, []string{"delete x-1-rev", "delete x-2-rev"}, c.writes)
	},
	"S002-03": func(r *run, c *cluster) {
		a := backend.Adapter{Registry: c.registry(r, "workload")}
		r.sync(a, r.given(), nil)
		require.Equal(r, []any{"ml-inference-0"}, c.names(r, written[1]))
	},
	"S002-05": func(r *run, c *cluster) {
		a := backend.Adapter{Registry: c.registry(r, "workload")}
		pcs := cliqueSet("ml-inference", "", map[string]int64{"model-server": 2})
		in(pcs.Object, "spec").(object)["replicas"] = int64(3)
		r.sync(a, pcs, nil)
		require.Len(r, c.names(r, written[1]), 3)
		in(pcs.Object, "spec").(object)["replicas"] = int64(1)
		r.sync(a, pcs, nil)
		require.Equal(r, in(r.Then, "gangsAfter"), c.names(r, written[1]))
	},
	"S004-01": func(r *run, c *cluster) {
		r.sync(backend.Adapter{Registry: c.registry(r, "koordinator")}, r.given(), nil)
		require.Len(r, c.names(r), 4)
		for _, u := range c.objects(r) {
			require.Equal(r, types.UID("u1"), metav1.GetControllerOf(&u).UID)
		}
	},
	"S004-13": func(r *run, c *cluster) {
		a := backend.Adapter{Registry: c.registry(r, "koordinator")}
		r.sync(a, podGang("t-0", object{"podgroups": []any{group("a", 1), group("b", 1)}}), nil)
		after := podGang("t-0", object{"podgroups": []any{group("a", 1), group("c", 1)}})
		c.fail = func(verb, name string) error {
			if verb == "apply" && name == "t-0-c" {
				return errors.New("the API server is away")
			}
			return nil
		}
		require.Error(r, r.try(a, after, nil))
		require.Equal(r, prefixed(in(r.Then, "afterFailure")), c.names(r))
		c.fail = nil
		r.sync(a, after, nil)
		require.Equal(r, prefixed(in(r.Then, "afterRetry")), c.names(r))
	},
	"S004-14": func(r *run, c *cluster) {
		theirs := object{"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "u9", "controller": true}
		u := &unstructured.Unstructured{Object: object{
			"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": object{"minMember": int64(7)},
			"metadata": object{"namespace": "default", "name": "demo-0-a", "ownerReferences": []any{theirs}},
		}}
		require.NoError(r, c.client.Create(r.Context(), u))
		was := c.podGroup(r, "demo-0-a")
		a := backend.Adapter{Registry: c.registry(r, "koordinator")}
		err := r.try(a, podGang("demo-0", object{"podgroups": []any{group("a", 1), group("b", 1)}}), nil)
		require.Equal(r, in(r.Then, "error"), err != nil)
		require.Equal(r, was, c.podGroup(r, "demo-0-a"))
		require.Empty(r, c.writes, "nothing is written for the gang")
		require.Contains(r, c.told, reasons.PodGroupConflict)
	},
	"S004-15": func(r *run, c *cluster) {
		a := backend.Adapter{Registry: c.registry(r, "koordinator")}
		gang := podGang("t-0", object{"podgroups": []any{group("a", 1)}})
		r.sync(a, gang, nil)
		u := c.podGroup(r, "t-0-a")
		annotations, labels := u.GetAnnotations(), u.GetLabels()
		annotations["team"], labels["team"] = "x", "x"
		u.SetAnnotations(annotations)
		u.SetLabels(labels)
		u.SetFinalizers([]string{"example.com/keep"})
		require.NoError(r, c.client.Update(r.Context(), u))
		in(gang.Object, "spec").(object)["podgroups"] = []any{group("a", 2)}
		r.sync(a, gang, nil)
		u = c.podGroup(r, "t-0-a")
		require.EqualValues(r, 2, in(u.Object, "spec", "minMember"))
		require.Equal(r, "x", u.GetAnnotations()["team"])
		require.Equal(r, "x", u.GetLabels()["team"])
		require.Equal(r, []string{"example.com/keep"}, u.GetFinalizers())
	},
	"S004-16": func(r *run, c *cluster) {
		a := backend.Adapter{Registry: c.registry(r, "koordinator", "podgang", "volcano", "workload", "muster")}
		for _, scheduler := range []string{"koord-scheduler", "muster-scheduler", "volcano", ""} {
			for _, least := range []int64{3, 0} {
				gang := podGang("t-0", object{"podgroups": []any{group("a", least), group("b", 1)}})
				gang.SetLabels(map[string]string{workloads.LabelSchedulerName: scheduler})
				r.sync(a, gang, nil)
			}
			b, err := a.Registry.For(scheduler)
			require.NoError(r, err)
			names, err := b.GetExistingResourceNames(r.Context(), "default", podgang.OwnerOf(podGang("t-0", nil)))
			require.NoError(r, err)
			require.NotEmpty(r, names)
			c.check(r, scheduler, in(r.Then, "minMember"))
		}
	},
}

// check looks for the minimum in what was written for a scheduler.
func (c *cluster) check(r *run, scheduler string, least any) {
	switch scheduler {
	case "volcano":
		u := c.objects(r, written[5])[0]
		require.EqualValues(r, 4, in(u.Object, "spec", "minMember"))
		require.Equal(r, least, in(in(u.Object, "spec", "subGroupPolicy").([]any)[0], "subGroupSize"))
	case "":
		u := c.objects(r, written[1])[0]
		require.Equal(r, least, in(in(u.Object, "spec", "podGroups").([]any)[0], "policy", "gang", "minCount"))
	default:
		require.Equal(r, least, in(c.podGroup(r, "t-0-a").Object, "spec", "minMember"))
	}
}

// TestControllers runs each case of kind controller.
func TestControllers(t *testing.T) {
	for _, c := range load(t).Tests {
		f, ok := controllers[c.ID]
		require.Equal(t, slices.Contains(c.Kind, "controller"), ok, c.ID)
		if ok {
			t.Run(c.ID, func(t *testing.T) { f(&run{T: t, acceptanceCase: c}, newCluster(t)) })
		}
	}
}

// sync is one reconcile.
func (r *run) sync(a backend.Adapter, u *unstructured.Unstructured, pods []metav1.Object) {
	require.NoError(r, r.try(a, u, pods))
}

func (r *run) try(a backend.Adapter, u *unstructured.Unstructured, pods []metav1.Object) error {
	var infos []*podgang.PodGangInfo
	var err error
	switch u.GetKind() {
	case "LeaderWorkerSet":
		infos, err = podgang.FromLeaderWorkerSet(u, "", pods)
	case "PodCliqueSet":
		infos, err = podgang.FromPodCliqueSet(u, nil, pods)
	default:
		infos = r.build(u)
	}
	require.NoError(r, err)
	_, err = a.Sync(r.Context(), "default", podgang.OwnerOf(u), infos)
	return err
}

func prefixed(names any) (out []any) {
	for _, name := range names.([]any) {
		out = append(out, "t-0-"+name.(string))
	}
	return out
}

func replaced(names any) (out []any) {
	for range names.([]any) {
		out = append(out, "x-0-rev")
	}
	return out
}

func leaderWorkerSet(name string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": object{"namespace": "default", "name": name, "uid": "l1"},
		"spec": object{
			"replicas":             replicas,
			"leaderWorkerTemplate": object{"size": int64(4), "workerTemplate": object{"spec": object{"schedulerName": "koord-scheduler"}}},
		},
	}}
}

// leaders returns the leader pods of some groups of a revision.
func leaders(lws, revision string, groups ...int) (out []metav1.Object) {
	for _, g := range groups {
		out = append(out, &metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", lws, g), UID: types.UID(fmt.Sprintf("%d-%s", g, revision)),
			Labels: map[string]string{
				lwsv1.SetNameLabelKey: lws, lwsv1.GroupIndexLabelKey: fmt.Sprint(g), lwsv1.RevisionKey: revision,
				"leaderworkerset.sigs.k8s.io/worker-index": "0",
			},
		})
	}
	return out
}

// rollingUpdate: a surge group of the new revision comes, the old group goes and comes again, the surge goes.
func rollingUpdate(r *run, c *cluster) {
	lws := leaderWorkerSet("x", 1)
	a := backend.Adapter{Registry: c.registry(r, "koordinator")}
	r.sync(a, lws, leaders("x", "A", 0))
	r.sync(a, lws, slices.Concat(leaders("x", "A", 0), leaders("x", "B", 1)))
	require.Equal(r, in(r.Then, "podGroupsDuring"), c.names(r))
	r.sync(a, lws, slices.Concat(leaders("x", "B", 0), leaders("x", "B", 1)))
	r.sync(a, lws, leaders("x", "B", 0))
	require.Equal(r, in(r.Then, "podGroupsAfter"), c.names(r))
}

// TestRecreatedGroupIsNewGang: a LeaderWorkerSet group is a gang again after all of its pods were recreated. Its PodGroup is a new one, so
// a scheduler that treats the old one as satisfied still waits for all pods.
func TestRecreatedGroupIsNewGang(t *testing.T) {
	r, c := &run{T: t}, newCluster(t)
	a := backend.Adapter{Registry: c.registry(r, "koordinator")}
	lws := leaderWorkerSet("x", 1)
	sync := func(pods []metav1.Object) {
		infos, err := podgang.FromLeaderWorkerSet(lws, "A", pods)
		require.NoError(t, err)
		c.writes = nil
		_, err = a.Sync(t.Context(), "default", podgang.OwnerOf(lws), infos)
		require.NoError(t, err)
	}
	sync(leaders("x", "A", 0))
	sync(nil) // the leader is away for a moment: what is remembered of it stays
	require.Empty(t, c.writes)
	sync(leaders("x", "A", 0))
	require.Empty(t, c.writes)
	again := leaders("x", "A", 0)
	again[0].SetUID("another")
	sync(again)
	require.Equal(t, []string{"delete x-0-A", "apply x-0-A"}, c.writes)

	gang := podGang("t-0", object{"podgroups": []any{group("a", 1)}})
	r.sync(a, gang, nil)
	pod := c.pod(r, "t-0", "a", "a-0")
	u := c.podGroup(r, "t-0-a")
	require.NoError(t, unstructured.SetNestedField(u.Object, "Running", "status", "phase"))
	require.NoError(t, c.client.Update(t.Context(), u))
	c.writes = nil
	r.sync(a, gang, nil)
	require.Empty(t, c.writes, "there is a pod of it")
	require.NoError(t, c.client.Delete(t.Context(), pod))
	c.writes = nil
	r.sync(a, gang, nil)
	require.Equal(t, []string{"delete t-0-a", "apply t-0-a"}, c.writes)
	c.writes = nil
	r.sync(a, gang, nil)
	require.Empty(t, c.writes)

	u = c.podGroup(r, "t-0-a")
	require.NoError(t, unstructured.SetNestedField(u.Object, "Running", "status", "phase"))
	require.NoError(t, c.client.Update(t.Context(), u))
	c.writes = nil
	r.sync(a, podGang("t-0", object{"podgroups": []any{group("a", 0)}}), nil)
	require.Empty(t, c.writes, "only the object remembers the minimum")
}

// TestDrift: what others change of what is ours is put right, what they add is left, and what we say no more goes.
func TestDrift(t *testing.T) {
	r, c := &run{T: t}, newCluster(t)
	a := backend.Adapter{Registry: c.registry(r, "koordinator")}
	gang := podGang("t-0", object{"podgroups": []any{group("a", 1)}, "topologyConstraint": required("topology.kubernetes.io/rack")})
	r.sync(a, gang, nil)
	u := c.podGroup(r, "t-0-a")
	require.NoError(t, unstructured.SetNestedField(u.Object, int64(9), "spec", "minMember"))
	require.NoError(t, c.client.Update(t.Context(), u, client.FieldOwner("somebody")))
	r.sync(a, gang, nil)
	require.EqualValues(t, 1, in(c.podGroup(r, "t-0-a").Object, "spec", "minMember"))
	delete(in(gang.Object, "spec").(object), "topologyConstraint")
	r.sync(a, gang, nil)
	require.NotContains(t, c.podGroup(r, "t-0-a").GetAnnotations(), "gang.scheduling.koordinator.sh/network-topology-spec")
	c.writes = nil
	r.sync(a, gang, nil)
	require.Empty(t, c.writes)
}

// TestAnotherScheduler: what was written for one scheduler goes when the gang is another one's.
func TestAnotherScheduler(t *testing.T) {
	r, c := &run{T: t}, newCluster(t)
	a := backend.Adapter{Registry: c.registry(r, "koordinator", "workload", "volcano")}
	pcs := cliqueSet("p", "koord-scheduler", map[string]int64{"w": 2})
	r.sync(a, pcs, nil)
	require.Equal(t, []any{"p-0-w"}, c.names(r))
	pcs = cliqueSet("p", "volcano", map[string]int64{"w": 2})
	r.sync(a, pcs, nil)
	require.Empty(t, c.names(r))
	require.Equal(t, []any{"p-0"}, c.names(r, written[5]))
	require.NoError(t, a.Delete(t.Context(), "default", podgang.OwnerOf(pcs)))
	require.Empty(t, c.names(r, written[5]))
}

// TestFixedFields: what can only be set at creation is set by making the object again; since 1.37 the number can be
// changed.
func TestFixedFields(t *testing.T) {
	for native, want := range map[string][]string{
		"v1alpha1": {"delete t-0", "apply t-0"},
		"v1beta1":  {"apply t-0", "apply t-0-a"},
	} {
		r, c := &run{T: t}, newCluster(t)
		c.native = native
		a := backend.Adapter{Registry: c.registry(r, "workload")}
		r.sync(a, podGang("t-0", object{"podgroups": []any{group("a", 1)}}), nil)
		c.writes = nil
		r.sync(a, podGang("t-0", object{"podgroups": []any{group("a", 2)}}), nil)
		require.Equal(t, want, c.writes, native)
		c.writes = nil
		r.sync(a, podGang("t-0", object{"podgroups": []any{group("a", 2)}}), nil)
		require.Empty(t, c.writes, native)
	}
}
