package departure

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// The texts of a victim's condition. Resume of the next process reads byQuota and byDelay: where quotas decide, priorities are not
// compared.
const (
	toAccommodate = "preempting to accommodate "
	byPriority    = toAccommodate + "a higher priority " // as kube-scheduler says it
	byQuota       = ": its quota reclaims what the quota of this pod borrows"
	byDelay       = "evicted because "
)

// reasonFor returns the message of a victim's condition. It names the preemptor, and why it may evict the victim.
func reasonFor(by preemptor, victim *v1.Pod) string {
	name := cmp.Or(by.names(), by.GetNamespace()+"/"+by.GetName())
	switch {
	case by.why != "":
		return by.SchedulerName() + ": " + byDelay + by.why
	case by.priority(victim) >= by.Priority():
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byQuota)
	}
	return fmt.Sprintf("%s: %s%s %s", by.SchedulerName(), byPriority, by.Type(), name)
}

// toldReason returns what a pod was told about its eviction; "" if nothing.
func toldReason(pod *v1.Pod) string {
	if _, c := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget); c != nil {
		return c.Message
	}
	return ""
}

// forQuota returns whether a pod was told that its quota returns borrowed capacity.
func forQuota(pod *v1.Pod) bool { return strings.HasSuffix(toldReason(pod), byQuota) }

// revoked returns why a pod of an overdue quota was evicted; "" for another eviction.
func revoked(pod *v1.Pod, profile string) string {
	why, found := strings.CutPrefix(toldReason(pod), profile+": "+byDelay)
	if !found {
		return ""
	}
	return why
}

// disrupted returns the condition of a victim before it is deleted.
func disrupted(by preemptor, victim *v1.Pod) *v1.PodCondition {
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&victim.Status, victim.Generation, v1.DisruptionTarget),
		Message:            reasonFor(by, victim),
	}
}

// withReason writes the reason and the preemptor's name into a victim's condition. The executor's own condition names neither.
// A victim that is not bound yet is left to the executor, which requeues it.
func (p *Evictor) withReason(evict PreemptPod) PreemptPod {
	return func(
		ctx context.Context, candidate preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (bool, error) {
		if p.Profile.GetWaitingPod(victim.UID) != nil || p.Profile.GetPodInPreBind(victim.UID) != nil {
			return evict(ctx, candidate, by, victim, plugin)
		}
		known := p.known(by)
		status := victim.Status.DeepCopy()
		if podutil.UpdatePodCondition(status, disrupted(known, victim)) {
			if err := schedutil.PatchPodStatus(ctx, p.Profile.ClientSet(), victim.Name, victim.Namespace, &victim.Status, status); err != nil {
				return false, unlessNotFound(err)
			}
		}
		if err := schedutil.DeletePod(ctx, p.Profile.ClientSet(), victim); err != nil {
			return false, unlessNotFound(err)
		}
		klog.FromContext(ctx).V(2).Info("Evicted a pod", "pod", klog.KObj(victim), "node", candidate.Name(), "reason", reasonFor(known, victim))
		text := fmt.Sprintf("Preempted by %s %v on node %v", by.Type(), by.UID(), candidate.Name())
		if known.why != "" {
			text = "Evicted because " + known.why
		}
		p.Profile.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, reasons.Preempted, "Preempting", "%s", text)
		return false, nil
	}
}

// unlessNotFound returns the error, except that the victim is gone.
func unlessNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// prefixed puts words before a domain; "" for the whole cluster.
func prefixed(words, domain string) string {
	if domain == "" {
		return ""
	}
	return words + domain
}

// preemptor tells the scheduler's executor what pods are evicted for.
type preemptor struct {
	gangs   []gang.Ref
	pod     *v1.Pod
	members map[string]*v1.Pod
	why     string // why the pod must go, when a quota is revoked; "" for every other eviction
	// cache has the priorities of pods; nil is the pods' own.
	cache *cache.Cache
}

// known returns a preemptor with the priorities that the cache knows. DefaultPreemption's is one pod.
func (p *Evictor) known(by preemption.ExecutorPreemptor) preemptor {
	known, ok := by.(preemptor)
	if ok {
		return known
	}
	known.cache, known.members = p.Cache, by.Pods()
	for _, pod := range known.members {
		known.pod = pod
	}
	return known
}

// priority returns the priority of a pod.
func (p preemptor) priority(pod *v1.Pod) int32 {
	if p.cache == nil {
		return convert.Priority(pod)
	}
	return p.cache.Priority(pod)
}

func (p preemptor) GetName() string          { return p.pod.Name }
func (p preemptor) GetNamespace() string     { return p.pod.Namespace }
func (p preemptor) SchedulerName() string    { return p.pod.Spec.SchedulerName }
func (p preemptor) Obj() runtime.Object      { return p.pod }
func (p preemptor) Pods() map[string]*v1.Pod { return p.members }
func (p preemptor) Priority() int32          { return p.priority(p.pod) }

// Count counts an accepted eviction in the metrics: as revoked if a quota above its fair share lost the pod, else by preemptor.
// freesCapacity says that the preemptor can use the victim's capacity.
func (p *Evictor) Count(victim *v1.Pod, by preemption.ExecutorPreemptor, freesCapacity bool) {
	if known, ok := by.(preemptor); ok {
		if known.why != "" {
			p.Meter.Revoked()
			return
		}
		p.Meter.Evicted(victim, known.pod, freesCapacity)
		return
	}
	for _, pod := range by.Pods() { // DefaultPreemption's is one pod
		p.Meter.Evicted(victim, pod, freesCapacity)
	}
}

// Type returns the kind of the preemptor: a gang, or a pod without one.
func (p preemptor) Type() string {
	if len(p.gangs) == 0 {
		return string(fwk.PodKeyType)
	}
	return "gang"
}

// UID returns the names of gangs, because events name the preemptor by UID.
func (p preemptor) UID() types.UID {
	if len(p.gangs) == 0 {
		return p.pod.UID
	}
	return types.UID(p.names())
}

// Site is the executor's candidate, of which it reads only the name, for its event.
type Site struct{ Node, Domain string }

// Name returns the node, and the domain if there is one.
func (s Site) Name() string { return s.Node + prefixed(", to free capacity in ", s.Domain) }

// Victims returns no victims.
func (s Site) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }

// NumPodGroupDisruptions returns 0.
func (s Site) NumPodGroupDisruptions() int { return 0 }

// names returns the gangs that evict together, for events. A group may have 64 gangs, of which the first are named.
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

// For returns the preemptor for a pod: its gangs if it is a member. why says why victims must go, when a quota is revoked; "" for every
// other eviction.
func (p *Evictor) For(pod *v1.Pod, why string) preemption.ExecutorPreemptor {
	by := preemptor{pod: pod, members: map[string]*v1.Pod{convert.PodKey(pod): pod}, why: why, cache: p.Cache}
	if source.GangOf(pod).IsZero() {
		return by
	}
	if group, refusal := p.Cache.Group(pod); !refusal.Exists() {
		by.gangs = group.Whole()
		by.members = group.Pods
	}
	return by
}
