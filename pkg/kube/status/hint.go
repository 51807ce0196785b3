package status

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
)

// Hint returns text to append to a message about missing members: which object creates them, and what else would start the gang.
// It returns "" if nothing is known. StatefulSets are not watched, so their pod management policy is a guess.
func Hint(r cache.Report) string {
	if r.Misnamed != "" {
		return r.Misnamed
	}
	if r.OneByOne != "" {
		return "; StatefulSet " + r.OneByOne + " seems to create one pod after another, each when the one before it runs: " +
			"members that start together need podManagementPolicy: Parallel"
	}
	if r.Refusal.By == gang.Missing && len(r.Stuck) > 0 {
		return stuckText("; ", r.Stuck)
	}
	if r.Refusal.By != gang.Missing || r.Exist == 0 || r.Gang.PartName() != "" ||
		r.Refusal.Words != fmt.Sprintf("%d of %d members exist", r.Exist, r.Min) {
		return ""
	}
	var owner *metav1.OwnerReference
	if r.EventMember != nil {
		owner = metav1.GetControllerOf(r.EventMember)
	}
	if len(r.TooSmall) > 0 {
		words := fmt.Sprintf("; Job %s runs at most %d pods at a time: ", strings.Join(r.TooSmall, " and Job "), r.JobPods)
		if !r.JobsEnding {
			words += fmt.Sprintf("recreate it with parallelism and completions ≥ %d, ", r.Min)
		}
		return words + fmt.Sprintf("create the gang's other pods, or lower minMember to %d", r.JobPods)
	}
	hint, pods := "", fmt.Sprintf("%d more pod%s", r.Min-r.Exist, map[bool]string{false: "s"}[r.Min-r.Exist == 1])
	switch {
	case len(r.Creating) > 1:
		hint = fmt.Sprintf("; the gang can start when Job %s have created %s", strings.Join(r.Creating, " and Job "), pods)
	case len(r.Creating) == 1:
		hint = fmt.Sprintf("; the gang can start when Job %s has created %s", r.Creating[0], pods)
	case owner != nil:
		hint = fmt.Sprintf("; the gang can start when %s %s has created %s", owner.Kind, owner.Name, pods)
	case r.PodGroup != nil:
		hint = "; the gang can start after the creation of " + pods
	}
	if r.PodGroup != nil {
		hint += fmt.Sprintf(", or with minMember %d", r.Exist)
	}
	if owner != nil && owner.Kind == "MPIJob" {
		hint += fmt.Sprintf("; with launcherCreationPolicy WaitForWorkersReady the launcher is created only when the workers run, "+
			"and they wait for it: use AtStartup, or set schedulingPolicy.minAvailable to %d", r.Exist)
	}
	return hint
}

// State returns a gang's state with the hint in the refusal's words.
func State(r cache.Report) gang.State {
	s := r.State
	s.Refusal.Words += Hint(r)
	return s
}
