package testcluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/kube/departure"
)

// The trackers behind the clients panic when a watcher is so many events behind, as happens on a busy machine.
func init() { watch.DefaultChanSize = 10_000 }

// Eventf implements events.EventRecorder.
func (c *Cluster) Eventf(about, related runtime.Object, kind, reason, _, note string, args ...any) {
	name := func(o runtime.Object) string {
		m, err := meta.Accessor(o)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%T/%s", o, m.GetName())
	}
	line := fmt.Sprintf("%s %s %s: %s", name(about), kind, reason, fmt.Sprintf(note, args...))
	if related != nil {
		line += " [" + name(related) + "]"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, line)
}

// WithLogger implements events.EventRecorderLogger.
func (c *Cluster) WithLogger(klog.Logger) events.EventRecorderLogger { return c }

func (c *Cluster) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	b := create.GetObject().(*v1.Binding)
	p := c.Get(b.Name)
	if p == nil {
		return true, nil, fmt.Errorf("no pod %s", b.Name)
	}
	p = p.DeepCopy()
	p.Spec.NodeName, p.Status.NominatedNodeName, p.Status.Phase = b.Target.Name, "", v1.PodRunning
	for key, value := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
	return true, b, c.Client.Tracker().Update(Pods, p, "default")
}

func (c *Cluster) delete(action clienttesting.Action) (bool, runtime.Object, error) {
	name := action.(clienttesting.DeleteAction).GetName()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted = append(c.deleted, name)
	if !c.stay {
		return false, nil, nil
	}
	o, err := c.Client.Tracker().Get(Pods, "default", name)
	if err != nil {
		return true, nil, err
	}
	p := o.(*v1.Pod).DeepCopy()
	if c.unseen {
		return true, p, nil
	}
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return true, nil, c.Client.Tracker().Update(Pods, p, "default")
}

// GangEviction returns the function that evicts a pod. A test may replace it before the first eviction.
func (c *Cluster) GangEviction() *departure.PreemptPod {
	return &c.Plugin.Preemptor.Executor.PreemptPod
}

// HoldEvictions has evictions wait until the function that it returns is called.
func (c *Cluster) HoldEvictions(evict *departure.PreemptPod) (goOn func()) {
	held, do := make(chan struct{}), *evict
	*evict = func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		<-held
		return do(ctx, to, by, victim, plugin)
	}
	goOn = sync.OnceFunc(func() { close(held) })
	c.t.Cleanup(goOn)
	return goOn
}

// Stay has deleted pods stay, terminating, until Release.
func (c *Cluster) Stay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stay = true
}

// Unseen keeps deleted pods until Release, and no watcher sees the deletion: the scheduler learns late of what the API
// server has accepted.
func (c *Cluster) Unseen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stay, c.unseen = true, true
}

// Release lets pods go that stay.
func (c *Cluster) Release() {
	c.mu.Lock()
	c.stay, c.unseen = false, false
	names := slices.Clone(c.deleted)
	c.mu.Unlock()
	for _, name := range names {
		c.alone(func(tracker clienttesting.ObjectTracker) error {
			_ = tracker.Delete(Pods, "default", name)
			return nil
		})
	}
}

// Request is something that the scheduler asks of the API server about a pod.
type Request struct {
	What string // "delete", "binding" or "status"
	Pod  string
}

// Answering has requests answered so from now on; nil is as ever.
func (c *Cluster) Answering(f func(Request) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = f
}

// Refusing has deletions answered so from now on.
func (c *Cluster) Refusing(f func(pod string) error) {
	c.Answering(func(r Request) error {
		if r.What != "delete" {
			return nil
		}
		return f(r.Pod)
	})
}

// answer refuses requests as a test has it.
func (c *Cluster) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	var r Request
	switch action := action.(type) {
	case clienttesting.DeleteAction:
		r = Request{"delete", action.GetName()}
	case clienttesting.CreateAction:
		if b, ok := action.GetObject().(*v1.Binding); ok {
			r = Request{"binding", b.Name}
		}
	case clienttesting.PatchAction:
		r = Request{action.GetSubresource(), action.GetName()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Pod == "" || c.refuse == nil {
		return false, nil, nil
	}
	err := c.refuse(r)
	return err != nil, nil, err
}
