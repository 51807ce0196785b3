package source_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// A restarted scheduler reads the domain, the time and the cause of a promise from the message of the condition.
func TestPromiseOfMessage(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 40, 0, 0, time.UTC)
	for _, p := range []gang.Promise{
		{Domain: "s1", At: at},
		{At: at},
		{Domain: "s1/b2", At: at, Cause: "pod default/x on node n8.example declares no end"},
	} {
		message := source.PromiseText(p) + ", when the pods there have ended as declared"
		if p.Cause != "" {
			message += source.MovedText(p.Cause)
		}
		pg := &sigs.PodGroup{}
		pg.Status.Conditions = []metav1.Condition{{Type: scheduling.ConditionStartPromised, Status: metav1.ConditionTrue, Message: message + "."}}
		got, ok := source.PromiseOf(pg)
		require.True(t, ok)
		require.Equal(t, p, got)
	}
}
