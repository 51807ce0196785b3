package source

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-scheduler/muster/pkg/gang"
)

// Labels and annotations that the JobSet controller gives its pods.
const (
	jobSetName      = "jobset.sigs.k8s.io/jobset-name"
	jobSetUID       = "jobset.sigs.k8s.io/jobset-uid"
	jobSetPart      = "jobset.sigs.k8s.io/replicatedjob-name"
	jobSetJob       = "jobset.sigs.k8s.io/job-index"
	jobSetAttempt   = "jobset.sigs.k8s.io/restart-attempt"
	jobSetExclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	jobSetSelects   = "alpha.jobset.sigs.k8s.io/node-selector" // exclusive without waiting for a leader
)

var jobSets = &Owner{
	Resource: schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	Kind:     "JobSet",
	Role:     "rbac/sources/jobset.yaml",
	Read:     readJobSet,
}

// jobSet is a ReplicatedJob of a JobSet. Those that may start together are a group: one plan for
// the whole JobSet. A restart is another gang. With exclusive topology each Job is one.
var jobSet = Source{
	Way:       "labels " + jobSetName + ", " + jobSetPart,
	Space:     "jobset",
	Implied:   true,
	NameOf:    jobSetGang,
	UIDOf:     func(pod *v1.Pod) string { return pod.Labels[jobSetUID] },
	Owner:     jobSets,
	OwnerName: func(pod *v1.Pod) string { return pod.Labels[jobSetName] },
	Needs:     true,
	Fill:      fillJobSet,
}

func jobSetGang(pod *v1.Pod) string {
	name := pod.Labels[jobSetName]
	if name == "" {
		return ""
	}
	part := pod.Labels[jobSetPart]
	if part == "" {
		return ""
	}
	job := ""
	if _, exclusive := pod.Annotations[jobSetExclusive]; exclusive {
		job = pod.Labels[jobSetJob]
	}
	return jobSetPartGang(name, part, pod.Labels[jobSetAttempt], job)
}

// jobSetPartGang names the gang of a part. Names of JobSets and of their parts have no dots.
func jobSetPartGang(name, part, attempt, job string) string {
	out := name + "." + part
	if job != "" {
		out += "." + job
	}
	if attempt != "" && attempt != "0" {
		out += ".restart-" + attempt
	}
	return out
}

func readJobSet(u *unstructured.Unstructured, out *Owned) error {
	all, err := objectsIn(u.Object, "spec", "replicatedJobs")
	if err != nil {
		return err
	}
	out.Parts = map[string]Part{}
	_, exclusive := out.Words[jobSetExclusive]
	for i, object := range all {
		name, part, inTurn, err := readPart(object)
		if err != nil {
			return fmt.Errorf("spec.replicatedJobs[%d].%w", i, err)
		}
		part.Alone = part.Alone || exclusive
		out.Parts[name] = part
		out.InTurn = out.InTurn || inTurn
	}
	order, err := text(u.Object, "spec", "startupPolicy", "startupPolicyOrder")
	if err != nil {
		return err
	}
	out.InTurn = out.InTurn || order == "InOrder"
	readProgress(u, out)
	return nil
}

// readProgress reads which parts have finished: as many of their Jobs have succeeded as there
// are. Their pods may be gone, and nobody makes them again but for another attempt.
func readProgress(u *unstructured.Unstructured, out *Owned) {
	if restarts, _, _ := unstructured.NestedInt64(u.Object, "status", "restarts"); restarts > 0 {
		out.Attempt = strconv.FormatInt(restarts, 10)
	}
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "replicatedJobsStatus")
	for _, one := range all {
		object, _ := one.(map[string]any)
		name, _, _ := unstructured.NestedString(object, "name")
		succeeded, _, _ := unstructured.NestedInt64(object, "succeeded")
		if part, ok := out.Parts[name]; ok && part.Jobs > 0 && int(succeeded) >= part.Jobs {
			part.Done = true
			out.Parts[name] = part
		}
	}
}

// attemptOf is the attempt of which a pod is, "" the first.
func attemptOf(pod *v1.Pod) string {
	if attempt := pod.Labels[jobSetAttempt]; attempt != "0" {
		return attempt
	}
	return ""
}

// readPart reads a ReplicatedJob, and whether it waits for another one. Exclusive topology may be asked for its Jobs only.
func readPart(object map[string]any) (name string, out Part, inTurn bool, err error) {
	if name, err = text(object, "name"); err != nil {
		return name, out, false, err
	}
	if out.Jobs, err = countIn(object, 0, 1, "replicas"); err != nil {
		return name, out, false, err
	}
	on, err := objectsIn(object, "dependsOn")
	if err != nil {
		return name, out, false, err
	}
	annotations, err := objectIn(object, "template", "metadata", "annotations")
	if err != nil {
		return name, out, false, err
	}
	_, out.Alone = annotations[jobSetExclusive]
	out.Size, err = jobSize(object, "template", "spec")
	return name, out, len(on) > 0, err
}

// jobSize is how many pods of a Job run at a time.
func jobSize(object map[string]any, path ...string) (int, error) {
	at := func(field string, otherwise int) (int, error) {
		return countIn(object, 0, otherwise, append(slices.Clone(path), field)...)
	}
	parallel, err := at("parallelism", 1)
	if err != nil {
		return 0, err
	}
	all, err := at("completions", parallel)
	return min(parallel, all), err
}

func fillJobSet(d *Declaration, g Gang) {
	d.speakerOwner(g)
	d.speakerPod(g)
	pod := first(g.any(), func(*v1.Pod) bool { return true })
	part := pod.Labels[jobSetPart]
	is, known := g.Owner.Parts[part]
	if !known {
		d.problem(fmt.Errorf("%s: %q on %s/%s names no ReplicatedJob of %s", jobSetPart, part, pod.Namespace, pod.Name, g.Owner.Key))
	}
	if topology, exclusive := pod.Annotations[jobSetExclusive]; exclusive {
		d.Min = max(1, is.Size)
		if _, atOnce := pod.Annotations[jobSetSelects]; !atOnce && is.Size > 1 {
			d.leads(is.Size)
			d.note(LeaderFirst, fmt.Sprintf("gang minMember is 1 because followers are created only after the leader of their Job is scheduled (%s: %s); the leader goes where all %d pods find room",
				jobSetExclusive, topology, is.Size))
		}
		return
	}
	d.Min = max(1, is.Jobs*is.Size)
	if !g.Owner.InTurn {
		d.Group = g.Owner.together(g.Ref, attemptOf(pod))
		d.elsewhere(g)
	}
}

// elsewhere says that parts which must start with this one have pods that name another gang:
// there this one waits for ever, and nothing else would say why.
func (d *Declaration) elsewhere(g Gang) {
	for _, ref := range d.Group {
		if g.Pointer == nil || ref == g.Ref {
			continue
		}
		if named := g.Pointer(ref); named != "" {
			why := fmt.Sprintf("gang %s of the group has no members: pods that %s means for it name another one (%s)", ref, g.Owner.Key, named)
			d.note(TwoGangs, why+"; legal: no such name, or one for the pods of all ReplicatedJobs that start together")
			d.waits(why)
		}
	}
}

// together are the gangs of the parts that start together; none if there is only one. One that
// has finished is not waited for.
func (o *Owned) together(ref gang.Ref, attempt string) (group []gang.Ref) {
	for name, part := range o.Parts {
		if done := part.Done && o.Attempt == attempt; !part.Alone && !done && part.Jobs > 0 && part.Size > 0 {
			group = append(group, gang.Ref{Source: ref.Source, Namespace: ref.Namespace, Name: jobSetPartGang(o.Key.Name, name, attempt, ""), UID: ref.UID})
		}
	}
	if len(group) < 2 || !slices.Contains(group, ref) {
		return nil
	}
	sortRefs(group)
	return group
}
