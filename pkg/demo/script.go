package demo

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// The documented output. Addresses and ages differ from run to run. A terminating pod is READY here, and not READY in the documents.
const (
	example1Pods = `
NAME            READY   STATUS    RESTARTS   AGE   IP            NODE      NOMINATED NODE
training-pod-0  1/1     Running   0          30s   10.244.5.10   node-5    <none>
training-pod-1  1/1     Running   0          30s   10.244.6.11   node-6    <none>
training-pod-2  1/1     Running   0          30s   10.244.7.10   node-7    <none>
training-pod-3  1/1     Running   0          30s   10.244.8.11   node-8    <none>
`
	example2Before = `
NAME                  READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE
low-priority-pod-0    1/1     Running   0          10s   10.244.0.10   node-0   <none>
low-priority-pod-1    1/1     Running   0          10s   10.244.1.10   node-1   <none>
low-priority-pod-5    1/1     Running   0          10s   10.244.5.10   node-5   <none>
`
	example2During = `
NAME                  READY   STATUS        RESTARTS   AGE   IP            NODE     NOMINATED NODE
low-priority-pod-0    1/1     Running       0          2m    10.244.0.10   node-0   <none>
low-priority-pod-1    1/1     Running       0          2m    10.244.1.10   node-1   <none>
low-priority-pod-5    0/1     Terminating   0          2m    10.244.5.10   node-5   <none>
hp-training-pod-0     0/1     Pending       0          10s   <none>        <none>   node-5
hp-training-pod-1     0/1     Pending       0          10s   <none>        <none>   node-6
hp-training-pod-2     0/1     Pending       0          10s   <none>        <none>   node-7
hp-training-pod-3     0/1     Pending       0          10s   <none>        <none>   node-8
`
	example2After = `
NAME                  READY   STATUS    RESTARTS   AGE   IP            NODE     NOMINATED NODE
low-priority-pod-0    1/1     Running   0          3m    10.244.0.10   node-0   <none>
low-priority-pod-1    1/1     Running   0          3m    10.244.1.10   node-1   <none>
hp-training-pod-0     1/1     Running   0          45s   10.244.5.20   node-5   <none>
hp-training-pod-1     1/1     Running   0          45s   10.244.6.20   node-6   <none>
hp-training-pod-2     1/1     Running   0          45s   10.244.7.20   node-7   <none>
hp-training-pod-3     1/1     Running   0          45s   10.244.8.20   node-8   <none>
`
)

// The parts of the documented messages that are equal in every run.
const (
	saysRefused = "no candidate topology nodes can accommodate job, desiredOfferSlot: 4, topology topologyNode SpineLayer/spine-0: 3;" +
		"topology topologyNode SpineLayer/spine-1: 3;topology topologyNode SpineLayer/spine-2: 3"
	saysWaiting = "not eligible due to terminating pod on the nominated node"
	saysSibling = `GangGroup "default/high-priority-training" gets rejected due to member Pod ` +
		`"default/hp-training-pod-0" is unschedulable with reason "`
	saysHeld     = `", alreadyWaitForBound: 0. `
	saysAttempts = "preemption already attempted by default/hp-training-pod-0 with message " + saysWaiting
)

// saysChoice is Muster's own message on why it evicts in spine-1.
const saysChoice = "evicts in spine-1: least capacity if all possible victims were gone (binpack). " +
	"spine-1: 1 pod of priority 1000; spine-0: 1 pod of priority 1000; spine-2: impossible"

// longestMessage is the limit of a message, in bytes.
const longestMessage = 1024

// podsWide is the documented command. While a pod terminates, READY is not compared.
var (
	podsWide    = []string{"get", "pods", "-o", "wide"}
	podsMoving  = []string{"NAME", "STATUS", "RESTARTS", "NODE", "NOMINATED NODE"}
	podsSettled = []string{"NAME", "READY", "STATUS", "RESTARTS", "NODE", "NOMINATED NODE"}
)

func example(name string) string { return path.Join(examplesPath, name) }

// open prints what the demo does, before any slow step.
func (n *narrator) open() {
	n.say("Muster demo: the two examples of the documents, word for word, one with GPUs and one with quotas, "+
		"on a real Kubernetes control plane.",
		"etcd, kube-apiserver and muster-scheduler run on this machine; only the nodes are make-believe.",
		"What kubectl prints is shown without its column READINESS GATES, and long lines are wrapped.",
		"✓ marks what was compared with the documents and is the same.")
}

// script returns all steps of the demo.
func script(c *localcluster.Cluster) []step {
	return slices.Concat(network(c), example1(), example2(c), example3(c), example4(c))
}

// network creates the documented network.
func network(c *localcluster.Cluster) []step {
	var now objects
	return []step{
		title("A cluster with a network"),
		addNodes(c),
		say("muster-scheduler runs with manifests/scheduler-config/drop-in.yaml, " +
			"so it serves pods that ask for muster-scheduler or for koord-scheduler."),
		say("Labels of a node name its spine and its block. One object says which labels these are:"),
		runShown("apply", "-f", example("clusternetworktopology.yaml")),
		checkAndRun(documentedTopology,
			[]string{"get", "clusternetworktopology", scheduling.TopologyName, "-o", "json"},
			"get", "clusternetworktopology", scheduling.TopologyName),
		say("This is the tree. A dot is a free slot: room for one pod of the examples, which takes a whole node.",
			"On the right stands how many free slots each domain has."),
		draw(&now),
	}
}

// example1 returns the steps of "PreferGather and Binpack".
func example1() []step {
	var after objects
	files := []string{"-f", example("example1-podgroup.yaml"), "-f", example("example1-pods.yaml")}
	return []step{
		title("Example 1: PreferGather and binpack"),
		say("A gang of 4 pods, each as large as a node, would like to be in one block, or else in one spine."),
		runShown(slices.Concat([]string{"apply"}, files)...),
		runChecked(rows("all 4 run, rank by rank on node-5 to node-8", example1Pods, podsSettled...), podsWide...),
		podGroup("topology-demo-job", "4", "4", "Running"),
		say("The gang (x) fills spine-1:"),
		draw(&after),
		say("Why spine-1? No block had capacity for 4 members; spine-0 had capacity for 5, and spine-1 for 4. The deepest layer with capacity "+
			"for all wins.", "Of its domains binpack takes the one with the least free capacity: larger domains stay free for larger gangs."),

		say("Now the gang goes. (--force, because nothing real runs in these pods.)"),
		runShown(slices.Concat([]string{"delete"}, files, []string{"--force"})...),
		runHidden("delete", "events", "--all"),
	}
}

// example2 returns the steps of "MustGather and topology-aware preemption".
func example2(c *localcluster.Cluster) []step {
	var before, after objects
	const (
		gang    = "high-priority-training"
		victim  = "low-priority-pod-5"
		message = `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`
	)
	podsAndEvents := []string{"get", "pods,events", "-o", "json"}
	return []step{
		title("Example 2: MustGather and preemption"),
		say("Three low-priority pods take node-0, node-1 and node-5."),
		runShown("apply", "-f", example("example2-priorityclasses.yaml")),
		awaitClasses(c),
		runShown("apply", "-f", example("example2-low-priority-pods.yaml")),
		runChecked(rows("the low-priority pods run", example2Before, podsSettled...), podsWide...),
		say("With them (l), no spine has 4 free slots:"),
		draw(&before),

		say("Now create a gang of 4 with high priority, which must be in one spine:"),
		runShown("apply", "-f", example("example2-podgroup.yaml"), "-f", example("example2-pods.yaml")),
		runChecked(rows("one victim terminates; all 4 wait, nominated by rank to node-5 to node-8", example2During, podsMoving...), podsWide...),
		runChecked(messageOfFirst, "get", "pod", "hp-training-pod-0", "-o", message),
		checkAndRun(whileTerminating, podsAndEvents, "get", "pod", "hp-training-pod-1", "-o", message),
		runChecked(disruptionTarget, "get", "pod", victim, "-o", `jsonpath-as-json={.status.conditions[?(@.type=="DisruptionTarget")]}`),
		podGroup(gang, "0", "0", "PreScheduling"),
		say("Why spine-1, why node-5? An event on the PodGroup has the reasons:"),
		runChecked(choiceEvent, "get", "events", "--field-selector=reason=Preempting,involvedObject.kind=PodGroup",
			"-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`),
		say("Fewest evictions win. spine-0 and spine-1 need one each, and spine-2 has too few nodes. Between equals binpack decides:",
			"if all possible victims were gone, spine-1 would have the least capacity."),

		say(fmt.Sprintf("The victim takes %d seconds to terminate. "+
			"The nominated nodes are reserved for the gang until then.", int(terminationDelay.Seconds()))),
		runChecked(deleted, "wait", "--for=delete", "pod/"+victim, "--timeout=30s"),
		runChecked(rows("all 4 run where they were nominated; the other two low-priority pods run on", example2After, columnsWhenBound(c)...),
			podsWide...),
		podGroup(gang, "4", "4", "Running"),
		say("The gang (x) has spine-1 for itself:"),
		draw(&after),
		say("The events in their order, without the warnings:"),
		checkAndRun(oneEviction(&before), podsAndEvents,
			"get", "events", "--field-selector=type=Normal", "--sort-by=.eventTime",
			"-o", "custom-columns=REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message"),
	}
}

// columnsWhenBound returns the columns to compare once nominated pods are bound: an API server of 1.34 does not clear their nomination.
func columnsWhenBound(c *localcluster.Cluster) []string {
	if strings.HasPrefix(c.Kubernetes(), "1.34.") {
		return slices.DeleteFunc(slices.Clone(podsSettled), func(column string) bool { return column == "NOMINATED NODE" })
	}
	return podsSettled
}

// addNodes adds the documented nodes.
func addNodes(c *localcluster.Cluster) step {
	return func(ctx context.Context, d *demo) error {
		release, err := d.version(ctx)
		if err != nil {
			return err
		}
		n, err := addNodesOf(ctx, c, examples.FS, "example-nodes.yaml")
		if err == nil {
			d.say(fmt.Sprintf("Kubernetes %s is up with the %d nodes of %s, 8 CPUs and 32Gi each.", release, n, example("example-nodes.yaml")))
		}
		return err
	}
}

// addNodesOf adds the nodes in a file, and returns their number.
func addNodesOf(ctx context.Context, c *localcluster.Cluster, files fs.FS, name string) (n int, err error) {
	file, err := files.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	nodes, err := localcluster.ReadNodes(file)
	if err != nil {
		return 0, err
	}
	return len(nodes), c.AddNodes(ctx, nodes)
}

// awaitClasses waits until pods may name the priority classes.
func awaitClasses(c *localcluster.Cluster) step {
	return func(ctx context.Context, _ *demo) error {
		client, err := kubernetes.NewForConfig(c.Config())
		if err != nil {
			return err
		}
		return localcluster.AwaitClasses(ctx, client)
	}
}

// podGroup shows a PodGroup and checks its status.
func podGroup(name, scheduled, running, phase string) step {
	want := fmt.Sprintf("NAME                     MIN  SCHEDULED  RUNNING  PHASE\n%-25s%-5s%-11s%-9s%s\n",
		name, "4", scheduled, running, phase)
	what := fmt.Sprintf("the PodGroup is %s", phase)
	return runChecked(rows(what, want, "NAME", "MIN", "SCHEDULED", "RUNNING", "PHASE"), "get", "podgroups.scheduling.sigs.k8s.io", name)
}
