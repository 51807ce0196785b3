package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// seedEnv names the seed of the random choices of TestChaos.
const seedEnv = "E2E_SEED"

// TestChaos has gangs of all sorts scheduled while something breaks again and again, at random moments: after so many
// bindings, nominations and evictions. In the end every gang is whole or waits whole, every gang that fits is bound, and
// every rule holds. No node was overfull at any time, no pod was evicted in vain, and no nomination is left behind.
func TestChaos(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	seed := chosenSeed(t)
	h := newHarness(t)
	election := []string{
		"--leader-elect", "--leader-elect-resource-namespace=" + ownNamespace, "--leader-elect-lease-duration=5s",
		"--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms",
	}
	for _, test := range []struct {
		name         string
		jobs, rounds int
		flags        []string // of the schedulers
		replicas     int
		disturb      func(c *chaos)
	}{
		{"scheduler-killed", 40, 10, nil, 1, (*chaos).restartScheduler},
		{"leader-killed", 14, 2, election, 2, (*chaos).killLeader},
		{"apiserver-restarted", 14, 1, nil, 1, (*chaos).restartAPIServer},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "apiserver-restarted" && h.shared.local == nil {
				t.Skip("needs a control plane of its own")
			}
			c := &chaos{harness: h, t: t, seed: seed, random: rand.New(rand.NewPCG(seed, uint64(test.jobs))), flags: test.flags}
			c.jobs = randomJobs(c.random, test.jobs)
			c.choose = rand.New(rand.NewPCG(seed, 0))
			c.begin()
			for i := range test.replicas {
				if c.start(); i == 0 && test.replicas > 1 {
					c.awaitLeader()
				}
			}
			c.run(test.rounds, func() { test.disturb(c) })
			t.Logf("seed %d (%s): moments %v; %s", seed, seedEnv, c.moments, c.end())
		})
	}
}

// chaos is one run.
type chaos struct {
	*harness
	t      *testing.T
	seed   uint64
	random *rand.Rand // for what does not depend on what has happened
	choose *rand.Rand // for what does
	flags  []string
	jobs   []*job

	ledger     *ledger
	schedulers []*scheduler // running schedulers, the leader first
	started    int
	strays     int
	blockers   []string
	moments    []int // the steps before each disturbance
	failed     atomic.Bool
	wrong      []string // what failed, told once more after the logs
}

// begin makes 64 nodes, half of them taken by pods that may be evicted, and some by
// pods that may not.
func (c *chaos) begin() {
	nodes := localcluster.Nodes(4, 4, 4)
	c.beginWith(nodes)
	for i, n := range c.random.Perm(len(nodes))[:40] {
		if i < 18 {
			c.blockers = append(c.blockers, c.block(fmt.Sprintf("blocker-%d", i), nodes[n].Name))
			continue
		}
		c.occupy(fmt.Sprintf("low-%d", i), nodes[n].Name)
	}
}

// block has a node taken by a pod that stays.
func (c *chaos) block(name, node string) string {
	p := newPod(name, wholeNode, "high")
	p.Spec.NodeName, p.Labels = node, map[string]string{scheduling.LabelDisablePreemptible: "true"}
	c.create(p)
	return name
}

// occupy has a node taken, or half of it, by a pod that may be evicted and takes some time
// to leave.
func (c *chaos) occupy(name, node string) {
	p := newPod(name, []int64{halfNode, wholeNode}[c.random.IntN(2)], "low")
	p.Spec.NodeName = node
	grace := time.Duration(c.random.IntN(1500)) * time.Millisecond
	p.Annotations = map[string]string{leaveDelay: grace.String()}
	c.create(p)
}

// leaveDelay is an annotation that says how long a pod of KWOK takes to leave.
const leaveDelay = "pod-delete.stage.kwok.x-k8s.io/delay"

// beginWith makes a cluster of these nodes, and follows its pods.
func (c *chaos) beginWith(nodes []*v1.Node) {
	ctx := c.t.Context()
	c.must(c.shared.clear(ctx))
	c.must(c.shared.applyCRDs(ctx, true))
	c.must(c.shared.createTopology(ctx))
	_, err := c.shared.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}},
		metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		c.must(err)
	}
	for name, value := range map[string]int32{"low": 1000, "normal": 100000, "high": 1000000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		_, err := c.shared.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		c.must(err)
	}
	c.must(localcluster.AwaitClasses(ctx, c.shared.client))
	for _, n := range nodes {
		_, err := c.shared.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		c.must(err)
	}
	c.must(c.nodesReady(ctx, len(nodes)))
	c.ledger = newLedger(nodes)
	go c.ledger.follow(ctx, c.shared.client.CoreV1().Pods(metav1.NamespaceDefault))
	c.t.Cleanup(func() {
		if c.t.Failed() {
			for _, j := range c.jobs {
				c.t.Log(j)
			}
			c.t.Logf("== what happened\n%s", strings.Join(c.ledger.story, "\n"))
		}
		for _, p := range c.schedulers {
			if c.t.Failed() {
				c.t.Logf("== log of %s, its last lines\n%s", p.name, p.tail(60))
			}
			p.stop()
		}
		if c.t.Failed() {
			c.t.Logf("== what is wrong\n%s", strings.Join(c.wrong, "\n"))
		}
	})
}

// blame fails the test, and goes on.
func (c *chaos) blame(wrong string) {
	c.t.Helper()
	c.wrong = append(c.wrong, wrong)
	c.t.Error(wrong)
}

func (c *chaos) nodesReady(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, func() (bool, error) {
		list, err := c.shared.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		n := 0
		for i := range list.Items {
			if ready(&list.Items[i]) && len(list.Items[i].Spec.Taints) == 0 {
				n++
			}
		}
		return n == want, nil
	})
}

// run hands the jobs in, some in each round, and disturbs each round but the last at a
// random moment.
func (c *chaos) run(rounds int, disturb func()) {
	for round := range rounds + 1 {
		now := c.jobs[round*len(c.jobs)/(rounds+1) : (round+1)*len(c.jobs)/(rounds+1)]
		members := 0
		for _, j := range now {
			members += j.size()
		}
		moment := 1 + c.random.IntN(members)
		reached := c.ledger.after(moment)
		handedIn := make(chan struct{})
		go func() {
			defer close(handedIn)
			c.handIn(now)
		}()
		if round < rounds {
			c.awaitMoment(reached, handedIn)
			c.moments = append(c.moments, moment)
			c.ledger.note("== it is disturbed")
			disturb()
			c.ledger.note("== until here")
		}
		<-handedIn
		if c.failed.Load() {
			c.t.FailNow()
		}
		c.endOne()
	}
}

// awaitMoment waits until so many steps are done, or no more steps will be done.
func (c *chaos) awaitMoment(reached, handedIn <-chan struct{}) {
	select {
	case <-reached:
		return
	case <-handedIn:
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.After(2 * patience)
	for {
		select {
		case <-reached:
			return
		case <-limit:
			c.fatal("no progress")
		case <-tick.C:
			if c.ledger.unsettled(c.handed()) == "" {
				return
			}
		}
	}
}

// handed lists the jobs that the cluster knows.
func (c *chaos) handed() (out []*job) {
	for _, j := range c.jobs {
		if j.submitted.Load() {
			out = append(out, j)
		}
	}
	return out
}

// handIn creates jobs, and between them pods that belong to none.
func (c *chaos) handIn(jobs []*job) {
	for _, j := range jobs {
		c.createPodGroups(j)
		c.createClaim(j)
		for _, p := range j.pods() {
			c.create(p)
		}
		c.create(newPod(fmt.Sprintf("stray-%d", c.strays), halfNode, "low"))
		c.strays++
		j.submitted.Store(true)
	}
}

// createPodGroups creates all PodGroups of a job, or some of them.
func (c *chaos) createPodGroups(j *job, some ...string) {
	for _, pg := range j.podGroups() {
		if len(some) > 0 && !slices.Contains(some, pg.Name) {
			continue
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pg)
		c.check(err)
		u := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(u.Object, "status")
		c.persist(func(ctx context.Context) error {
			_, err := c.shared.dynamic.Resource(sigs.PodGroups).Namespace(pg.Namespace).Create(ctx, u, metav1.CreateOptions{})
			return err
		})
	}
}

func (c *chaos) create(p *v1.Pod) {
	c.persist(func(ctx context.Context) error {
		_, err := c.shared.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// persist tries until the API server, which may be away, has done what is asked.
func (c *chaos) persist(do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		last = do(ctx)
		if apierrors.IsInvalid(last) || apierrors.IsForbidden(last) {
			return false, last
		}
		return last == nil || apierrors.IsAlreadyExists(last) || apierrors.IsNotFound(last), nil
	})
	if err != nil {
		c.check(errors.Join(err, last))
	}
}

// endOne ends a job that runs, if there is one, and takes a blocker away.
func (c *chaos) endOne() {
	var leave []string
	if whole := c.ledger.whole(c.handed()); len(whole) > 0 {
		j := whole[c.choose.IntN(len(whole))]
		c.verify(j)
		j.finished = true
		for _, t := range j.teams {
			leave = append(leave, t.members()...)
		}
	}
	if len(c.blockers) > 0 {
		leave = append(leave, c.blockers[0])
		c.blockers = c.blockers[1:]
	}
	c.ledger.endsOf(leave)
	now := int64(0)
	for _, name := range leave {
		c.persist(func(ctx context.Context) error {
			return c.shared.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		})
	}
}

func (c *chaos) verify(j *job) {
	if wrong := c.ledger.apart(j); wrong != "" {
		c.blame(wrong)
	}
}

// end waits until nothing is left to do, and checks everything.
func (c *chaos) end() string {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*patience)
	defer cancel()
	began := time.Now()
	if err := poll(ctx, func() (bool, error) { return c.ledger.unsettled(c.jobs) == "", nil }); err != nil {
		c.fatal(fmt.Sprintf("not settled: %v", err))
	}
	whole, evicted := c.ledger.whole(c.jobs), c.ledger.evictedJobs(c.jobs)
	finished := 0
	for _, j := range c.jobs {
		if j.finished {
			finished++
			continue
		}
		c.verify(j)
	}
	for _, wrong := range c.ledger.faults() {
		c.blame(wrong)
	}
	if n := len(whole) + finished + evicted; n < len(c.jobs)/2 {
		c.blame(fmt.Sprintf("only %d of %d jobs had their turn: these tests need more room", n, len(c.jobs)))
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return fmt.Sprintf("%d jobs: %d ended, %d run, %d were evicted, %d wait; %v; settled %.1fs after the last round",
		len(c.jobs), finished, len(whole), evicted, len(c.jobs)-finished-len(whole)-evicted, c.ledger.counts, time.Since(began).Seconds())
}

func (c *chaos) start() {
	program := filepath.Join(c.t.TempDir(), fmt.Sprintf("%s-%d", filepath.Base(c.t.Name()), c.started))
	c.started++
	p, err := c.harness.launch(c.shared, program, c.shared.kubeconfig, append([]string{"--kubeconfig=" + c.shared.kubeconfig}, c.flags...))
	c.must(err)
	c.schedulers = append(c.schedulers, p)
}

// restartScheduler kills the scheduler and starts another one at once.
func (c *chaos) restartScheduler() {
	c.schedulers[0].kill()
	c.schedulers = c.schedulers[1:]
	c.start()
}

func (c *chaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// check is for goroutines that may not end the test.
func (c *chaos) check(err error) {
	c.t.Helper()
	if err != nil {
		c.failed.Store(true)
		c.t.Error(err)
	}
}

// fatal ends the test with what the cluster looks like.
func (c *chaos) fatal(what string) {
	c.t.Helper()
	c.t.Logf("seed %d (%s): moments %v", c.seed, seedEnv, c.moments)
	c.ledger.mu.Lock()
	for _, j := range c.handed() {
		if _, bound := c.ledger.membersOf(j); bound == j.size() || j.finished {
			continue
		}
		for _, t := range j.teams {
			for _, name := range t.members() {
				if p := c.ledger.pods[name]; p != nil {
					c.t.Logf("%s node=%q nominated=%q %s", name, p.Spec.NodeName, p.Status.NominatedNodeName, message(p))
				}
			}
		}
	}
	c.ledger.mu.Unlock()
	c.blame(what + "\n" + c.ledger.unsettled(c.handed()))
	c.t.FailNow()
}

// killLeader kills the replica that leads, waits until the other one does, and starts a
// third one.
func (c *chaos) killLeader() {
	c.schedulers[0].kill()
	c.schedulers = c.schedulers[1:]
	c.awaitLeader()
	c.start()
}

// awaitLeader waits until a replica leads, and puts it first.
func (c *chaos) awaitLeader() {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	c.must(poll(ctx, func() (bool, error) {
		for i, p := range c.schedulers {
			body, err := c.shared.ask(ctx, p, "/metrics")
			if err == nil && strings.Contains(body, `leader_election_master_status{name="kube-scheduler"} 1`) {
				c.schedulers[0], c.schedulers[i] = p, c.schedulers[0]
				return true, nil
			}
		}
		return false, nil // they may have to start yet
	}))
}

// restartAPIServer stops and starts it.
func (c *chaos) restartAPIServer() {
	c.must(c.shared.local.StopAPIServer())
	c.must(c.shared.local.StartAPIServer())
}
