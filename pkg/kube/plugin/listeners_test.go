package plugin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A tried pod is listed until it is kept out. Names without a waiting pod are swept out when there are many.
func TestListeners(t *testing.T) {
	var l listeners
	there := map[string]bool{}
	waits := func(name types.NamespacedName) bool { return there[name.Name] }
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	names, few := l.list(0)
	require.True(t, few)
	require.Empty(t, names)
	l.note(pod("a"), true, waits)
	l.note(pod("b"), true, waits)
	l.note(pod("b"), false, waits)
	l.note(pod("never"), false, waits)
	names, few = l.list(1)
	require.True(t, few)
	require.Equal(t, []types.NamespacedName{{Namespace: "ns", Name: "a"}}, names)
	_, few = l.list(0)
	require.False(t, few)

	for i := range 2 * fewListeners {
		name := fmt.Sprint("p", i)
		there[name] = i%2 == 0
		l.note(pod(name), true, waits)
	}
	require.NotContains(t, l.pods, types.NamespacedName{Namespace: "ns", Name: "a"})
	for i := range fewListeners {
		require.Contains(t, l.pods, types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("p", 2*i)})
	}
	require.Less(t, len(l.pods), 2*fewListeners)
}
