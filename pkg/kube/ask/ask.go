// Package ask answers questions about a cluster: why a gang waits, what the network looks like, what the queue is. It copies the
// objects of the cluster into memory and runs a simulated scheduler on them, as after a restart (package simulate). The answers are
// this scheduler's state and decisions. The real scheduler decides the same if nothing else changes.
//
//	ask.go        a View of a cluster
//	explain.go    why a gang waits, or where it runs
//	reserve.go    the reserved nodes of a gang, and their victims
//	rivals.go     the gangs that may take reserved nodes first
//	remedy.go     what makes the scheduler retry a gang
//	attempt.go    the capacity of each domain in one scheduling attempt
//	since.go      the time of the last state change
//	placement.go  where a gang runs, and how near its members are
//	history.go    the events of a gang in a live cluster
//	queue.go      the gangs that wait, in queue order
//	forecast.go   when waiting gangs start
//	book.go       the state of the scheduler's parts, for debugging
//	unlisted.go   answers that unlisted kinds make unknown
//	capacity.go   whether a waiting gang fits into a domain
//	tree.go       the network with free and used slots
//	occupancy.go  the pods of each node
//	list.go       the objects of a live cluster
//	drain.go      the gangs that stop if a domain is emptied, and where they restart
//	empty.go      the domain that is emptied at least cost
//
// Invariants: answers are values, and their presentation is not decided here. The package decides nothing and writes to no cluster.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/plugin"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Options are the scheduler's configuration and plugins.
type Options struct {
	Config  []byte // see simulate.Options
	Plugins frameworkruntime.Registry
	At      simulate.Moment // see simulate.Options
}

// View is a cluster in memory with its simulated scheduler, for one question.
type View struct {
	*simulate.World
	at             time.Time
	initial        map[gang.Ref]cache.Report // reports at the start
	hadReservation map[gang.Ref]bool         // gangs that had reserved nodes at the start
	transitions    transitions
	kindUnlisted   func(resource string) bool // reports whether objects of a kind could not be listed
	queue          []gang.Ref                 // waiting gangs in scheduling order, then the gangs that are not tried
	unqueued       []gang.Ref                 // gangs that wait without a member that this scheduler could try

	examined     gang.Ref                   // the group to examine in detail; zero is none
	lastAttempts map[gang.Ref]attemptResult // by group, the result of its last attempt
}

// Open returns a view of the objects in set. A process can have one open view at a time; the caller must close it.
func Open(ctx context.Context, o Options, set *simulate.Set) (*View, error) {
	return open(ctx, o, set, true)
}

// open is Open. stay true: victims terminate after their grace period; false: at once.
func open(ctx context.Context, o Options, set *simulate.Set, stay bool) (*View, error) {
	return openWith(ctx, simulate.Options{Config: o.Config, Plugins: o.Plugins, At: o.At, Live: true, VictimsStay: stay, Unread: true}, set)
}

// openWith is Open with options for simulate. It also records each gang's state before the scheduler runs.
func openWith(ctx context.Context, o simulate.Options, set *simulate.Set) (*View, error) {
	v := &View{
		transitions: readTransitions(set), kindUnlisted: set.Unlisted,
		initial: map[gang.Ref]cache.Report{}, hadReservation: map[gang.Ref]bool{}, lastAttempts: map[gang.Ref]attemptResult{},
	}
	o.Tried = v.recordAttempt
	w, err := simulate.Open(ctx, o, set)
	if err != nil {
		return nil, err
	}
	v.World, v.at = w, w.Now()
	if err = w.ReadOwners(ctx); err == nil {
		err = v.reserveAbsent(ctx)
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	for _, ref := range w.Shared().Cache.Gangs() {
		if r, ok := w.Shared().Cache.Report(ref); ok {
			v.initial[ref] = r
		}
		nominated := func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" }
		v.hadReservation[ref] = slices.ContainsFunc(w.Shared().Cache.Pending(ref), nominated)
	}
	tried, waits := w.Shared().Cache.Queue()
	v.queue = slices.Concat(tried, waits)
	for _, ref := range w.Shared().Cache.Gangs() {
		if !slices.Contains(v.queue, ref) && v.waitsUnqueued(ref) {
			v.unqueued = append(v.unqueued, ref)
		}
	}
	return v, nil
}

// reserveAbsent reserves nodes for members that do not exist, as the scheduler does before any pod gets a node. The reservations of the
// scheduler of the cluster are in its memory only.
func (v *View) reserveAbsent(ctx context.Context) error {
	for _, name := range v.ProfileNames() {
		p := v.Shared().Profile(name)
		if p == nil {
			continue
		}
		nodes, err := v.Nodes(ctx, v.Profile(name))
		if err != nil {
			return err
		}
		p.ReserveAbsent(ctx, nodes)
	}
	return nil
}

// waitsUnqueued says whether a gang without a member in the queue still waits for members. It is false for a gang that has its
// minimum, that has ended, or that another project's scheduler serves: that one has written a phase, or a condition of a member.
func (v *View) waitsUnqueued(ref gang.Ref) bool {
	r := v.initial[ref]
	pod := r.EventMember
	switch {
	case hasMinimum(r) || r.Members == 0 && (r.PodGroup == nil || source.Reached(r.PodGroup)):
		return false
	case !r.ReadOnly || r.Served:
		return true
	case pod == nil:
		return !v.transitions.phases[ref.String()]
	}
	_, tried := v.transitions.pods[convert.PodKey(pod)]
	return !tried || pod.Spec.SchedulerName == v1.DefaultSchedulerName
}

// Quotas lists all ElasticQuotas with their usage. The caller must call it before any method that runs the scheduler.
func (v *View) Quotas() []elasticquota.Quota { return v.Shared().Quotas() }

// At returns the time at which the cluster was in this state.
func (v *View) At() time.Time { return v.at }

// recordAttempt stores the result of an attempt. It replaces the result of the group's earlier attempt.
func (v *View) recordAttempt(ctx context.Context, t plugin.Trial) {
	v.lastAttempts[t.Attempt.Group.Key] = v.readAttempt(ctx, t, t.Attempt.Group.Key == v.examined)
}

// cache returns the scheduler's cache.
func (v *View) cache() *cache.Cache { return v.Shared().Cache }

// group returns the key of the gang's group in lastAttempts and in the scheduler's plans; ref itself for a gang without members.
func (v *View) group(ref gang.Ref) gang.Ref {
	if together := v.cache().Together(ref); len(together) > 0 {
		if r := v.initial[ref]; r.EventMember != nil {
			return v.cache().GroupKey(r.EventMember)
		}
	}
	return ref
}

// Target is the gang or pod that a question is about.
type Target struct{ Kind, Namespace, Name string }

// ParseTarget parses the words of a command line: "podgroup NAME", "pod NAME", "podgroup/NAME". A name may contain slashes, as the
// names of gangs that are parts of an object do.
func ParseTarget(namespace string, words []string) (Target, error) {
	kind, name, _ := strings.Cut(strings.Join(words, "/"), "/")
	words = []string{kind, name}
	if name == "" {
		return Target{}, fmt.Errorf("write podgroup NAME or pod NAME")
	}
	t := Target{Namespace: namespace, Name: words[1]}
	switch strings.ToLower(words[0]) {
	case "podgroup", "podgroups", "pg", "gang":
		t.Kind = "podgroup"
	case "pod", "pods", "po":
		t.Kind = "pod"
	default:
		return Target{}, fmt.Errorf("%q: supported values: podgroup, pod", words[0])
	}
	return t, nil
}

// UnknownError says that the target of a question does not exist. If MayExist is not "", it says instead why this is unknown. Misspelt
// names the pods that seem to mean the target; "" for none.
type UnknownError struct{ Kind, Namespace, Name, MayExist, Misspelt string }

func (e *UnknownError) Error() string {
	if e.MayExist != "" {
		return e.MayExist
	}
	return "there is no " + e.Kind + " " + e.Namespace + "/" + e.Name + e.Misspelt
}

// misspelt returns the end of a message that names the pods that name a gang in a misspelt key; "" for none.
func misspelt(gangName string, pods []*v1.Pod) string {
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *v1.Pod) bool {
		_, name, _ := convert.MisspeltGangKey(pod)
		return name == "" || name != gangName || !source.GangOf(pod).IsZero()
	})
	return convert.Misnamed(gangName, true, pods, nil)
}

// find returns the gang of a target. If the name does not exist, it may be NAMESPACE/NAME.
func (v *View) find(t Target) (gang.Ref, error) {
	ref, err := v.findIn(t)
	if unknown := (*UnknownError)(nil); errors.As(err, &unknown) {
		if namespace, name, ok := strings.Cut(t.Name, "/"); ok {
			if other, err := v.findIn(Target{Kind: t.Kind, Namespace: namespace, Name: name}); err == nil {
				return other, nil
			}
		}
	}
	return ref, err
}

// findIn returns the gang of a target in the target's namespace. Of several gangs with that name it prefers one with waiting members.
func (v *View) findIn(t Target) (gang.Ref, error) {
	if t.Kind == "pod" {
		for _, pod := range v.Pods() {
			if pod.Namespace != t.Namespace || pod.Name != t.Name {
				continue
			}
			if ref := source.GangOf(pod); !ref.IsZero() {
				return ref, nil
			}
			_, name, _ := convert.MisspeltGangKey(pod)
			return gang.Ref{}, fmt.Errorf("pod %s is a member of no gang%s", convert.PodKey(pod), misspelt(name, []*v1.Pod{pod}))
		}
		return gang.Ref{}, &UnknownError{Kind: "pod", Namespace: t.Namespace, Name: t.Name}
	}
	var found []gang.Ref
	for _, ref := range v.cache().Gangs() {
		if ref.Namespace == t.Namespace && ref.Name == t.Name {
			found = append(found, ref)
		}
	}
	if len(found) == 0 {
		pods := slices.DeleteFunc(v.Pods(), func(pod *v1.Pod) bool { return pod.Namespace != t.Namespace })
		return gang.Ref{}, &UnknownError{"gang", t.Namespace, t.Name, v.MayExist(t.Namespace, t.Name), misspelt(t.Name, pods)}
	}
	// Several gangs may have one name: prefer one with waiting members, then the one with most members.
	waits := func(ref gang.Ref) int { return min(1, len(v.cache().Pending(ref))) }
	slices.SortStableFunc(found, func(a, b gang.Ref) int {
		return cmp.Or(waits(b)-waits(a), v.initial[b].Members-v.initial[a].Members)
	})
	return found[0], nil
}
