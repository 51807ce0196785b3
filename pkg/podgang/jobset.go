package podgang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and annotations of JobSet.
const (
	LabelJobSet        = "jobset.sigs.k8s.io/jobset-name"
	labelJobSetUID     = "jobset.sigs.k8s.io/jobset-uid"
	labelJobSetAttempt = "jobset.sigs.k8s.io/restart-attempt"
	labelJobSetPart    = "jobset.sigs.k8s.io/replicatedjob-name"
	labelJobSetJob     = "jobset.sigs.k8s.io/job-index"
	jobSetExclusive    = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetNodeSelects  = "alpha.jobset.sigs.k8s.io/node-selector" // exclusive without waiting for a leader
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
	Status struct {
		Restarts int32 `json:"restarts"`
	} `json:"status"`
}

// FromJobSet builds the gangs of a JobSet: one of all ReplicatedJobs, or one for each of them where one waits for
// another, or one for each Job with exclusive topology, whose first pod comes before the others. pods are those of the
// JobSet.
func FromJobSet(js *unstructured.Unstructured, pods []metav1.Object) ([]*PodGangInfo, error) {
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
	incarnate(out, in.Status.Restarts, pods)
	for _, info := range out {
		if said := annotated("", js.GetAnnotations()); len(said) > 0 {
			info.TopologyConstraint = said[0]
		}
	}
	return out, nil
}

// incarnate says of which attempt the groups are: of the last that has pods which stay. All pods of an attempt are new.
func incarnate(infos []*PodGangInfo, restarts int32, pods []metav1.Object) {
	groups := map[[2]string]*PodGroupInfo{} // by part, and by Job where each is a gang
	last := map[*PodGroupInfo]int{}
	for _, info := range infos {
		for i := range info.PodGroups {
			g := &info.PodGroups[i]
			groups[[2]string{g.Selector[labelJobSetPart], g.Selector[labelJobSetJob]}] = g
			if restarts == 0 {
				last[g] = 0 // before there are pods
			}
		}
	}
	for _, pod := range pods {
		labels := pod.GetLabels()
		attempt, err := strconv.Atoi(labels[labelJobSetAttempt])
		if err != nil || leaving(pod) || len(infos) == 0 || ofAnother(infos[0], labels) {
			continue
		}
		for _, job := range []string{labels[labelJobSetJob], ""} {
			if g := groups[[2]string{labels[labelJobSetPart], job}]; g != nil {
				last[g] = max(last[g], attempt)
			}
		}
	}
	for g, attempt := range last {
		g.Incarnation = strconv.Itoa(attempt)
	}
}

// addJobs adds the group of a ReplicatedJob.
func (i *PodGangInfo) addJobs(js *unstructured.Unstructured, j *replicatedJob) {
	n := times(orOne(j.Replicas), j.pods())
	i.SchedulerName = j.scheduler()
	i.PriorityClassName = j.Template.Spec.Template.Spec.PriorityClassName
	i.Labels = map[string]string{LabelJobSet: js.GetName()}
	i.PodGroups = append(i.PodGroups, PodGroupInfo{
		Name: js.GetName() + "-" + j.Name, MinReplicas: n, Total: n,
		Selector: map[string]string{LabelJobSet: js.GetName(), labelJobSetPart: j.Name},
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
