package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/picture"
)

// rows returns an expect: the output must be a table with the same rows as the table want, in these columns.
func rows(what, want string, columns ...string) expect {
	return func(out string) []check { return []check{sameTable(what, want, out, columns...)} }
}

// documentedTopology checks that a ClusterNetworkTopology in JSON is in use and has the documented status.
func documentedTopology(out string) []check {
	const name = "clusternetworktopology-status.yaml"
	what := "status.detailStatus is exactly that of " + example(name)
	content, err := fs.ReadFile(examples.FS, name)
	if err != nil {
		return []check{equal(what, "", err.Error())}
	}
	documented, _ := topologyStatus(content)
	detail, conditions := topologyStatus([]byte(out))
	if documented == "" || detail == "" {
		detail += "(no detailStatus)"
	}
	return []check{
		equal(what, documented, detail),
		equal("and the condition says that this tree is in use", "Ready=True InUse", conditions),
	}
}

// topologyStatus returns the detailStatus of an object in JSON or YAML, as YAML, and its conditions.
func topologyStatus(object []byte) (detail, conditions string) {
	var o struct {
		Status struct {
			DetailStatus any               `json:"detailStatus"`
			Conditions   []v1.PodCondition `json:"conditions"` // another type with the same JSON form
		} `json:"status"`
	}
	if err := yaml.Unmarshal(object, &o); err != nil {
		return "", err.Error()
	}
	if o.Status.DetailStatus != nil {
		out, err := yaml.Marshal(o.Status.DetailStatus)
		if err != nil {
			return "", err.Error()
		}
		detail = string(out)
	}
	return detail, conditionsText(o.Status.Conditions)
}

func conditionsText(all []v1.PodCondition) string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, ", ")
}

// messageOfFirst checks the message of the representative.
func messageOfFirst(out string) []check {
	return []check{
		contains("the message says how many slots each spine has", out, saysRefused),
		contains("and what the gang waits for", out, saysWaiting),
	}
}

// whileTerminating checks all pods and events, a List in JSON, while victims terminate.
func whileTerminating(list string) []check {
	o, err := decodeObjects(list)
	if err != nil {
		return []check{equal("the pods can be read", "", err.Error())}
	}
	var leaving []string
	siblings, complete, messages := 0, 0, ""
	for _, p := range o.pods {
		if p.DeletionTimestamp != nil || conditionOf(p, v1.DisruptionTarget) != nil {
			leaving = append(leaving, p.Name)
		}
		if p.Labels[scheduling.LabelPodGroup] == "" || p.Name == "hp-training-pod-0" {
			continue
		}
		siblings++
		message := ""
		if c := conditionOf(p, v1.PodScheduled); c != nil {
			message = c.Message
		}
		if strings.Contains(message, saysSibling) && strings.Contains(message, saysHeld) && strings.Contains(message, saysAttempts) {
			complete++
		}
		messages += p.Name + ": " + message + "\n"
	}
	return []check{
		{
			what: "all three siblings refer to hp-training-pod-0 and its preemption",
			ok:   siblings == 3 && complete == 3,
			want: "three times … " + saysSibling + " … " + saysHeld + " … " + saysAttempts + " …", got: messages,
		},
		equal("low-priority-pod-5 is the only pod that leaves", "low-priority-pod-5", strings.Join(leaving, " ")),
		shortMessages(list),
	}
}

// choiceEvent checks the event that explains the choice of the domain for an eviction.
func choiceEvent(out string) []check {
	return []check{contains("the event compares the spines and names the rule", out, saysChoice)}
}

func conditionOf(p v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// shortMessages checks all messages in a List in JSON.
func shortMessages(list string) check {
	var all any
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		return equal("all messages can be read", "", err.Error())
	}
	longest := ""
	eachMessage(all, func(m string) {
		if len(m) > len(longest) {
			longest = m
		}
	})
	return check{
		what: fmt.Sprintf("no message is longer than 1 KiB; the longest has %d bytes", len(longest)),
		ok:   longest != "" && len(longest) <= longestMessage,
		want: fmt.Sprintf("1 to %d bytes", longestMessage), got: fmt.Sprintf("%d bytes: %s", len(longest), longest),
	}
}

// eachMessage calls do with every field "message" in a decoded JSON value.
func eachMessage(value any, do func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if text, ok := field.(string); ok && key == "message" {
				do(text)
			}
			eachMessage(field, do)
		}
	case []any:
		for _, item := range v {
			eachMessage(item, do)
		}
	}
}

// disruptionTarget checks that a list of conditions in JSON is DisruptionTarget alone.
func disruptionTarget(list string) []check {
	const what = "the victim has the condition DisruptionTarget, by the scheduler"
	var all []v1.PodCondition
	if err := json.Unmarshal([]byte(list), &all); err != nil {
		return []check{equal(what, "", err.Error()+": "+list)}
	}
	return []check{equal(what, "DisruptionTarget=True PreemptionByScheduler", conditionsText(all))}
}

// deleted checks that "kubectl wait" has not timed out. Output "" means that the pod was deleted before.
func deleted(out string) []check {
	if out == "" {
		return []check{{what: "the victim has terminated", ok: true}}
	}
	return []check{equal("the victim has terminated", "pod/low-priority-pod-5 condition met\n", out)}
}

// oneEviction checks, in all pods and events, that only the expected victim was evicted.
func oneEviction(before *objects) expect {
	return func(list string) []check {
		current, err := decodeObjects(list)
		if err != nil {
			return []check{equal("the pods can be read", "", err.Error())}
		}
		var evicted []string
		for _, e := range current.events {
			if e.Reason == reasons.Preempted {
				evicted = append(evicted, e.InvolvedObject.Name)
			}
		}
		stayed := []string{"low-priority-pod-0", "low-priority-pod-1"}
		return []check{
			equal("exactly one pod was evicted, once", "low-priority-pod-5", strings.Join(evicted, " ")),
			equal("the other two low-priority pods were not recreated", before.identities(stayed), current.identities(stayed)),
		}
	}
}

// identities returns the names of pods with their UIDs.
func (o *objects) identities(names []string) string {
	uids := map[string]string{}
	for _, p := range o.pods {
		uids[p.Name] = string(p.UID)
	}
	var out []string
	for _, name := range names {
		out = append(out, name+" "+uids[name])
	}
	return strings.Join(out, "\n")
}

// markOf returns the mark of a pod in the demo: a member of a gang, or a possible victim.
func markOf(pod *v1.Pod) string {
	switch {
	case pod.Labels[scheduling.LabelPodGroup] != "":
		return picture.Placed
	case pod.Spec.PriorityClassName == "low-priority":
		return "l"
	}
	return picture.Taken
}

// version returns the API server's version.
func (d *demo) version(ctx context.Context) (string, error) {
	out, err := d.kubectl(ctx, "get", "--raw", "/version")
	if err != nil {
		return "", err
	}
	var info version.Info
	err = json.Unmarshal([]byte(out), &info)
	return strings.TrimPrefix(info.GitVersion, "v"), err
}
