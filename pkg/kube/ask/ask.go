// Package ask answers what people ask of a cluster: why a gang waits, what the network looks like,
// who is next. It takes the objects of one moment, has a scheduler see them as it does after a
// restart, lets it go on in memory (package simulate), and reads off what it knows and what it
// does. So what is said to happen happens, if nothing else does.
//
//	ask.go      a View of a cluster
//	explain.go  why a gang waits, or where it is
//	reserve.go  whose places are reserved, and who leaves for it
//	takers.go   who may take these places first
//	cure.go     what would have a gang tried again
//	look.go     what an attempt of the scheduler's says of domains
//	since.go    since when
//	where.go    where a gang runs, and how near
//	history.go  what a live cluster was told of a gang
//	queue.go    who is tried in which order
//	book.go     what the scheduler's parts know, for who looks for a fault
//	unread.go   what nobody knows, since it may not be listed
//	room.go     whether a gang that waits fits into a domain
//	tree.go     the network with what is free and used
//	present.go  who is on which node
//	list.go     the objects of a live cluster
//	drain.go    what stops if a domain is emptied, and where it goes
//	empty.go    the domain that is emptied at least cost
//
// Answers are values; how they are shown is not said here. It decides nothing, and writes nothing
// to any cluster.
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

// Options say how the scheduler is configured.
type Options struct {
	Config  []byte // as simulate.Options has it
	Plugins frameworkruntime.Registry
}

// View is a cluster of which questions are asked.
type View struct {
	*simulate.World
	at     time.Time
	listed map[gang.Ref]cache.Report // as the cluster was found
	held   map[gang.Ref]bool         // gangs with members for whom places were reserved then
	told   told
	missed func(resource string) bool // whether objects of a kind could not be listed
	queue  []gang.Ref                 // that wait, in the order in which they will be tried; last those that nobody tries

	about gang.Ref          // the group that is looked at closely; zero is none
	looks map[gang.Ref]look // by group, what its last attempt said
}

// Open makes the view of a set. Close it: a process can have one at a time.
func Open(ctx context.Context, o Options, set *simulate.Set) (*View, error) {
	return open(ctx, o, set, true)
}

// open lets victims stay for their grace period, or leave at once.
func open(ctx context.Context, o Options, set *simulate.Set, stay bool) (*View, error) {
	return openWith(ctx, simulate.Options{Config: o.Config, Plugins: o.Plugins, Live: true, VictimsStay: stay, Unread: true}, set)
}

func openWith(ctx context.Context, o simulate.Options, set *simulate.Set) (*View, error) {
	v := &View{told: readTold(set), missed: set.Missed, listed: map[gang.Ref]cache.Report{}, held: map[gang.Ref]bool{}, looks: map[gang.Ref]look{}}
	o.Tried = v.see
	w, err := simulate.Open(ctx, o, set)
	if err != nil {
		return nil, err
	}
	v.World, v.at = w, w.Now()
	for _, ref := range w.Shared().Cache.Gangs() {
		if r, ok := w.Shared().Cache.Report(ref); ok {
			v.listed[ref] = r
		}
		v.held[ref] = slices.ContainsFunc(w.Shared().Cache.Pending(ref), func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" })
	}
	tried, waits := w.Shared().Cache.Queue()
	v.queue = slices.Concat(tried, waits)
	return v, nil
}

// Quotas lists what all ElasticQuotas have as the cluster is, before the scheduler does anything more.
func (v *View) Quotas() []elasticquota.Quota { return v.Shared().Quotas() }

// At is when the cluster was found as it is.
func (v *View) At() time.Time { return v.at }

// see notes what an attempt says.
func (v *View) see(ctx context.Context, t plugin.Trial) {
	v.looks[t.Attempt.Group.Key] = v.lookAt(ctx, t, t.Attempt.Group.Key == v.about)
}

// cache is what the scheduler knows.
func (v *View) cache() *cache.Cache { return v.Shared().Cache }

// group is the group of a gang, whose name its plan is filed under.
func (v *View) group(ref gang.Ref) gang.Ref {
	if together := v.cache().Together(ref); len(together) > 0 {
		if r := v.listed[ref]; r.Speaker != nil {
			return v.cache().GroupKey(r.Speaker)
		}
	}
	return ref
}

// Target is what somebody asks about.
type Target struct{ Kind, Namespace, Name string }

// ParseTarget reads the words of a command line: "podgroup NAME", "pod NAME", "podgroup/NAME". A name may
// have slashes in it, as those of gangs that are parts of an object have, and what "queue" prints.
func ParseTarget(namespace string, words []string) (Target, error) {
	kind, name, _ := strings.Cut(strings.Join(words, "/"), "/")
	words = []string{kind, name}
	if name == "" {
		return Target{}, fmt.Errorf("say podgroup NAME or pod NAME")
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

// UnknownError says that what somebody asks about does not exist, or why that is not known.
type UnknownError struct{ Kind, Namespace, Name, MayExist string }

func (e *UnknownError) Error() string {
	if e.MayExist != "" {
		return e.MayExist
	}
	return "there is no " + e.Kind + " " + e.Namespace + "/" + e.Name
}

// find returns the gang that somebody asks about. A name that there is not may be the namespace's and
// its own.
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

func (v *View) findIn(t Target) (gang.Ref, error) {
	if t.Kind == "pod" {
		for _, pod := range v.Pods() {
			if pod.Namespace != t.Namespace || pod.Name != t.Name {
				continue
			}
			if ref := source.Of(pod); !ref.IsZero() {
				return ref, nil
			}
			return gang.Ref{}, fmt.Errorf("pod %s is a member of no gang", convert.PodKey(pod))
		}
		return gang.Ref{}, &UnknownError{"pod", t.Namespace, t.Name, ""}
	}
	var found []gang.Ref
	for _, ref := range v.cache().Gangs() {
		if ref.Namespace == t.Namespace && ref.Name == t.Name {
			found = append(found, ref)
		}
	}
	if len(found) == 0 {
		return gang.Ref{}, &UnknownError{"gang", t.Namespace, t.Name, v.MayExist(t.Namespace, t.Name)}
	}
	// Of several of one name that is meant of which members wait, or else which has most.
	waits := func(ref gang.Ref) int { return min(1, len(v.cache().Pending(ref))) }
	slices.SortStableFunc(found, func(a, b gang.Ref) int {
		return cmp.Or(waits(b)-waits(a), v.listed[b].Members-v.listed[a].Members)
	})
	return found[0], nil
}
