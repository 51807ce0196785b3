package pace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// fails is a profile of which bindings end so, and of which the PreBind plugins have nothing to do if it is idle.
type fails struct {
	framework.Framework
	binds, asked *fwk.Status
	idle         bool
	has          []runtime.Object // what the API server has

	ran, asks int
}

func (f *fails) ClientSet() kubernetes.Interface { return fake.NewClientset(f.has...) }

func (f *fails) RunBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return f.binds
}

func (f *fails) RunPreBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	f.ran++
	return nil
}

func (f *fails) RunPreBindPreFlights(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) *fwk.Status {
	if f.asks++; f.asked != nil {
		return f.asked
	}
	state.SetSkipPreBindPlugins(sets.New[string]())
	if f.idle {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// TestFailedBindingSaysWhetherNodeIsAtFault: a binding that the API server rejects would be rejected again, so its
// node is at fault. A request without an answer says nothing about the node.
func TestFailedBindingSaysWhetherNodeIsAtFault(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	running := func(err error) *fwk.Status { // as the framework has it
		return fwk.AsStatus(fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err))
	}
	for name, c := range map[string]struct {
		binds *fwk.Status
		bare  bool
		want  bool
	}{
		"it is bound":        {},
		"no answer":          {binds: running(&url.Error{Op: "Post", URL: "https://api", Err: io.EOF}), want: true},
		"the process ends":   {binds: running(context.Canceled), want: true},
		"a gateway gives up": {binds: running(apierrors.NewTimeoutError("later", 1)), want: true},
		"too many requests":  {binds: running(apierrors.NewTooManyRequests("later", 1)), want: true},
		"a webhook denies it": {binds: running(&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: `admission webhook "nodes.example.com" denied the request: not here`,
		}})},
		"a webhook does not answer":   {binds: running(apierrors.NewInternalError(errors.New("calling webhook"))), want: true},
		"etcd is away":                {binds: running(apierrors.NewServiceUnavailable("etcd")), want: true},
		"a token has run out":         {binds: running(apierrors.NewUnauthorized("no")), want: true},
		"a policy denies it":          {binds: running(apierrors.NewForbidden(pods, "a", errors.New("node-6 takes no pod")))},
		"the pod has gone":            {binds: running(apierrors.NewNotFound(pods, "a")), want: true},
		"it is bound already":         {binds: running(apierrors.NewConflict(pods, "a", errors.New("pod a is already assigned"))), want: true},
		"the binding is wrong":        {binds: running(apierrors.NewBadRequest("no"))},
		"a plugin refuses":            {binds: fwk.NewStatus(fwk.Unschedulable, "no")},
		"a plugin of another project": {binds: running(io.EOF), bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Options{})
			p := &profile{Framework: &answers{Framework: &fails{binds: c.binds}, foreignBinder: c.bare}, lane: l, foreignBinder: c.bare}
			state := framework.NewCycleState()
			require.False(t, Unanswered(state), "it has not been tried")
			require.Equal(t, c.binds, p.RunBindPlugins(t.Context(), state, &v1.Pod{}, "node"))
			require.Equal(t, c.want, Unanswered(state))
			require.Equal(t, c.want, Unanswered(state.Clone()))
			requireIdle(t, l, defaultBindings)
		})
	}
	// The request was carried out, and its answer was lost: nothing is given back with which the pod runs.
	pod := func(uid types.UID, node string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid}, Spec: v1.PodSpec{NodeName: node}}
	}
	for name, c := range map[string]struct {
		is   *v1.Pod
		bare bool
		done bool
	}{
		"it has its node":    {is: pod("1", "node"), done: true},
		"it has none yet":    {is: pod("1", "")},
		"it has another one": {is: pod("1", "node-2")},
		"it was made anew":   {is: pod("2", "node")},
		"it has its node, by another project's plugin": {is: pod("1", "node"), bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			lost := running(apierrors.NewTimeoutError("later", 1))
			a := &answers{Framework: &fails{binds: lost, has: []runtime.Object{c.is}}, foreignBinder: c.bare}
			state := framework.NewCycleState()
			s := a.RunBindPlugins(t.Context(), state, pod("1", ""), "node")
			require.Equal(t, c.done, s.IsSuccess())
			require.Equal(t, !c.done && !c.bare, Unanswered(state))
		})
	}
	t.Run("its turn does not come any more", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l := New(Options{Bindings: 1})
		require.NoError(t, l.slots.acquire(t.Context(), l.slots.turn(0)))
		state := framework.NewCycleState()
		require.False(t, (&profile{Framework: &fails{}, lane: l}).RunBindPlugins(ctx, state, &v1.Pod{}, "node").IsSuccess())
		require.True(t, Unanswered(state))
	})
}

// TestOnlyPluginsWithWorkRunBeforeBind: kube-scheduler asks the plugins first only with a feature that Muster leaves out.
func TestOnlyPluginsWithWorkRunBeforeBind(t *testing.T) {
	broken := fwk.AsStatus(errors.New("no volumes for node"))
	for name, c := range map[string]struct {
		profile fails
		claims  int
		bare    bool
		known   bool // kube-scheduler has asked them
		want    *fwk.Status
		ran     int
		asks    int
	}{
		"idle":                   {profile: fails{idle: true}, asks: 1},
		"idle, with claims":      {profile: fails{idle: true}, claims: 1, asks: 1},
		"busy":                   {asks: 1, ran: 1},
		"busy, with claims":      {claims: 1, asks: 1, ran: 1},
		"one of them fails":      {profile: fails{asked: broken}, want: broken, asks: 1},
		"they have been asked":   {known: true, ran: 1},
		"idle where others bind": {profile: fails{idle: true}, bare: true, asks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Options{})
			p := &profile{Framework: &answers{Framework: &c.profile, foreignBinder: c.bare}, lane: l, foreignBinder: c.bare}
			state := framework.NewCycleState()
			if c.known {
				state.SetSkipPreBindPlugins(sets.New[string]())
			}
			pod := &v1.Pod{Spec: v1.PodSpec{ResourceClaims: make([]v1.PodResourceClaim, c.claims)}}
			require.Equal(t, c.want, p.RunPreBindPlugins(t.Context(), state, pod, "node"))
			require.Equal(t, c.ran, c.profile.ran)
			require.Equal(t, c.asks, c.profile.asks)
			requireIdle(t, l, defaultBindings)
		})
	}
}
