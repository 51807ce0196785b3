package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/kube/place"
	"github.com/muster-scheduler/muster/pkg/plan"
)

// TestSentenceNamesMaintenance: the sentence counts the nodes with maintenance, and says what opens them: a declared end, a shorter one, or
// only the end of the window.
func TestSentenceNamesMaintenance(t *testing.T) {
	const needs = "Needs 3 in one BlockLayer domain; best is b1 with 2 members that would fit now (in the whole cluster, " +
		"2 nodes lack cpu, 1 has maintenance from 2026-12-01T02:00:00Z until 2026-12-01T06:00:00Z). "
	end := time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)
	s := place.Shortage{
		Plan:  &plan.Refusal{Want: 3, Layer: "BlockLayer", Domains: []plan.Offer{{Path: "b1", Slots: 2}}},
		Lacks: map[string]int{"Insufficient cpu": 2, "node(s) have maintenance from 2026-12-01T02:00:00Z until 2026-12-01T06:00:00Z": 1},
	}
	for closed, remedy := range map[place.ClosedUntil]string{
		{Time: end}:                 "Declare muster.sh/max-runtime, so that the gang may start if it ends before the maintenance, or wait until 2026-12-01T06:00:00Z.",
		{Time: end, Declared: true}: "Declare a shorter muster.sh/max-runtime that ends before the maintenance, or wait until 2026-12-01T06:00:00Z.",
		{Time: end, Began: true}:    "Maintenance ends at 2026-12-01T06:00:00Z: the gang is retried then.",
	} {
		s.Closed = closed
		require.Equal(t, needs+remedy, Sentence(s))
	}
}
