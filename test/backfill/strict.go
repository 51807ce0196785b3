package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/muster-scheduler/muster/test/history"
)

// strict is a cluster whose jobs start in the order in which they come: a job that does not fit stops all jobs behind it.
type strict struct {
	history.Trace
	free    []int // GPUs by node
	running []started
	history.Result
}

// started is a job that runs, on these nodes.
type started struct {
	*history.Job
	nodes []int
	ends  time.Duration
}

// strictOrder plays a trace in strict order.
func strictOrder(t history.Trace) history.Result {
	s := &strict{Trace: t, free: slices.Repeat([]int{history.WholeNode}, t.Nodes)}
	now := time.Duration(0)
	for i := range t.Jobs {
		j := &t.Jobs[i]
		w := &history.Wait{Job: *j, For: t.During() - j.At}
		s.Waits = append(s.Waits, w)
		s.advance(max(now, j.At))
		now = max(now, j.At)
		nodes := s.choose(j)
		for ; nodes == nil && now < t.During(); nodes = s.choose(j) {
			now = s.running[0].ends // the first end
			s.advance(now)
		}
		if now >= t.During() {
			continue
		}
		w.Started, w.For = true, now-j.At
		for _, n := range nodes {
			s.free[n] -= j.GPUs
		}
		ends := now + j.Lasts
		at, _ := slices.BinarySearchFunc(s.running, ends, func(r started, ends time.Duration) int { return cmp.Compare(r.ends, ends) })
		s.running = slices.Insert(s.running, at, started{j, nodes, ends})
		s.Used += (min(ends, t.During()) - now) * time.Duration(j.Nodes*j.GPUs) / history.WholeNode
	}
	return s.Result
}

// advance ends the jobs that end by then.
func (s *strict) advance(now time.Duration) {
	for len(s.running) > 0 && s.running[0].ends <= now {
		for _, n := range s.running[0].nodes {
			s.free[n] += s.running[0].GPUs
		}
		s.running = s.running[1:]
	}
}

// choose returns nodes of the spine with the least free capacity that suffices, the fullest first; nil if there is none.
func (s *strict) choose(j *history.Job) (best []int) {
	least := 0
	for first := 0; first < s.Nodes; first += s.Spine {
		var fitting []int
		sum := 0
		for n := first; n < min(first+s.Spine, s.Nodes); n++ {
			sum += s.free[n]
			if s.free[n] >= j.GPUs {
				fitting = append(fitting, n)
			}
		}
		if len(fitting) >= j.Nodes && (best == nil || sum < least) {
			slices.SortStableFunc(fitting, func(x, y int) int { return cmp.Compare(s.free[x], s.free[y]) })
			best, least = fitting[:j.Nodes], sum
		}
	}
	return best
}
