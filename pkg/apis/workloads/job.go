package workloads

import (
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
)

// JobSpec has the fields of a Job's spec on which the number of its pods depends, its deadline, and what makes its pods a gang.
type JobSpec struct {
	Parallelism          *int32                  `json:"parallelism"`
	Completions          *int32                  `json:"completions"`
	CompletionMode       *batchv1.CompletionMode `json:"completionMode"`
	BackoffLimitPerIndex *int32                  `json:"backoffLimitPerIndex"`
	// ActiveDeadlineSeconds is how long the Job may run.
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds"`
	Template              struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"spec"`
	} `json:"template"`
}

// Indexed says whether each pod of the Job has a completion index.
func (s *JobSpec) Indexed() bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}

// Pods returns how many pods of the Job run at a time when it begins.
func (s *JobSpec) Pods() int32 { return Parallel(s.Parallelism, s.Completions) }

// Succeeded returns how many pods of the Job have succeeded: its controller does not recreate these.
func (s *JobSpec) Succeeded(status *batchv1.JobStatus) int32 {
	if s.Indexed() {
		return max(status.Succeeded, countIndexes(status.CompletedIndexes))
	}
	n := status.Succeeded
	if u := status.UncountedTerminatedPods; u != nil {
		n += int32(len(u.Succeeded))
	}
	return n
}

// Left returns how many pods the Job's controller runs at a time from now on.
func (s *JobSpec) Left(status *batchv1.JobStatus) int32 {
	succeeded := s.Succeeded(status)
	switch {
	case s.Completions == nil && succeeded > 0: // the pods that run end the Job
		return min(s.Pods(), max(0, status.Active))
	case s.Completions == nil:
		return s.Pods()
	}
	left := *s.Completions - succeeded
	if s.BackoffLimitPerIndex != nil && status.FailedIndexes != nil {
		left -= countIndexes(*status.FailedIndexes)
	}
	return max(0, min(s.Pods(), left))
}

// countIndexes returns the number of completion indexes in a list as a Job's status has it, such as 0-2,5. It ignores invalid parts,
// since only the controller writes the status.
func countIndexes(list string) (n int32) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err := strconv.ParseInt(from, 10, 32)
		last, errLast := strconv.ParseInt(to, 10, 32)
		if err == nil && errLast == nil {
			n += int32(max(0, last-first+1))
		}
	}
	return n
}
