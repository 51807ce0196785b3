package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// execution is an eviction that was decided: who leaves for which reservation.
type execution struct {
	*attempt
	number  int
	speaker *v1.Pod
	domain  string // of the places; "" if that is the cluster
}

// What the API server did not take is asked again after a while, twice as long each time.
const (
	firstAgain = time.Second
	lastAgain  = 10 * time.Second
)

// evict has the victims leave and then wakes the speaker, who sees them leave. It goes on
// as long as the reservation stands: what the API server did not take because of an error
// that may pass is asked again. A victim that must not be evicted ends the reservation;
// its node is avoided, and what was evicted until then counts in the plan that follows.
func (e *execution) evict(ctx context.Context, left []*v1.Pod) {
	e.writeNominations(ctx)
	e.clearLower(ctx)
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		round := e.ask(ctx, left)
		e.tell(round.took)
		left = round.left
		for _, pod := range left {
			if err := round.errs[pod.UID]; err != nil {
				klog.FromContext(ctx).Error(err, "cannot evict", "victim", klog.KObj(pod), "gang", e.group.Key)
			}
		}
		if round.refused != nil {
			why := e.cannot(round.refused, round.errs)
			e.spare(left)
			e.warn(why)
			e.Cache.Handle(gang.Kept{Group: e.group.Key, Node: round.refused.Spec.NodeName, Why: why})
			return
		}
		e.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(e.speaker): e.speaker})
		if len(left) == 0 {
			return
		}
		if !e.stands() {
			e.spare(left)
			return
		}
		e.warn(e.cannot(left[0], round.errs) + "; it is tried again")
		<-e.options.Clock.After(pause)
	}
}

// round is what came of asking some victims to leave.
type round struct {
	mu      sync.Mutex
	took    []*v1.Pod
	left    []*v1.Pod // who did not leave
	errs    map[types.UID]error
	refused *v1.Pod // one of them whom nobody may evict
}

// ask asks victims to leave, several at a time, until the reservation is lost: carried out
// without them, given up to somebody more important, or not to be had.
func (e *execution) ask(ctx context.Context, victims []*v1.Pod) *round {
	r := &round{errs: map[types.UID]error{}}
	by := preemptor{group: e.group.Key, pod: e.speaker, members: e.group.Pods}
	over := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.refused != nil
	}
	workqueue.ParallelizeUntil(ctx, e.options.Writers, len(victims), func(i int) {
		victim := victims[i]
		var err error
		asked := false
		if !over() && e.stands() {
			asked = true
			if !e.alreadyLeaves(victim) {
				var inMemory bool
				inMemory, err = e.executor.PreemptPod(ctx, site{victim.Spec.NodeName, e.domain}, by, victim, Name)
				if inMemory { // it goes back to the queue, and may come again
					e.victims.expect([]*v1.Pod{victim}, e.options.Clock.Now().Add(unseenFor))
				}
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case asked && err == nil:
			r.took = append(r.took, victim)
			e.victims.took(e.group.Key, e.number, victim)
			return
		case err != nil:
			r.errs[victim.UID] = err
			if r.refused == nil && final(err) {
				r.refused = victim
			}
		}
		r.left = append(r.left, victim)
	})
	return r
}

// alreadyLeaves says whether somebody else had the pod deleted meanwhile.
func (e *execution) alreadyLeaves(victim *v1.Pod) bool {
	pod, err := e.pods.Pods(victim.Namespace).Get(victim.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != victim.UID || pod.DeletionTimestamp != nil
}

// final says whether an error will be the same the next time.
func final(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	switch code := s.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return 400 <= code && code < 500
	}
}

// stands says whether the group still waits with this reservation.
func (e *execution) stands() bool {
	return e.victims.current(e.group.Key, e.number) && e.Cache.Reserved(e.group.Key)
}

// spare is for victims that do not leave after all: what was written about them before
// their deletion failed is taken back.
func (e *execution) spare(pods []*v1.Pod) {
	for _, pod := range pods {
		e.victims.stays(e.group.Key, e.number, pod)
		e.Writer.Do("spared "+convert.PodKey(pod), func(ctx context.Context) error {
			if e.victims.leaves(pod, e.options.Clock.Now()) {
				return nil // it is asked by others now
			}
			return e.Writer.Spare(ctx, pod, e.speaker.Spec.SchedulerName+": ")
		})
	}
}

func (e *execution) cannot(pod *v1.Pod, errs map[types.UID]error) string {
	return fmt.Sprintf("cannot evict %s on %s: %v", convert.PodKey(pod), pod.Spec.NodeName, errs[pod.UID])
}

// writeNominations writes the node of each member that has a place. Victims leave only
// when all are written: who comes after this process must know what they left for.
func (e *execution) writeNominations(ctx context.Context) {
	group, err := e.Cache.Group(e.group.Pods[e.group.Pending[0].Pod])
	if err != nil {
		return
	}
	workqueue.ParallelizeUntil(ctx, e.options.Writers, len(group.Pending), func(i int) {
		m := group.Pending[i]
		if node := group.Places[m.Pod]; node != "" {
			if err := e.Writer.Pod(ctx, group.Pods[m.Pod], status.Waiting{Node: &node}); err != nil {
				klog.FromContext(ctx).Error(err, "cannot write the nominated node", "pod", m.Pod, "node", node)
			}
		}
	})
}

// clearLower takes the nominations of pods back that waited for the same nodes and are
// less important: they look for another place at once instead of waiting for nothing.
func (e *execution) clearLower(ctx context.Context) {
	speaker := e.lowest()
	seen := map[string]bool{}
	for _, m := range e.group.Pending {
		node, _ := e.Cache.Place(e.group.Pods[m.Pod])
		if node == "" || seen[node] {
			continue
		}
		seen[node] = true
		for _, info := range e.profile.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if convert.GangOf(pod) != "" || convert.Priority(pod) >= convert.Priority(speaker) || pod.Status.NominatedNodeName == "" {
				continue
			}
			if err := e.Writer.Pod(ctx, pod, status.Waiting{Node: new(string)}); err != nil {
				klog.FromContext(ctx).Error(err, "cannot clear the nominated node", "pod", klog.KObj(pod), "node", node)
			}
		}
	}
}

// listed is how many victims an event names.
const listed = 3

// tell records with the gang and its speaker who leaves for them and where the places are;
// the executor has recorded the reverse with each victim.
func (e *execution) tell(took []*v1.Pod) {
	if len(took) == 0 {
		return
	}
	victims := make([]string, 0, listed)
	for _, v := range took[:min(len(took), listed)] {
		victims = append(victims, convert.PodKey(v)+" on "+v.Spec.NodeName)
	}
	message := "preempts " + strings.Join(victims, ", ")
	if more := len(took) - listed; more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	message += in(", for places in ", e.domain)
	e.about(func(o runtime.Object) {
		e.handle.EventRecorder().Eventf(o, took[0], v1.EventTypeNormal, status.ReasonPreempting, "Preempting", "%s", status.Clip(message))
	})
}

func (e *execution) warn(message string) {
	e.about(func(o runtime.Object) {
		if e.told.news("eviction of "+e.group.Key+fmt.Sprintf(" %T", o), message) {
			e.note(cache.Note{About: o, Warning: true, Reason: "EvictionFailed", Message: message})
		}
	})
}

// about calls say with the speaker and the PodGroups of its group.
func (e *execution) about(say func(runtime.Object)) {
	say(e.speaker)
	for _, g := range e.group.Gangs {
		if pg := e.podGroup(g.Name); pg != nil {
			say(pg)
		}
	}
}

// in puts words before a domain; "" for the whole cluster.
func in(words, domain string) string {
	if domain == "" {
		return ""
	}
	return words + domain
}

// domainOf is the path of the deepest named domain that holds the places and the members
// that run; "" if that is the cluster.
func (a *attempt) domainOf(places []gang.Place) string {
	tree := a.net.Tree
	domain := topology.ID(-1)
	add := func(node string) {
		i, ok := tree.NodeIndex(node)
		switch {
		case ok && domain < 0:
			domain = tree.Node(i)
		case ok:
			domain = tree.Common(domain, tree.Node(i))
		}
	}
	for _, p := range places {
		add(p.Node)
	}
	for _, m := range a.group.Bound {
		add(m.Node)
	}
	for ; domain > topology.Root && !tree.Named(domain); domain = tree.Parent(domain) {
	}
	if domain <= topology.Root {
		return ""
	}
	return tree.Path(domain)
}

// preemptPod is how an executor evicts. It says whether that was in memory only.
type preemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error)

// A member on its way to its node is asked how far it is so often, and for so long.
const (
	lookEvery = 20 * time.Millisecond
	lookFor   = 5 * time.Second
)

// gently makes an executor delete no member that is on its way back to the queue. The first
// that leaves the barrier takes the others along; an executor that comes for them then
// would find nobody who waits and have them deleted, though none of them runs.
func (p *Plugin) gently(evict preemptPod) preemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		if convert.GangOf(victim) == "" || p.Cache.Bound(victim) {
			return evict(ctx, to, by, victim, plugin)
		}
		if w := p.handle.GetWaitingPod(victim.UID); w != nil && w.Preempt(plugin, "preempted") {
			p.handle.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, "Preempted", "Preempting",
				"Preempted by %s %v on node %v (in kube-scheduler memory).", by.Type(), by.UID(), to.Name())
			return true, nil
		}
		back := false
		_ = wait.PollUntilContextTimeout(ctx, lookEvery, lookFor, true, func(context.Context) (bool, error) {
			back = !p.Cache.Counted(victim)
			return back || p.Cache.Bound(victim) || p.handle.GetPodInPreBind(victim.UID) != nil, nil
		})
		if back {
			return true, nil
		}
		return evict(ctx, to, by, victim, plugin)
	}
}

// preemptor tells the scheduler's executor for whom pods are evicted.
type preemptor struct {
	group   string
	pod     *v1.Pod
	members map[string]*v1.Pod
}

func (p preemptor) GetName() string          { return p.pod.Name }
func (p preemptor) GetNamespace() string     { return p.pod.Namespace }
func (p preemptor) UID() types.UID           { return types.UID(p.group) }
func (p preemptor) SchedulerName() string    { return p.pod.Spec.SchedulerName }
func (p preemptor) Obj() runtime.Object      { return p.pod }
func (p preemptor) Pods() map[string]*v1.Pod { return p.members }
func (p preemptor) Priority() int32          { return convert.Priority(p.pod) }
func (p preemptor) Type() string             { return "gang" }

// site is the executor's candidate, of which it reads only the name, for its event.
type site struct{ node, domain string }

func (s site) Name() string                 { return s.node + in(", for places in ", s.domain) }
func (s site) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }
func (s site) NumPodGroupDisruptions() int  { return 0 }
