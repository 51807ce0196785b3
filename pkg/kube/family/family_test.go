package family

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/kube/plugin"
)

// extender is one that filters, or does not.
type extender struct {
	fwk.Extender
	name    string
	filters bool
}

func (e extender) Name() string   { return e.name }
func (e extender) IsFilter() bool { return e.filters }

func TestUnaskedExtenders(t *testing.T) {
	require.Empty(t, extenderNote(nil))
	require.Empty(t, extenderNote([]fwk.Extender{extender{name: "http://scores"}}))
	require.Contains(t, extenderNote([]fwk.Extender{extender{name: "http://scores"}, extender{name: "http://filters", filters: true}}),
		"at most for five minutes. Extenders: http://filters")
}

// handle is a profile's that is not kube-scheduler's.
type handle struct {
	fwk.Handle
	profile string
}

func (h handle) ProfileName() string { return h.profile }

// own is an added plugin.
type own struct{ name string }

func (o own) Name() string { return o.name }

// Added plugins are known by profile, also to a later caller, and cannot replace Muster's plugins.
func TestAddedPluginsAreKnownByProfile(t *testing.T) {
	factory := func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return own{"x"}, nil }
	all := Factories(Options{Plugins: frameworkruntime.Registry{"x": factory, plugin.Name: factory}})
	require.Len(t, all, 5)
	_, err := all[plugin.Name](t.Context(), nil, handle{profile: "a"})
	require.ErrorContains(t, err, "needs the handle of a kube-scheduler profile, not a family.handle")

	f := &family{added: map[string][]fwk.Plugin{}}
	note := f.recording(factory)
	require.Empty(t, f.addedTo("a"))
	for _, profile := range []string{"a", "b", "a"} {
		_, err := note(t.Context(), nil, handle{profile: profile})
		require.NoError(t, err)
	}
	require.Equal(t, []fwk.Plugin{own{"x"}, own{"x"}}, f.addedTo("a"))
	require.Len(t, f.addedTo("b"), 1)
}

// In a profile without the plugin the Gate keeps no pod out.
func TestGateWithoutPluginAdmitsAll(t *testing.T) {
	f := &family{}
	gate, err := f.newGate(t.Context(), nil, handle{profile: "a"})
	require.NoError(t, err)
	require.Nil(t, gate.(*plugin.Gate).PreEnqueue(t.Context(), nil))
}
