package cache

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// boundBefore returns a change of a pod: the API server recorded its binding at the given time before the test's clock. The kubelet's clock
// is an hour ahead.
func boundBefore(ago time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		at := time.Unix(1000, 0).Add(-ago)
		p.Spec.NodeName = "n"
		p.Status.StartTime = &metav1.Time{Time: at.Add(time.Hour)}
		p.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at}},
		}
	}
}

func single(p *v1.Pod) { p.Labels = nil }

func maxRuntime(value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Annotations[scheduling.AnnotationMaxRuntime] = value }
}

func deadline(d time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(d.Seconds())) }
}

func deletedIn(d time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0).Add(d)} }
}

func ofJob(uid string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{batchv1.JobNameLabel: "job", batchv1.ControllerUidLabel: uid}
	}
}

func inX(p *v1.Pod) { p.Labels = map[string]string{scheduling.LabelPodGroupX: "x"} }

// TestEnd: the end of the first pod, as a time after now. The earliest declared end of a pod counts, and the last end in its gang group.
func TestEnd(t *testing.T) {
	type pods []*v1.Pod
	const minute = time.Minute
	for name, is := range map[string]struct {
		pods    pods
		object  []string // annotations of the PodGroup of gang a
		want    time.Duration
		unknown bool // whatever want
	}{
		"none":                           {pods: pods{member("p", single, boundBefore(0))}, unknown: true},
		"invalid":                        {pods: pods{member("p", single, boundBefore(0), maxRuntime("soon"))}, unknown: true},
		"by the API server's clock":      {pods: pods{member("p", single, boundBefore(10*minute), maxRuntime("30m"))}, want: 20 * minute},
		"a deadline":                     {pods: pods{member("p", single, boundBefore(10*minute), deadline(15*minute))}, want: 5 * minute},
		"the earliest":                   {pods: pods{member("p", single, boundBefore(0), deadline(time.Hour), maxRuntime("30m"))}, want: 30 * minute},
		"pending":                        {pods: pods{member("p", single, maxRuntime("30m"))}, want: 30 * minute},
		"binding at a time unknown":      {pods: pods{member("p", single, maxRuntime("30m"), func(p *v1.Pod) { p.Spec.NodeName = "n" })}, want: 30 * minute},
		"bound later than now":           {pods: pods{member("p", single, maxRuntime("30m"), boundBefore(-minute))}, want: 30 * minute},
		"overdue":                        {pods: pods{member("p", single, boundBefore(10*minute), maxRuntime("9m"))}, want: -minute, unknown: true},
		"terminating":                    {pods: pods{member("p", single, boundBefore(0), maxRuntime("30m"), deletedIn(minute))}, want: minute},
		"terminating without a run time": {pods: pods{member("p", boundBefore(0), deletedIn(minute))}, want: minute},
		"terminating for too long":       {pods: pods{member("p", single, boundBefore(0), deletedIn(-minute))}, want: -minute, unknown: true},
		"a PriorityClass with a default": {
			pods: pods{member("p", single, boundBefore(0), func(p *v1.Pod) { p.Spec.PriorityClassName = "batch" })}, want: 2 * time.Hour,
		},
		"a default is for pods without a run time": {
			pods: pods{member("p", single, boundBefore(0), maxRuntime("5h"), func(p *v1.Pod) { p.Spec.PriorityClassName = "batch" })},
			want: 5 * time.Hour,
		},
		"the deadline of a Job, from its start": {pods: pods{member("p", ofJob("u"), boundBefore(0))}, want: 15 * minute},
		"pending, of a Job":                     {pods: pods{member("p", ofJob("u"))}, want: 15 * minute},
		"a Job with another UID":                {pods: pods{member("p", ofJob("v"), boundBefore(0))}, unknown: true},
		"a gang ends with its last member": {
			pods: pods{member("p0", boundBefore(10*minute), maxRuntime("30m")), member("p1", boundBefore(5*minute), deadline(30*minute))}, want: 25 * minute,
		},
		"one member declares nothing": {pods: pods{member("p0", boundBefore(0), maxRuntime("30m")), member("p1", boundBefore(0))}, unknown: true},
		"one member is overdue": {
			pods: pods{member("p0", boundBefore(10*minute), maxRuntime("9m")), member("p1", boundBefore(10*minute), maxRuntime("11m"))}, want: minute,
		},
		"all members are overdue": {
			pods: pods{member("p0", boundBefore(10*minute), maxRuntime("9m")), member("p1", boundBefore(10*minute), maxRuntime("8m"))},
			want: -minute, unknown: true,
		},
		"by the PodGroup": {
			pods:   pods{member("p0", boundBefore(10*minute)), member("p1", boundBefore(5*minute), maxRuntime("5h"))},
			object: []string{scheduling.AnnotationMaxRuntime, "30m"},
			want:   25 * minute,
		},
		"an invalid value on the PodGroup": {
			pods: pods{member("p0", boundBefore(0))}, object: []string{scheduling.AnnotationMaxRuntime, "soon"}, unknown: true,
		},
		"a finished member does not count": {
			pods: pods{
				member("p0", boundBefore(0), maxRuntime("30m")),
				member("p1", boundBefore(0), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
			}, want: 30 * minute,
		},
		"a terminating member counts for itself": {
			pods: pods{member("p0", boundBefore(0), maxRuntime("30m")), member("p1", boundBefore(0), deletedIn(time.Hour))}, want: 30 * minute,
		},
		"a pending member does not delay running ones": {
			pods: pods{member("p0", boundBefore(0), maxRuntime("30m")), member("p1", maxRuntime("1h"))}, want: 30 * minute,
		},
		"a pending member ends with the last": {
			pods: pods{member("p1", maxRuntime("10m")), member("p0", boundBefore(10*minute), maxRuntime("30m"))}, want: 20 * minute,
		},
		"a gang group ends together": {
			pods:   pods{member("p0", boundBefore(0), maxRuntime("30m")), member("p1", inX, boundBefore(0), maxRuntime("1h"))},
			object: []string{scheduling.AnnotationGroups, `["ns/a","ns/x"]`}, want: time.Hour,
		},
		"a gang of the group declares nothing": {
			pods:   pods{member("p0", boundBefore(0), maxRuntime("30m")), member("p1", inX, boundBefore(0))},
			object: []string{scheduling.AnnotationGroups, `["ns/a","ns/x"]`}, unknown: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := open(t)
			c.Limits.DefaultRuntime = map[string]time.Duration{"batch": 2 * time.Hour}
			now := c.Clock.Now()
			c.setOwner(&source.Owned{
				Key: source.OwnerKey{Kind: "Job", Namespace: "ns", Name: "job"}, Object: &v1.ObjectReference{UID: "u"},
				Deadline: 30 * minute, Started: now.Add(-15 * minute),
			})
			c.setObject(ref("a"), podGroup("1", is.object...), source.More{})
			x := podGroup("2", scheduling.AnnotationGroups, `["ns/a","ns/x"]`)
			x.Name = "x"
			c.setObject(refX("x"), x, source.More{})
			for _, p := range is.pods {
				c.setPod(p)
			}
			end, known := c.End(is.pods[0], now)
			require.Equal(t, !is.unknown, known)
			if is.unknown && is.want == 0 {
				require.Zero(t, end)
			} else {
				require.Equal(t, now.Add(is.want), end)
			}
			require.Equal(t, DeclaredEnd{end, known}, c.Ends(append(is.pods, is.pods...), now)[len(is.pods)], "in a list")
		})
	}
}

// TestRuntime: the run time of a member is the longest of its gang. A deadline of a Job that has started leaves less.
func TestRuntime(t *testing.T) {
	c, _, _ := open(t)
	runtime, known := c.Runtime(member("p", single, maxRuntime("30m"), deadline(time.Minute)))
	require.True(t, known)
	require.Equal(t, time.Minute, runtime)
	_, known = c.Runtime(member("p", single))
	require.False(t, known)

	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0", maxRuntime("30m")))
	c.setPod(member("p1", maxRuntime("1h")))
	runtime, known = c.Runtime(member("p0", maxRuntime("30m")))
	require.True(t, known)
	require.Equal(t, time.Hour, runtime)
	c.setPod(member("p2"))
	_, known = c.Runtime(member("p0", maxRuntime("30m")))
	require.False(t, known, "p2 declares nothing")

	c.setOwner(&source.Owned{
		Key:      source.OwnerKey{Kind: "Job", Namespace: "ns", Name: "job"},
		Deadline: 30 * time.Minute, Started: c.Clock.Now().Add(-10 * time.Minute), MaxRuntime: time.Hour,
	})
	runtime, known = c.Runtime(member("p", ofJob("u")))
	require.True(t, known)
	require.Equal(t, 20*time.Minute, runtime)
}

// TestInvalidRuntimeIsNamedOnce: an invalid run time on all members of a gang gives one note, and one on a Job whose pods are no gang too.
func TestInvalidRuntimeIsNamedOnce(t *testing.T) {
	const invalid = `muster.sh/max-runtime: "soon" is invalid; supported values: a duration > 0, such as 4h; `
	c, _, notes := open(t)
	c.setObject(ref("a"), podGroup("1"), source.More{})
	c.setPod(member("p0", maxRuntime("soon")))
	c.setPod(member("p1", maxRuntime("soon")))
	require.Len(t, *notes, 1)
	require.Equal(t, invalid+"the default is used", (*notes)[0].Message)

	*notes = nil
	c.setObject(ref("a"), podGroup("1", scheduling.AnnotationMaxRuntime, "1h"), source.More{})
	c.setPod(member("p2", maxRuntime("2h")))
	for _, n := range *notes {
		require.Equal(t, invalid+"it has no effect", n.Message, "a valid value of a member is no contradiction")
	}

	*notes = nil
	c.setPod(member("single", single, maxRuntime("soon")))
	require.Len(t, *notes, 1)
	require.Equal(t, invalid+"it has no effect", (*notes)[0].Message)
}
