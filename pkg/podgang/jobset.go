package podgang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations of JobSet.
const (
	labelJobSet       = "jobset.sigs.k8s.io/jobset-name"
	labelJobSetPart   = "jobset.sigs.k8s.io/replicatedjob-name"
	labelJobSetJob    = "jobset.sigs.k8s.io/job-index"
	jobSetExclusive   = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetNodeSelects = "alpha.jobset.sigs.k8s.io/node-selector" // exclusive without waiting for a leader
)

type replicatedJob struct {
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas"`
	Template struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Parallelism *int32                 `json:"parallelism"`
			Completions *int32                 `json:"completions"`
			Template    corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	} `json:"template"`
	DependsOn []struct {
		Name string `json:"name"`
	} `json:"dependsOn"`
}

// scheduler is that of its pods.
func (j *replicatedJob) scheduler() string { return j.Template.Spec.Template.Spec.SchedulerName }

// pods is how many pods of one Job run at a time; none of one that is paused, or has nothing to complete.
func (j *replicatedJob) pods() int32 {
	n := orOne(j.Template.Spec.Parallelism)
	if all := j.Template.Spec.Completions; all != nil {
		n = min(n, *all)
	}
	return max(0, n)
}

type jobSet struct {
	Spec struct {
		ReplicatedJobs []replicatedJob `json:"replicatedJobs"`
		StartupPolicy  struct {
			Order string `json:"startupPolicyOrder"`
		} `json:"startupPolicy"`
	} `json:"spec"`
}

// FromJobSet builds the gangs of a JobSet: one of all ReplicatedJobs, or one for each of them where one waits for
// another, or one for each Job with exclusive topology, whose first pod comes before the others.
func FromJobSet(js *unstructured.Unstructured) ([]*PodGangInfo, error) {
	var in jobSet
	if err := read(js, &in); err != nil {
		return nil, err
	}
	inTurn := in.Spec.StartupPolicy.Order == "InOrder" ||
		slices.ContainsFunc(in.Spec.ReplicatedJobs, func(j replicatedJob) bool { return len(j.DependsOn) > 0 })
	_, exclusive := js.GetAnnotations()[jobSetExclusive]
	_, selects := js.GetAnnotations()[jobSetNodeSelects]
	var out []*PodGangInfo
	all := newInfo(js, JobSet, js.GetName())
	for i := range in.Spec.ReplicatedJobs {
		j := &in.Spec.ReplicatedJobs[i]
		_, alone := j.Template.Metadata.Annotations[jobSetExclusive]
		_, jobSelects := j.Template.Metadata.Annotations[jobSetNodeSelects]
		switch {
		case exclusive || alone:
			if err := tooMany(js, fmt.Sprintf("spec.replicatedJobs[%s].replicas", j.Name), int64(len(out))+few(orOne(j.Replicas))); err != nil {
				return nil, err
			}
			for k := range orOne(j.Replicas) {
				out = append(out, j.oneJob(js, k, !selects && !jobSelects))
			}
		case inTurn:
			info := newInfo(js, JobSet, js.GetName()+"-"+j.Name)
			info.addJobs(js, j)
			out = append(out, info)
		case len(all.PodGroups) > 0 && cmp.Or(all.SchedulerName, corev1.DefaultSchedulerName) != cmp.Or(j.scheduler(), corev1.DefaultSchedulerName):
			return nil, illegal(js, "spec.replicatedJobs[].template.spec.template.spec.schedulerName: %q and %q; legal: one scheduler for all that start together", all.SchedulerName, j.scheduler())
		default:
			all.addJobs(js, j)
		}
	}
	if len(all.PodGroups) > 0 {
		out = append(out, all)
	}
	for _, info := range out {
		if said := annotated("", js.GetAnnotations()); len(said) > 0 {
			info.TopologyConstraint = said[0]
		}
	}
	return out, nil
}

// addJobs adds the group of a ReplicatedJob.
func (i *PodGangInfo) addJobs(js *unstructured.Unstructured, j *replicatedJob) {
	n := times(orOne(j.Replicas), j.pods())
	i.SchedulerName = j.scheduler()
	i.PriorityClassName = j.Template.Spec.Template.Spec.PriorityClassName
	i.Labels = map[string]string{labelJobSet: js.GetName()}
	i.PodGroups = append(i.PodGroups, PodGroupInfo{
		Name: js.GetName() + "-" + j.Name, MinReplicas: n, Total: n,
		Selector: map[string]string{labelJobSet: js.GetName(), labelJobSetPart: j.Name},
	})
}

// oneJob is the gang of one Job with exclusive topology.
func (j *replicatedJob) oneJob(js *unstructured.Unstructured, index int32, leaderFirst bool) *PodGangInfo {
	out := newInfo(js, JobSet, fmt.Sprintf("%s-%s-%d", js.GetName(), j.Name, index))
	out.addJobs(js, j)
	g := &out.PodGroups[0]
	g.Name, g.MinReplicas, g.Total = out.Name, j.pods(), j.pods()
	g.Selector[labelJobSetJob] = fmt.Sprint(index)
	if leaderFirst && g.Total > 1 {
		g.MinReplicas, g.LeaderFirst = 1, "followers are created only after the leader of their Job is scheduled"
		out.Notes = append(out.Notes, Note{Reason: ReasonLeaderFirst, Info: true, Message: "gang minMember is 1 because " + g.LeaderFirst})
	}
	return out
}
