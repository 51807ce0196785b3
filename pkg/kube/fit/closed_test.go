package fit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// TestOff: the domains that reservations close to a pod by terms of either side, and the holders.
func TestOff(t *testing.T) {
	plain := func(app string) *v1.Pod { return pod("p").Namespace("ns").Label("app", app).Obj() }
	apart := func(app, from, layer string) *v1.Pod {
		p := plain(app)
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: like(from), TopologyKey: layer, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
		}}}}
		return p
	}
	nodes, _ := racks()
	core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Namespaces()
	require.NoError(t,
		core.Informer().GetStore().Add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}))
	for name, c := range map[string]struct {
		pod  *v1.Pod
		come map[int]*v1.Pod // by node index
		off  fit.ClosedDomains
	}{
		"no pod is added": {pod: apart("x", "y", rack)},
		"no pod objects":  {pod: plain("x"), come: map[int]*v1.Pod{0: plain("y")}},
		"the pod does": {
			pod: apart("x", "y", rack), come: map[int]*v1.Pod{0: plain("y"), 4: plain("x")}, off: fit.ClosedDomains{rack: {"a": "n0"}},
		},
		"the others do": {pod: plain("x"), come: map[int]*v1.Pod{2: apart("y", "x", rack)}, off: fit.ClosedDomains{rack: {"b": "n2"}}},
		"both do": {
			pod: apart("x", "y", rack), come: map[int]*v1.Pod{2: apart("y", "x", rack)}, off: fit.ClosedDomains{rack: {"b": "n2"}},
		},
		"the term is about other pods": {pod: plain("x"), come: map[int]*v1.Pod{2: apart("y", "z", rack)}},
		"on the same node":             {pod: plain("x"), come: map[int]*v1.Pod{2: apart("y", "x", v1.LabelHostname)}},
		"of a layer without a name":    {pod: plain("x"), come: map[int]*v1.Pod{2: apart("y", "x", "row")}},
		"several, and one is told of": {
			pod: plain("x"), come: map[int]*v1.Pod{3: apart("y", "x", rack), 2: apart("y", "x", rack)}, off: fit.ClosedDomains{rack: {"b": "n2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			comers := fit.NewReservedMembers(core.Lister())
			for i, p := range c.come {
				comers.Add(p, fmt.Sprint(p.Labels, p.Spec.Affinity), nodes[i], fmt.Sprint("n", i))
			}
			off := comers.ClosedDomains(c.pod)
			require.Equal(t, c.off, off)
			for _, n := range nodes {
				whom, closed := off.Closes(n)
				require.Equal(t, c.off[rack][n.Labels[rack]], whom)
				require.Equal(t, whom != "", closed)
			}
		})
	}
}

// TestClosedDomainsAreNotCounted: answers remembered for a template are shared by pods with and without closed domains.
func TestClosedDomainsAreNotCounted(t *testing.T) {
	nodes, names := racks()
	f := profile(t, nodes)
	infos := make([]fwk.NodeInfo, len(names))
	for i, name := range names {
		infos[i] = info(t, f, name)
	}
	m := fit.NewMemory(f)
	member := pod("m").Req(cpu("2")).Obj()
	for _, off := range []fit.ClosedDomains{nil, {rack: {"b": "gang x"}}, {rack: {"a": "gang x", "c": "gang y"}}, nil} {
		c, err := fit.NewCounter(t.Context(), f, member)
		require.NoError(t, err)
		c.CloseDomains(off)
		counts := m.Count(t.Context(), c, infos, nil)
		s, err := fit.NewTrial(t.Context(), f, []*v1.Pod{member}, names)
		require.NoError(t, err)
		s.CloseDomains(0, off)
		for i, n := range infos {
			want, whom := offer.Slots(4), off[rack][nodes[i].Labels[rack]]
			if whom != "" {
				want = 0
				require.Contains(t, c.Fits(t.Context(), n, nil).Message(), whom)
			}
			slots, _ := c.Count(t.Context(), n, nil)
			free, _ := c.WithoutClosedDomains().Count(t.Context(), n, nil)
			require.Equal(t, []offer.Slots{want, want, 4}, []offer.Slots{slots, counts.Slots[i], free})
			require.Equal(t, want > 0, s.Fits(0, i))
			require.Empty(t, counts.Why(i).All())
		}
		require.NoError(t, s.Close())
	}
}
