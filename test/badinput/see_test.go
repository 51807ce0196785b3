// Package badinput shows what a user sees after writing something invalid: one test for each kind of object, one case
// for each mistake. Each case runs the scheduler over files and compares all of its visible output.
package badinput

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// cluster has two spines; every member of a gang fills a node.
//
//	s0  b0  n0 n1
//	    b1  n2
//	s1  b2  n3
const cluster = `
{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {spine: s0, block: b0}}, status: {capacity: {cpu: 8}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {spine: s0, block: b0}}, status: {capacity: {cpu: 8}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {spine: s0, block: b1}}, status: {capacity: {cpu: 8}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3, labels: {spine: s1, block: b2}}, status: {capacity: {cpu: 8}}}
`

const layers = `[{topologyLayer: SpineLayer, labelKey: [spine]}, {topologyLayer: BlockLayer, parentTopologyLayer: SpineLayer, labelKey: [block]},
  {topologyLayer: NodeTopologyLayer, parentTopologyLayer: BlockLayer}]`

// topology is a ClusterNetworkTopology with these layers.
func topology(name, layers string) string {
	return fmt.Sprintf("\n---\n{apiVersion: scheduling.koordinator.sh/v1alpha1, kind: ClusterNetworkTopology, metadata: {name: %s}, spec: {networkTopologySpec: %s}}\n",
		name, layers)
}

// says are annotations or labels. The keys of a gang's annotations stand without the common prefix.
type says map[string]string

func (s says) String() string {
	full := says{}
	for k, v := range s {
		if !strings.Contains(k, "/") && !strings.Contains(k, ".") {
			k = "gang.scheduling.koordinator.sh/" + k
		}
		full[k] = v
	}
	out, err := json.Marshal(map[string]string(full))
	if err != nil {
		panic(err)
	}
	return string(out) // is YAML too
}

// podGroup is a PodGroup of two.
func podGroup(name string, annotations says) string {
	return fmt.Sprintf("\n---\n{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, annotations: %s}, spec: {minMember: 2}}\n",
		name, annotations)
}

const ofGroup = "pod-group.scheduling.sigs.k8s.io"

// pod fills a node.
func pod(name string, labels, annotations says) string {
	return podOf("muster-scheduler", name, labels, annotations, "")
}

func podOf(scheduler, name string, labels, annotations says, more string) string {
	return fmt.Sprintf("\n---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: %s, annotations: %s}, spec: {schedulerName: %s, "+
		"containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]%s}}\n", name, labels, annotations, scheduler, more)
}

// gang is a PodGroup of two and its members.
func gang(name string, group, members says) string {
	return podGroup(name, group) + pod(name+"-0", says{ofGroup: name}, members) + pod(name+"-1", says{ofGroup: name}, members)
}

// bare is a gang of two without a PodGroup.
func bare(name string, members says) string {
	all := says{"name": name, "min-available": "2"}
	for k, v := range members {
		all[k] = v
	}
	return pod(name+"-0", nil, all) + pod(name+"-1", nil, all)
}

// see runs the scheduler over sets of objects that come one after the other, and shows
// what users see then, one thing a line:
//
//	error: …                  nothing was taken
//	note: …                   something was left out
//	pods a-0 a-1: bound       they have nodes, or: gated: …, unschedulable: …, evicted: …
//	PodGroup a: Reason: …     its condition
//	event Kind name: Reason: …   all warnings
func see(t *testing.T, o simulate.Options, texts ...string) string {
	t.Helper()
	var out strings.Builder
	sets := make([]*simulate.Set, len(texts))
	for i, text := range texts {
		sets[i] = &simulate.Set{}
		if err := sets[i].Add("in.yaml", []byte(text)); err != nil {
			return "error: " + unplaced(err) + "\n"
		}
		for _, n := range sets[i].Notes() {
			_, what, _ := strings.Cut(n, ": ")   // the file,
			_, what, _ = strings.Cut(what, ": ") // and where in it
			out.WriteString("note: " + what + "\n")
		}
	}
	r, err := simulate.Run(t.Context(), o, sets[0], sets[1:]...)
	if err != nil {
		return "error: " + unplaced(err) + "\n"
	}
	show(&out, r)
	return out.String()
}

// run is see for tests that read the result themselves.
func run(t *testing.T, o simulate.Options, texts ...string) *simulate.Result {
	t.Helper()
	sets := make([]*simulate.Set, len(texts))
	for i, text := range texts {
		sets[i] = &simulate.Set{}
		require.NoError(t, sets[i].Add("in.yaml", []byte(text)))
	}
	r, err := simulate.Run(t.Context(), o, sets[0], sets[1:]...)
	require.NoError(t, err)
	return r
}

// unplaced is an error's text without the line of the input.
func unplaced(err error) string {
	if input := (*simulate.InputError)(nil); errors.As(err, &input) {
		return input.Err.Error()
	}
	return err.Error()
}

func show(out *strings.Builder, r *simulate.Result) {
	var names []string
	for i, p := range r.Pods {
		names = append(names, p.Name)
		if i+1 < len(r.Pods) && how(r, p) == how(r, r.Pods[i+1]) {
			continue
		}
		fmt.Fprintf(out, "pods %s: %s\n", strings.Join(names, " "), how(r, p))
		names = nil
	}
	for _, g := range r.Gangs {
		if g.Status == nil {
			continue
		}
		for _, c := range g.Status.Conditions {
			if c.Status == metav1.ConditionFalse {
				fmt.Fprintf(out, "PodGroup %s: %s: %s\n", g.Name, c.Reason, c.Message)
			}
		}
	}
	if c := r.Topology; c != nil && c.Status == metav1.ConditionFalse {
		fmt.Fprintf(out, "ClusterNetworkTopology default: %s: %s\n", c.Reason, c.Message)
	}
	for _, e := range r.Events {
		// Members are created one after the other, so which member was missing for a moment depends on chance.
		if e.Type == v1.EventTypeWarning && (e.Reason != reasons.Waiting || waitsFor(r, e.Message)) {
			fmt.Fprintf(out, "event %s: %s: %s\n", strings.Replace(e.Object, " default/", " ", 1), e.Reason, e.Message)
		}
	}
}

// waitsFor says whether a gang still waits for this.
func waitsFor(r *simulate.Result, what string) bool {
	return slices.ContainsFunc(r.Gangs, func(g simulate.Gang) bool { return g.Message == what })
}

// how says how far a pod is: gated, or unschedulable if it was tried.
func how(r *simulate.Result, p simulate.Pod) string {
	switch {
	case p.State == simulate.Bound:
		return "bound"
	case p.State == simulate.Evicted:
		return "evicted: " + p.Message
	case slices.ContainsFunc(r.Events, func(e simulate.Event) bool {
		return e.Object == "Pod "+p.Namespace+"/"+p.Name && e.Reason == "FailedScheduling"
	}):
		return "unschedulable: " + p.Message
	}
	return "gated: " + p.Message
}

// lines is a text of several lines.
func lines(all ...string) string { return strings.Join(append(all, ""), "\n") }

// rejected is what users see of gang g if a part of it cannot be carried out.
func rejected(why string) string {
	return lines("pods g-0 g-1: gated: rejected: "+why, "PodGroup g: Rejected: rejected: "+why, "event PodGroup g: Rejected: rejected: "+why)
}

// rejectedBare is what they see if g has no PodGroup.
func rejectedBare(why string) string {
	return lines("pods g-0 g-1: gated: rejected: "+why, "event Pod g-0: Rejected: rejected: "+why)
}

// bound is what they see if g starts all the same, with these events.
func bound(events ...string) string {
	out := lines("pods g-0 g-1: bound")
	for _, e := range events {
		out += "event " + e + "\n"
	}
	return out
}

// waits is what they see if g waits for something.
func waits(why string) string {
	return lines("pods g-0 g-1: gated: "+why, "PodGroup g: Waiting: "+why, "event PodGroup g: Waiting: "+why)
}

// seen is a case: what comes into the cluster, and all that is to be seen then.
type seen struct{ name, comes, want string }

func look(t *testing.T, cases []seen) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := see(t, simulate.Options{}, cluster+topology("default", layers), c.comes)
			require.Equal(t, c.want, got)
		})
	}
}
