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

// Event is what the scheduler told about an object, as "kubectl describe" shows it.
type Event struct {
	Object  string `json:"object"` // Kind namespace/name, or Kind name
	Type    string `json:"-"`      // Normal, Warning
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// At is where the object was read, of what is wrong with it.
	At string `json:"at,omitempty"`
	// Times says how often it was told.
	Times int `json:"-"`
}

// recorder keeps the events of a simulation, and why gangs have evicted.
type recorder struct {
	mu     sync.Mutex
	events map[Event]int                   // without Times
	why    map[gang.Ref]status.Explanation // by gang, of its last eviction
}

var _ preempt.Witness = (*recorder)(nil)

// Evicts implements preempt.Witness.
func (r *recorder) Evicts(of gang.Ref, why status.Explanation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.why = map[gang.Ref]status.Explanation{}
	}
	r.why[of] = why
}

// eviction is why a gang has evicted where it has; nil if it has not.
func (r *recorder) eviction(of gang.Ref) *status.Explanation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why, ok := r.why[of]; ok {
		return &why
	}
	return nil
}

// Eventf implements events.EventRecorder. As in a cluster, nobody hears of an object that
// does not say what it is.
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

// all lists the events by object, reason and message.
func (r *recorder) all() (out []Event) {
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

// warned is how often an event was told, and where its object stood when it last was.
type warned struct {
	times int
	at    string
}

// warnings picks the events that say what is wrong with an object as it was written, and where: before other files are read, which may say it better.
// What became of its gang stands with the gang.
func (c *cluster) warnings(all []Event) (out []Event) {
	for _, e := range all {
		if !status.AboutWhatIsWritten(e.Reason) {
			continue
		}
		is := e
		is.Times = 0
		if c.told[is].times != e.Times {
			c.told[is] = warned{times: e.Times}
			if at, ok := c.from[e.Object]; ok {
				c.told[is] = warned{e.Times, at.String()}
			}
		}
		e.At = c.told[is].at
		out = append(out, e)
	}
	return out
}
