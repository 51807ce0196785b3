// Package elasticquota applies quota.Book to a cluster: it is the plugin ElasticQuota, named and configured as Koordinator's plugin
// of that name. It also reads the ElasticQuotas of scheduler-plugins. Package quota decides how capacity is divided and which gang
// is admitted. This package reads the API objects:
//
//	ElasticQuota objects ──► objects.go  the quota tree and the problems in it; rebuilt at the first use after a change
//	nodes ─────────────────► nodes.go    the total capacity
//	pods ──────────────────► pods.go     each pod's quota and state: bound, planned, waiting
//	ResourceClaims ────────► devices.go  the devices that pods request, and the pod that pays for a shared claim
//	slices, classes ───────► classes.go  devices of the classes that quotas name, as package deviceclass counts them
//
//	plugin.go   PreFilter, Reserve, Unreserve for pods without a gang
//	admit.go    whether a gang is admitted, with how many members, and the message if not
//	choices.go  the choices of members, where members differ and not all are needed
//	claim.go    which pods may be evicted for a gang
//	reclaim.go  the book without pods that terminate already
//	starve.go   capacity holds for starving gangs
//	rights.go   retries of gangs that gained eligible victims
//	revoke.go   evictions from quotas that exceed their fair share for long (monitorAllQuotas)
//	view.go     the quotas as users see them
//	status.go   what is written into ElasticQuotas
//	metrics.go  the same for Prometheus
//	cluster.go  what the Manager uses of the rest of the process
//
// Invariant: without a declared quota nothing is counted and every gang is admitted. Invariant: the Manager may call the cache of gangs
// with r.mu locked; the cache never calls the Manager with its own lock locked. The package places no pods and evicts none.
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

// SchedulerPluginsRoot is the quota above those of scheduler-plugins.
const SchedulerPluginsRoot = "elasticquotas.scheduling.x-k8s.io"

// Manager has the quotas and their use for all profiles of a process. The caller calls Connect before objects arrive.
type Manager struct {
	cluster Cluster
	clock   clock.PassiveClock
	settle  time.Duration

	active atomic.Bool

	mu                        sync.Mutex
	started                   bool
	args                      config.QuotaArgs
	argsWritten               bool // a profile's configuration contains them
	lister                    corelisters.PodLister
	volumes                   corelisters.PersistentVolumeClaimLister
	objects                   map[string]*object // by resource, namespace and name
	book                      *quota.Book
	hasSchedulerPluginsQuotas bool // scheduler-plugins' quotas exist
	hasKoordinatorQuotas      bool // Koordinator's quotas exist
	quotaNames                map[string]string
	nodes                     nodes
	pods                      map[string]*pod
	requestLists              map[string]quota.List // equal requests share one list
	waiting                   map[string]*v1.Pod    // pods without a gang that were not admitted
	notes                     []cache.Note          // not reported yet
	totalsStale               bool                  // the totals are recomputed at the next question
	treeStale                 bool                  // the tree is rebuilt at the next question
	problems                  map[string]string     // problems of the last tree, by objectKey; nil once reported
	treeVersion               uint64                // incremented by each rebuild
	lastQuotaGone             bool                  // the last quota was deleted, and waiting gangs are not notified yet
	writePending              bool                  // a write of the objects is scheduled
	holds                     map[gang.Ref]string   // by group with a capacity hold, its name in the book
	gangsWaitingForTurn       map[string]bool       // gangs whose quota is served after another one
	revoke                    revocations
	victimChecks              victimChecks
	terminating               map[string]bool // terminating pods on nodes
	reduced                   reducedBooks
	devices                   devices
	classes                   deviceclass.Counter
}

// Active returns whether a quota is declared.
func (r *Manager) Active() bool { return r.active.Load() }

// pod is a pod with what the book records about it.
type pod struct {
	*v1.Pod
	since         int64  // when the pod got its node
	quota         string // as recorded in the book
	requests      quota.List
	state         quota.State
	inBook        bool          // the book records the pod
	fixed         bool          // The pod is never evicted, so it never borrows.
	claimNames    []claimName   // ResourceClaims, or the templates they are made from
	sharedClaims  []sharedClaim // claims that other pods may share
	missingQuota  string        // the quota named by the pod's label, if it does not exist
	onUnreadyNode bool          // its node is not ready or not known
	assumed       bool          // the scheduler assumed the pod on a node, and the pod has no gang
}

// activate counts all pods after the first quota was declared, and drops all counts after the last was deleted. r.mu is locked.
func (r *Manager) activate() {
	active := r.started && len(r.quotaNames) > 0
	if r.active.Load() == active {
		return
	}
	r.active.Store(active)
	// No pod events are processed while inactive, so the state is stale in either direction.
	r.book = r.newBook(r.book.Tree())
	r.holds, r.revoke = map[gang.Ref]string{}, revocations{waiting: map[string]waiter{}}
	r.victimChecks = victimChecks{scheduled: r.victimChecks.scheduled}
	r.pods, r.gangsWaitingForTurn, r.requestLists = map[string]*pod{}, map[string]bool{}, map[string]quota.List{}
	r.terminating, r.reduced = map[string]bool{}, reducedBooks{}
	r.devices.users, r.devices.payer, r.devices.overcounted = map[claimName]map[string]bool{}, map[sharedClaim]string{}, overcounted{}
	if !active {
		r.lastQuotaGone = true // see report
		return
	}
	r.waiting = map[string]*v1.Pod{}
	r.cluster.Hear(Event{Kind: Begins})
	all, err := r.lister.List(everything)
	if err != nil {
		klog.Background().Error(err, "Cannot list the pods: quotas count only pods that change from now on")
	}
	for _, p := range all {
		r.recordPod(p)
	}
}

// newBook returns a book of the tree t without pods.
func (r *Manager) newBook(t *quota.Tree) *quota.Book {
	b := quota.NewBook(t)
	b.Runtime, b.ScaleMin = r.args.Runtime, r.args.ScaleMin
	return b
}

// notifyMayBeAdmitted reports that a gang or pod that was not admitted may be admitted now.
func (r *Manager) notifyMayBeAdmitted() {
	if r.Active() {
		r.cluster.Hear(Event{Kind: MayBeAdmitted})
	}
}

// notifyMayBeNext reports that a gang or pod that waits for another quota's turn may be served next.
func (r *Manager) notifyMayBeNext() {
	if r.Active() {
		r.cluster.Hear(Event{Kind: MayBeNext})
	}
}

// lock locks r.mu and rebuilds the tree if it is stale.
func (r *Manager) lock() {
	r.mu.Lock()
	if r.treeStale {
		r.rebuildTree()
	}
}

func key(p *v1.Pod) string { return convert.PodKey(p) }
