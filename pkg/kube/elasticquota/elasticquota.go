// Package elasticquota keeps the book of quotas true to the cluster, and asks it for gangs and for pods without one: the
// plugin ElasticQuota, in the words of Koordinator's plugin of that name, which reads the ElasticQuotas of scheduler-plugins, too.
// What is divided how, and who is admitted, is decided by pkg/quota; here is who has what:
//
//	ElasticQuota objects ──► objects.go  the quotas, and what is wrong with them: a tree, made anew when somebody asks after a change
//	nodes ─────────────────► nodes.go    how much there is
//	pods ──────────────────► pods.go     of which quota, and whether bound, planned or waiting
//	claims ────────────────► devices.go  what pods ask for with ResourceClaims, and which of those who share one counts for it
//	slices, classes ───────► classes.go  devices of the classes that quotas name, as package deviceclass counts them
//
//	plugin.go   PreFilter, Reserve, Unreserve for pods without a gang
//	admit.go    whether a gang is admitted, and with how many members; what is said if not
//	choices.go  with which, where members differ and not all are needed
//	claim.go    who may be evicted for whom
//	after.go    what quotas have when those have gone who leave already
//	starve.go   what is saved for gangs that were refused for long
//	rights.go   which gangs are tried again since more may be evicted for them
//	revoke.go   who leaves since a quota has had too much for long (monitorAllQuotas)
//	view.go     the quotas as people see them
//	status.go   what is written into ElasticQuotas
//	metrics.go  the same for Prometheus
//	cluster.go  what the room asks the rest of the process, and tells it
//
// Rules apply once somebody has declared a quota; until then nothing is counted and nobody is asked.
//
// The room has a lock of its own. It asks the cache of gangs under it, which never calls the room with its own lock held.
package elasticquota

import (
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/deviceclass"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = config.QuotaName

// TopX is the quota above those of scheduler-plugins.
const TopX = "elasticquotas.scheduling.x-k8s.io"

// Room is what the profiles of one process share. Call NewRoom, and Connect before objects are heard of.
type Room struct {
	cluster Cluster
	clock   clock.PassiveClock
	settle  time.Duration

	active atomic.Bool

	mu      sync.Mutex
	begun   bool
	args    config.QuotaArgs
	written bool // a profile's configuration has them
	lister  corelisters.PodLister
	volumes corelisters.PersistentVolumeClaimLister
	objects map[string]*object // by resource, namespace and name
	book    *quota.Book
	ofX     bool // there are quotas of scheduler-plugins
	ofK     bool // there are quotas of Koordinator
	names   map[string]string
	nodes   nodes
	pods    map[string]*pod
	lists   map[string]quota.List // what pods ask for, each once
	waiting map[string]*v1.Pod    // pods without a gang that were refused
	notes   []cache.Note          // to be said
	stale   bool                  // how much there is is to be found out anew
	wild    bool                  // the tree is to be made anew
	wrong   map[string]string     // what is wrong with quotas by the last tree, by objectKey; nil if it was said
	grown   uint64                // how often it was made
	ended   bool                  // the last quota has gone, and those who were refused are yet to hear of it
	touched bool                  // what quotas have is to be written
	claims  map[gang.Ref]string   // by group for which quotas are saved, its name in the book
	later   map[string]bool       // gangs that wait for others whose quotas are served first
	revoke  revocations
	rights  rights
	going   map[string]bool // pods on nodes that are seen leaving
	afters  afters
	devices devices
	classes deviceclass.Counter
}

// Active says whether anybody has declared a quota.
func (r *Room) Active() bool { return r.active.Load() }

// pod is what is known of a pod.
type pod struct {
	*v1.Pod
	since   int64  // when it got its place
	quota   string // what it has of which quota, as the book was told
	asks    quota.List
	state   quota.State
	counts  bool // the book knows it
	fixed   bool
	names   []claimName // what its claims are, or are made from
	draws   []drawn     // those that others may share
	bad     string      // the quota that it names, if there is none
	off     bool        // it is on a node that is not ready, or is not known
	assumed bool        // the scheduler counts it on a node, and it has no gang
}

// activate begins to count, or ends it. r.mu is held.
func (r *Room) activate() {
	is := r.begun && len(r.names) > 0
	if r.active.Load() == is {
		return
	}
	r.active.Store(is)
	// Nobody is told of pods while nothing is counted, so that nothing that is known now is true later. Who has seen that
	// rules apply and waits for the lock writes into maps that nobody reads.
	r.book = r.newBook(r.book.Tree())
	r.claims, r.revoke, r.rights = map[gang.Ref]string{}, revocations{waits: map[string]waiter{}}, rights{due: r.rights.due}
	r.pods, r.later, r.lists = map[string]*pod{}, map[string]bool{}, map[string]quota.List{}
	r.going, r.afters = map[string]bool{}, afters{}
	r.devices.users, r.devices.pays, r.devices.unsure = map[claimName]map[string]bool{}, map[drawn]string{}, unsure{}
	if !is {
		r.ended = true // whoever was refused may start: see tell
		return
	}
	r.waiting = map[string]*v1.Pod{}
	r.cluster.Hear(Event{What: Begins})
	all, err := r.lister.List(everything)
	if err != nil {
		klog.Background().Error(err, "Cannot list the pods: quotas count those alone that change from now on")
	}
	for _, p := range all {
		r.set(p)
	}
}

// newBook is the book of a tree in which nobody has anything.
func (r *Room) newBook(t *quota.Tree) *quota.Book {
	b := quota.NewBook(t)
	b.Runtime, b.ScaleMin = r.args.Runtime, r.args.ScaleMin
	return b
}

// changed tells that a gang or pod may be admitted that was not.
func (r *Room) changed() {
	if r.Active() {
		r.cluster.Hear(Event{What: MayBeAdmitted})
	}
}

// next tells that a gang or pod that waits for another quota's may be served next.
func (r *Room) next() {
	if r.Active() {
		r.cluster.Hear(Event{What: MayBeNext})
	}
}

// lock takes r.mu for a question, whose answer is by what the objects say now.
func (r *Room) lock() {
	r.mu.Lock()
	if r.wild {
		r.grow()
	}
}

// key names a pod in the book, and a gang of one.
func key(p *v1.Pod) string { return convert.PodKey(p) }
