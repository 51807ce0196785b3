package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// crashesEnv says how many rounds TestCrashes plays: fewCrashes if it does not.
const (
	crashesEnv = "E2E_CRASHES"
	lossesEnv  = "E2E_LOSSES" // not empty: each round with a running gang deletes a node
	fewCrashes = 15
)

// TestCrashes (case 56) kills the scheduler at a random moment while gangs contend for the same nodes and victims
// terminate, and starts it again. In the end no gang is bound in part, each gang with MustGather is in one spine, and no
// nomination is left behind. Each eviction gave its node to a gang, and nothing waits beside free capacity. In some
// rounds a member of a running gang is replaced while no scheduler runs (cases 45 and 46): it starts. In others a running
// gang loses a node around the kill, and is complete again if its domain has the capacity. Some gangs have devices, by
// claims that are made from templates, that members share, or that are met only if all are requested at once. No device
// is given twice, and none is allocated for a pod that does not run.
func TestCrashes(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	c := &crashes{
		chaos:  &chaos{harness: newHarness(t, "-controllers"), t: t, seed: chosenSeed(t)},
		counts: map[string]int{},
	}
	rounds := c.rounds()
	c.nodes = localcluster.Nodes(3, 2, 2)
	c.beginWith(c.nodes)
	c.offerDevices()
	c.offerPatience()
	c.start()
	for i := range rounds {
		c.play(i)
		if t.Failed() {
			c.blame(fmt.Sprintf("seed %d (%s), round %d: %s", c.seed, seedEnv, i, c.about))
			t.FailNow()
		}
	}
	t.Logf("seed %d (%s): %d rounds", c.seed, seedEnv, rounds)
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%4d %s", c.counts[what], what)
	}
	// About half of what is met in 200 rounds.
	for what, least := range map[string]int{
		"killed while victims leave": 20, "killed while a gang is bound in part": 4, "killed with nominations": 40, "gangs evicted for": 80,
		"a gang waits in the end": 60, "members replaced": 15, "nodes lost": 15, "holds that a rival respects": 5,
		"killed with devices written ahead": 10, "gangs with devices": 100,
	} {
		least = least * rounds / 200
		if os.Getenv(lossesEnv) != "" {
			switch what {
			case "members replaced":
				least = 0
			case "nodes lost": // only a round without a running gang loses none
				least = rounds * 9 / 10
			}
		}
		if rounds < 4*fewCrashes {
			least /= 2 // in few rounds it is chance what is met
		}
		if n := c.counts[what]; n < least {
			c.blame(fmt.Sprintf("%d times %q in %d rounds, at least %d are asked for", n, what, rounds, least))
		}
	}
}

// crashes is one run.
type crashes struct {
	*chaos
	nodes  []*v1.Node
	offers bool // nodes offer devices
	pairs  []string
	about  string // the round
	lost   string // the node that was deleted in this round
	counts map[string]int
}

func (c *crashes) rounds() int {
	s := os.Getenv(crashesEnv)
	if s == "" {
		return fewCrashes
	}
	n, err := strconv.Atoi(s)
	c.must(err)
	return n
}

// play plays one round on nodes without pods.
func (c *crashes) play(round int) {
	c.random = rand.New(rand.NewPCG(c.seed, uint64(round)))
	c.jobs = c.contenders(round)
	c.about = fmt.Sprint(c.jobs)
	c.ledger.note(fmt.Sprintf("== round %d: %s", round, c.about))
	pods := c.settleIn(round)
	c.await("the pods that run", func() string { return c.ledger.lacks(pods) })

	members := 0
	for _, j := range c.jobs {
		members += j.size()
	}
	handedIn := make(chan struct{})
	// Nominations, evictions and bindings are steps.
	c.pairs = c.drawPairs(round)
	reached := c.ledger.after(1 + c.random.IntN(3*members+2*len(c.pairs)))
	go func() {
		defer close(handedIn)
		c.createPairs()
		c.handIn(c.jobs)
	}()
	c.awaitMoment(reached, handedIn)
	c.crash(nil)
	if c.random.IntN(3) == 0 {
		c.awaitMoment(c.ledger.after(1+c.random.IntN(members)), handedIn)
		c.crash(nil)
	}
	<-handedIn
	if c.failed.Load() {
		c.t.FailNow()
	}
	c.awaitEnd()
	waits := len(c.waiting()) > 0
	if waits {
		c.counts["a gang waits in the end"]++
	}
	switch replaces := !waits && c.random.IntN(2) == 0; {
	case os.Getenv(lossesEnv) != "":
		c.lose()
		c.awaitEnd()
	case replaces:
		c.replace()
		c.awaitEnd()
	case !waits:
		c.lose()
		c.awaitEnd()
	}
	c.verifyAll()
	if !c.t.Failed() { // else the story is told
		c.sweep()
	}
}

// contenders are two or three gangs that want the same nodes.
func (c *crashes) contenders(round int) (jobs []*job) {
	for i := range 2 + c.random.IntN(2) {
		j := &job{name: fmt.Sprintf("c%dx%d", round, i), rule: oneSpine, priority: "normal"}
		switch c.random.IntN(8) {
		case 0:
			j.rule = anywhere
		case 1:
			j.rule = teamBlocks
		}
		if c.random.IntN(3) == 0 {
			j.priority = "high"
		}
		teams := 1
		if j.rule == teamBlocks || c.random.IntN(4) == 0 {
			teams = 2
		}
		for k := range teams {
			t := team{name: fmt.Sprintf("%s-%c", j.name, 'a'+k), whole: (1 + c.random.IntN(4) + teams) / teams}
			if c.random.IntN(4) == 0 {
				t.whole, t.half = t.whole-1, 1
			}
			j.teams = append(j.teams, t)
		}
		j.exposed = j.priority == "normal" && teams == 1 && c.random.IntN(3) == 0
		j.devices, j.net = c.offers && c.random.IntN(2) == 0, c.offers && c.random.IntN(3) == 0
		jobs = append(jobs, j)
	}
	return jobs
}

// settleIn has pods run on most nodes, and returns how many.
func (c *crashes) settleIn(round int) (pods int) {
	for i, n := range c.random.Perm(len(c.nodes))[:6+c.random.IntN(5)] {
		name := fmt.Sprintf("c%d-%d", round, i)
		if i == 0 && c.random.IntN(2) == 0 {
			c.block(name, c.nodes[n].Name)
		} else {
			c.occupy(name, c.nodes[n].Name)
		}
		pods++
	}
	return pods
}

// crash kills the scheduler, has something happen, and starts another one.
func (c *crashes) crash(meanwhile func()) {
	c.ledger.note("== it is killed")
	c.schedulers[0].kill()
	c.schedulers = c.schedulers[1:]
	for _, what := range c.ledger.inTheMiddle(c.handed()) {
		c.counts["killed "+what]++
	}
	if c.writtenAhead() {
		c.counts["killed with devices written ahead"]++
	}
	if meanwhile != nil {
		meanwhile()
	}
	c.start()
	c.ledger.note("== and is started")
}

// replace kills the scheduler and has a member of a gang that runs replaced meanwhile,
// another one finish, and the PodGroup made again.
func (c *crashes) replace() {
	whole := c.ledger.whole(c.jobs)
	if len(whole) == 0 {
		return
	}
	j := whole[c.random.IntN(len(whole))]
	t := j.teams[0]
	again := c.random.IntN(2) == 0
	finish := t.size() > 1 && (!again || c.random.IntN(2) == 0)
	c.counts["members replaced"]++
	// What KWOK says of a pod that begins to run it says by name, also to one that is made then.
	c.await("members that run", func() string { return c.ledger.begins(t.members()) })
	c.crash(func() {
		if finish {
			c.counts["members finished"]++
			c.finish(t.members()[1])
		}
		if again {
			c.counts["PodGroups made again"]++
			c.persist(func(ctx context.Context) error {
				return c.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).Delete(ctx, t.name, metav1.DeleteOptions{})
			})
			c.createPodGroups(j, t.name)
		}
		name := t.members()[0]
		c.vanish(name)
		for _, p := range j.pods() {
			if p.Name == name {
				c.create(p)
			}
		}
		c.await("the replacement", func() string { return c.ledger.waits(name) })
	})
}

// vanish has a pod go at once, so that another one may take its name. KWOK deletes a terminating pod by name, and would
// delete the other one; the annotation delays KWOK.
func (c *crashes) vanish(name string) {
	pods, now := c.shared.client.CoreV1().Pods(metav1.NamespaceDefault), int64(0)
	patience := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"1h"}}}`, leaveDelay)
	c.persist(func(ctx context.Context) error {
		_, err := pods.Patch(ctx, name, types.MergePatchType, patience, metav1.PatchOptions{})
		return err
	})
	c.persist(func(ctx context.Context) error {
		return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
}

// finish says what a kubelet says of a pod that has ended.
func (c *crashes) finish(name string) {
	ctx, pods := c.t.Context(), c.shared.client.CoreV1().Pods(metav1.NamespaceDefault)
	c.persist(func(context.Context) error {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = v1.PodSucceeded
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func (c *crashes) waiting() (out []*job) {
	for _, j := range c.jobs {
		if !slices.Contains(c.ledger.whole(c.jobs), j) && c.ledger.evictedJobs([]*job{j}) == 0 {
			out = append(out, j)
		}
	}
	return out
}

func (c *crashes) await(what string, missing func() string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) { return missing() == "", nil }); err != nil {
		c.fatal(fmt.Sprintf("%s: %v: %s", what, err, missing()))
	}
}

func (c *crashes) awaitEnd() {
	c.t.Helper()
	c.await("the end of the round "+c.about, func() string { return c.ledger.unsettled(c.jobs) })
}

func (c *crashes) verifyAll() {
	for _, j := range c.jobs {
		c.verify(j)
	}
	for _, wrong := range c.ledger.faults() {
		c.blame(wrong)
	}
	c.await("devices", c.wrongDevices)
	if c.ledger.evictors() > 0 {
		c.counts["gangs evicted for"]++
	}
}

// sweep takes all pods and PodGroups away.
func (c *crashes) sweep() {
	now := int64(0)
	c.persist(func(ctx context.Context) error {
		return c.shared.client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now},
			metav1.ListOptions{})
	})
	c.persist(func(ctx context.Context) error {
		return c.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{})
	})
	c.await("an empty cluster", func() string { return strings.Join(c.ledger.podNames(), " ") })
	c.sweepClaims()
	c.restoreNode()
	c.ledger.again()
}
