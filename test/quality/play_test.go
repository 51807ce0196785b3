package main

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEvictedGangIsRecreated: a gang that loses a member to an eviction is deleted and recreated whole. Its time starts again.
func TestEvictedGangIsRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{client: fake.NewClientset(), trace: trace(Gang{Name: "a", Size: 2, Lasts: 10 * time.Second})}
		p.begin()
		p.create(t.Context(), &live{Gang: &p.trace.Gangs[0]})
		require.Equal(t, []string{"a-0-0", "a-0-1"}, p.pods(t))
		p.shows(t, 0, "node-0", "node-1")
		time.Sleep(4 * time.Second)

		p.see(t.Context(), watch.Deleted, member(0, 0, "node-0"))
		require.Empty(t, p.pods(t), "the other one goes, too")
		p.see(t.Context(), watch.Deleted, member(0, 1, "node-1"))
		require.Equal(t, []string{"a-1-0", "a-1-1"}, p.pods(t))
		p.shows(t, 1, "node-2", "node-3")

		time.Sleep(6 * time.Second)
		p.due[0].do() // the end of the first run
		require.Len(t, p.pods(t), 2)
		time.Sleep(4 * time.Second)
		p.due[1].do()
		require.Empty(t, p.pods(t))
		for i := range 2 {
			p.see(t.Context(), watch.Deleted, member(1, i, "node-2"))
		}
		require.Equal(t, 1, p.ended)
		var told []string
		for _, e := range p.events {
			told = append(told, fmt.Sprintf("%v %d %s", e.At.Seconds(), e.Kind, e.Pod))
		}
		require.Equal(t, []string{
			"0 0 ", "0 1 a-0-0", "0 1 a-0-1", "4 2 a-0-0", "4 3 a-0-1",
			"4 0 ", "4 1 a-1-0", "4 1 a-1-1", "14 4 ", "14 3 a-1-0", "14 3 a-1-1",
		}, told)
	})
}

// TestLatePodIsDeleted: a pod that is created while the others of its run are deleted is deleted, too.
func TestLatePodIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{client: fake.NewClientset(), trace: trace(Gang{Name: "a", Size: 2})}
		p.begin()
		p.live["a"] = &live{Gang: &p.trace.Gangs[0], there: map[string]bool{}, bound: map[string]string{}}
		p.see(t.Context(), watch.Added, member(0, 0, "node-0"))
		p.see(t.Context(), watch.Deleted, member(0, 0, "node-0"))
		require.Equal(t, []string{"a-1-0", "a-1-1"}, p.pods(t), "no pod is left, so it is made again")
		_, err := p.client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), member(0, 1, ""), metav1.CreateOptions{})
		require.NoError(t, err)
		p.see(t.Context(), watch.Added, member(0, 1, ""))
		require.Equal(t, []string{"a-1-0", "a-1-1"}, p.pods(t), "one of a run that is over")

		l := p.live["a"]
		p.see(t.Context(), watch.Added, member(1, 0, "node-0"))
		l.doomed = true
		p.see(t.Context(), watch.Added, member(1, 1, ""))
		require.Empty(t, p.pods(t))
	})
}

// shows has the watch show a run, and where it is bound.
func (p *play) shows(t *testing.T, run int, nodes ...string) {
	for i := range nodes {
		p.see(t.Context(), watch.Added, member(run, i, ""))
	}
	for i, n := range nodes {
		p.see(t.Context(), watch.Modified, member(run, i, n))
	}
}

// pods lists the pods that exist once all requests are answered.
func (p *play) pods(t *testing.T) (names []string) {
	synctest.Wait()
	list, err := p.client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func member(run, i int, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d-%d", run, i), Labels: map[string]string{gangLabel: "a", runLabel: fmt.Sprint(run)}},
		Spec:       v1.PodSpec{NodeName: node},
	}
}
