package simulate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnlistedClass: a PriorityClass that the caller may not list is not reported as missing. A class that
// comes with the pod counts, and so do the system's.
func TestUnlistedClass(t *testing.T) {
	const class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n---\n"
	for name, c := range map[string]struct{ more, class, want string }{
		"not listed": {
			"", "high",
			"in.yaml: document 1, line 1: Pod default/p: spec.priorityClassName: the value of PriorityClass high is not known: no permission to list priorityclasses.scheduling.k8s.io",
		},
		"given":      {class, "high", ""},
		"a system's": {"", "system-node-critical", ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := &Set{}
			set.MarkUnlisted("priorityclasses.scheduling.k8s.io")
			require.NoError(t,
				set.Add("in.yaml",
					[]byte(c.more+"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {priorityClassName: "+c.class+", containers: [{name: c, "+
						"image: i}]}\n")))
			_, err := Run(t.Context(), Options{}, set)
			if c.want != "" {
				require.EqualError(t, err, c.want)
				return
			}
			require.NoError(t, err)
		})
	}
}
