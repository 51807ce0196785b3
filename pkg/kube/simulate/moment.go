package simulate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// Moment is a time in the future of a cluster: a time, or a duration after the time of its objects.
type Moment struct {
	text  string
	time  time.Time // zero if the text is a duration
	after time.Duration
}

// MomentForms lists the supported forms of a moment.
const MomentForms = "a time such as 2026-12-01T02:00:00Z, a duration from now such as +2h"

// maxMoment is how far a moment may be in the future. The clock of a simulation takes seconds for each year.
const maxMoment = 366 * 24 * time.Hour

// MomentError says why a moment cannot be simulated.
type MomentError struct{ Moment, Why string }

func (e *MomentError) Error() string { return e.Moment + ": " + e.Why }

// ParseMoment parses a moment in one of MomentForms.
func ParseMoment(text string) (m Moment, err error) {
	m.text = text
	if duration, ok := strings.CutPrefix(text, "+"); ok {
		if m.after, err = time.ParseDuration(duration); err == nil && m.after >= 0 {
			return m, nil
		}
	} else if m.time, err = time.Parse(time.RFC3339, text); err == nil {
		return m, nil
	}
	return Moment{}, &MomentError{strconv.Quote(text), "supported values: " + MomentForms}
}

// moveTo moves the simulated time to a moment, before the scheduler tries any pod. Pods with a declared end until then have succeeded, and
// terminating pods are gone. Nothing else happens until then.
func (w *World) moveTo(ctx context.Context, m Moment) error {
	now := w.Now()
	to := now.Add(m.after)
	if m.after == 0 && !m.time.IsZero() {
		to = m.time
	}
	if to.Before(now) {
		return &MomentError{m.text, "is before the time of the cluster's objects, " + now.UTC().Format(time.RFC3339) +
			"; supported values: a later time, a duration such as +2h"}
	}
	if to.Sub(now) > maxMoment {
		return &MomentError{m.text, "is more than a year after the time of the cluster's objects, " + now.UTC().Format(time.RFC3339) +
			"; supported values: an earlier time, a duration such as +2h"}
	}
	var gone []*v1.Pod
	var ended step
	for _, pod := range w.Pods() {
		end, known := w.shared.Cache.End(pod, now)
		switch {
		case pod.Spec.NodeName == "" || pod.DeletionTimestamp == nil && convert.Finished(pod):
		case !known || end.After(to):
		case pod.DeletionTimestamp != nil:
			gone = append(gone, pod)
		default:
			pod = pod.DeepCopy()
			pod.Status.Phase = v1.PodSucceeded
			ended, w.ended = append(ended, fromChange(pod)), append(w.ended, convert.PodKey(pod))
		}
	}
	if err := w.applyStep(ctx, append(ended, w.cluster.deletedPods(gone)...)); err != nil {
		return err
	}
	for _, o := range ended {
		if err := w.cluster.releaseClaims(o.Object); err != nil {
			return err
		}
	}
	slices.Sort(w.ended)
	did := "no pod has a declared end before that"
	if len(w.ended) > 0 {
		did = fmt.Sprintf("ended as declared: %s", joinNames(w.ended))
	}
	w.changed = append(w.changed, ChangeReport{"at=" + to.UTC().Format(time.RFC3339), did})
	w.advanceTo(to)
	if err := w.waitQuiet(ctx); err != nil {
		return &UnsettledError{w.waiting()}
	}
	return nil
}

// Ended returns the pods that have ended as declared when Options.At moved the time, as namespace/name.
func (w *World) Ended() []string { return w.ended }
