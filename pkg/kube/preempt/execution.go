package preempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
)

// execution is an eviction that was decided: who leaves for which reservation.
type execution struct {
	*Preemptor
	departure *departure
	group     *cache.Group
	lowest    *v1.Pod // the pending member of lowest priority
	number    int
	speaker   *v1.Pod
	domain    string // of the places; "" if that is the cluster
}

// depart sets out how the victims leave, and returns all who do.
func (e *execution) depart(victims []*v1.Pod, places []gang.Place) []*v1.Pod {
	e.departure = &departure{
		Preemptor: e.Preemptor, number: e.number, evict: e.Executor.PreemptPod, plugin: pluginName,
		by:     preemptor{gangs: e.group.Whole(), pod: e.speaker, members: e.group.Pods},
		to:     func(victim *v1.Pod) preemption.Candidate { return site{victim.Spec.NodeName, e.domain} },
		room:   map[string]bool{},
		stands: e.stands,
		took:   func(victim *v1.Pod) { e.Victims.took(e.group.Key, e.number, victim) },
		groups: e.wholes(victims),
	}
	for _, at := range places {
		e.departure.room[at.Node] = true
	}
	all := slices.Concat(victims, e.departure.groups.also)
	e.Victims.also(e.group.Key, e.number, e.departure.groups.also)
	e.departure.begin(all)
	return all
}

// evict has the victims leave and then wakes the speaker, who sees them leave. It goes on
// as long as the reservation stands: what the API server did not take because of an error
// that may pass is asked again, if it is needed still. A victim that must not be evicted ends
// the reservation; its node is avoided, and what was evicted until then counts in the plan
// that follows. Whoever is left of a group that has lost somebody leaves in any case.
func (e *execution) evict(ctx context.Context, left []*v1.Pod) {
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		err := errors.Join(e.writeNominations(ctx), e.clearLower(ctx))
		if err == nil {
			break
		}
		if !e.stands() {
			e.spare(left)
			return
		}
		e.warn(fmt.Sprintf("cannot write where the members will be: %v; it is tried again", err))
		if !e.wait(pause) {
			return
		}
		left = e.stillNeeded(ctx, left) // nobody may be left: the places are written all the same
	}
	for pause := firstAgain; ; pause = min(2*pause, lastAgain) {
		round := e.departure.ask(ctx, left)
		e.tell(round.took)
		for uid, err := range round.errs {
			klog.FromContext(ctx).Error(err, "cannot evict", "victim", uid, "gang", e.group.Key.String())
		}
		left = round.again()
		if len(round.refused) > 0 {
			left = e.giveUp(round, left)
		} else {
			e.wake(ctx)
		}
		if !e.stands() {
			left = e.onlyBroken(left)
		}
		if len(left) == 0 {
			return
		}
		if failed := round.failed(); failed != nil {
			e.warn(e.cannot(failed, round.errs) + "; it is tried again")
		}
		if !e.wait(pause) {
			return
		}
		if left = e.stillNeeded(ctx, left); len(left) == 0 {
			return
		}
		if e.departure.outdated(left) {
			left = e.chooseAnew(left)
		}
	}
}

// chooseAnew ends the reservation, so that the next plan sees who is there now. It returns who leaves in any
// case.
func (e *execution) chooseAnew(left []*v1.Pod) []*v1.Pod {
	stands := e.stands()
	left = e.onlyBroken(left)
	if stands {
		e.Cache.Handle(gang.Kept{Group: e.group.Key, Why: "a gang that was to lose a member can spare none any more"})
	}
	return left
}

// wake has the speaker tried.
func (e *execution) wake(ctx context.Context) {
	e.Profile.Activate(klog.FromContext(ctx), map[string]*v1.Pod{convert.PodKey(e.speaker): e.speaker})
}

// giveUp ends the reservation, if there is one still, since somebody must not be evicted. It
// returns who leaves in any case.
func (e *execution) giveUp(round *round, left []*v1.Pod) []*v1.Pod {
	refused := round.refused[0]
	why, stands := e.cannot(refused, round.errs), e.stands()
	e.Victims.vetoed(round.refused, e.Clock.Now())
	e.spare(round.refused)
	left = e.onlyBroken(left)
	e.warn(why)
	if stands {
		e.Cache.Handle(gang.Kept{Group: e.group.Key, Node: refused.Spec.NodeName, Why: why})
	}
	return left
}

// onlyBroken leaves out, and spares, those who need not leave without a reservation.
func (e *execution) onlyBroken(left []*v1.Pod) []*v1.Pod {
	leave, stay := e.departure.keep(left)
	e.spare(stay)
	return leave
}

// pluginName is who evicts, for those that wait at Permit.
const pluginName = config.PluginName

// stands says whether the group still waits with this reservation.
func (e *execution) stands() bool {
	return e.Victims.current(e.group.Key, e.number) && e.Cache.Reserved(e.group.Key)
}

// spare is for victims that do not leave after all: what was written about them before
// their deletion failed is taken back.
func (e *execution) spare(pods []*v1.Pod) {
	e.Preemptor.spare(e.Victims.stay(e.group.Key, e.number, pods, e.Clock.Now()), e.speaker.Spec.SchedulerName)
}

func (e *execution) cannot(pod *v1.Pod, errs map[types.UID]error) string {
	return fmt.Sprintf("cannot evict %s on %s: %v", convert.PodKey(pod), pod.Spec.NodeName, errs[pod.UID])
}

// passing leaves out, and logs, what the API server will answer the next time, too: nobody
// waits for that.
func passing(ctx context.Context, err error, what string, pod *v1.Pod) error {
	if err == nil || !status.Final(err) {
		return err
	}
	klog.FromContext(ctx).Error(err, what, "pod", klog.KObj(pod))
	return nil
}

// writeNominations writes the node of each member that has a place. Victims leave only
// when all are written: who comes after this process must know what they left for. The
// error is one that may pass.
func (e *execution) writeNominations(ctx context.Context) error {
	group, refusal := e.Cache.Group(e.group.Pods[e.group.Pending[0].Pod])
	if refusal.Is() || !group.Waiting { // the places are free, and members are being bound: what is written now would stay
		return nil
	}
	errs := make([]error, len(group.Pending))
	workqueue.ParallelizeUntil(ctx, e.Writers, len(group.Pending), func(i int) {
		m := group.Pending[i]
		if group.Places[m.Pod] != "" {
			pod := group.Pods[m.Pod]
			errs[i] = passing(ctx, e.Teller.Nominate(ctx, pod, m.Pod), "cannot write the nominated node", pod)
		}
	})
	return first(errs)
}

// first is one error for many of a kind.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// clearLower takes the nominations of pods back that waited for the same nodes and are
// less important: they look for another place at once instead of waiting for nothing. The
// error is one that may pass.
func (e *execution) clearLower(ctx context.Context) error {
	var errs []error
	speaker := e.lowest
	seen := map[string]bool{}
	for _, m := range e.group.Pending {
		node, _ := e.Cache.Place(e.group.Pods[m.Pod])
		if node == "" || seen[node] {
			continue
		}
		seen[node] = true
		for _, info := range e.Profile.NominatedPodsForNode(node) {
			pod := info.GetPod()
			if !source.Of(pod).IsZero() || convert.Priority(pod) >= convert.Priority(speaker) || pod.Status.NominatedNodeName == "" {
				continue
			}
			errs = append(errs, passing(ctx, e.Teller.Writer.Pod(ctx, pod, status.Waiting{Node: new(string)}), "cannot clear the nominated node", pod))
		}
	}
	return first(errs)
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
		e.Profile.EventRecorder().Eventf(o, took[0], v1.EventTypeNormal, status.ReasonPreempting, "Preempting", "%s", status.Clip(message))
	})
}

func (e *execution) warn(message string) {
	e.about(func(o runtime.Object) {
		e.Teller.Once("eviction of "+e.group.Key.ID()+fmt.Sprintf(" %T", o), cache.Note{About: o, Warning: true, Reason: status.ReasonEvictionFailed, Message: message})
	})
}

// about calls say with the speaker and the PodGroups of its group.
func (e *execution) about(say func(runtime.Object)) {
	say(e.speaker)
	for _, ref := range e.group.Whole() {
		if pg := e.Teller.PodGroup(ref); pg != nil {
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

// preemptor tells the scheduler's executor for whom pods are evicted.
type preemptor struct {
	gangs   []gang.Ref
	pod     *v1.Pod
	members map[string]*v1.Pod
	why     string // victims leave, as they are told; "" is for its priority, or its quota
}

func (p preemptor) GetName() string          { return p.pod.Name }
func (p preemptor) GetNamespace() string     { return p.pod.Namespace }
func (p preemptor) SchedulerName() string    { return p.pod.Spec.SchedulerName }
func (p preemptor) Obj() runtime.Object      { return p.pod }
func (p preemptor) Pods() map[string]*v1.Pod { return p.members }
func (p preemptor) Priority() int32          { return convert.Priority(p.pod) }

// count counts an eviction; room says that it makes room for those who evict.
func (p *Preemptor) count(victim *v1.Pod, by preemption.ExecutorPreemptor, room bool) {
	if gang, ok := by.(preemptor); ok {
		if gang.why != "" {
			p.Meter.Revoked()
			return
		}
		p.Meter.Evicted(victim, gang.pod, room)
		return
	}
	for _, pod := range by.Pods() { // DefaultPreemption's is one pod
		p.Meter.Evicted(victim, pod, room)
	}
}

// Type says what evicts: a gang, or a pod without one.
func (p preemptor) Type() string {
	if len(p.gangs) == 0 {
		return string(fwk.PodKeyType)
	}
	return "gang"
}

// UID is the names of gangs: events name whoever evicts by UID.
func (p preemptor) UID() types.UID {
	if len(p.gangs) == 0 {
		return p.pod.UID
	}
	return types.UID(p.names())
}

// site is the executor's candidate, of which it reads only the name, for its event.
type site struct{ node, domain string }

func (s site) Name() string                 { return s.node + in(", for places in ", s.domain) }
func (s site) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }
func (s site) NumPodGroupDisruptions() int  { return 0 }

// names are those of the gangs that evict together: events name whoever evicts by UID. A group
// may have 64 gangs, of which the first are named.
func (p preemptor) names() string {
	const named = 3
	names, rest := make([]string, len(p.gangs)), ""
	for i, g := range p.gangs {
		names[i] = g.String()
	}
	if more := len(names) - named; more > 1 {
		names, rest = names[:named], fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ") + rest
}
