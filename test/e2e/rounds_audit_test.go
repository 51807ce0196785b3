package e2e

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// roundLabel names the round of a node or a pod.
const roundLabel = "round"

// audit follows the pods of one round, in the order in which the API server changes them. It writes down forbidden
// states.
type audit struct {
	round *round

	mu     sync.Mutex
	pods   map[string]*v1.Pod
	used   map[string]int    // GPUs, by node.
	places map[string]string // where members are nominated, until they are bound.
	asked  []string          // residents that got DisruptionTarget.
	left   int               // residents that were deleted.
	graces map[int64]bool    // of evicted pods.
	rival  string            // its answer before the gang ran.
	wrong  []string
	story  []string
	over   bool
}

func newAudit(r *round) *audit {
	return &audit{
		round: r, pods: map[string]*v1.Pod{}, used: map[string]int{}, places: map[string]string{}, graces: map[int64]bool{},
		rival: "came too late",
	}
}

// followRounds hands each event to the audit of its round. An audit that does not see
// everything is none: so the end of the watch is an error.
func followRounds(w watch.Interface, audits map[string]*audit) error {
	for event := range w.ResultChan() {
		pod, ok := event.Object.(*v1.Pod)
		if !ok {
			return fmt.Errorf("the watch of pods has ended: %v", event.Object)
		}
		if a := audits[pod.Labels[roundLabel]]; a != nil {
			a.apply(event.Type, pod)
		}
	}
	return errors.New("the watch of pods has ended")
}

func (a *audit) apply(what watch.EventType, pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	old := a.pods[pod.Name]
	if old == nil {
		old = &v1.Pod{}
	}
	a.pods[pod.Name] = pod
	a.bindingOf(pod, old)
	a.nominationOf(pod, old)
	a.leavingOf(pod, old, what == watch.Deleted)
	if what == watch.Deleted {
		a.used[pod.Spec.NodeName] -= gpusOf(pod)
		delete(a.pods, pod.Name)
		a.tell("%s is gone from %s", pod.Name, pod.Spec.NodeName)
	}
}

func gpusOf(pod *v1.Pod) int {
	gpus := pod.Spec.Containers[0].Resources.Requests[gpuResource]
	return int(gpus.Value())
}

func (a *audit) isMember(pod *v1.Pod) bool {
	return pod.Labels[scheduling.LabelPodGroup] == a.round.name
}

func (a *audit) isRival(name string) bool { return name == a.round.name+"-rival" }

// bindingOf sees whether a pod has come to a node, and whether it might.
func (a *audit) bindingOf(pod, old *v1.Pod) {
	node := pod.Spec.NodeName
	if node == "" || old.Spec.NodeName != "" {
		return
	}
	a.used[node] += gpusOf(pod)
	a.tell("%s is bound to %s", pod.Name, node)
	if a.used[node] > gpusOfNode {
		a.fault("%s is overfull: %d GPUs", node, a.used[node])
	}
	if place := a.places[pod.Name]; place != "" && place != node && !a.mayMove() {
		a.fault("%s was nominated for %s and is bound to %s", pod.Name, place, node)
	}
	delete(a.places, pod.Name)
	if !a.isRival(pod.Name) {
		return
	}
	if a.bound() < a.round.members {
		a.rival = "bound elsewhere"
	}
	if staying := a.staying(node); staying+a.reserved(node) > gpusOfNode {
		a.fault("%s has taken a place on %s, where %d GPUs are reserved and %d in use", pod.Name, node, a.reserved(node), staying)
	}
}

// staying counts the GPUs of pods on a node that are not terminating.
func (a *audit) staying(node string) (n int) {
	for _, p := range a.pods {
		if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
			n += gpusOf(p)
		}
	}
	return n
}

// reserved counts the GPUs that members will need on a node.
func (a *audit) reserved(node string) (n int) {
	for _, place := range a.places {
		if place == node {
			n += a.round.gpus
		}
	}
	return n
}

// mayMove returns whether the gang may start elsewhere than where it is nominated: a gang that evicts no pod only waits for pods
// that terminate anyway, and starts as soon as there is free capacity.
func (a *audit) mayMove() bool { return a.round.least.pods == 0 }

// nominationOf sees whether a member's reservation has changed: it must not if pods were evicted for it.
func (a *audit) nominationOf(pod, old *v1.Pod) {
	if is, was := pod.Status.NominatedNodeName, old.Status.NominatedNodeName; is != was && pod.Spec.NodeName == "" {
		a.tell("%s is nominated for %q", pod.Name, is)
		if l := a.round.losses; is == "" && l != nil && l.what == lostBindings {
			return // kube-scheduler takes it back when a binding fails; the place stays the pod's
		}
		was = cmp.Or(was, a.places[pod.Name])
		if is == was {
			return
		}
		if was != "" && !a.mayMove() {
			a.fault("the nomination of %s changes from %s to %q before it is bound", pod.Name, was, is)
		}
		if !a.isMember(pod) {
			a.fault("%s is nominated for %s, but is no member", pod.Name, is)
			return
		}
		if len(a.round.sets) == 0 {
			a.fault("%s is nominated for %s, but the gang cannot run", pod.Name, is)
		}
		a.places[pod.Name] = is
	}
	if says := message(pod); a.isRival(pod.Name) && says != "" && pod.Spec.NodeName == "" && message(old) != says {
		a.tell("%s is told: %s", pod.Name, says)
		if a.bound() < a.round.members {
			a.rival = "refused"
		}
	}
}

// leavingOf sees whether a resident has been evicted, and how.
func (a *audit) leavingOf(pod, old *v1.Pod, gone bool) {
	if evicted(pod) && !evicted(old) {
		a.asked = append(a.asked, pod.Name)
		a.tell("%s gets DisruptionTarget", pod.Name)
	}
	if pod.DeletionTimestamp == nil && !gone || old.DeletionTimestamp != nil {
		return
	}
	a.tell("%s leaves %s", pod.Name, pod.Spec.NodeName)
	if a.departs(pod.Name) {
		return
	}
	grace := *pod.Spec.TerminationGracePeriodSeconds
	a.graces[grace] = true
	a.left++
	if !evicted(pod) {
		a.fault("%s is deleted without DisruptionTarget", pod.Name)
	}
	if has := pod.DeletionGracePeriodSeconds; !gone && (has == nil || *has != grace) {
		a.fault("%s has %v seconds to leave, and wants %d", pod.Name, has, grace)
	}
	if n := len(a.places) + a.bound(); n < a.round.members {
		a.fault("%s leaves when only %d of %d members have a place", pod.Name, n, a.round.members)
	}
}

func (a *audit) departs(name string) bool {
	return slices.ContainsFunc(a.round.residents, func(v resident) bool { return v.name == name && v.departs })
}

// bound counts the members that are bound.
func (a *audit) bound() (n int) {
	for _, p := range a.pods {
		if a.isMember(p) && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

func (a *audit) tell(format string, args ...any) {
	a.story = append(a.story, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (a *audit) fault(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	a.tell("THAT IS WRONG: "+format, args...)
}

// end stops the audit and returns what was wrong.
func (a *audit) end() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if len(a.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(a.wrong, "\n"))
}

// What a round waits for; "" when it is there.

// running waits until all residents run.
func (a *audit) running() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.round.residents {
		if p := a.pods[v.name]; p == nil || p.Status.Phase != v1.PodRunning {
			return v.name + " does not run"
		}
	}
	return ""
}

// leaving waits until the first resident terminates, or it is too late for that.
func (a *audit) leaving() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left > 0 || a.bound() > 0 {
		return ""
	}
	return "nobody leaves; " + a.says()
}

// settled waits until the gang runs, no pod terminates, and the rival has its answer.
func (a *audit) settled() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.bound(); n < a.round.members {
		return fmt.Sprintf("%d of %d members are bound; %s", n, a.round.members, a.says())
	}
	for name, p := range a.pods {
		if p.DeletionTimestamp != nil {
			return name + " is still leaving"
		}
		if a.isRival(name) && p.Spec.NodeName == "" && message(p) == "" {
			return name + " has no answer"
		}
	}
	return ""
}

// refused waits until a member's message says that no eviction would help.
func (a *audit) refused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pods {
		if text := message(p); a.isMember(p) && p.Spec.NodeName == "" && strings.Contains(text,
			"no candidate topology nodes can accommodate job, ") &&
			(strings.Contains(text,
				"preemption: preemption is not helpful for scheduling") || strings.Contains(text, "preemption: no potential victims")) {
			return ""
		}
	}
	return "no member is told that eviction does not help; " + a.says()
}

// says lists the messages of the members.
func (a *audit) says() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.pods)) {
		if p := a.pods[name]; a.isMember(p) {
			out = append(out, fmt.Sprintf("%s node=%q nominated=%q %s", name, p.Spec.NodeName, p.Status.NominatedNodeName, message(p)))
		}
	}
	return strings.Join(out, "\n")
}
