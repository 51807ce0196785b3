package plugin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestListeners: who was let in is one, until he is kept out; who has left is swept out when there are many. One that was made again
// under the name of another is another one.
func TestListeners(t *testing.T) {
	var l listeners
	there := map[string]types.UID{}
	waits := func(name types.NamespacedName, uid types.UID) bool { return there[name.String()] == uid }
	pod := func(name, uid string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	}
	names, few := l.list(0)
	require.True(t, few)
	require.Empty(t, names)
	l.note(pod("a", "1"), true, waits)
	l.note(pod("b", "1"), true, waits)
	l.note(pod("b", "1"), false, waits)
	l.note(pod("never", "1"), false, waits)
	names, few = l.list(1)
	require.True(t, few)
	require.Equal(t, []types.NamespacedName{{Namespace: "ns", Name: "a"}}, names)
	_, few = l.list(0)
	require.False(t, few)

	l.note(pod("again", "1"), true, waits)
	l.note(pod("again", "2"), true, waits)
	there["ns/again"] = "2"
	for i := range 2 * fewListeners {
		name := fmt.Sprint("p", i)
		if there["ns/"+name] = "1"; i%2 > 0 {
			there["ns/"+name] = "2" // it was deleted, and is another one
		}
		l.note(pod(name, "1"), true, waits)
	}
	require.Contains(t, l.pods, types.NamespacedName{Namespace: "ns", Name: "again"})
	require.NotContains(t, l.pods, types.NamespacedName{Namespace: "ns", Name: "a"})
	for i := range 2 * fewListeners {
		if name := (types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("p", i)}); i%2 == 0 {
			require.Contains(t, l.pods, name)
		}
	}
	require.Less(t, len(l.pods), 2*fewListeners)
}
