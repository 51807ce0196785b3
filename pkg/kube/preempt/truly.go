package preempt

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// The executor tells each victim that somebody of higher priority is to be accommodated. Where quotas decide priorities are not compared,
// and who comes after this process must know that, too: see Resume.
const (
	toAccommodate = "preempting to accommodate a "
	byQuota       = " whose quota is entitled to what this one's borrows"
	byDelay       = "since "
)

// says is what a victim is told it leaves for.
func says(by preemption.ExecutorPreemptor, victim *v1.Pod) string {
	if p, ok := by.(preemptor); ok && p.why != "" {
		return p.SchedulerName() + ": " + byDelay + p.why
	}
	if convert.Priority(victim) >= by.Priority() {
		return by.SchedulerName() + ": " + toAccommodate + by.Type() + byQuota
	}
	return fmt.Sprintf("%s: %shigher priority %s", by.SchedulerName(), toAccommodate, by.Type())
}

// told is what stands in a pod of why it is to leave; "" if it is not.
func told(pod *v1.Pod) string {
	if _, c := podutil.GetPodCondition(&pod.Status, v1.DisruptionTarget); c != nil {
		return c.Message
	}
	return ""
}

// forQuota says whether a pod was told that it leaves for somebody whose quota is entitled to what it has.
func forQuota(pod *v1.Pod) bool { return strings.HasSuffix(told(pod), byQuota) }

// revoked is why a pod was to leave that leaves since its quota has had too much for long; "" if it is none.
func revoked(pod *v1.Pod, profile string) string {
	why, is := strings.CutPrefix(told(pod), profile+": "+byDelay)
	if !is {
		return ""
	}
	return why
}

// disrupted is the condition of a victim before it is deleted.
func disrupted(by preemption.ExecutorPreemptor, victim *v1.Pod) *v1.PodCondition {
	return &v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		ObservedGeneration: podutil.CalculatePodConditionObservedGeneration(&victim.Status, victim.Generation, v1.DisruptionTarget),
		Message:            says(by, victim),
	}
}

// truly has victims told the truth: an executor says nothing but that the priority of others is higher.
func (p *Preemptor) truly(evict PreemptPod) PreemptPod {
	return func(ctx context.Context, to preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		is, ok := by.(preemptor)
		waits := p.Profile.GetWaitingPod(victim.UID) != nil || p.Profile.GetPodInPreBind(victim.UID) != nil
		if waits || (!ok || is.why == "") && convert.Priority(victim) < by.Priority() {
			return evict(ctx, to, by, victim, plugin)
		}
		status := victim.Status.DeepCopy()
		if podutil.UpdatePodCondition(status, disrupted(by, victim)) {
			if err := schedutil.PatchPodStatus(ctx, p.Profile.ClientSet(), victim.Name, victim.Namespace, &victim.Status, status); err != nil {
				return false, thereAre(err)
			}
		}
		if err := schedutil.DeletePod(ctx, p.Profile.ClientSet(), victim); err != nil {
			return false, thereAre(err)
		}
		text := fmt.Sprintf("Preempted by %s %v on node %v", by.Type(), by.UID(), to.Name())
		if ok && is.why != "" {
			text = "Leaves " + byDelay + is.why
		}
		p.Profile.EventRecorder().Eventf(victim, by.Obj(), v1.EventTypeNormal, "Preempted", "Preempting", "%s", text)
		return false, nil
	}
}

// thereAre are errors but that a victim is gone.
func thereAre(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
