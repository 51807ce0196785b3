package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

const (
	manyRounds  = 100
	lanes       = 10 // rounds at a time
	gpuResource = v1.ResourceName("nvidia.com/gpu")
)

// TestPreemptionRounds has a gang come to 100 small random clusters and compares what it
// costs with a twin that tries every set of victims. The clusters are parts of one, and
// one scheduler serves them, some at a time.
func TestPreemptionRounds(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	if os.Getenv(existingEnv) != "" {
		t.Skip("writes what a disruption controller would write")
	}
	seed := chosenSeed(t)
	t.Logf("seed %d (%s)", seed, seedEnv)
	all, err := drawRounds(seed, manyRounds)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	began := time.Now()
	p := &preemptionRounds{harness: h, t: t, seed: seed, audits: map[string]*audit{}, counts: map[string]int{}}
	p.begin(all)
	prepared := time.Since(began)
	p.play(all)
	t.Logf("prepared in %.1fs, played in %.1fs", prepared.Seconds(), (time.Since(began) - prepared).Seconds())
	for _, name := range slices.Sorted(maps.Keys(p.counts)) {
		t.Logf("%4d %s", p.counts[name], name)
	}
	asked := map[string]int{
		"fits": 10, "evicts": 60, "impossible": 10, "evicts: with several graces": 20, "evicts: a gang leaves": 10,
		"evicts: beside a gang": 20, "evicts: beside a budget": 20, "evicts: against a budget": 5,
		"rival: refused": 10,
	}
	for _, counts := range troublesDrawn {
		maps.Copy(asked, counts)
	}
	for name, least := range asked {
		if p.counts[name] < least && !t.Failed() {
			t.Errorf("%d rounds of the kind %q, want %d", p.counts[name], name, least)
		}
	}
}

// chosenSeed is what seedEnv says.
func chosenSeed(t *testing.T) uint64 {
	s := os.Getenv(seedEnv)
	if s == "" {
		return 1
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedEnv, err)
	}
	return seed
}

// preemptionRounds is one run of the test.
type preemptionRounds struct {
	*harness
	t         *testing.T
	seed      uint64
	scheduler *scheduler
	api       *lossy
	audits    map[string]*audit // by round
	cancel    context.CancelCauseFunc

	mu     sync.Mutex
	counts map[string]int // of rounds, by kind
	failed int
}

// begin makes what the scheduler must know before it sees a pod of a round: all that it
// watches beside pods, since only pods come to it in the order in which they were made.
func (p *preemptionRounds) begin(all []*round) {
	ctx := p.t.Context()
	p.must(p.shared.clear(ctx))
	p.must(p.shared.applyCRDs(ctx, true))
	p.must(p.shared.createTopology(ctx))
	p.createClasses(ctx, roundClasses, v1.PreemptLowerPriority)
	p.createClasses(ctx, rivalClasses, v1.PreemptNever)
	p.must(localcluster.AwaitClasses(ctx, p.shared.client))
	var nodes []*v1.Node
	for _, r := range all {
		nodes = append(nodes, r.newNodes()...)
		for g, team := range r.teams {
			if len(r.team(g)) > 0 {
				p.must(p.createPodGroup(ctx, team.name, team.least, "", r.partners(g)...))
			}
		}
		for b := range r.budgets {
			p.must(p.createBudget(ctx, r, b))
		}
		p.audits[r.name] = newAudit(r)
	}
	err := p.shared.local.AddNodes(ctx, nodes)
	p.must(err)
	p.api, err = newLossy(p.shared.kubeconfig)
	p.must(err)
	p.t.Cleanup(p.api.close)
	program := filepath.Join(p.t.TempDir(), "rounds")
	kubeconfig := program + ".kubeconfig"
	p.must(p.api.kubeconfig(kubeconfig))
	scheduler, err := p.launch(p.shared, program, p.shared.kubeconfig, []string{"--kubeconfig=" + kubeconfig})
	p.must(err)
	p.scheduler = scheduler
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("== log of %s, its last lines\n%s", p.scheduler.name, p.scheduler.tail(60))
		}
		p.scheduler.stop()
	})
}

func (p *preemptionRounds) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *preemptionRounds) createClasses(ctx context.Context, classes map[string]int32, policy v1.PreemptionPolicy) {
	for name, value := range classes {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy}
		_, err := p.shared.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		p.must(err)
	}
}

func (p *preemptionRounds) createPodGroup(ctx context.Context, name string, least int, gather string, group ...string) error {
	pg := &sigs.PodGroup{}
	pg.APIVersion, pg.Kind = sigs.GroupVersion.String(), "PodGroup"
	pg.Name, pg.Namespace = name, metav1.NamespaceDefault
	pg.Spec.MinMember = int32(least)
	pg.Annotations = map[string]string{}
	if gather != "" {
		pg.Annotations[scheduling.AnnotationTopologySpec] = gather
	}
	if len(group) > 0 {
		pg.Annotations[scheduling.AnnotationGroups] = groupsOf(group)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	_, err = p.shared.dynamic.Resource(sigs.PodGroups).Namespace(pg.Namespace).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// createBudget makes one and says, in the place of a controller, what it allows.
func (p *preemptionRounds) createBudget(ctx context.Context, r *round, b int) error {
	pods := 0
	for _, v := range r.residents {
		if v.budget == b {
			pods++
		}
	}
	allowed := min(pods, r.budgets[b].allowed)
	least := intstr.FromInt(pods - allowed)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: r.budgets[b].name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{budgetLabel: r.budgets[b].name}},
	}}
	budgets := p.shared.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	budget, err := budgets.Create(ctx, budget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, DisruptionsAllowed: int32(allowed),
		CurrentHealthy: int32(pods), DesiredHealthy: int32(pods - allowed), ExpectedPods: int32(pods),
	}
	_, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
	return err
}

// budgetLabel names the budget that a pod is under.
const budgetLabel = "budget"

func (r *round) newNodes() (out []*v1.Node) {
	for _, n := range r.nodes {
		node := localcluster.Nodes(1, 1, 1)[0]
		spine := fmt.Sprintf("%s-s%d", r.name, n.spine)
		node.Name = n.name
		node.Labels = map[string]string{
			roundLabel: r.name, v1.LabelHostname: n.name,
			localcluster.SpineLabel: spine, localcluster.BlockLabel: fmt.Sprintf("%s-b%d", spine, n.block),
		}
		for _, list := range []v1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			list[gpuResource] = *resource.NewQuantity(gpusOfNode, resource.DecimalSI)
		}
		out = append(out, node)
	}
	return out
}

// newPod makes a pod that stays within the round's nodes.
func (r *round) newPod(name, class string, gpus int) *v1.Pod {
	pod := newPod(name, 100, class)
	pod.Labels = map[string]string{roundLabel: r.name}
	pod.Annotations = map[string]string{}
	pod.Spec.NodeSelector = map[string]string{roundLabel: r.name}
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests[gpuResource] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	resources.Limits = v1.ResourceList{gpuResource: resources.Requests[gpuResource]}
	return pod
}

func (r *round) newResident(v resident) *v1.Pod {
	pod := r.newPod(v.name, v.class, v.gpus)
	pod.Spec.NodeName, pod.Spec.TerminationGracePeriodSeconds = v.node, &v.grace
	pod.Annotations[leaveDelay] = (time.Duration(v.leaves) * time.Millisecond).String()
	switch v.protection {
	case "disabled":
		pod.Labels[scheduling.LabelDisablePreemptible] = "true"
	case "quota":
		pod.Labels[scheduling.LabelQuotaPreemptible] = "false"
	}
	if v.team >= 0 {
		pod.Labels[scheduling.LabelPodGroup] = r.teams[v.team].name
	}
	if v.budget >= 0 {
		pod.Labels[budgetLabel] = r.budgets[v.budget].name
	}
	return pod
}

// newMembers are the pods of the gang that comes.
func (r *round) newMembers() (out []*v1.Pod) {
	for i := range r.members {
		pod := r.newPod(fmt.Sprintf("%s-m%d", r.name, i), "gang", r.gpus)
		pod.Labels[scheduling.LabelPodGroup] = r.name
		out = append(out, pod)
	}
	return out
}

// mostFailed is after how many failed rounds the rest is not played.
const mostFailed = 3

// play plays rounds in lanes side by side.
func (p *preemptionRounds) play(all []*round) {
	ctx, cancel := context.WithCancelCause(p.t.Context())
	defer cancel(nil)
	p.cancel = cancel
	w, err := p.watch(ctx)
	p.must(err)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		cancel(followRounds(w, p.audits))
	}()
	go func() {
		select {
		case <-p.scheduler.done:
			cancel(errors.New("the scheduler has ended"))
		case <-ctx.Done():
		}
	}()
	next := make(chan *round)
	var busy sync.WaitGroup
	for range lanes {
		busy.Go(func() {
			for r := range next {
				if err := p.playOne(ctx, r); err != nil {
					p.report(ctx, r, err)
				}
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	busy.Wait()
	w.Stop()
	<-watched
}

// watch watches the pods of all rounds, of which there are none yet. An API server that
// is busy ends watches; this one goes on where it was.
func (p *preemptionRounds) watch(ctx context.Context) (watch.Interface, error) {
	list, err := p.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = roundLabel
			return p.pods().Watch(ctx, options)
		},
	})
}

// report says what has failed, and ends the test if too much has.
func (p *preemptionRounds) report(ctx context.Context, r *round, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed++; p.failed > mostFailed {
		return // it was not played to the end
	}
	a := p.audits[r.name]
	a.mu.Lock()
	defer a.mu.Unlock()
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(err, cause)
	}
	p.t.Errorf("seed %d (%s), %v\n== what happened\n%s\n== %v", p.seed, seedEnv, r, strings.Join(a.story, "\n"), err)
	if p.failed == mostFailed {
		p.cancel(errors.New("too many rounds have failed"))
	}
}

func (p *preemptionRounds) pods() corev1.PodInterface {
	return p.shared.client.CoreV1().Pods(metav1.NamespaceDefault)
}

func (p *preemptionRounds) create(ctx context.Context, pods ...*v1.Pod) error {
	for _, pod := range pods {
		if _, err := p.pods().Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// await waits until nothing is missing.
func (p *preemptionRounds) await(ctx context.Context, missing func() string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := ""
	err := poll(ctx, func() (bool, error) { last = missing(); return last == "", nil })
	if err != nil {
		return fmt.Errorf("%w: %s", err, last)
	}
	return nil
}

func (p *preemptionRounds) playOne(ctx context.Context, r *round) error {
	a := p.audits[r.name]
	for _, v := range r.residents {
		if err := p.create(ctx, r.newResident(v)); err != nil {
			return err
		}
	}
	if err := p.await(ctx, a.running); err != nil {
		return err
	}
	for _, v := range r.residents {
		if v.departs {
			if err := p.pods().Delete(ctx, v.name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
	}
	other, err := theirs{}, error(nil)
	if len(r.foreign) > 0 {
		if other, err = p.createForeign(ctx, r); err != nil {
			return err
		}
	}
	if r.remade {
		if err := p.remake(ctx, r); err != nil {
			return err
		}
	}
	p.api.play(r.name, r.losses)
	if err := p.createGang(ctx, r); err != nil {
		return err
	}
	switch {
	case len(r.sets) == 0:
		if err := p.await(ctx, a.refused); err != nil {
			return err
		}
	case r.rival != noRival:
		if err := p.await(ctx, a.leaving); err != nil {
			return err
		}
		if err := p.create(ctx, r.newPod(r.name+"-rival", r.rival, r.gpus)); err != nil {
			return err
		}
		fallthrough
	default:
		if err := p.await(ctx, a.settled); err != nil {
			return err
		}
	}
	if err := p.check(ctx, r); err != nil {
		return err
	}
	if len(r.foreign) > 0 {
		if err := p.checkForeign(ctx, r, other); err != nil {
			return err
		}
	}
	if r.replaced {
		if err := p.replace(ctx, r); err != nil {
			return err
		}
	}
	return p.sweep(ctx, r)
}

func (p *preemptionRounds) createGang(ctx context.Context, r *round) error {
	group := func() error { return p.createPodGroup(ctx, r.name, r.members, oneSpine.spec()) }
	members := func() error { return p.create(ctx, r.newMembers()...) }
	steps := []func() error{group, members}
	if r.podsFirst {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// check compares what the API server has in the end with the twin.
func (p *preemptionRounds) check(ctx context.Context, r *round) error {
	a := p.audits[r.name]
	list, err := p.pods().List(ctx, metav1.ListOptions{LabelSelector: roundLabel + "=" + r.name})
	if err != nil {
		return err
	}
	wrong := []error{a.end()}
	fault := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	there := map[string]*v1.Pod{}
	used := map[string]int{}
	spines := map[int]bool{}
	bound := 0
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.Name] = pod
		used[pod.Spec.NodeName] += gpusOf(pod)
		if evicted(pod) || pod.DeletionTimestamp != nil && !a.departs(pod.Name) {
			fault("%s stays, but DisruptionTarget is %v and it leaves: %v", pod.Name, evicted(pod), pod.DeletionTimestamp != nil)
		}
		if node := pod.Status.NominatedNodeName; node != "" && pod.Spec.NodeName == "" {
			fault("%s is left nominated for %s", pod.Name, node)
		}
		if a.isMember(pod) && pod.Spec.NodeName != "" {
			bound++
			for _, n := range r.nodes {
				if n.name == pod.Spec.NodeName {
					spines[n.spine] = true
				}
			}
		}
	}
	for _, n := range r.nodes {
		if used[n.name] > gpusOfNode {
			fault("%s is overfull: %d GPUs", n.name, used[n.name])
		}
	}
	var gone []int
	for i, v := range r.residents {
		if there[v.name] != nil || v.departs {
			continue
		}
		gone = append(gone, i)
		if !v.mayLeave() {
			fault("%s is no possible victim and was evicted", v.name)
		}
		if !slices.Contains(a.asked, v.name) {
			fault("%s is gone without DisruptionTarget", v.name)
		}
	}
	if len(a.asked) != len(gone) {
		fault("%v were asked to leave, %d pods are gone", a.asked, len(gone))
	}
	if is := r.priceOf(gone); is != r.least {
		fault("the twin expects %v, and it is %v", r.least, is)
	}
	if len(r.sets) > 0 && !slices.ContainsFunc(r.sets, func(s []int) bool { return slices.Equal(s, gone) }) {
		fault("the twin has another set of victims")
	}
	switch {
	case len(r.sets) == 0 && bound > 0:
		fault("%d members are bound although the gang cannot run", bound)
	case len(r.sets) > 0 && (bound < r.members || len(spines) != 1):
		fault("%d of %d members are bound, in %d spines", bound, r.members, len(spines))
	}
	p.count(r, a, gone)
	return errors.Join(wrong...)
}

// sweep deletes the pods, so that the scheduler has less to look at.
func (p *preemptionRounds) sweep(ctx context.Context, r *round) error {
	now := int64(0)
	for i := range r.foreign {
		if err := p.pods().Delete(ctx, fmt.Sprintf("%s-f%d", r.name, i), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return err
		}
	}
	return p.pods().DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
		metav1.ListOptions{LabelSelector: roundLabel + "=" + r.name})
}

// count says what a round was good for.
func (p *preemptionRounds) count(r *round, a *audit, gone []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts["drawn: "+r.wish]++
	for _, name := range r.troubleNames() {
		p.counts[name]++
	}
	if r.losses != nil && p.api.lost(r.name) > 0 {
		p.counts["requests lost: "+r.losses.what]++
	}
	running := slices.ContainsFunc(r.residents, func(v resident) bool { return v.team >= 0 })
	budget := slices.ContainsFunc(r.residents, func(v resident) bool { return v.budget >= 0 })
	switch {
	case len(r.sets) == 0:
		p.counts["impossible"]++
		return
	case r.least.pods == 0:
		p.counts["fits"]++
		return
	}
	p.counts["evicts"]++
	for kind, is := range map[string]bool{
		"with several graces": len(a.graces) > 1, "several pods": r.least.pods > 1,
		"beside a gang": running, "a gang leaves": r.teamsWhole(gone) > 0, "a GangGroup leaves": r.groupsWhole(gone) > 0,
		"a gang spares members": r.teamsSparing(gone) > 0,
		"beside a budget":       budget, "against a budget": r.least.violations > 0,
		"beside pods that terminate anyway":  slices.ContainsFunc(r.residents, func(v resident) bool { return v.departs }),
		"one set of victims is the cheapest": len(r.sets) == 1,
	} {
		if is {
			p.counts["evicts: "+kind]++
		}
	}
	p.counts["pods evicted"] += len(gone)
	if r.rival != noRival {
		p.counts["rival: "+r.rival]++
		p.counts["rival: "+a.rival]++
	}
}
