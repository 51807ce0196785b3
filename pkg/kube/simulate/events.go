package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/preempt"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Event is an event of the scheduler about an object, as "kubectl describe" shows it.
type Event struct {
	Object  string `json:"object"` // Kind namespace/name, or Kind name
	Type    string `json:"-"`      // Normal, Warning
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// At is where the object was read, if the event reports a mistake in the object.
	At string `json:"at,omitempty"`
	// Times counts the occurrences.
	Times int `json:"-"`
}

// recorder records the events of a simulation, and the explanation of each gang's last eviction.
type recorder struct {
	mu           sync.Mutex
	events       map[Event]int                   // occurrences, by event without Times
	explanations map[gang.Ref]status.Explanation // by preemptor, of its last eviction
}

var _ preempt.ExplanationRecorder = (*recorder)(nil)

// Evicts implements preempt.ExplanationRecorder.
func (r *recorder) Evicts(preemptor gang.Ref, why status.Explanation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.explanations == nil {
		r.explanations = map[gang.Ref]status.Explanation{}
	}
	r.explanations[preemptor] = why
}

// eviction returns the explanation of a gang's last eviction; nil if it has evicted no pod.
func (r *recorder) eviction(ref gang.Ref) *status.Explanation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why, ok := r.explanations[ref]; ok {
		return &why
	}
	return nil
}

// Eventf implements events.EventRecorder. As in a cluster, an event about an object of unknown kind is lost.
func (r *recorder) Eventf(about, _ runtime.Object, kind, reason, _, note string, args ...any) {
	ref, err := reference.GetReference(scheme.Scheme, about)
	if err != nil {
		return
	}
	object := ref.Kind + " " + ref.Name
	if ref.Namespace != "" {
		object = ref.Kind + " " + ref.Namespace + "/" + ref.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events == nil {
		r.events = map[Event]int{}
	}
	r.events[Event{Object: object, Type: kind, Reason: reason, Message: status.Clip(fmt.Sprintf(note, args...))}]++
}

// WithLogger implements events.EventRecorderLogger.
func (r *recorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

// sorted returns the events by object, reason and message.
func (r *recorder) sorted() (out []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e, times := range r.events {
		e.Times = times
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(topology.CompareNames(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return out
}

// reportedWarning is how often an event has occurred, and the position of its object at the last occurrence.
type reportedWarning struct {
	times int
	at    string
}

// warnings returns the events in all that report mistakes of users, each with the position of its object in the files. The caller
// must call it before other files are read: these may replace the object.
func (c *cluster) warnings(all []Event) (out []Event) {
	for _, e := range all {
		if !status.ReportsUserError(e.Reason) {
			continue
		}
		untimed := e
		untimed.Times = 0
		if c.reported[untimed].times != e.Times {
			c.reported[untimed] = reportedWarning{times: e.Times}
			if at, ok := c.positions[e.Object]; ok {
				c.reported[untimed] = reportedWarning{e.Times, at.String()}
			}
		}
		e.At = c.reported[untimed].at
		out = append(out, e)
	}
	return out
}
