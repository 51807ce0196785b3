package simulate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/test/worlds"
)

// podText is a pod as an API server has it: each %d is somebody's own.
const podText = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-%d", "namespace": "default", "labels": {"app": "a"}, "creationTimestamp": null},
 "spec": {"nodeName": "node-%d", "hostname": "a-%d", "priority": 5,
  "initContainers": [{"name": "i", "image": "j", "command": ["a %d", "b"], "resources": {"limits": {"cpu": "1"}}}],
  "containers": [{"name": "c", "image": "d", "args": ["--rank=%d"], "env": [{"name": "RANK", "value": "%d"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
   "ports": [{"containerPort": 80, "name": "value"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "kube-api-access-%d", "mountPath": "/token", "readOnly": true}]}],
  "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-%d", "projected": {"sources": []}}],
  "tolerations": [{"key": "command", "operator": "Exists"}]},
 "status": {"phase": "Running", "podIP": "10.1.1.1", "conditions": [{"type": "Ready", "status": "True"}],
  "containerStatuses": [{"name": "c", "containerID": "containerd://%d", "imageID": "e", "image": "d", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": null}}}]}}`

// TestPodsAlike: a pod of which others have said most already is what the decoder would read, and who changes its
// conditions does not change those of others. Where anything is wrong, the decoder says so.
func TestPodsAlike(t *testing.T) {
	set := &Set{}
	numbered := func(n string) string { return strings.ReplaceAll(podText, "%d", n) }
	kinds := []string{"read", "wrong", "known", "odd, and right"}
	worlds.Check(t, 3000, kinds, func(t *rapid.T, y worlds.Tally) {
		text := []byte(numbered(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "number")))
		mistakes := rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "mistakes")
		for range mistakes {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			by := rapid.SampledFrom([]string{"", `"`, `\`, ",", "{", "}", "[", "]", ":", "1", "\n", "ü", `"value":`, `"nodeName":"x",`, `"env":[],`, `"status":{},`, "null"}).Draw(t, "by")
			to := at
			if rapid.Bool().Draw(t, "instead") {
				to = min(at+rapid.IntRange(0, 20).Draw(t, "of"), len(text))
			}
			text = slices.Replace(text, at, to, []byte(by)...)
		}
		before := len(set.known())
		is, ok := set.pod(text, [3]extent{})
		y.Count("read", ok)
		y.Count("wrong", !ok)
		y.Count("known", ok && len(set.known()) == before)
		read, right := decodePresent(text, podKind)
		if !right {
			if ok {
				t.Fatalf("read all the same: %s", text)
			}
			return
		}
		want := read.(*v1.Pod)
		lean(want)
		y.Count("odd, and right", mistakes > 0)
		if !ok {
			if mistakes == 0 {
				t.Fatalf("not read: %s", text)
			}
			return
		}
		require.Equal(t, want, is, string(text))
		for i := range is.Status.Conditions {
			is.Status.Conditions[i].Status = v1.ConditionUnknown
		}
	})
}

// known are the texts that the pods of a set had in common.
func (s *Set) known() (all []string) {
	if s.alike != nil {
		for text := range s.alike.specs.all {
			all = append(all, text)
		}
	}
	return all
}

// TestPodsShare: members of a gang have one spec in memory, but for each one's own.
func TestPodsShare(t *testing.T) {
	set := &Set{}
	var read []*v1.Pod
	for _, n := range []string{"1", "2"} {
		var text bytes.Buffer
		require.NoError(t, json.Compact(&text, []byte(strings.ReplaceAll(podText, "%d", n))))
		pod, ok := set.pod(text.Bytes(), [3]extent{})
		require.True(t, ok)
		require.Equal(t, "node-"+n, pod.Spec.NodeName)
		require.Equal(t, "kube-api-access-"+n, pod.Spec.Volumes[1].Name)
		require.Equal(t, "kube-api-access-"+n, pod.Spec.Containers[0].VolumeMounts[1].Name)
		read = append(read, pod)
	}
	require.Same(t, &read[0].Spec.Tolerations[0], &read[1].Spec.Tolerations[0])
	require.Same(t, &read[0].Status.ContainerStatuses[0], &read[1].Status.ContainerStatuses[0])
	require.NotSame(t, &read[0].Status.Conditions[0], &read[1].Status.Conditions[0])
	require.Len(t, set.known(), 1)
}
