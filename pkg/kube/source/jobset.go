package source

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/gang"
)

var jobSets = &Owner{
	Resource: workloads.JobSetKind.GroupVersion().WithResource("jobsets"),
	Kind:     workloads.JobSetKind.Kind,
	Role:     "rbac/sources/jobset.yaml",
	Read:     readJobSet,
	Children: jobs,
}

const jobSetSpace = "jobset"

// jobSet reads the ReplicatedJobs of a JobSet. ReplicatedJobs that may start together are a group: one plan for the whole
// JobSet. A restart is another gang. With exclusive topology each Job is a gang.
var jobSet = Source{
	Way:        "labels " + workloads.JobSetName + ", " + workloads.JobSetReplicated,
	Space:      jobSetSpace,
	Implied:    true,
	NameOf:     jobSetGang,
	UIDOf:      func(pod *v1.Pod) string { return pod.Labels[workloads.JobSetUID] },
	Owner:      jobSets,
	OwnerName:  func(pod *v1.Pod) string { return pod.Labels[workloads.JobSetName] },
	NeedsOwner: true,
	Fill:       fillJobSet,
}

// jobSetGang returns the gang of a JobSet's pod: its ReplicatedJob, or its Job with exclusive topology; "" for other pods.
func jobSetGang(pod *v1.Pod) string {
	name := pod.Labels[workloads.JobSetName]
	if name == "" {
		return ""
	}
	part := pod.Labels[workloads.JobSetReplicated]
	if part == "" {
		return ""
	}
	job := ""
	if _, exclusive := pod.Annotations[workloads.JobSetExclusive]; exclusive {
		job = pod.Labels[workloads.JobSetIndex]
	}
	return jobSetPartGang(name, part, pod.Labels[workloads.JobSetRestart], job)
}

// jobSetPartGang returns the gang name of ReplicatedJob part of JobSet name. job is the Job's index with exclusive topology, else "".
// attempt counts restarts; "" or "0" is the first run. Names of JobSets and of their parts have no dots.
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

// readJobSet reads the ReplicatedJobs of a JobSet into out.Parts.
func readJobSet(u *unstructured.Unstructured, out *Owned) error {
	var spec workloads.JobSetSpec
	if err := workloads.Read(u, "spec", &spec); err != nil {
		return err
	}
	out.Parts, out.InTurn = map[string]Part{}, spec.InTurn()
	_, exclusive := out.Values[workloads.JobSetExclusive]
	for i := range spec.ReplicatedJobs {
		j := &spec.ReplicatedJobs[i]
		_, alone := j.Template.Annotations[workloads.JobSetExclusive]
		out.Parts[j.Name] = Part{Jobs: int(j.Jobs()), Size: int(j.Pods()), Alone: alone || exclusive}
		pods := j.Template.Spec.Template.Annotations
		keys := slices.DeleteFunc(gangKeysIn(j.Template.Annotations),
			func(key string) bool { _, found := annotationValue(pods, key); return found })
		if len(keys) > 0 {
			at := fmt.Sprintf("spec.replicatedJobs[%d].template", i)
			out.Notes = append(out.Notes, Note{reasons.InvalidAnnotation, at + ".metadata.annotations: " + withoutEffect(keys, "",
				"write it in "+at+".spec.template.metadata.annotations, or on the JobSet")})
		}
	}
	readProgress(u, out)
	return nil
}

// readProgress reads how many Jobs of each part have succeeded. Their pods may be deleted, and the controller recreates them
// only for another attempt. The user does not write the status, so errors in it have no effect.
func readProgress(u *unstructured.Unstructured, out *Owned) {
	var status workloads.JobSetStatus
	_ = workloads.Read(u, "status", &status)
	if status.Restarts > 0 {
		out.Attempt = strconv.Itoa(int(status.Restarts))
	}
	for _, s := range status.ReplicatedJobsStatus {
		if part, ok := out.Parts[s.Name]; ok {
			part.Succeeded = max(0, min(int(s.Succeeded), part.Jobs))
			out.Parts[s.Name] = part
		}
	}
}

// attemptOf returns the attempt of a pod, "" for the first.
func attemptOf(pod *v1.Pod) string {
	if attempt := pod.Labels[workloads.JobSetRestart]; attempt != "0" {
		return attempt
	}
	return ""
}

// fillJobSet fills d from the ReplicatedJob of g's members: its pods that still run, and its group. With exclusive topology, g is one Job.
func fillJobSet(d *Declaration, g Gang) {
	d.addOwner(g)
	d.addPod(g)
	d.Notes = append(d.Notes, g.Owner.Notes...)
	pod := firstPod(g.allPods(), func(*v1.Pod) bool { return true })
	part := pod.Labels[workloads.JobSetReplicated]
	replicatedJob, known := g.Owner.Parts[part]
	if !known {
		d.setProblem(fmt.Errorf("%s: %q on %s/%s names no ReplicatedJob of %s", workloads.JobSetReplicated, part, pod.Namespace, pod.Name,
			g.Owner.Key))
	}
	if topology, exclusive := pod.Annotations[workloads.JobSetExclusive]; exclusive {
		size, succeeded := g.progress(Part{Jobs: 1, Size: replicatedJob.Size}, attemptOf(pod))
		d.Min, d.Completed = max(1, size), succeeded
		if _, atOnce := pod.Annotations[workloads.JobSetSelects]; !atOnce && size > 1 {
			d.leads(size)
			d.note(reasons.LeaderFirst,
				fmt.Sprintf("gang minMember is 1 because followers are created only after the leader of their Job is scheduled (%s: %s); "+
					"the leader is placed where all %d pods fit",
					workloads.JobSetExclusive, topology, size))
		}
		return
	}
	remaining, succeeded := g.progress(replicatedJob, attemptOf(pod))
	d.Min, d.Completed = max(1, remaining), succeeded
	if !g.Owner.InTurn {
		d.Group = g.Owner.partGroup(g.Ref, attemptOf(pod))
		d.waitForRedirected(g)
	}
}

// progress returns how many pods the Jobs of a part still run in an attempt, and how many pods have succeeded. Known Jobs
// (g.Children) count their own pods. An unknown Job counts as succeeded if the JobSet counts more succeeded Jobs than are known.
func (g *Gang) progress(part Part, attempt string) (remaining, succeeded int) {
	unknown, ended := part.Jobs, g.Owner.succeeded(part, attempt)
	for _, job := range g.Children {
		if job.MakesFor != g.Ref {
			continue
		}
		remaining += job.Remaining
		succeeded += job.Succeeded
		unknown--
		if job.Remaining == 0 {
			ended--
		}
	}
	unknownSucceeded := max(0, min(unknown, ended))
	return remaining + max(0, unknown-unknownSucceeded)*part.Size, succeeded + unknownSucceeded*part.Size
}

// waitForRedirected reports gangs of d.Group without members because the owner's pods for them name another gang. The gang waits
// for them, and without the message the user would not see why.
func (d *Declaration) waitForRedirected(g Gang) {
	for _, ref := range d.Group {
		if g.Pointer == nil || ref == g.Ref {
			continue
		}
		if named := g.Pointer(ref); named != "" {
			why := fmt.Sprintf("gang %s of the group has no members: its pods from %s name another gang (%s)", ref, g.Owner.Key, named)
			d.note(reasons.TwoGangs, why+"; remove that name, or write it on the pods of all ReplicatedJobs that start together")
			d.setWaiting(why)
		}
	}
}

// succeeded returns how many Jobs of a part have succeeded in an attempt; 0 if the status counts another attempt.
func (o *Owned) succeeded(part Part, attempt string) int {
	if o.Attempt != attempt {
		return 0
	}
	return part.Succeeded
}

// partGroup returns the gangs of all unfinished parts, which start together; nil if there is only one, or if ref is not among them.
func (o *Owned) partGroup(ref gang.Ref, attempt string) (group []gang.Ref) {
	for name, part := range o.Parts {
		if left := part.Jobs - o.succeeded(part, attempt); !part.Alone && left > 0 && part.Size > 0 {
			group = append(group,
				gang.Ref{Source: ref.Source, Namespace: ref.Namespace, Name: jobSetPartGang(o.Key.Name, name, attempt, ""), UID: ref.UID})
		}
	}
	if len(group) < 2 || !slices.Contains(group, ref) {
		return nil
	}
	sortRefs(group)
	return group
}
