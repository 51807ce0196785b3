package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	koordinator "github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// worldsEnv says how many worlds TestAsked plays: fewWorlds if it does not. worldEnv is the number of one that
// it plays alone.
const (
	worldsEnv = "E2E_WORLDS"
	worldEnv  = "E2E_WORLD"
	fewWorlds = 12
	// mostDiffer is after how many worlds that do not agree the rest is not played.
	mostDiffer = 10
)

// TestAsked makes random worlds on a live cluster while no scheduler runs. It asks musterctl about each gang that waits,
// about the queue and the topology, and starts a scheduler. The scheduler does what musterctl has announced, and nothing
// else.
//
// Victims stay until all announcements for this moment are compared. Then they terminate, and the gangs that musterctl
// has announced start on their nodes. In the end musterctl announces no action of the scheduler for any gang that still
// waits.
func TestAsked(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	if os.Getenv(existingEnv) != "" {
		t.Skip("writes what a disruption controller would write")
	}
	a := &askedWorlds{harness: newHarness(t), t: t, seed: chosenSeed(t), counts: map[string]int{}}
	first, worlds := a.chosen()
	a.begin()
	began := time.Now()
	agreed := 0
	for i := first; i < first+worlds && a.failed < mostDiffer; i++ {
		if a.play(i) {
			agreed++
		}
	}
	t.Logf("seed %d (%s): %d of %d worlds agree, in %.1fs", a.seed, seedEnv, agreed, worlds, time.Since(began).Seconds())
	for _, what := range slices.Sorted(maps.Keys(a.counts)) {
		t.Logf("%4d %s", a.counts[what], what)
	}
	if worlds < fewWorlds || t.Failed() {
		return
	}
	// About half of what is met in 200 worlds.
	for what, least := range askedFloors {
		least = least * worlds / 200
		if worlds < 100 {
			least /= 2 // in few worlds it is chance what is met
		}
		if n := a.counts[what]; n < least {
			t.Errorf("%d times %q in %d worlds, at least %d are asked for", n, what, worlds, least)
		}
	}
}

var askedFloors = map[string]int{
	"said: Starts": 60, "said: Evicts": 50, "said: Unschedulable": 45, "said: NeverFits": 45, "said: Waiting": 20, "said: Rejected": 8,
	"said: Scheduled": 2, "said: Preempting": 2, "worlds with evictions": 40, "room compared": 100, "a gang two that start together": 20,
	"a gang a member that is lacking": 6,
}

// askedWorlds is one run.
type askedWorlds struct {
	*harness
	t      *testing.T
	seed   uint64
	ctl    string // musterctl
	counts map[string]int
	failed int
}

// said is what musterctl says of a gang, as far as it is compared.
type said struct {
	Gang     string      `json:"gang"`
	State    string      `json:"state"`
	WaitsFor string      `json:"waitsFor"`
	Reason   string      `json:"reason"`
	Layer    string      `json:"layer"`
	Members  saidMembers `json:"members"`
	Next     *struct {
		Domain string   `json:"domain"`
		Nodes  []string `json:"nodes"`
		Evicts []string `json:"evicts"`
		Leave  []string `json:"leave"`
	} `json:"next"`
	Domains []struct {
		Path  string `json:"path"`
		Slots int    `json:"slots"`
	} `json:"domains"`
	Queue *struct {
		Position int      `json:"position"`
		Of       int      `json:"of"`
		Ahead    []string `json:"ahead"`
	} `json:"queue"`
	Where *struct {
		Domain string `json:"domain"`
	} `json:"where"`
}

type saidMembers struct{ Exist, Bound, Min int }

// waiter is what it says of a gang in the queue.
type waiter struct {
	Gang        string      `json:"gang"`
	Priority    int32       `json:"priority"`
	Members     saidMembers `json:"members"`
	State       string      `json:"state"`
	Reason      string      `json:"reason"`
	Reservation *struct {
		Places  int      `json:"places"`
		Domain  string   `json:"domain"`
		Leaving []string `json:"leaving"`
	} `json:"reservation"`
}

// branch is what it says of a domain.
type branch struct {
	Layer    string   `json:"layer"`
	Path     string   `json:"path"`
	Nodes    int      `json:"nodes"`
	Free     int      `json:"free"`
	Reserved int      `json:"reserved"`
	Children []branch `json:"children"`
}

// walk calls do for a domain and all below it.
func (b branch) walk(do func(branch)) {
	do(b)
	for _, c := range b.Children {
		c.walk(do)
	}
}

// answers are musterctl's answers about a world before a scheduler runs.
type answers struct {
	gangs map[string]said
	queue []waiter
	rooms map[string]branch // the topology for members of a gang
}

func (a *askedWorlds) chosen() (first, worlds int) {
	number := func(env string, usual int) int {
		s := os.Getenv(env)
		if s == "" {
			return usual
		}
		n, err := strconv.Atoi(s)
		a.must(err)
		return n
	}
	if first = number(worldEnv, -1); first >= 0 {
		return first, 1
	}
	return 0, number(worldsEnv, fewWorlds)
}

func (a *askedWorlds) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// begin makes what all worlds have in common.
func (a *askedWorlds) begin() {
	ctx := a.t.Context()
	var err error
	a.ctl, err = a.musterctlBinary(ctx)
	a.must(err)
	a.must(a.shared.clear(ctx))
	a.must(a.shared.applyCRDs(ctx, true))
	for _, class := range askedPriorities() {
		_, err := a.shared.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		a.must(err)
	}
	a.must(localcluster.AwaitClasses(ctx, a.shared.client))
}

func askedPriorities() (all []*schedulingv1.PriorityClass) {
	for _, name := range slices.Sorted(maps.Keys(askedClasses)) {
		all = append(all, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: askedClasses[name]})
	}
	never := v1.PreemptNever
	return append(all, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: politeClass}, Value: 9, PreemptionPolicy: &never})
}

// play plays one world, and says whether the scheduler did what musterctl had announced.
func (a *askedWorlds) play(number int) bool {
	w := drawAsked(a.seed, number)
	g := &askedGame{askedWorlds: a, world: w}
	ctx, cancel := context.WithTimeout(a.t.Context(), 3*patience)
	defer cancel()
	err := g.play(ctx)
	if g.scheduler != nil {
		g.scheduler.stop()
	}
	if err != nil {
		g.fault("%v", err)
	}
	if len(g.faults) > 0 {
		a.failed++
		g.report()
	}
	a.must(g.sweep(a.t.Context()))
	return len(g.faults) == 0
}

// askedGame is a world that is played.
type askedGame struct {
	*askedWorlds
	world     *askedWorld
	made      []any // objects as the API server made them, in their order
	scheduler *scheduler
	history   *history
	before    answers
	faults    []string
	story     []string
}

func (g *askedGame) fault(format string, args ...any) {
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

// report prints what was announced, what happened, and the world, which "musterctl simulate -f" reads.
func (g *askedGame) report() {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d (%s), %v: play it alone with %s=%d\n", g.seed, seedEnv, g.world, worldEnv, g.world.number)
	for _, f := range g.faults {
		fmt.Fprintf(&out, "  %s\n", f)
	}
	fmt.Fprintln(&out, "== what was said")
	for _, gang := range g.world.gangs {
		s := g.before.gangs[gang.name]
		fmt.Fprintf(&out, "%s: %s: %s\n", gang.name, s.State, s.WaitsFor)
		if s.Next != nil {
			fmt.Fprintf(&out, "  next: %+v\n", *s.Next)
		}
	}
	for _, x := range g.before.queue {
		fmt.Fprintf(&out, "queue: %s (priority %d) %s: %s\n", x.Gang, x.Priority, x.State, x.Reason)
	}
	fmt.Fprintf(&out, "== what was done\n%s\n", strings.Join(g.story, "\n"))
	if g.scheduler != nil {
		fmt.Fprintf(&out, "== log of the scheduler, its last lines\n%s\n", g.scheduler.tail(40))
	}
	fmt.Fprintf(&out, "== the world\n%s", g.yaml())
	g.t.Error(out.String())
}

// yaml is the world as files have it, with the times at which its objects were made.
func (g *askedGame) yaml() string {
	var out strings.Builder
	for _, class := range askedPriorities() {
		class.APIVersion, class.Kind = schedulingv1.SchemeGroupVersion.String(), "PriorityClass"
		g.document(&out, class)
	}
	for _, o := range g.made {
		g.document(&out, o)
	}
	return out.String()
}

func (g *askedGame) document(out *strings.Builder, o any) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		m.SetFinalizers(nil)
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		text = []byte("# " + err.Error())
	}
	fmt.Fprintf(out, "---\n%s", text)
}

func (g *askedGame) play(ctx context.Context) error {
	var err error
	if err = g.make(ctx); err != nil {
		return err
	}
	if g.history, err = newHistory(ctx, g.shared.client); err != nil {
		return err
	}
	defer g.history.stop()
	if g.before, err = g.ask(ctx); err != nil {
		return err
	}
	program := filepath.Join(g.t.TempDir(), fmt.Sprintf("asked-%d", g.world.number))
	g.scheduler, err = g.launch(g.shared, program, g.shared.kubeconfig,
		[]string{"--kubeconfig=" + g.shared.kubeconfig, "--vmodule=schedule_one=3"})
	if err != nil {
		return err
	}
	pods, err := g.rest(ctx, false)
	if err != nil {
		return err
	}
	if err := g.compare(ctx, pods); err != nil {
		return err
	}
	if err := g.compareTree(ctx); err != nil {
		return err
	}
	if err := g.compareTried(); err != nil {
		return err
	}
	evicting := slices.ContainsFunc(slices.Collect(maps.Values(g.before.gangs)), func(s said) bool { return s.State == "Evicts" })
	if !evicting || len(g.faults) > 0 {
		return nil
	}
	if err := g.compareMeanwhile(ctx); err != nil {
		return err
	}
	return g.leave(ctx)
}

func (g *askedGame) pods() corev1.PodInterface {
	return g.shared.client.CoreV1().Pods(metav1.NamespaceDefault)
}

// make creates the world, and waits until it stands, also in the API server's memory, out of which musterctl
// reads it.
func (g *askedGame) make(ctx context.Context) error {
	c, w := g.shared, g.world
	create := func(k kind, u *unstructured.Unstructured) error {
		out, err := c.resource(k).Create(ctx, u, metav1.CreateOptions{})
		g.made = append(g.made, out)
		return err
	}
	if err := create(topologies, w.topology); err != nil {
		return err
	}
	for _, n := range w.nodes {
		n, err := c.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		n.APIVersion, n.Kind = "v1", "Node"
		g.made = append(g.made, n)
	}
	for _, b := range w.budgets {
		budgets := c.client.PolicyV1().PodDisruptionBudgets(b.Namespace)
		status := b.Status
		b, err := budgets.Create(ctx, b, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		b.Status = status
		if b, err = budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{}); err != nil {
			return err
		}
		b.APIVersion, b.Kind = "policy/v1", "PodDisruptionBudget"
		g.made = append(g.made, b)
	}
	for _, u := range w.groups {
		if err := create(podGroups, u); err != nil {
			return err
		}
	}
	for _, p := range slices.Concat(w.running, w.waiting) {
		p.Finalizers = []string{holding}
		p, err := g.pods().Create(ctx, p, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		p.APIVersion, p.Kind = "v1", "Pod"
		g.made = append(g.made, p)
	}
	if err := g.await(ctx, "the world", func() (string, error) { return g.unmade(ctx) }); err != nil {
		return err
	}
	return g.remember(ctx)
}

// remember notes what is told of the pods by now, such as when they began to run.
func (g *askedGame) remember(ctx context.Context) error {
	list, err := g.pods().List(ctx, fromMemory)
	if err != nil {
		return err
	}
	for i := range g.made {
		p, ok := g.made[i].(*v1.Pod)
		at := slices.IndexFunc(list.Items, func(is v1.Pod) bool { return ok && is.UID == p.UID })
		if at >= 0 {
			is := &list.Items[at]
			is.APIVersion, is.Kind = p.APIVersion, p.Kind
			g.made[i] = is
		}
	}
	return nil
}

var (
	podGroups  = kind{sigs.PodGroups, metav1.NamespaceDefault, nil}
	topologies = kind{koordinator.ClusterNetworkTopologies, "", nil}
)

// fromMemory are the options of lists as musterctl asks for them.
var fromMemory = metav1.ListOptions{ResourceVersion: "0"}

// unmade says what is not there yet; "" if nothing.
func (g *askedGame) unmade(ctx context.Context) (string, error) {
	nodes, err := g.shared.client.CoreV1().Nodes().List(ctx, fromMemory)
	if err != nil {
		return "", err
	}
	here := 0
	for i := range nodes.Items {
		if n := &nodes.Items[i]; ready(n) && len(n.Spec.Taints) == 0 {
			here++
		}
	}
	if here < len(g.world.nodes) {
		return fmt.Sprintf("%d of %d nodes are ready", here, len(g.world.nodes)), nil
	}
	pods, err := g.pods().List(ctx, fromMemory)
	if err != nil {
		return "", err
	}
	running := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == v1.PodRunning {
			running++
		}
	}
	if running < len(g.world.running) || len(pods.Items) < len(g.world.running)+len(g.world.waiting) {
		return fmt.Sprintf("%d pods, %d run", len(pods.Items), running), nil
	}
	for k, want := range map[*kind]int{&podGroups: len(g.world.groups), &topologies: 1} {
		list, err := g.shared.resource(*k).List(ctx, fromMemory)
		if err != nil || len(list.Items) < want {
			return fmt.Sprintf("not all %s", k.resource.Resource), err
		}
	}
	budgets, err := g.shared.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).List(ctx, fromMemory)
	if err != nil || len(budgets.Items) < len(g.world.budgets) {
		return "budgets", err
	}
	for i, b := range budgets.Items {
		if b.Status.ExpectedPods != g.world.budgets[i].Status.ExpectedPods {
			return "the status of " + b.Name, nil
		}
	}
	return "", nil
}

// await waits until nothing is missing.
func (g *askedGame) await(ctx context.Context, what string, missing func() (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := ""
	err := poll(ctx, func() (bool, error) {
		var err error
		last, err = missing()
		return last == "" && err == nil, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w; last seen: %s", what, err, last)
	}
	return nil
}

// ask asks about everything, some questions at a time.
func (g *askedGame) ask(ctx context.Context) (answers, error) {
	out := answers{gangs: map[string]said{}, rooms: map[string]branch{}}
	var mu sync.Mutex
	questions := []func() error{func() error { return g.musterctl(ctx, &out.queue, "queue") }}
	for _, gang := range g.world.gangs {
		questions = append(questions, func() error {
			var s said
			err := g.musterctl(ctx, &s, "explain", "podgroup", gang.name)
			mu.Lock()
			defer mu.Unlock()
			out.gangs[gang.name] = s
			return err
		}, func() error {
			var b branch
			err := g.musterctl(ctx, &b, "topology", "--for", "podgroup/"+gang.name)
			mu.Lock()
			defer mu.Unlock()
			out.rooms[gang.name] = b
			return err
		})
	}
	return out, g.each(questions)
}

// each calls some functions, two at a time.
func (g *askedGame) each(do []func() error) error {
	next, errs := make(chan func() error), make(chan error, len(do))
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() {
			for f := range next {
				errs <- f()
			}
		})
	}
	for _, f := range do {
		next <- f
	}
	close(next)
	busy.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// musterctl asks the cluster, and reads the answer.
func (g *askedGame) musterctl(ctx context.Context, into any, args ...string) error {
	cmd := exec.CommandContext(ctx, g.ctl, append(args, "-o", "json")...)
	cmd.Env = append(os.Environ(), "HOME="+g.home, "KUBECONFIG="+g.shared.kubeconfig)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("musterctl %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("musterctl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// rest waits until the scheduler has dealt with every gang and has nothing to do, and returns all pods then. With left,
// it also waits until all victims have terminated.
func (g *askedGame) rest(ctx context.Context, left bool) (map[string]*v1.Pod, error) {
	var pods map[string]*v1.Pod
	err := g.await(ctx, "the scheduler to come to rest", func() (missing string, err error) {
		select {
		case <-g.scheduler.done:
			return "", fmt.Errorf("the scheduler has ended: %w", g.scheduler.wait())
		default:
		}
		pods, missing, err = g.busy(ctx, left)
		return missing, err
	})
	return pods, err
}

var pendingPods = regexp.MustCompile(`(?m)^scheduler_pending_pods\{queue="(\w+)"\} (\d+)$`)

// busy says what goes on; "" if nothing does.
func (g *askedGame) busy(ctx context.Context, left bool) (pods map[string]*v1.Pod, what string, err error) {
	text, err := g.shared.ask(ctx, g.scheduler, "/metrics")
	if err != nil {
		return nil, "the scheduler starts", nil //nolint:nilerr // it does not answer yet
	}
	queued := map[string]int{}
	for _, m := range pendingPods.FindAllStringSubmatch(text, -1) {
		queued[m[1]], _ = strconv.Atoi(m[2])
	}
	list, err := g.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", err
	}
	pods = map[string]*v1.Pod{}
	waiting := 0
	for i := range list.Items {
		p := &list.Items[i]
		pods[p.Name] = p
		if p.Spec.NodeName == "" {
			waiting++
		}
		if left && p.DeletionTimestamp != nil {
			return pods, p.Name + " leaves", nil
		}
	}
	groups, err := g.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", err
	}
	for i := range groups.Items {
		switch reason := reasonOf(&groups.Items[i]); {
		case reason == "", reason == "Ready", reason == "Binding", left && reason == "Preempting":
			return pods, fmt.Sprintf("%s is %q", groups.Items[i].GetName(), reason), nil
		}
	}
	if queued["active"]+queued["backoff"] > 0 || queued["unschedulable"]+queued["gated"] != waiting {
		return pods, fmt.Sprintf("%d pods wait, the queue has %v", waiting, queued), nil
	}
	return pods, "", nil
}

// reasonOf is that of a PodGroup's condition; "" if it has none.
func reasonOf(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Scheduled" {
			reason, _ := c["reason"].(string)
			return reason
		}
	}
	return ""
}

// compare compares the announcements for this moment with what happened, while victims stay.
func (g *askedGame) compare(ctx context.Context, pods map[string]*v1.Pod) error {
	evicted, err := g.history.evicted(ctx)
	if err != nil {
		return err
	}
	g.note("evicted are", evicted)
	victims := map[string]bool{}
	for _, gang := range g.world.gangs {
		s, ok := g.before.gangs[gang.name]
		if !ok {
			continue
		}
		g.counts["said: "+s.State]++
		if gang.about != "" {
			g.counts["a gang "+gang.about]++
		}
		if s.State == "Evicts" || s.State == "Preempting" { // for the latter others have asked them
			// No pod terminates in a world by itself: a pod that is announced as terminating is a victim of another gang. That
			// gang may have lost its nodes to this one, and then musterctl announces no nodes for it.
			for _, who := range slices.Concat(s.Next.Evicts, s.Next.Leave) {
				victims[podOf(who)] = true
			}
		}
		g.compareGang(gang, s, pods)
		g.compareRoom(gang, s, pods)
	}
	if want := slices.Sorted(maps.Keys(victims)); !slices.Equal(want, evicted) {
		g.fault("said to be evicted were %v, and these were: %v", want, evicted)
	}
	if len(victims) > 0 {
		g.counts["worlds with evictions"]++
		g.counts["pods evicted"] += len(victims)
	}
	g.compareQueue(victims)
	return nil
}

// podOf is the name in "namespace/name on node".
func podOf(who string) string {
	name, _, _ := strings.Cut(who, " on ")
	_, name, _ = strings.Cut(name, "/")
	return name
}

func (g *askedGame) note(what string, args ...any) {
	g.story = append(g.story, what+" "+strings.TrimSpace(fmt.Sprintln(args...)))
}

// places are where members that waited are bound, and nominated; sorted.
func (g *askedGame) places(gang string, pods map[string]*v1.Pod) (bound, nominated []string) {
	bound, nominated = []string{}, []string{}
	for _, m := range g.world.members(gang) {
		p := pods[m.Name]
		switch {
		case p == nil:
		case p.Spec.NodeName != "":
			bound = append(bound, p.Spec.NodeName)
		case p.Status.NominatedNodeName != "":
			nominated = append(nominated, p.Status.NominatedNodeName)
		}
	}
	slices.Sort(bound)
	slices.Sort(nominated)
	return bound, nominated
}

func (g *askedGame) compareGang(gang askedGang, s said, pods map[string]*v1.Pod) {
	bound, nominated := g.places(gang.name, pods)
	g.note(gang.name, "is bound on", bound, "and nominated for", nominated)
	var want []string
	if s.Next != nil {
		want = slices.Sorted(slices.Values(s.Next.Nodes))
	}
	switch s.State {
	case "Starts":
		all := slices.Sorted(slices.Values(slices.Concat(g.world.runsOn(gang.name), bound)))
		if len(bound) == 0 || !slices.Equal(all, want) || len(nominated) > 0 {
			g.fault("%s was said to start on %v, and is bound on %v and nominated for %v", gang.name, want, all, nominated)
		} else if path := g.world.path(all...); path != s.Next.Domain {
			g.fault("%s was said to start in %q, and is in %q", gang.name, s.Next.Domain, path)
		}
	case "Evicts", "Preempting": // with Preempting, earlier evictions were for this gang, and no more follow
		if len(bound) > 0 || !slices.Equal(nominated, want) {
			g.fault("%s was said to get %v when victims have left, and is bound on %v and nominated for %v", gang.name, want, bound, nominated)
		} else if path := g.world.path(slices.Concat(g.world.runsOn(gang.name), nominated)...); path != s.Next.Domain {
			g.fault("%s was said to start in %q, and its places are in %q", gang.name, s.Next.Domain, path)
		}
	case "Scheduled":
		if more := strings.Contains(s.WaitsFor, " more member"); more != (len(bound) > 0) {
			g.fault("%s was said to be %s: %s: and is bound on %v", gang.name, s.State, s.WaitsFor, bound)
		}
	default:
		if len(bound)+len(nominated) > 0 {
			g.fault("%s was said to be %s: %s: and is bound on %v and nominated for %v", gang.name, s.State, s.WaitsFor, bound, nominated)
		}
	}
}

// compareRoom compares the announced free capacity of the topology for a gang with the result. It skips a gang if a gang
// before it in the queue may take capacity.
func (g *askedGame) compareRoom(gang askedGang, s said, pods map[string]*v1.Pod) {
	if !gang.alike || gang.runs > 0 || s.Queue == nil || s.Queue.Position == 0 || slices.ContainsFunc(s.Queue.Ahead, g.takesRoom) {
		return
	}
	g.counts["room compared"]++
	free := map[string]int{}
	g.before.rooms[gang.name].walk(func(b branch) {
		free[b.Path] = b.Free
		if b.Layer != gang.must || gang.odd || s.State == "Starts" || strings.Contains("/"+b.Path+"/", "/-/") {
			return
		}
		if b.Free >= gang.least {
			g.fault("%s is %s: %s: but the topology has room for %d of %d in %s", gang.name, s.State, s.WaitsFor, b.Free, gang.least, b.Path)
		}
	})
	for _, d := range s.Domains {
		if n, ok := free[d.Path]; ok && n != d.Slots {
			g.fault("the topology has room for %d members of %s in %q, and explain says %d", n, gang.name, d.Path, d.Slots)
		}
	}
	taken := map[string]int{}
	for _, m := range g.world.members(gang.name) {
		if p := pods[m.Name]; p != nil && p.Spec.NodeName != "" {
			taken[p.Spec.NodeName]++
		}
	}
	for path, n := range free {
		node := path[strings.LastIndex(path, "/")+1:]
		if taken[node] > n {
			g.fault("the topology had room for %d members of %s on %s, and %d are there", n, gang.name, node, taken[node])
		}
	}
}

// takesRoom says whether musterctl has announced that the gang takes capacity.
func (g *askedGame) takesRoom(gang string) bool {
	switch g.before.gangs[strings.TrimPrefix(gang, metav1.NamespaceDefault+"/")].State {
	case "Unschedulable", "NeverFits", "Waiting", "Rejected":
		return false
	}
	return true
}

// compareMeanwhile asks about waiting gangs while victims stay. No gang waits although the scheduler would act for it,
// and each gang still waits for the same victims.
func (g *askedGame) compareMeanwhile(ctx context.Context) error {
	if err := g.askAgain(ctx, "Preempting"); err != nil {
		return err
	}
	for _, gang := range g.world.gangs {
		s := g.before.gangs[gang.name]
		if s.State != "Evicts" && s.State != "Preempting" {
			continue
		}
		var now said
		if err := g.musterctl(ctx, &now, "explain", "podgroup", gang.name); err != nil {
			return err
		}
		switch {
		case now.State != "Preempting":
			g.fault("%s has places, and is now said to be %s: %s", gang.name, now.State, now.WaitsFor)
		case !slices.Equal(now.Next.Nodes, s.Next.Nodes) || now.Next.Domain != s.Next.Domain:
			g.fault("%s has places on %v in %q, and is now said to have them on %v in %q", gang.name, s.Next.Nodes, s.Next.Domain, now.Next.Nodes,
				now.Next.Domain)
		}
	}
	return nil
}

// compareQueue compares what the queue shows of each gang with what explain shows. A gang that loses members to a gang
// later in the queue may have two answers. First it is unschedulable, as explain says. Then it waits for members, as the
// queue says.
func (g *askedGame) compareQueue(victims map[string]bool) {
	for i, x := range g.before.queue {
		name := strings.TrimPrefix(x.Gang, metav1.NamespaceDefault+"/")
		s, ok := g.before.gangs[name]
		if !ok {
			g.fault("%s is in the queue and does not wait", name)
			continue
		}
		robbed := slices.ContainsFunc(g.world.running, func(p *v1.Pod) bool {
			return p.Labels[scheduling.LabelPodGroup] == name && victims[p.Name]
		})
		if x.State != s.State && !(robbed && x.State == "Waiting") {
			g.fault("the queue says that %s is %s: %s: explain says it is %s: %s", name, x.State, x.Reason, s.State, s.WaitsFor)
		}
		if s.Queue == nil || s.Queue.Of != len(g.before.queue) || s.Queue.Position != 0 && s.Queue.Position != i+1 {
			g.fault("%s is number %d of %d in the queue, and explain says it is %+v", name, i+1, len(g.before.queue), s.Queue)
		}
		if s.State == "Evicts" && (x.Reservation == nil || x.Reservation.Places != len(s.Next.Nodes) || x.Reservation.Domain != s.Next.Domain) {
			g.fault("the queue says that %s evicts for %+v, and explain for %+v", name, x.Reservation, *s.Next)
		}
	}
	if len(g.before.queue) != len(g.before.gangs) {
		g.fault("%d gangs wait, and %d are in the queue", len(g.before.gangs), len(g.before.queue))
	}
}

var attempted = regexp.MustCompile(`"Attempting to schedule pod" pod="` + metav1.NamespaceDefault + `/([^"]+)"`)

// compareTried compares the order in which gangs were first tried with that of the queue. A gang that musterctl
// announces as not tried must not be tried.
func (g *askedGame) compareTried() error {
	content, err := os.ReadFile(g.scheduler.log)
	if err != nil {
		return err
	}
	var tried []string
	for _, m := range attempted.FindAllStringSubmatch(string(content), -1) {
		for _, p := range g.world.waiting {
			if gang := p.Labels[scheduling.LabelPodGroup]; p.Name == m[1] && !slices.Contains(tried, gang) {
				tried = append(tried, gang)
			}
		}
	}
	var queue []string
	for _, x := range g.before.queue {
		name := strings.TrimPrefix(x.Gang, metav1.NamespaceDefault+"/")
		if slices.Contains(tried, name) {
			queue = append(queue, name)
		}
		if s := g.before.gangs[name]; s.Queue != nil && s.Queue.Position == 0 && slices.Contains(tried, name) {
			g.fault("of %s was said that nobody tries it, and it was tried", name)
		}
	}
	g.note("tried in this order:", tried)
	if !slices.Equal(queue, tried) {
		g.fault("the queue said %v, and tried were %v", queue, tried)
	}
	return nil
}

// compareTree compares musterctl's topology with the status that the scheduler writes.
func (g *askedGame) compareTree(ctx context.Context) error {
	said := map[string]int{}
	g.before.rooms[g.world.gangs[0].name].walk(func(b branch) {
		parent, name := "", b.Path
		if i := strings.LastIndex(b.Path, "/"); i >= 0 {
			parent, name = b.Path[:i], b.Path[i+1:]
			parent = parent[strings.LastIndex(parent, "/")+1:]
		}
		if b.Layer != "NodeTopologyLayer" && name != "-" {
			said[fmt.Sprintf("%s %s/%s: %d", b.Layer, strings.TrimPrefix(parent, "-"), name, b.Nodes)]++
		}
	})
	return g.await(ctx, "the topology's status", func() (string, error) {
		u, err := g.shared.dynamic.Resource(koordinator.ClusterNetworkTopologies).Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		is := map[string]int{}
		details, _, _ := unstructured.NestedSlice(u.Object, "status", "detailStatus")
		for _, d := range details {
			d := d.(map[string]any)
			layer, _, _ := unstructured.NestedString(d, "topologyInfo", "topologyLayer")
			name, _, _ := unstructured.NestedString(d, "topologyInfo", "topologyName")
			parent, _, _ := unstructured.NestedString(d, "parentTopologyInfo", "topologyName")
			nodes, _, _ := unstructured.NestedInt64(d, "nodeNum")
			is[fmt.Sprintf("%s %s/%s: %d", layer, parent, name, nodes)]++
		}
		if !maps.Equal(said, is) {
			return fmt.Sprintf("said was %v, and it is %v", said, is), nil
		}
		return "", nil
	})
}

// leave lets victims terminate. The announced gangs start on their nodes, and no other pod was evicted for them. In the
// end no gang waits although the scheduler would act for it.
func (g *askedGame) leave(ctx context.Context) error {
	list, err := g.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := g.free(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	pods, err := g.rest(ctx, true)
	if err != nil {
		return err
	}
	left := map[string]bool{} // nodes on which victims may have left more room than was needed: for members beyond a minMember
	for _, s := range g.before.gangs {
		if s.Next != nil {
			for _, who := range slices.Concat(s.Next.Evicts, s.Next.Leave) {
				_, node, _ := strings.Cut(who, " on ")
				left[node] = true
			}
		}
	}
	for _, gang := range g.world.gangs {
		s := g.before.gangs[gang.name]
		bound, nominated := g.places(gang.name, pods)
		g.note("when victims have left", gang.name, "is bound on", bound, "and nominated for", nominated)
		switch {
		case s.State != "Evicts" && s.State != "Preempting":
			continue
		case g.overtaken(gang.name, pods):
			g.counts["overtaken when victims have left"]++
			continue
		}
		want := slices.Sorted(slices.Values(s.Next.Nodes))
		odd := gang.runs+len(want) == gang.least && slices.ContainsFunc(bound,
			func(node string) bool { return !slices.Contains(want, node) && !left[node] })
		if !slices.Equal(common(bound, want), want) || odd || len(nominated) > 0 {
			g.fault("%s was said to start on %v when victims have left, and is bound on %v and nominated for %v", gang.name, want, bound, nominated)
		}
	}
	return g.askAgain(ctx, "")
}

// overtaken says whether a more important gang without capacity before has started after victims terminated. It may have
// taken reserved nodes. A reservation holds only against gangs of equal or lower priority.
func (g *askedGame) overtaken(gang string, pods map[string]*v1.Pod) bool {
	priority := map[string]int32{}
	for _, x := range g.before.queue {
		priority[strings.TrimPrefix(x.Gang, metav1.NamespaceDefault+"/")] = x.Priority
	}
	return slices.ContainsFunc(g.world.gangs, func(other askedGang) bool {
		bound, _ := g.places(other.name, pods)
		return priority[other.name] > priority[gang] && len(bound) > 0 && !g.takesRoom(other.name)
	})
}

// common returns the elements that are in both sorted lists.
func common(a, b []string) (both []string) {
	for len(a) > 0 && len(b) > 0 {
		switch strings.Compare(a[0], b[0]) {
		case 0:
			both, a, b = append(both, a[0]), a[1:], b[1:]
		case -1:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return both
}

// askAgain asks about waiting gangs while the scheduler rests. musterctl must not announce an action for any of them. A
// gang in the state may is permitted.
func (g *askedGame) askAgain(ctx context.Context, may string) error {
	var queue []waiter
	if err := g.musterctl(ctx, &queue, "queue"); err != nil {
		return err
	}
	for _, x := range queue {
		g.note("then the queue says that", x.Gang, "is", x.State+":", x.Reason)
		switch x.State {
		case may:
		case "Starts", "Evicts", "Preempting":
			g.fault("the scheduler rests, and %s is said to be %s: %s", x.Gang, x.State, x.Reason)
		case "Scheduled":
			if strings.Contains(x.Reason, " more member") {
				g.fault("the scheduler rests, and %s is said to be %s: %s", x.Gang, x.State, x.Reason)
			}
		}
	}
	return nil
}

// free lets a terminating pod end.
func (g *askedGame) free(ctx context.Context, p *v1.Pod) error {
	if len(p.Finalizers) == 0 {
		return nil
	}
	_, err := g.pods().Patch(ctx, p.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return ignoreNotFound(err)
}

// sweep takes the world away.
func (g *askedGame) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := g.pods().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := g.free(ctx, &list.Items[i]); err != nil {
			return err
		}
	}
	now := int64(0)
	all := []kind{
		{v1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceDefault, nil},
		podGroups,
		topologies,
		{v1.SchemeGroupVersion.WithResource("nodes"), "", nil},
		{policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), metav1.NamespaceDefault, nil},
	}
	for _, k := range all {
		if err := g.shared.resource(k).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	return g.await(ctx, "an empty cluster", func() (string, error) {
		for _, k := range all {
			list, err := g.shared.resource(k).List(ctx, fromMemory)
			if err != nil || len(list.Items) > 0 {
				return fmt.Sprintf("%d %s", len(list.Items), k.resource.Resource), err
			}
		}
		return "", nil
	})
}
