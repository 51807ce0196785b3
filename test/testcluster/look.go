package testcluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WaitHeld waits until pods wait in Permit.
func (c *Cluster) WaitHeld(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.Wait("waits", func() string {
			if c.Profile().GetWaitingPod(types.UID(name)) != nil {
				return "waits"
			}
			return ""
		})
	}
}

// Get is a pod as it is now; nil if there is none.
func (c *Cluster) Get(name string) *v1.Pod {
	o, err := c.Client.Tracker().Get(Pods, "default", name) // a reactor may not use the client
	if err != nil {
		return nil
	}
	return o.(*v1.Pod)
}

// Evicted lists the pods for which the API server accepted a deletion, by name.
func (c *Cluster) Evicted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(c.deleted)), " ")
}

// Where says where pods are, as "name=node name>nominated".
func (c *Cluster) Where(names ...string) string {
	var out []string
	for _, name := range names {
		switch p := c.Get(name); {
		case p == nil:
			out = append(out, name+" gone")
		case p.Spec.NodeName != "":
			out = append(out, name+"="+p.Spec.NodeName)
		default:
			out = append(out, name+">"+p.Status.NominatedNodeName)
		}
	}
	return strings.Join(out, " ")
}

// WaitFor is the longest wait of a test: longer than any that the scheduler itself ends after a minute.
const WaitFor = 2 * time.Minute

// Wait waits until a value is what it should be.
func (c *Cluster) Wait(want string, value func() string) {
	c.t.Helper()
	if !c.Within(WaitFor, func() bool { return value() == want }) {
		require.Equal(c.t, want, value(), c.Describe())
	}
}

// Never waits a while in which something must not come true.
func (c *Cluster) Never(is func() bool) {
	c.t.Helper()
	require.False(c.t, c.Within(2*time.Second, is), c.Describe())
}

// Within says whether something comes true in a time.
func (c *Cluster) Within(long time.Duration, is func() bool) bool {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

// WaitQuiet waits until a count is above 0 and unchanged for more than one second, and returns it. A pod is retried
// after one second.
func (c *Cluster) WaitQuiet(count func() int) int {
	c.t.Helper()
	before := 0
	for c.Within(1500*time.Millisecond, func() bool { return count() > before }) {
		before = count()
	}
	require.Positive(c.t, before, c.Describe())
	return before
}

// Said lists the events that contain a text.
func (c *Cluster) Said(text string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if strings.Contains(e, text) {
			found = append(found, e)
		}
	}
	return found
}

// WaitSaid waits until n events with the text were recorded, and gives all that have it.
// Events come when there is time for them, also after what they tell of.
func (c *Cluster) WaitSaid(n int, text string) []string {
	c.t.Helper()
	if !c.Within(WaitFor, func() bool { return len(c.Said(text)) >= n }) {
		c.t.Fatalf("%d events, and not %d, say %q\n%s", len(c.Said(text)), n, text, c.Describe())
	}
	return c.Said(text)
}

// queued says what the scheduler's queue and the cache know of a pod.
func (c *Cluster) queued(p *v1.Pod) (says string) {
	if c.Scheduler == nil {
		return ""
	}
	if _, ok := c.Scheduler.SchedulingQueue.GetPod(p.Name, p.Namespace, nil); ok { // what it is given is the queue's to read
		says = " queued"
	}
	if p := c.Plugin.Cache.Pod(p.Namespace + "/" + p.Name); p != nil {
		ok, why := c.Plugin.Cache.Admit(p)
		_, tried, _ := c.Plugin.Cache.Tried(p)
		says += fmt.Sprintf(" cached: uid=%s admitted=%v %s tried=%v", p.UID, ok, why, tried)
	}
	return says
}

// Describe lists the objects, conditions and events, for a test that fails.
func (c *Cluster) Describe() string {
	var out []string
	list, _ := c.Client.CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
	byName := map[string]v1.Pod{}
	for _, p := range list.Items {
		byName[p.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		line := fmt.Sprintf("%s node=%q nominated=%q leaving=%v", name, p.Spec.NodeName, p.Status.NominatedNodeName, p.DeletionTimestamp != nil)
		for _, cond := range p.Status.Conditions {
			line += " " + string(cond.Type) + "=" + string(cond.Status) + " " + cmp.Or(cond.Message, cond.Reason)
		}
		out = append(out, line+c.queued(&p))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(append(append(out, "deleted "+strings.Join(c.deleted, " ")), c.events...), "\n")
}
