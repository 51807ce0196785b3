package status

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
)

// Writer runs writes in the background: for each key only the latest, and again after a failure that is not Permanent.
type Writer struct {
	// Before, unless it is nil, is called with the key of each write before that write. Set it before Run. Simulations order writes with it.
	Before func(ctx context.Context, key string)

	client  kubernetes.Interface
	dynamic dynamic.Interface
	clock   clock.WithTicker
	queue   workqueue.TypedDelayingInterface[string]
	retries workqueue.TypedRateLimiter[string] // how long a failed write waits

	mu   sync.Mutex
	jobs map[string]*job // by key; the latest wins
}

// job is a scheduled write. A newer job of the same key has another pointer.
type job struct {
	do      func(context.Context) error
	due     time.Time
	started bool
}

// NewWriter returns a Writer; nothing is written before Run. The clock clk measures the delays.
func NewWriter(client kubernetes.Interface, dyn dynamic.Interface, clk clock.WithTicker) *Writer {
	return &Writer{
		client: client, dynamic: dyn, clock: clk, jobs: map[string]*job{},
		queue:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: clk}),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay),
	}
}

// Run runs the scheduled writes in workers goroutines until ctx ends.
func (w *Writer) Run(ctx context.Context, workers int) {
	for range workers {
		go func() {
			for w.runNext(ctx) {
			}
		}()
	}
	<-ctx.Done()
	w.queue.ShutDown()
}

// Do schedules a job. It replaces a waiting job of the same key: do reads the state to write when it runs.
func (w *Writer) Do(key string, do func(context.Context) error) { w.DoAfter(key, 0, do) }

// DoAfter is Do after delay. Further calls for the key within delay cost no further write.
func (w *Writer) DoAfter(key string, delay time.Duration, do func(context.Context) error) {
	due := w.clock.Now().Add(delay)
	w.mu.Lock()
	if old := w.jobs[key]; old != nil && !old.started && old.due.Before(due) {
		due = old.due // as in the queue
	}
	w.jobs[key] = &job{do: do, due: due}
	w.mu.Unlock()
	w.queue.AddAfter(key, delay)
}

// Idle says whether no write is running or due.
func (w *Writer) Idle() bool {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if !j.due.After(now) {
			return false
		}
	}
	return true
}

// A failed write is repeated after a while, twice as long each time, until it succeeds, fails permanently, or is replaced.
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 30 * time.Second
)

// runNext runs one job. It returns false when the queue is shut down.
func (w *Writer) runNext(ctx context.Context) bool {
	key, stop := w.queue.Get()
	if stop {
		return false
	}
	defer w.queue.Done(key)
	if w.Before != nil {
		w.Before(ctx, key)
	}
	w.mu.Lock()
	j := w.jobs[key]
	if j != nil {
		j.started = true
	}
	w.mu.Unlock()
	if j == nil {
		return true
	}
	err := j.do(ctx)
	if err != nil && !Permanent(err) && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Retrying a write", "key", key, "err", err)
		delay := w.retries.When(key)
		w.mu.Lock()
		j.due, j.started = w.clock.Now().Add(delay), false
		w.mu.Unlock()
		w.queue.AddAfter(key, delay)
		return true
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "cannot write status", "key", key)
	}
	w.retries.Forget(key)
	w.mu.Lock()
	if w.jobs[key] == j { // else the queue has a newer job
		delete(w.jobs, key)
	}
	w.mu.Unlock()
	return true
}

// Custom writes status into the status of a custom resource, unless it equals old. Koordinator's CRD of PodGroup has no status
// subresource: Custom then patches the object itself.
func (w *Writer) Custom(ctx context.Context, gvr schema.GroupVersionResource, object metav1.Object, old, status any) error {
	if equality.Semantic.DeepEqual(old, status) {
		return nil
	}
	patch, err := statusPatch(object, old, status)
	if err != nil {
		return err
	}
	err = w.Patch(ctx, gvr, object.GetNamespace(), object.GetName(), patch, "status")
	if apierrors.IsNotFound(err) {
		err = w.Patch(ctx, gvr, object.GetNamespace(), object.GetName(), patch, "")
	}
	return err
}

// Patch writes a merge patch into a custom resource, or into its subresource sub unless that is "". Kinds of the whole
// cluster have the namespace "".
func (w *Writer) Patch(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string, patch []byte, sub string) error {
	_, err := w.dynamic.Resource(gvr).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch,
		metav1.PatchOptions{}, strings.Fields(sub)...) // "" has no field
	return err
}

// statusPatch returns a merge patch that sets the fields of status and removes the fields of old that status lacks. The patch
// contains the object's UID, so that it fails for a recreated object.
func statusPatch(object metav1.Object, old, status any) ([]byte, error) {
	oldFields, err := toMap(old)
	if err != nil {
		return nil, err
	}
	fields, err := toMap(status)
	if err != nil {
		return nil, err
	}
	for k := range oldFields {
		if _, ok := fields[k]; !ok {
			fields[k] = nil
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID()},
		"status":   fields,
	})
}

// toMap returns the JSON fields of v.
func toMap(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}

// Waiting is what to write into the status of a waiting pod.
type Waiting struct {
	// Node is the nominated node to set; nil does not change it, "" clears it.
	Node *string
	// Message becomes the PodScheduled condition's; "" keeps the message.
	Message string
	// Gated says that the pod waits for other members, and not for capacity: autoscalers must not add nodes for it.
	Gated bool
}

// reason returns the reason of the PodScheduled condition. Autoscalers add nodes only for Unschedulable.
func (w Waiting) reason() string {
	if w.Gated {
		return reasons.WaitingForGang
	}
	return v1.PodReasonUnschedulable
}

// Pod writes the nominated node and the PodScheduled condition of waiting into the pod's status, in one request if they differ.
func (w *Writer) Pod(ctx context.Context, pod *v1.Pod, waiting Waiting) error {
	status := pod.Status.DeepCopy()
	changed := false
	if waiting.Node != nil && status.NominatedNodeName != *waiting.Node {
		status.NominatedNodeName, changed = *waiting.Node, true
	}
	if waiting.Message != "" {
		changed = podutil.UpdatePodCondition(status, &v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: waiting.reason(), Message: Clip(waiting.Message),
			ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&pod.Status, pod.Generation, v1.PodScheduled),
		}) || changed
	}
	if !changed {
		return nil
	}
	return schedutil.PatchPodStatus(ctx, w.client, pod.Name, pod.Namespace, &pod.Status, status)
}

// Spare withdraws the announced eviction of a pod: it sets the condition DisruptionTarget to False. It does so only if the scheduler
// wrote the condition with this message prefix, and the pod is not being deleted.
func (w *Writer) Spare(ctx context.Context, pod *v1.Pod, prefix string) error {
	current, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil || current.UID != pod.UID || current.DeletionTimestamp != nil {
		return err
	}
	_, c := podutil.GetPodCondition(&current.Status, v1.DisruptionTarget)
	if c == nil || c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonPreemptionByScheduler || !strings.HasPrefix(c.Message, prefix) {
		return nil
	}
	status := current.Status.DeepCopy()
	podutil.UpdatePodCondition(status, &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionFalse, Reason: c.Reason, Message: prefix + "not evicted after all",
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&current.Status, current.Generation, v1.DisruptionTarget),
	})
	return schedutil.PatchPodStatus(ctx, w.client, current.Name, current.Namespace, &current.Status, status)
}
