package elasticquota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// unlike is a waiting gang of quota q with members of so many CPU, of which some are needed.
func (w *world) unlike(need int, cpu ...string) *cache.Group {
	group := &cache.Group{Pods: map[string]*v1.Pod{}}
	group.Key = gang.Ref{Namespace: "default", Name: "g"}
	group.Gangs = []gang.Gang{{Spec: gang.Spec{Ref: group.Key, Min: need}, Need: need}}
	for i, n := range cpu {
		p := w.pod(fmt.Sprint("default/g-", i), "q", "", n).DeepCopy()
		p.Labels["pod-group.scheduling.sigs.k8s.io"] = "g"
		w.setPod(p)
		m := gang.Member{Gang: group.Key, Pod: key(p)}
		group.Pending, group.Pods[m.Pod] = append(group.Pending, m), p
	}
	return group
}

func pods(choices [][]gang.Member) (all []string) {
	for _, members := range choices {
		text := ""
		for _, m := range members {
			text += m.Pod[len(m.Pod)-1:]
		}
		all = append(all, text)
	}
	return all
}

// Heterogeneous members, not all needed, are admitted in every choice that the quota allows: the lowest ranks first, then the largest
// choices.
func TestChosenMembers(t *testing.T) {
	for name, test := range map[string]struct {
		max, used string
		need      int
		cpu       []string
		want      []string
		fewest    []string
		says      string
		never     bool
	}{
		"not the lowest ranks": {max: "8", used: "0", need: 2, cpu: []string{"6", "6", "2"}, want: []string{"02"}, fewest: []string{"02"}},
		"any of them": {
			max: "16", used: "4", need: 2, cpu: []string{"6", "6", "2"}, want: []string{"01", "02"}, fewest: []string{"01", "02"},
		},
		"more of others": {
			max: "12", used: "0", need: 1, cpu: []string{"8", "8", "4", "4", "4"}, want: []string{"02", "234"}, fewest: []string{"0", "2"},
		},
		"as many as are alike": {max: "12", used: "0", need: 1, cpu: []string{"4", "4", "4", "4"}, want: []string{"012"}, fewest: []string{"0"}},
		"all": {
			max: "14", used: "0", need: 2, cpu: []string{"6", "6", "2"}, want: []string{"012"}, fewest: []string{"01", "02"},
		},
		"all are needed": {
			max: "8", used: "0", need: 3, cpu: []string{"6", "6", "2"}, fewest: []string{"012"},
			says: "Quota q: the gang requests 14 cpu; max is 8 cpu, and 0 cpu are used. The gang never starts: raise max by at least 6 cpu, or " +
				"request less.",
			never: true,
		},
		"when others have left": {
			max: "8", used: "2", need: 2, cpu: []string{"6", "6", "2"}, fewest: []string{"02"},
			says: "Quota q: the gang requests 8 cpu; max is 8 cpu, and 2 cpu are used. Wait until pods of the quota release 2 cpu, or raise max.",
		},
		"never": {
			max: "7", used: "1", need: 2, cpu: []string{"6", "6", "2"},
			says: "Quota q: the gang requests 8 cpu; max is 7 cpu, and 1 cpu are used. The gang never starts: raise max by at least 1 cpu, or " +
				"request less.",
			never: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.node("n1", "64", v1.ConditionTrue)
			w.declare("q max=" + test.max)
			w.pod("default/runs", "q", "n1", test.used)
			g := w.unlike(test.need, test.cpu...)
			choices, said := w.Admit(g)
			require.Equal(t, test.want, pods(choices))
			require.Equal(t, test.says == "", w.WouldAdmit(g))
			require.Equal(t, test.says == "", w.Remedy(g) == "")
			fewest, _ := w.MinimalChoices(g, 100)
			require.Equal(t, test.fewest, pods(fewest))
			if test.says == "" {
				require.Nil(t, said)
				return
			}
			require.Equal(t, test.says, said.Sentence)
			require.Equal(t, test.never, said.Never)
		})
	}
}

// One member requests too much of one resource and another member too much of another one; a third one may start after evictions.
func TestChosenMembersOfTwoResources(t *testing.T) {
	w := newWorld(t, nil)
	w.quota("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q, namespace: default}\nspec: {max: {cpu: " +
		"4, memory: 4}}")
	w.pod("default/runs", "q", "n1", "1")
	g := w.unlike(1, "8", "1", "4")
	for i, memory := range []string{"1", "8", "4"} {
		p := g.Pods[fmt.Sprint("default/g-", i)].DeepCopy()
		p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse(memory)
		w.setPod(p)
		g.Pods[key(p)] = p
	}
	choices, said := w.Admit(g)
	require.Empty(t, choices)
	require.False(t, said.Never, said.Text)
	fewest, _ := w.MinimalChoices(g, 100)
	require.Equal(t, []string{"2"}, pods(fewest))
}

// A gang that would be admitted is admitted, even if not all choices can be tried. Otherwise it would be retried in vain after each change
// of a quota.
func TestGangThatWouldBeAdmittedIsAdmitted(t *testing.T) {
	w := newWorld(t, nil)
	w.quota("apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuota\nmetadata: {name: q, namespace: default}\nspec: {max: {cpu: " +
		"36, memory: 20}}")
	g := w.unlike(7, strings.Fields("7 4 5 7 6 3 6 4 4 3 4 9 11 8 7 7 6 4 3")...)
	for i, memory := range strings.Fields("10 5 4 1 10 3 11 1 11 12 4 9 1 9 6 2 2 12 12") {
		p := g.Pods[fmt.Sprint("default/g-", i)].DeepCopy()
		p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse(memory)
		w.setPod(p)
		g.Pods[key(p)] = p
	}
	require.True(t, w.WouldAdmit(g))
	choices, said := w.Admit(g)
	require.NotEmpty(t, choices, said)
}

// Members with equal requests and unbound claims have one choice. A bound or shared claim may fit a node that another one does not.
func TestOwnClaims(t *testing.T) {
	for name, test := range map[string]struct {
		volume  func(v *v1.PersistentVolumeClaim, member int)
		devices func(c *resourceapi.ResourceClaim, member int)
		shared  bool // a volume
		want    []string
	}{
		"bound to nothing": {want: []string{"012"}},
		"a volume": {
			volume: func(v *v1.PersistentVolumeClaim, _ int) { v.Spec.VolumeName = "pv" }, want: []string{"012", "013", "023", "123"},
		},
		"one that is made": {volume: func(v *v1.PersistentVolumeClaim, _ int) {
			v.Annotations = map[string]string{volume.AnnSelectedNode: "n1"}
		}, want: []string{"012", "013", "023", "123"}},
		"volumes of two sizes": {
			volume: func(v *v1.PersistentVolumeClaim, i int) { v.Spec.StorageClassName = ptr.To(fmt.Sprint(i % 2)) }, want: []string{"012", "013"},
		},
		"volumes of two classes, as they were written once": {volume: func(v *v1.PersistentVolumeClaim, i int) {
			v.Annotations = map[string]string{v1.BetaStorageClassAnnotation: fmt.Sprint(i % 2)}
		}, want: []string{"012", "013"}},
		"a volume that is being deleted": {volume: func(v *v1.PersistentVolumeClaim, i int) {
			if i == 0 {
				v.DeletionTimestamp = &metav1.Time{}
			}
		}, want: []string{"012", "123"}},
		"devices that are being given back": {devices: func(c *resourceapi.ResourceClaim, i int) {
			if i == 0 {
				c.DeletionTimestamp = &metav1.Time{}
			}
		}, want: []string{"012", "123"}},
		"devices": {devices: func(c *resourceapi.ResourceClaim, i int) {
			if i == 0 {
				c.Status.Allocation = &resourceapi.AllocationResult{}
			}
		}, want: []string{"012", "123"}},
		"a volume that two share": {shared: true, want: []string{"012", "023"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newClaimed(t)
			w.declare("s max=3")
			volumes := store()
			w.volumes = corelisters.NewPersistentVolumeClaimLister(volumes)
			g := w.unlike(2, "1", "1", "1", "1")
			for i := range g.Pending {
				p := g.Pods[fmt.Sprint("default/g-", i)].DeepCopy()
				p.Labels["quota.scheduling.koordinator.sh/name"] = "s"
				v := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "v-" + p.Name}}
				if test.volume != nil {
					test.volume(v, i)
				}
				require.NoError(t, volumes.Add(v))
				of := v.Name
				if test.shared && i < 2 {
					of = "v-g-0"
				}
				p.Spec.Volumes = []v1.Volume{
					{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: of}}},
				}
				c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c-" + p.Name}}
				if c.Spec.Devices.Requests = exactly(1); test.devices != nil {
					test.devices(c, i)
				}
				require.NoError(t, w.claims.Add(c))
				p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &c.Name}}
				w.setPod(p)
				g.Pods[key(p)] = p
			}
			choices, said := w.Admit(g)
			require.Nil(t, said)
			require.Equal(t, test.want, pods(choices))
		})
	}
}

// A gang that could start without its lowest ranks asks for its fair share.
func TestChosenMembersAsk(t *testing.T) {
	w := newWorld(t, nil)
	w.node("n1", "64", v1.ConditionTrue)
	w.declare("q max=8")
	_, said := w.Admit(w.unlike(2, "6", "6", "2"))
	require.Nil(t, said)
	require.Contains(t, w.tree(), "q used cpu:0 reserved - request cpu:8 runtime cpu:8")
}
