package podgang

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// FromJobSet returns the gangs of a JobSet: one for all ReplicatedJobs; or one for each ReplicatedJob, if they start in order; or one for
// each Job with exclusive topology, in which the leader comes first. pods are the JobSet's pods.
func FromJobSet(js *unstructured.Unstructured, pods []metav1.Object) ([]*PodGangInfo, error) {
	var spec workloads.JobSetSpec
	if err := read(js, &spec); err != nil {
		return nil, err
	}
	var status workloads.JobSetStatus
	_ = workloads.Read(js, "status", &status) // the user does not write it
	_, exclusive := js.GetAnnotations()[workloads.JobSetExclusive]
	_, nodeSelector := js.GetAnnotations()[workloads.JobSetSelects]
	var out []*PodGangInfo
	jointInfo := newInfo(js, JobSet, js.GetName())
	for i := range spec.ReplicatedJobs {
		j := &spec.ReplicatedJobs[i]
		_, jobExclusive := j.Template.Annotations[workloads.JobSetExclusive]
		_, jobNodeSelector := j.Template.Annotations[workloads.JobSetSelects]
		switch {
		case exclusive || jobExclusive:
			if err := checkGangLimit(js, fmt.Sprintf("spec.replicatedJobs[%s].replicas", j.Name), int64(len(out))+limitGangs(j.Jobs())); err != nil {
				return nil, err
			}
			for k := range j.Jobs() {
				out = append(out, oneJob(j, js, k, !nodeSelector && !jobNodeSelector))
			}
		case spec.InTurn():
			info := newInfo(js, JobSet, js.GetName()+"-"+j.Name)
			info.addJobs(js, j)
			out = append(out, info)
		case len(jointInfo.PodGroups) > 0 &&
			cmp.Or(jointInfo.SchedulerName, corev1.DefaultSchedulerName) != cmp.Or(scheduler(j), corev1.DefaultSchedulerName):
			return nil, invalidField(js,
				"spec.replicatedJobs[].template.spec.template.spec.schedulerName: %q and %q; write "+
					"one schedulerName for all jobs that start together", jointInfo.SchedulerName, scheduler(j))
		default:
			jointInfo.addJobs(js, j)
		}
	}
	if len(jointInfo.PodGroups) > 0 {
		out = append(out, jointInfo)
	}
	incarnate(out, status.Restarts, pods)
	for _, info := range out {
		if constraints := annotationConstraints("", js.GetAnnotations()); len(constraints) > 0 {
			info.TopologyConstraint = constraints[0]
		}
	}
	return out, nil
}

// incarnate sets Incarnation of each group to its attempt: the last one with pods that are not being deleted. Each attempt has new pods.
func incarnate(infos []*PodGangInfo, restarts int32, pods []metav1.Object) {
	groups := map[[2]string]*PodGroupInfo{} // by ReplicatedJob, and by Job if each Job is a gang
	attempts := map[*PodGroupInfo]int{}
	for _, info := range infos {
		for i := range info.PodGroups {
			g := &info.PodGroups[i]
			groups[[2]string{g.Selector[workloads.JobSetReplicated], g.Selector[workloads.JobSetIndex]}] = g
			if restarts == 0 {
				attempts[g] = 0 // before pods exist
			}
		}
	}
	for _, pod := range pods {
		labels := pod.GetLabels()
		attempt, err := strconv.Atoi(labels[workloads.JobSetRestart])
		if err != nil || isTerminating(pod) || len(infos) == 0 || isFormerJobSet(infos[0], labels) {
			continue
		}
		for _, job := range []string{labels[workloads.JobSetIndex], ""} {
			if g := groups[[2]string{labels[workloads.JobSetReplicated], job}]; g != nil {
				attempts[g] = max(attempts[g], attempt)
			}
		}
	}
	for g, attempt := range attempts {
		g.Incarnation = strconv.Itoa(attempt)
	}
}

// scheduler returns the scheduler name of a ReplicatedJob's pods.
func scheduler(j *workloads.ReplicatedJob) string { return j.Template.Spec.Template.Spec.SchedulerName }

// addJobs adds a group with all pods of a ReplicatedJob.
func (i *PodGangInfo) addJobs(js *unstructured.Unstructured, j *workloads.ReplicatedJob) {
	n := multiply(j.Jobs(), j.Pods())
	i.SchedulerName = scheduler(j)
	i.PriorityClassName = j.Template.Spec.Template.Spec.PriorityClassName
	i.Labels = map[string]string{workloads.JobSetName: js.GetName()}
	i.PodGroups = append(i.PodGroups, PodGroupInfo{
		Name: js.GetName() + "-" + j.Name, MinReplicas: n, Total: n,
		Selector: map[string]string{workloads.JobSetName: js.GetName(), workloads.JobSetReplicated: j.Name},
	})
}

// oneJob returns the gang of the Job number index, which has exclusive topology.
func oneJob(j *workloads.ReplicatedJob, js *unstructured.Unstructured, index int32, leaderFirst bool) *PodGangInfo {
	out := newInfo(js, JobSet, fmt.Sprintf("%s-%s-%d", js.GetName(), j.Name, index))
	out.addJobs(js, j)
	g := &out.PodGroups[0]
	g.Name = out.Name
	g.MinReplicas = j.Pods()
	g.Total = j.Pods()
	g.Selector[workloads.JobSetIndex] = fmt.Sprint(index)
	if leaderFirst && g.Total > 1 {
		g.MinReplicas, g.LeaderFirst = 1, "followers are created only after the leader of their Job is scheduled"
		out.Notes = append(out.Notes, Note{Reason: reasons.LeaderFirst, Info: true, Message: "gang minMember is 1 because " + g.LeaderFirst})
	}
	return out
}
