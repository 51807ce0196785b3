package departure

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// The texts of a victim's condition. After a restart, Resume reads byQuota and byDelay: they say that quotas decided, so that it does not
// compare priorities.
const (
	toAccommodate = "preempting to accommodate "
	byPriority    = toAccommodate + "a higher priority " // as kube-scheduler says it
	byQuota       = ": its quota reclaims what the quota of this pod borrows"
	byDelay       = "evicted because "
	byMove        = ": nodes in another domain are reserved for the whole gang"
	byBackfill    = ", as the pod declares with " + scheduling.AnnotationBackfill + ": " + scheduling.BackfillEvictable
	byOverdue     = ": the pod has run longer than it declares (argument backfill.overdue)"
	byDefault     = ": the pod declares no run time and has run longer than backfill.defaultMaxRuntime (argument backfill.overdue)"
	byForceFit    = " and was created before the gang of this pod (argument forceFit)"
	bySwap        = ": nodes elsewhere are reserved for the pod that replaces this one"
)

// reasonFor returns the message of a victim's condition: the preemptor, and why it may evict the victim.
func reasonFor(by preemptor, victim *v1.Pod) string {
	name := cmp.Or(by.names(), by.GetNamespace()+"/"+by.GetName())
	switch {
	case by.why != "":
		return by.SchedulerName() + ": " + byDelay + by.why
	case by.moves:
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byMove)
	case by.swap:
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, bySwap)
	case by.backfill && !by.cache.Evictable(victim) && !by.cache.DeclaresRuntime(victim):
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byDefault)
	case by.backfill && !by.cache.Evictable(victim):
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byOverdue)
	case by.backfill:
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byBackfill)
	case by.forceFit.Victims[victim.UID]:
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, by.forceFit.forVictim())
	case by.priority(victim) >= by.Priority():
		return fmt.Sprintf("%s: %s%s %s%s", by.SchedulerName(), toAccommodate, by.Type(), name, byQuota)
	}
	return fmt.Sprintf("%s: %s%s %s", by.SchedulerName(), byPriority, by.Type(), name)
}

// forVictim returns the end of a sentence about a victim that names the preemptor.
func (f ForceFit) forVictim() string {
	return fmt.Sprintf(", by force fit: that gang was unschedulable for %s", f.Waited) + byForceFit
}

// conditionMessage returns the message of a pod's condition DisruptionTarget; "" without one.
func conditionMessage(pod *v1.Pod) string {
	if _, c := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget); c != nil {
		return c.Message
	}
	return ""
}

// evictedByEqual returns whether a pod's condition says that it is evicted whatever the priorities: another quota reclaims what its quota
// borrows, it starts elsewhere, it declares that it may be evicted, it is overdue, or an older gang force-fits.
func evictedByEqual(pod *v1.Pod) bool {
	message := conditionMessage(pod)
	whys := []string{byQuota, bySwap, byBackfill, byOverdue, byDefault, byForceFit}
	return slices.ContainsFunc(whys, func(why string) bool { return strings.HasSuffix(message, why) })
}

// revocationReason returns from a pod's condition why it was evicted from an overdue quota; "" if it was not evicted for that.
func revocationReason(pod *v1.Pod, profile string) string {
	why, found := strings.CutPrefix(conditionMessage(pod), profile+": "+byDelay)
	if !found {
		return ""
	}
	return why
}

// disrupted returns the condition DisruptionTarget of a victim.
func disrupted(by preemptor, victim *v1.Pod) *v1.PodCondition {
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&victim.Status, victim.Generation, v1.DisruptionTarget),
		Message:            reasonFor(by, victim),
	}
}

// withReason returns a function that evicts a victim with a condition and an event that name the preemptor and the reason. For a victim
// that is not bound yet it calls evict, which requeues the victim.
func (p *Evictor) withReason(evict PreemptPod) PreemptPod {
	return func(
		ctx context.Context, candidate preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string,
	) (bool, error) {
		if p.Profile.GetWaitingPod(victim.UID) != nil || p.Profile.GetPodInPreBind(victim.UID) != nil {
			return evict(ctx, candidate, by, victim, plugin)
		}
		known := p.asPreemptor(by)
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
		switch {
		case known.why != "":
			text = "Evicted because " + known.why
		case known.forceFit.Victims[victim.UID]:
			text += known.forceFit.forVictim()
		}
		p.Profile.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, reasons.Preempted, "Preempting", "%s", text)
		return false, nil
	}
}

// unlessNotFound returns err, or nil if err says that the object does not exist.
func unlessNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// prefixed returns words and domain as one text; "" if the domain is "", the whole cluster.
func prefixed(words, domain string) string {
	if domain == "" {
		return ""
	}
	return words + domain
}

// preemptor is the pod or gang for which pods are evicted, for the scheduler's executor.
type preemptor struct {
	gangs    []gang.Ref         // nil for a pod without a gang
	pod      *v1.Pod            // the representative
	members  map[string]*v1.Pod // the pods to retry, by key
	why      string             // why a quota is overdue, if its pods are evicted for that; "" for every other eviction
	swap     bool               // nodes elsewhere are reserved for the victims' successors
	backfill bool               // the victims are Evictable
	forceFit ForceFit
	moves    bool // the victims are its own members; nodes elsewhere are reserved for all
	// cache has the priorities of pods; nil is the pods' own.
	cache *cache.Cache
}

// asPreemptor returns the preemptor behind the interface value by. If by has another type, DefaultPreemption evicts for a single pod: this
// pod is then the only member, and the representative.
func (p *Evictor) asPreemptor(by preemption.ExecutorPreemptor) preemptor {
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

// priority returns the priority of a pod, according to the cache if there is one.
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

// Count counts an accepted eviction in the metrics: as a revocation if the victim's quota was overdue, else by preemptor. freesCapacity
// says that the preemptor can use the victim's capacity.
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

// UID returns the names of the gangs, because events show it; for a pod without a gang its UID.
func (p preemptor) UID() types.UID {
	if len(p.gangs) == 0 {
		return p.pod.UID
	}
	return types.UID(p.names())
}

// Site is a candidate for the executor, which reads only its name, for an event.
type Site struct{ Node, Domain string }

// Name returns the node, and the domain if there is one.
func (s Site) Name() string { return s.Node + prefixed(", to free capacity in ", s.Domain) }

// Victims returns no victims.
func (s Site) Victims() *extenderv1.Victims { return &extenderv1.Victims{} }

// NumPodGroupDisruptions returns 0.
func (s Site) NumPodGroupDisruptions() int { return 0 }

// names returns the names of the gangs as one text; of five or more gangs it has the first three, and how many more there are.
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

// For returns the preemptor for a pod: its whole group if the pod is a member. why says why a quota is overdue, if its pods are evicted for
// that; "" for every other eviction.
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
