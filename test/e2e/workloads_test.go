package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/kube/workload"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// many are workloads that differ in what their controllers look at. No scheduler serves
// their pods.
const many = `
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completionMode: Indexed
  completions: 5
  parallelism: 2
  backoffLimitPerIndex: 1
  template:
    metadata: {labels: {mine: a}, annotations: {also: mine}}
    spec: {restartPolicy: Never, schedulerName: nobody, containers: [{name: c, image: i}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec:
  parallelism: 3
  template: {spec: {restartPolicy: OnFailure, schedulerName: nobody, containers: [{name: c, image: i}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: a-job-with-a-name-that-is-as-long-as-names-of-jobs-may-be-a}
spec:
  completionMode: Indexed
  completions: 11
  parallelism: 11
  template: {spec: {restartPolicy: Never, schedulerName: nobody, containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {also: mine}}
    spec:
      schedulerName: nobody
      containers: [{name: c, image: i, ports: [{containerPort: 80}], resources: {limits: {cpu: 1500m, memory: 1Gi}}}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set}
spec:
  replicas: 2
  selector: {matchExpressions: [{key: app, operator: In, values: [set]}]}
  template: {metadata: {labels: {app: set}}, spec: {schedulerName: nobody, containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: peers
  podManagementPolicy: Parallel
  ordinals: {start: 3}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {schedulerName: nobody, containers: [{name: c, image: i}], volumes: [{name: data, emptyDir: {}}, {name: other, emptyDir: {}}]}
  volumeClaimTemplates:
  - metadata: {name: data, labels: {of: claim}}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ordered}
spec:
  replicas: 2
  selector: {matchLabels: {app: ordered}}
  template: {metadata: {labels: {app: ordered}}, spec: {schedulerName: nobody, containers: [{name: c, image: i}]}}
`

// TestWorkloads: package workload makes of workloads what kube-controller-manager makes of
// them, but for what a lot decides: the last five letters of names, and UIDs.
func TestWorkloads(t *testing.T) {
	besideOthers(t)
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	local, err := localcluster.Start(t.Context(),
		localcluster.Options{Progress: t.Output(), Kubernetes: os.Getenv(versionEnv), Controllers: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, local.Stop()) })
	c, err := openCluster(local.Kubeconfig())
	require.NoError(t, err)
	require.NoError(t, local.Apply(t.Context(), strings.NewReader(many)))

	want := c.expansions(t)
	require.Len(t, want, 2+3+11+1+2+2+2+2+1)
	var got []string
	same := func() bool {
		got = c.made(t)
		return slices.Equal(want, got)
	}
	if !assert.Eventually(t, same, time.Minute, 100*time.Millisecond) {
		require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

// expansions are what package workload makes of the workloads that there are.
func (c *cluster) expansions(t *testing.T) (all []string) {
	ctx, of := t.Context(), metav1.ListOptions{}
	jobs, err := c.client.BatchV1().Jobs("default").List(ctx, of)
	require.NoError(t, err)
	deployments, err := c.client.AppsV1().Deployments("default").List(ctx, of)
	require.NoError(t, err)
	replicaSets, err := c.client.AppsV1().ReplicaSets("default").List(ctx, of)
	require.NoError(t, err)
	statefulSets, err := c.client.AppsV1().StatefulSets("default").List(ctx, of)
	require.NoError(t, err)
	var objects []runtime.Object
	for i := range jobs.Items {
		job := asWritten(&jobs.Items[i])
		objects = append(objects, job)
	}
	for i := range deployments.Items {
		objects = append(objects, &deployments.Items[i])
	}
	for i := range replicaSets.Items {
		if metav1.GetControllerOf(&replicaSets.Items[i]) == nil {
			objects = append(objects, &replicaSets.Items[i])
		}
	}
	for i := range statefulSets.Items {
		objects = append(objects, &statefulSets.Items[i])
	}
	for _, o := range objects {
		out, err := workload.Expand(o, workload.EmptyAPI)
		require.NoError(t, err)
		for _, made := range out.Objects {
			if len(made.After) == 0 {
				all = append(all, describe(made.Object)...)
			}
		}
	}
	slices.Sort(all)
	return all
}

// asWritten takes out of a Job what the API server has put into its template.
func asWritten(job *batchv1.Job) *batchv1.Job {
	for _, label := range []string{batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid"} {
		delete(job.Spec.Template.Labels, label)
	}
	job.Spec.Selector = nil
	return job
}

// made is what kube-controller-manager has made.
func (c *cluster) made(t *testing.T) (all []string) {
	ctx, of := t.Context(), metav1.ListOptions{}
	pods, err := c.client.CoreV1().Pods("default").List(ctx, of)
	require.NoError(t, err)
	for i := range pods.Items {
		all = append(all, describe(&pods.Items[i])...)
	}
	sets, err := c.client.AppsV1().ReplicaSets("default").List(ctx, of)
	require.NoError(t, err)
	for i := range sets.Items {
		if metav1.GetControllerOf(&sets.Items[i]) != nil {
			all = append(all, describe(&sets.Items[i])...)
		}
	}
	claims, err := c.client.CoreV1().PersistentVolumeClaims("default").List(ctx, of)
	require.NoError(t, err)
	for i := range claims.Items {
		all = append(all, describe(&claims.Items[i])...)
	}
	slices.Sort(all)
	return all
}

// describe says in a line what is certain of an object.
func describe(o runtime.Object) []string {
	switch o := o.(type) {
	case *v1.Pod:
		line := fmt.Sprintf("Pod %s, host %s.%s", certain(o.Name, o.OwnerReferences), o.Spec.Hostname, o.Spec.Subdomain)
		for _, v := range o.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				line += fmt.Sprintf(", %s is %s", v.Name, v.PersistentVolumeClaim.ClaimName)
			}
		}
		return []string{line + fmt.Sprintf(", %s, cpu %s", about(&o.ObjectMeta), o.Spec.Containers[0].Resources.Requests.Cpu())}
	case *appsv1.ReplicaSet:
		return []string{
			fmt.Sprintf("ReplicaSet %s of %d, selects %s, %s", o.Name, *o.Spec.Replicas, metav1.FormatLabelSelector(o.Spec.Selector),
				about(&o.ObjectMeta)),
		}
	case *v1.PersistentVolumeClaim:
		return []string{fmt.Sprintf("PersistentVolumeClaim %s, %s", o.Name, about(&o.ObjectMeta))}
	}
	return nil
}

// certain is a name without the letters that were drawn by lot.
func certain(name string, owners []metav1.OwnerReference) string {
	if owners[0].Kind == "StatefulSet" {
		return name
	}
	return name[:len(name)-5]
}

func about(m *metav1.ObjectMeta) string {
	labels, annotations := maps.Clone(m.Labels), maps.Clone(m.Annotations)
	for _, uid := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		if labels[uid] != "" {
			labels[uid] = "a UID"
		}
	}
	if revision, ok := labels[appsv1.StatefulSetRevisionLabel]; ok {
		labels[appsv1.StatefulSetRevisionLabel] = revision[:strings.LastIndex(revision, "-")] + "-hash"
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		// The Deployment's bookkeeping, and the volume controller's.
		return strings.HasPrefix(key, "deployment.kubernetes.io/") || strings.HasPrefix(key, "volume.kubernetes.io/") || strings.HasPrefix(key,
			"volume.beta.kubernetes.io/")
	})
	owners := []string{}
	for _, o := range m.OwnerReferences {
		owners = append(owners, fmt.Sprintf("%s %s %s %t %t", o.APIVersion, o.Kind, o.Name, *o.Controller, *o.BlockOwnerDeletion))
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return fmt.Sprint(labels, annotations, owners)
}
