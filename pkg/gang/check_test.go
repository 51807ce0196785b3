package gang

import (
	"fmt"
	"maps"
	"slices"
)

// Check compares what the book derives with what it keeps: it is on in every test.
func (b *Book) Check() error {
	want := map[string]map[string]bool{}
	for key, g := range b.groups {
		for pod, node := range g.plan {
			m := b.pods[pod]
			switch {
			case m == nil:
				return fmt.Errorf("plan of %s has %s, which is not a member", key, pod)
			case m.Node != "":
				return fmt.Errorf("plan of %s has %s, which is bound", key, pod)
			case b.groupKey(m.Gang) != key:
				return fmt.Errorf("plan of %s has %s of group %s", key, pod, b.groupKey(m.Gang))
			case m.assumed:
				continue
			}
			if want[node] == nil {
				want[node] = map[string]bool{}
			}
			want[node][pod] = true
		}
	}
	standIns := 0
	for key, g := range b.groups {
		if !b.isKey(key) {
			return fmt.Errorf("something is kept of %s, which is no group", key)
		}
		if len(g.heldNodes) > 0 && (b.HoldsCapacity(key) == !g.holdUntil.IsZero() || len(g.plan) > 0) {
			return fmt.Errorf("places are saved for group %s out of turn, or beside a plan", key)
		}
		for pod, node := range g.heldNodes {
			if b.IsPlaceholder(pod) {
				standIns++
			}
			if m := b.pods[pod]; m == nil && b.placeholders[pod] != key || m != nil && (m.Node != "" || b.groupKey(m.Gang) != key) {
				return fmt.Errorf("a place is saved for %s of %s, which does not wait for it", pod, key)
			}
			if want[node] == nil {
				want[node] = map[string]bool{}
			}
			want[node][pod] = true
		}
	}
	for key, a := range b.futures {
		if !b.isKey(key) && !a.successors {
			return fmt.Errorf("places are kept ahead for %s, which is no group", key)
		}
		standIns += len(a.nodes)
		for pod, node := range a.nodes {
			if b.pods[pod] != nil || b.placeholders[pod] != key {
				return fmt.Errorf("a place is kept ahead for %s of %s, which is another pod", pod, key)
			}
			if want[node] == nil {
				want[node] = map[string]bool{}
			}
			want[node][pod] = true
		}
		if n := b.count(key); n.bound == 0 && !a.successors && (b.groups[key] == nil || len(b.groups[key].plan) == 0) {
			return fmt.Errorf("places are kept ahead for %s, which has no placed member", key)
		}
	}
	if standIns != len(b.placeholders) {
		return fmt.Errorf("%d places are kept ahead, %d are known by name", standIns, len(b.placeholders))
	}
	for namespace, key := range b.holders {
		if b.groups[key] == nil || key.Namespace != namespace {
			return fmt.Errorf("places are saved for %s in %s, which is not known there", key, namespace)
		}
	}
	if !maps.EqualFunc(want, b.unassumed, b.sameNames) {
		return fmt.Errorf("places are %v, the plans say %v", b.unassumed, want)
	}
	members := 0
	for name, g := range b.gangs {
		members += len(g.members)
		for pod, m := range g.members {
			if b.pods[pod] != m || m.Gang != name {
				return fmt.Errorf("%s is filed under %s", pod, name)
			}
			if ok, _ := b.Admit(pod); ok && !pending(m) {
				return fmt.Errorf("%s may enter and is not pending", pod)
			}
			if m.allowed && !m.held {
				return fmt.Errorf("%s may bind and does not hold a place", pod)
			}
		}
		if g.satisfied && len(g.members) == 0 {
			return fmt.Errorf("gang %s is satisfied without members", name)
		}
	}
	if members != len(b.pods) {
		return fmt.Errorf("%d members in gangs, %d pods", members, len(b.pods))
	}
	for listed, by := range b.listedBy {
		for name := range by {
			if g := b.gangs[name]; g == nil || g.spec == nil || !slices.Contains(g.spec.Group, listed) {
				return fmt.Errorf("%s is said to be listed by %s", listed, name)
			}
		}
	}
	return b.CheckDerived()
}

// sameNames says whether a list holds exactly these names, sorted.
func (b *Book) sameNames(want map[string]bool, have []string) bool {
	return slices.Equal(slices.SortedFunc(maps.Keys(want), b.names), have)
}

// CheckEmpty returns what the book still holds although it knows no gang.
func (b *Book) CheckEmpty() error {
	if n := len(b.gangs) + len(b.pods) + len(b.groups) + len(b.listedBy) + len(b.unassumed) + len(b.resumed) + len(b.holders) +
		len(b.futures) + len(b.placeholders); n > 0 {
		return fmt.Errorf("gangs %d, pods %d, groups %d, listed %d, places %d, resumed %d, savers %d",
			len(b.gangs), len(b.pods), len(b.groups), len(b.listedBy), len(b.unassumed), len(b.resumed), len(b.holders))
	}
	return nil
}
