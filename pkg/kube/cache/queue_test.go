package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Gangs with waiting members are listed by priority, age and name, at the position of their representative. Gangs
// that wait for users are listed apart. Running, finished and foreign gangs are in neither list.
func TestTheQueueOfGangs(t *testing.T) {
	c, _, _ := open(t)
	made := 0
	gangOf := func(name string, least int32, minute int, pods ...func(*v1.Pod)) {
		pg := podGroup(name)
		pg.Name, pg.Spec.MinMember, pg.CreationTimestamp.Time = name, least, time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
		c.setObject(ref(name), pg, source.More{})
		for _, change := range pods {
			made++
			c.setPod(member(fmt.Sprint("p", made), change, func(p *v1.Pod) { p.Labels[scheduling.LabelPodGroup] = name }))
		}
	}
	of := func(priority int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &priority } }
	gangOf("late", 1, 9, of(1))
	gangOf("early", 1, 1, of(1))
	gangOf("early-2", 1, 1, of(1))
	gangOf("mixed", 1, 9, of(0), of(7))
	gangOf("speaker", 1, 5, of(1))
	gangOf("with", 1, 2, of(8))
	together := `["ns/speaker","ns/with"]`
	for _, name := range []string{"speaker", "with"} {
		r := c.gangs[ref(name)]
		pg := r.Object.DeepCopy()
		pg.Annotations = map[string]string{scheduling.AnnotationGroups: together}
		c.setObject(ref(name), pg, source.More{})
	}
	gangOf("less", 1, 0, of(0))
	gangOf("half", 2, 0, of(9))
	gangOf("empty", 1, 0)
	gangOf("runs", 1, 0, func(p *v1.Pod) { p.Spec.NodeName = "n" })
	gangOf("over", 1, 0, func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	gangOf("theirs", 1, 0, func(p *v1.Pod) { p.Spec.SchedulerName = "other" })
	tried, waits := c.Queue()
	require.Equal(t, []gang.Ref{ref("early"), ref("early-2"), ref("speaker"), ref("with"), ref("late"), ref("less"), ref("mixed")}, tried)
	require.Equal(t, []gang.Ref{ref("half")}, waits)
}
