package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// In some rounds a running gang loses a node, around the moment at which the scheduler is killed. Its members there are recreated, as
// their controllers would. In the end the gang is complete again in its domain, or the domain has no capacity for the members.

// patient is the suffix of priority classes whose pods evict no other pods.
const patient = "-patient"

// offerPatience creates a class of the same value for the priority of each job.
func (c *crashes) offerPatience() {
	for name, value := range map[string]int32{"normal": 100000, "high": 1000000} {
		class := &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name + patient}, Value: value, PreemptionPolicy: new(v1.PreemptNever),
		}
		_, err := c.shared.client.SchedulingV1().PriorityClasses().Create(c.t.Context(), class, metav1.CreateOptions{})
		c.must(err)
	}
}

// lose kills the scheduler, and deletes a node under a running job before or while no scheduler runs. The node may return. In other rounds
// another node of the domain gets free, and a rival of the same priority comes before the members are recreated: it must not get the
// capacity that is held for them.
func (c *crashes) lose() {
	whole := c.ledger.whole(c.jobs)
	if len(whole) == 0 {
		return
	}
	early, rival, returns := c.random.IntN(2) == 0, c.random.IntN(2) == 0, false
	if alike := slices.DeleteFunc(slices.Clone(whole), func(j *job) bool { return !j.alike() || j.size() < 2 }); rival && len(alike) > 0 {
		whole = alike // see holdsFor
	} else if !rival {
		returns = c.random.IntN(2) == 0
	}
	j := whole[c.random.IntN(len(whole))]
	pods := j.pods()
	node, lost := c.ledger.nodeOf(pods[c.random.IntN(len(pods))].Name)
	c.counts["nodes lost"]++
	var members []*v1.Pod // of any job
	for _, other := range c.jobs {
		for _, p := range other.pods() {
			if slices.Contains(lost, p.Name) {
				members, other.reduced = append(members, p), true
			}
		}
	}
	c.await("members that run", func() string { return c.ledger.begins(names(members)) })
	c.await("the condition Started of "+j.name, func() string { return c.unstarted(j) }) // else a restart forgets that they have run
	gone := func() {
		c.ledger.note(fmt.Sprintf("== node %s is lost under %v", node, lost))
		c.deleteNode(node)
		for _, name := range lost {
			c.vanish(name)
		}
		c.await("the end of the pods of "+node, func() string { return c.ledger.exist(lost) })
		c.ledger.loseNode(node)
		if rival { // else no capacity is free for the members
			c.vacate(c.ledger.ordinaryNear(j))
		}
	}
	recreate := func() {
		for _, p := range members {
			c.create(p)
		}
		if returns {
			c.counts["nodes returned"]++
			c.restoreNode()
		}
	}
	if early {
		gone()
	}
	c.crash(func() {
		if !early {
			gone()
		}
		if !rival {
			recreate()
		}
	})
	if !rival {
		return
	}
	c.counts["rivals of missing members"]++
	others := slices.ContainsFunc(c.jobs, func(other *job) bool { return other != j && other.reduced })
	fits := !others && c.ledger.holdsFor(j) // else the jobs may need the same nodes
	p := newPod(fmt.Sprintf("rival-of-%s", j.name), wholeNode, j.priority+patient)
	c.create(p)
	c.await("what becomes of the rival", func() string { return c.ledger.decided(p.Name) })
	recreate()
	if fits {
		c.counts["holds that a rival respects"]++
		c.await(fmt.Sprintf("the repair of %v, whose domain had free capacity on other nodes than %s", j, node), func() string {
			if slices.Contains(c.ledger.whole(c.jobs), j) {
				return ""
			}
			return "it is not complete"
		})
	}
}

// unstarted names a PodGroup of a job that lacks the condition Started; "" if all have it.
func (c *crashes) unstarted(j *job) string {
	for _, t := range j.teams {
		u, err := c.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).Get(c.t.Context(), t.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if !slices.ContainsFunc(conditions, func(c any) bool { m, _ := c.(map[string]any); return m["type"] == "Started" }) {
			return t.name
		}
	}
	return ""
}

// vacate has pods go, each of which may be replaced by a member.
func (c *crashes) vacate(pods []string) {
	for _, name := range pods {
		c.vanish(name)
	}
	c.await("the end of ordinary pods", func() string { return c.ledger.exist(pods) })
}

func names(pods []*v1.Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func (c *crashes) deleteNode(name string) {
	c.lost = name
	c.persist(func(ctx context.Context) error {
		return c.shared.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// restoreNode creates the lost node again, if there is one.
func (c *crashes) restoreNode() {
	if c.lost == "" {
		return
	}
	i := slices.IndexFunc(c.nodes, func(n *v1.Node) bool { return n.Name == c.lost })
	c.persist(func(ctx context.Context) error {
		_, err := c.shared.client.CoreV1().Nodes().Create(ctx, c.nodes[i], metav1.CreateOptions{})
		return err
	})
	c.must(c.nodesReady(c.t.Context(), len(c.nodes)))
	c.ledger.restoreNode(c.lost)
	c.lost = ""
}

// nodeOf returns the node of a pod, and all pods on it.
func (l *ledger) nodeOf(pod string) (node string, all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	node = l.pods[pod].Spec.NodeName
	return node, l.on(node)
}

// ordinaryNear returns all pods of a node in the domain of a running job, if none of them is a member of a job; nil if there is no such
// node.
func (l *ledger) ordinaryNear(j *job) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	spines := map[string]bool{}
	for _, p := range l.pods {
		if jobOf(p) == j.name && p.Spec.NodeName != "" {
			spines[l.nodes[p.Spec.NodeName].spine] = true
		}
	}
	for _, node := range slices.Sorted(maps.Keys(l.nodes)) {
		pods := l.on(node)
		isMember := func(name string) bool { return jobOf(l.pods[name]) != "" }
		if len(pods) > 0 && (j.rule == anywhere || spines[l.nodes[node].spine]) && !slices.ContainsFunc(pods, isMember) {
			return pods
		}
	}
	return nil
}

// loseNode makes a node without pods full: nothing fits there until restoreNode.
func (l *ledger) loseNode(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[node] += wholeNode
}

func (l *ledger) restoreNode(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[node] -= wholeNode
}

// exist says which of some pods exist; "" if none do.
func (l *ledger) exist(names []string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, name := range names {
		if l.pods[name] != nil {
			out = append(out, name+" exists")
		}
	}
	return strings.Join(out, ", ")
}

// decided says that a pod was neither bound nor found unschedulable; "" if it was.
func (l *ledger) decided(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pods[name]; p == nil || p.Spec.NodeName == "" && message(p) == "" {
		return name + " was not tried yet"
	}
	return ""
}

// holdsFor returns whether free capacity is held for the missing members of a running job, and is enough for all of them. After a restart
// the scheduler knows the size of missing members only if all members have the same.
func (l *ledger) holdsFor(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, bound := l.membersOf(j)
	return bound > 0 && j.alike() && newRooms(l.nodes, l.used).repairs(j, l)
}

// incomplete returns whether a job runs that has lost a member and has no other one in its place.
func (l *ledger) incomplete(j *job) bool {
	_, bound := l.membersOf(j)
	return j.reduced && bound > 0 && bound < j.size()
}

// repairs returns whether the missing members of a job that runs fit in the domain of the other members. It changes the rooms.
func (r rooms) repairs(j *job, l *ledger) bool {
	var spine string
	all, missing, blocks := team{}, make([]team, len(j.teams)), make([]string, len(j.teams))
	for i, t := range j.teams {
		for k, name := range t.members() {
			if p := l.pods[name]; p != nil && p.Spec.NodeName != "" {
				at := l.nodes[p.Spec.NodeName]
				spine, blocks[i] = at.spine, at.block
				continue
			}
			if k < t.half {
				missing[i].half++
			} else {
				missing[i].whole++
			}
		}
		all.whole, all.half = all.whole+missing[i].whole, all.half+missing[i].half
	}
	var ok bool
	switch j.rule {
	case oneSpine:
		_, ok = r.spine(spine).take(all)
	case teamBlocks:
		var anyBlock []team
		for i, block := range blocks {
			if block == "" {
				anyBlock = append(anyBlock, missing[i])
			} else if r[spine][block], ok = r[spine][block].take(missing[i]); !ok {
				return false
			}
		}
		return settle(slices.Collect(maps.Values(r[spine])), anyBlock)
	default:
		_, ok = r.all().take(all)
	}
	return ok
}
