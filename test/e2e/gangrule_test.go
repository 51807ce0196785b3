package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// gangRule follows gangs in the order in which the API server changes their pods. It knows what
// controllers write on pods, and nothing of how the scheduler reads it.
//
// A member counts while it exists, does not terminate and has not finished. A gang begins when
// one of its members is bound while no other that counts is. Then
//
//   - minMember members existed at one time, since the gang was last bound or at all. A scheduler that
//     binds some members before the others exist does not know whether the others fit.
//     One of them may have been deleted since: while it was being bound; or when it
//     was the first one bound and the others' bindings were on their way;
//   - so many of them are bound within beginsWithin. Each binding is a request of its own, so at once
//     is not possible; a member that waits for a node, or for its pod, takes longer;
//   - a newly bound member is in the domain of the members that are bound already, at all times.
//
// A gang may begin again, by the same rule, when all of its bound members have gone.
type gangRule struct {
	least   int
	keys    []string          // labels that members have
	values  map[string]string // the label values that members must have, by label
	domains map[string]string // by node

	gangs map[string]*gangSeen
	begun int
	wrong []string
	story []string
}

// beginsWithin is long for requests on a busy machine, and short for everything that waits.
const beginsWithin = 10 * time.Second

// gangSeen is what is known of one gang.
type gangSeen struct {
	members map[types.UID]*v1.Pod // members that count.
	most    int                   // of them at one time, since none was bound.
	since   time.Time             // of the first binding.
	whole   bool                  // enough were bound since.
	planned time.Time             // begin of the last start with enough members, if all of its bound members have gone since.
}

// onTheirWay is how long a binding may take that was sent before the API server reported a deletion.
const onTheirWay = time.Second

func newGangRule(least int, labels []string) *gangRule {
	r := &gangRule{least: least, values: map[string]string{}, domains: map[string]string{}, gangs: map[string]*gangSeen{}}
	for _, l := range labels {
		key, value, ok := strings.Cut(l, "=")
		r.keys = append(r.keys, key)
		if ok {
			r.values[key] = value
		}
	}
	return r
}

// follows adds a rule for all that happens from now on.
func (h *history) follows(r *gangRule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = append(h.rules, r)
}

// gangOf names the gang of a pod; "" if it is of none.
func (r *gangRule) gangOf(pod *v1.Pod) string {
	var values []string
	for _, key := range r.keys {
		value, ok := pod.Labels[key]
		if want, some := r.values[key]; !ok || some && value != want {
			return ""
		}
		values = append(values, value)
	}
	return strings.Join(values, "/")
}

func (r *gangRule) see(pod *v1.Pod, deleted bool, now time.Time) {
	name := r.gangOf(pod)
	if name == "" {
		return
	}
	g := r.gangs[name]
	if g == nil {
		g = &gangSeen{members: map[types.UID]*v1.Pod{}}
		r.gangs[name] = g
	}
	before := g.bound()
	old := g.members[pod.UID]
	if deleted || pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		delete(g.members, pod.UID)
	} else {
		g.members[pod.UID] = pod
	}
	g.most = max(g.most, len(g.members))
	after := g.bound()
	switch {
	case len(after) > len(before):
		r.boundOne(name, g, pod, before, now)
	case len(after) == 0 && len(before) > 0:
		r.tell(now, "%s: none is bound any more", name)
		if late := g.late(now); late != "" {
			r.wrong = append(r.wrong, name+" was given up: "+late)
		}
		if g.planned = (time.Time{}); !g.whole && g.most >= r.least {
			g.planned = g.since
		}
		g.whole, g.most = false, len(g.members)
	case len(after) < len(before):
		r.tell(now, "%s: %s leaves %s", name, pod.Name, pod.Spec.NodeName)
	case old == nil && len(g.members) == r.least:
		r.tell(now, "%s: %d members exist", name, r.least)
	}
}

// boundOne looks at a binding.
func (r *gangRule) boundOne(name string, g *gangSeen, pod *v1.Pod, before []*v1.Pod, now time.Time) {
	if len(before) == 0 {
		r.begun++
		rest := !g.planned.IsZero() && now.Sub(g.planned) < onTheirWay
		g.since, g.planned = now, time.Time{}
		r.tell(now, "%s begins with %s", name, pod.Name)
		if g.most < r.least && !rest {
			r.wrong = append(r.wrong, fmt.Sprintf("%s begins with %s when only %d of %d members were there", name, pod.Name, g.most, r.least))
		}
	}
	for _, other := range before {
		is, was := r.domains[pod.Spec.NodeName], r.domains[other.Spec.NodeName]
		if is != was {
			r.wrong = append(r.wrong,
				fmt.Sprintf("%s: %s is bound to %s in %s, and %s is in %s", name, pod.Name, pod.Spec.NodeName, is, other.Name, was))
			break
		}
	}
	r.tell(now, "%s: %s is bound to %s in %s", name, pod.Name, pod.Spec.NodeName, r.domains[pod.Spec.NodeName])
	if g.whole || len(before)+1 < r.least {
		return
	}
	if late := g.late(now); late != "" {
		r.wrong = append(r.wrong, name+": "+late)
	}
	g.whole = true
	r.tell(now, "%s: %d are bound after %v", name, r.least, now.Sub(g.since).Round(time.Millisecond))
}

// late says that a gang that is not whole has taken too long; "" if it has not.
func (g *gangSeen) late(now time.Time) string {
	if took := now.Sub(g.since); !g.whole && took > beginsWithin {
		return fmt.Sprintf("bound in part for %v", took)
	}
	return ""
}

func (g *gangSeen) bound() (out []*v1.Pod) {
	for _, p := range g.members {
		if p.Spec.NodeName != "" {
			out = append(out, p)
		}
	}
	return out
}

// faults is what was wrong, and the gangs that are bound in part now.
func (r *gangRule) faults() []string {
	out := slices.Clone(r.wrong)
	for name, g := range r.gangs {
		if n := len(g.bound()); n > 0 && !g.whole {
			out = append(out, fmt.Sprintf("%s is bound in part: %d of %d", name, n, r.least))
		}
	}
	slices.Sort(out)
	return out
}

func (r *gangRule) tell(now time.Time, format string, args ...any) {
	r.story = append(r.story, now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// TestGangRule tells the watcher stories of gangs of two, and what it must find wrong. A line is a
// pod and what happens to it: it is made, bound to a node, leaves, has finished, is gone; "wait" lets
// time pass.
func TestGangRule(t *testing.T) {
	for _, test := range []struct{ name, story, want string }{
		{"whole", "a made, b made, a on x1, b on x2", ""},
		{"one more later, in the same domain", "a made, b made, a on x1, b on x2, wait, c made, c on x3", ""},
		{"a member replaced", "a made, b made, a on x1, b on x2, b leaves, wait, c made, c on x2, b gone", ""},
		{"all again", "a made, b made, a on x1, b on x2, a leaves, b gone, a gone, c made, d made, c on y1, d on y2", ""},
		{"finished in turn", "a made, b made, a on x1, b on x2, a finished, wait, b finished", ""},
		{"given up at once", "a made, b made, a on x1, a leaves", ""},
		{"one leaves on the way", "a made, b made, b leaves, a on x1, c made, c on x2", ""},
		{"the first leaves while the other is being bound", "a made, b made, a on x1, a leaves, b on x2, c made, c on x1", ""},
		{"nobody bound", "a made, wait, b made, wait", ""},

		{"half", "a made, b made, a on x1", "g is bound in part: 1 of 2"},
		{"before the other is made", "a made, a on x1, b made, b on x2", "g begins with a when only 1 of 2 members were there"},
		{
			"before the other is made again", "a made, b made, a on x1, b on x2, a leaves, b leaves, c made, c on x1, d made, d on x2",
			"g begins with c when only 1 of 2 members were there",
		},
		{"late", "a made, b made, a on x1, wait, b on x2", "g: bound in part for 11s"},
		{"given up late", "a made, b made, a on x1, wait, a leaves", "g was given up: bound in part for 11s"},
		{
			"later than it was being bound", "a made, b made, a on x1, a leaves, wait, b on x2, c made, c on x1",
			"g begins with b when only 1 of 2 members were there",
		},
		{"half again", "a made, b made, a on x1, b on x2, a gone, b gone, c made, d made, c on x1", "g is bound in part: 1 of 2"},
		{"apart", "a made, b made, a on x1, b on y1", "g: b is bound to y1 in y, and a is in x"},
		{"apart later", "a made, b made, a on x1, b on x2, b gone, c made, c on y1", "g: c is bound to y1 in y, and a is in x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newGangRule(2, []string{"gang"})
			r.domains = map[string]string{"x1": "x", "x2": "x", "x3": "x", "y1": "y", "y2": "y"}
			now, pods := time.Unix(0, 0), map[string]*v1.Pod{}
			for line := range strings.SplitSeq(test.story, ", ") {
				name, what, _ := strings.Cut(line, " ")
				if name == "wait" {
					now = now.Add(beginsWithin + time.Second)
					continue
				}
				if pods[name] == nil {
					pods[name] = &v1.Pod{}
					pods[name].Name, pods[name].UID = name, types.UID(name)
					pods[name].Labels = map[string]string{"gang": "g", "app": "mine"}
				}
				pod := pods[name].DeepCopy()
				pods[name] = pod
				switch node, bound := strings.CutPrefix(what, "on "); {
				case bound:
					pod.Spec.NodeName = node
				case what == "leaves":
					pod.DeletionTimestamp = &metav1.Time{Time: now}
				case what == "finished":
					pod.Status.Phase = v1.PodSucceeded
				}
				r.see(pod, what == "gone", now)
			}
			require.Equal(t, test.want, strings.Join(r.faults(), "\n"), strings.Join(r.story, "\n"))
		})
	}
	r := newGangRule(2, []string{"gang", "app=mine"})
	for _, labels := range []map[string]string{nil, {"gang": "g"}, {"app": "mine"}, {"gang": "g", "app": "other"}} {
		require.Empty(t, r.gangOf(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}))
	}
}
