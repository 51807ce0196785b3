package source_test

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// on binds a pod.
func on(node string, p *v1.Pod) *v1.Pod {
	p.Spec.NodeName = node
	return p
}

// gangOf is what the cluster says of the gang of some pods.
func gangOf(pods ...*v1.Pod) source.Gang {
	g := source.Gang{Ref: source.GangOf(pods[0]), Pods: map[string]*v1.Pod{}, Denied: map[schema.GroupVersionResource]bool{}}
	for _, p := range pods {
		g.Pods[convert.PodKey(p)] = p
	}
	return g
}

// deny is every resource of another project.
func deny(g source.Gang) source.Gang {
	for _, p := range source.Permissions() {
		if p.Optional {
			g.Denied[schema.GroupVersionResource{Group: p.Group, Version: p.Version, Resource: p.Resource}] = true
		}
	}
	return g
}

// TestRoles: the file that messages name permits to read what they are about.
func TestRoles(t *testing.T) {
	files, err := fs.Sub(manifests.SourceRBAC, "rbac/sources")
	require.NoError(t, err)
	for _, p := range source.Permissions() {
		r := schema.GroupVersionResource{Group: p.Group, Version: p.Version, Resource: p.Resource}
		of := r
		of.Resource = strings.TrimSuffix(r.Resource, "/status")
		require.Equal(t, p.Optional, source.Foreign(of), r)
		if !p.Optional {
			require.Empty(t, source.RoleOf(of), r)
			continue
		}
		role := source.RoleOf(of)
		require.Contains(t, role, "rbac/sources/", r)
		data, err := fs.ReadFile(files, role[len("rbac/sources/"):])
		require.NoError(t, err)
		var object struct {
			Rules []struct{ APIGroups, Resources []string }
		}
		first, _, _ := bytes.Cut(data, []byte("\n---"))
		require.NoError(t, yaml.Unmarshal(first, &object))
		require.True(t, slices.ContainsFunc(object.Rules, func(rule struct{ APIGroups, Resources []string }) bool {
			return slices.Contains(rule.APIGroups, r.Group) && slices.Contains(rule.Resources, r.Resource)
		}), "%s in %s", r, role)
	}
}

// TestMissing: the declaration of a gang without a known owner or object, and its number of members. The gang is
// declared again when members are created, deleted or bound.
func TestMissing(t *testing.T) {
	set, worker := func() *v1.Pod { return lwsPod("a", "0", "0", "2") }, func(i string) *v1.Pod { return jobSetPod("w", "0", i) }
	vj := func(name string) *v1.Pod {
		return pod(name, nil, words{"scheduling.k8s.io/group-name", "vj"})
	}
	finished := on("n", worker("3"))
	finished.Status.Phase = v1.PodSucceeded
	expected := func(g source.Gang) source.Gang { g.Expected = true; return g }
	for name, c := range map[string]struct {
		gang source.Gang
		want string
		min  int
	}{
		"a JobSet that is not read": {
			gangOf(worker("0")),
			"problem: JobSet default/js, which its members name, was not found, and Muster has read no object of this kind: " +
				"check that Muster may read it (manifests/rbac/sources/jobset.yaml)", 1,
		},
		"one that may not be read": {
			deny(gangOf(worker("0"))),
			"problem: JobSet default/js, which its members name, cannot be read, because Muster has no permission: " +
				"apply manifests/rbac/sources/jobset.yaml", 1,
		},
		"one that does not exist": {
			expected(gangOf(worker("0"))), "problem: JobSet default/js, which its members name, was not found",
			1,
		},
		"running members count": {
			expected(gangOf(on("n", worker("0")), on("n", worker("1")), worker("2"))),
			"problem: JobSet default/js, which its members name, was not found", 2,
		},
		"finished members do not": {
			expected(gangOf(on("n", worker("0")), finished)),
			"problem: JobSet default/js, which its members name, was not found", 1,
		},
		"a LeaderWorkerSet that does not exist": {
			expected(gangOf(set())),
			"problem: LeaderWorkerSet default/a, which its members name, was not found", 1,
		},
		"a set that may not be read": {deny(gangOf(set())), reasons.OwnerNotRead, 2},
		"a set that is not read":     {gangOf(set()), "", 2},
		"Volcano's may not be read": {
			deny(gangOf(vj("v"))),
			"problem: Muster has no permission to read PodGroup ns/vj: apply manifests/rbac/sources/volcano.yaml", 1,
		},
		"running members count there, too": {
			deny(gangOf(on("n", vj("v")), on("n", vj("w")), vj("x"))),
			"problem: Muster has no permission to read PodGroup ns/vj: apply manifests/rbac/sources/volcano.yaml", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, ok := source.Declare(c.gang, source.Defaults{NetworkTopologyAware: true})
			require.True(t, ok)
			require.Equal(t, c.want, drawn(d))
			require.Equal(t, c.min, d.Min)
			if d.Problem.Exists() {
				require.Equal(t, gang.Missing, d.Problem.By, "it waits, and is not rejected")
				require.True(t, d.DependsOnMembers)
				require.True(t, d.Counted, "that so many run does not say that it is whole")
				require.True(t, d.MayChangeWith(worker("9")))
			}
		})
	}
	_, ok := source.Declare(gangOf(vj("v")), source.Defaults{})
	require.False(t, ok, "it may still be made")
	g := deny(gangOf(pod("p", words{"pod-group.scheduling.sigs.k8s.io", "a"}, nil)))
	_, ok = source.Declare(g, source.Defaults{})
	require.False(t, ok, "ours are never denied: without them nothing runs")
}

// TestMissingOwnersOfPodGroups: a PodGroup is not planned without what its owner may say, if that
// can be known.
func TestMissingOwnersOfPodGroups(t *testing.T) {
	pg := podGroup(2, nil)
	pg.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubeflow.org/v2beta1", Kind: "MPIJob", Name: "m"}}
	g := source.Gang{
		Ref: gang.Ref{Source: "podgroup-x", Namespace: "ns", Name: "a"}, Object: pg,
		Denied: map[schema.GroupVersionResource]bool{},
	}
	says := func(g source.Gang) string {
		d, ok := source.Declare(g, source.Defaults{NetworkTopologyAware: true, Layers: topo12})
		require.True(t, ok)
		require.Equal(t, 2, d.Min)
		return drawn(d)
	}
	require.Empty(t, says(g), "MPIJobs are not read")
	require.Equal(t, reasons.OwnerNotRead, says(deny(g)))
	g.Expected, g.Denied = true, nil
	require.Equal(t, "problem: MPIJob ns/m, which owns PodGroup ns/a, was not found", says(g))
	pg.Annotations = map[string]string{"gang.scheduling.koordinator.sh/network-topology-spec": "{"}
	require.Contains(t, says(g), "problem: gang.scheduling.koordinator.sh/network-topology-spec",
		"what is wrong comes before what is waited for")
	pg.Annotations = nil
	g.Owner = owned(t, object(t, "{kind: MPIJob, metadata: {namespace: ns, name: m}}"))
	require.Empty(t, says(g))
}

// TestReads: which gangs are declared again when Muster may read a resource, or no longer.
func TestReads(t *testing.T) {
	resource := func(kind string) schema.GroupVersionResource {
		return source.Owners[slices.IndexFunc(source.Owners, func(o *source.Owner) bool { return o.Kind == kind })].Resource
	}
	vj, js := gangOf(pod("v", nil, words{"scheduling.k8s.io/group-name", "vj"})), gangOf(jobSetPod("w", "0", "0"))
	for _, c := range []struct {
		gang  source.Gang
		owner string
		of    schema.GroupVersionResource
		want  bool
	}{
		{vj, "", source.ObjectOf("podgroup-volcano").Resource, true},
		{vj, "", resource("JobSet"), false},
		{js, "JobSet", resource("JobSet"), true},
		{js, "JobSet", resource("Job"), false},
		{vj, "TrainJob", resource("TrainJob"), true},
		{js, "", schema.GroupVersionResource{}, false},
	} {
		require.Equal(t, c.want, source.Reads(c.gang, source.OwnerKey{Kind: c.owner}, c.of), "%v %s %s", c.gang.Ref, c.owner, c.of)
	}
}

// TestOwns: an object does not own the gangs of a former object of its name.
func TestOwns(t *testing.T) {
	js := func(uid string) *source.Owned {
		return owned(t, object(t, "{kind: JobSet, metadata: {namespace: default, name: js, uid: '"+uid+"'}}"))
	}
	of := func(uid string) gang.Ref {
		p := jobSetPod("w", "0", "0")
		p.Labels["jobset.sigs.k8s.io/jobset-uid"] = uid
		return source.GangOf(p)
	}
	var none *source.Owned
	require.False(t, none.Owns(of("")))
	require.True(t, js("1").Owns(of("1")))
	require.False(t, js("1").Owns(of("2")))
	require.True(t, js("1").Owns(of("")), "older controllers do not say")
	require.True(t, js("").Owns(of("1")))
	require.NotEqual(t, of("1"), of("2"))
	require.Equal(t, of("1").String(), of("2").String(), "people know them by one name")
	job := pod("j", words{"batch.kubernetes.io/job-name", "j", "batch.kubernetes.io/controller-uid", "7"},
		words{"gang.scheduling.koordinator.sh/min-available", "1"})
	require.Equal(t, gang.Ref{Source: "job", Namespace: "ns", Name: "j", UID: "7"}, source.GangOf(job))
}
