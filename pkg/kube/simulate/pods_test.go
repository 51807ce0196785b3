package simulate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// podText is a pod as an API server returns it: each %d makes it unique.
const podText = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-%d", "namespace": "default", "labels": {"app": "a"}, "creationTimestamp": null},
 "spec": {"nodeName": "node-%d", "hostname": "a-%d", "priority": 5,
  "initContainers": [{"name": "i", "image": "j", "command": ["a %d", "b"], "resources": {"limits": {"cpu": "1"}}}],
  "containers": [{"name": "c", "image": "d", "args": ["--rank=%d"], "env": [{"name": "RANK", "value": "%d"}, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
   "ports": [{"containerPort": 80, "name": "value"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "kube-api-access-%d", "mountPath": "/token", "readOnly": true}]}],
  "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-%d", "projected": {"sources": []}}],
  "tolerations": [{"key": "command", "operator": "Exists"}]},
 "status": {"phase": "Running", "podIP": "10.1.1.1", "conditions": [{"type": "Ready", "status": "True"}],
  "containerStatuses": [{"name": "c", "containerID": "containerd://%d", "imageID": "e", "image": "d", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": null}}}]}}`

// TestPodsShare: members of a gang share one spec in memory, except for their node and hostname. Fields that no
// scheduler reads are dropped.
func TestPodsShare(t *testing.T) {
	set := &Set{}
	var pods []string
	for _, n := range []string{"1", "2"} {
		pods = append(pods, strings.ReplaceAll(podText, "%d", n))
	}
	require.NoError(t, set.Add("pods.json", []byte(`{"apiVersion": "v1", "kind": "List", "items": [`+strings.Join(pods, ",\n")+`]}`)))
	var read []*v1.Pod
	for i, o := range set.objects {
		pod := o.Object.(*v1.Pod)
		require.Equal(t, []string{"node-1", "node-2"}[i], pod.Spec.NodeName)
		require.Equal(t, []string{"a-1", "a-2"}[i], pod.Spec.Hostname)
		require.Equal(t, []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}, pod.Spec.Volumes)
		require.Equal(t, []v1.VolumeMount{{Name: "data", MountPath: "/data"}}, pod.Spec.Containers[0].VolumeMounts)
		require.Empty(t, pod.Spec.Containers[0].Env)
		require.Empty(t, pod.Spec.InitContainers[0].Command)
		read = append(read, pod)
	}
	require.Same(t, &read[0].Spec.Tolerations[0], &read[1].Spec.Tolerations[0])
	require.NotSame(t, &read[0].Status.Conditions[0], &read[1].Status.Conditions[0])
	require.Len(t, set.specs.all.All(), 1)
}
