package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
)

// Kinds of trouble in preemption rounds.
const (
	// a member of a running gang is replaced: beside finished ones, after the PodGroup was recreated, under another
	// scheduler
	replacements = "replacements"
	lostRequests = "requests" // the API server does not take them at first.
	foreigners   = "foreign"  // pods of another scheduler wait, nominated by it.
	groups       = "groups"   // running gangs are GangGroups.
	remade       = "remade"   // PodGroups of running gangs are made again.
)

// troubles are what else happens in a round.
type troubles struct {
	losses   *losses
	foreign  []string // nodes that its pods are nominated for
	remade   bool
	replaced bool // in the end a member of the gang is, under a new PodGroup
	finished bool // beside one that has finished
}

// drawTroubles draws them with random numbers of their own: without them a round is what it
// was.
func (r *round) drawTroubles(random *rand.Rand) {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	if chance(35) {
		r.losses = &losses{
			what: []string{lostBindings, lostBindings, lostEvictions, lostNominations}[random.IntN(4)],
			code: []int{http.StatusGatewayTimeout, http.StatusConflict, http.StatusTooManyRequests}[random.IntN(3)], times: 1,
		}
		r.losses.done = r.losses.code == http.StatusGatewayTimeout && random.IntN(3) == 0
	}
	if chance(25) {
		for range 1 + random.IntN(3) {
			r.foreign = append(r.foreign, r.nodes[random.IntN(len(r.nodes))].name)
		}
	}
	r.remade = chance(30) && len(r.teams) > 0
	if chance(60) && len(r.sets) > 0 && r.rival == noRival {
		r.replaced, r.finished = true, r.members > 2 && random.IntN(3) > 0
	}
}

// troubleNames says what is counted of a round, beside the rest.
func (r *round) troubleNames() (out []string) {
	for name, is := range map[string]bool{
		"pods of another scheduler": len(r.foreign) > 0, "PodGroups made again": r.remade, "a member replaced": r.replaced,
		"a member finished": r.finished, "GangGroups run": r.grouped && len(r.teams) > 1,
	} {
		if is {
			out = append(out, name)
		}
	}
	return out
}

// troublesDrawn is how many of manyRounds rounds there are of each kind at least.
var troublesDrawn = map[string]map[string]int{
	lostRequests: {"requests lost: " + lostBindings: 8, "requests lost: " + lostEvictions: 3, "requests lost: " + lostNominations: 3},
	foreigners:   {"pods of another scheduler": 12},
	groups:       {"GangGroups run": 8, "evicts: a GangGroup leaves": 3},
	remade:       {"PodGroups made again": 8},
	replacements: {"a member replaced": 6, "a member finished": 3},
}

// theirs is what belongs to another scheduler in a round, in the state in which that scheduler wrote it.
type theirs struct {
	pods map[string]string // resourceVersion by name
	gang string            // resourceVersion of the PodGroup
}

const otherScheduler = "other-scheduler"

func (r *round) theirGang() string { return r.name + "-theirs" }

// createForeign makes pods of another scheduler, which nominates them.
func (p *preemptionRounds) createForeign(ctx context.Context, r *round) (t theirs, err error) {
	t.pods = map[string]string{}
	for i, node := range r.foreign {
		pod := r.newPod(fmt.Sprintf("%s-f%d", r.name, i), "low", 1)
		pod.Spec.SchedulerName, pod.Labels[scheduling.LabelPodGroup] = otherScheduler, r.theirGang()
		delete(pod.Labels, roundLabel)
		made, err := p.pods().Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return t, err
		}
		made.Status.NominatedNodeName = node
		if made, err = p.pods().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return t, err
		}
		t.pods[made.Name] = made.ResourceVersion
	}
	if err := p.createPodGroup(ctx, r.theirGang(), len(r.foreign), ""); err != nil {
		return t, err
	}
	u, err := p.podGroup(ctx, r.theirGang())
	if err == nil {
		t.gang = u.GetResourceVersion()
	}
	return t, err
}

func (p *preemptionRounds) podGroup(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return p.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
}

// checkForeign (case 48): nothing has been written to what belongs to another scheduler.
func (p *preemptionRounds) checkForeign(ctx context.Context, r *round, t theirs) error {
	var wrong []error
	for name, version := range t.pods {
		pod, err := p.pods().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.ResourceVersion != version {
			wrong = append(wrong, fmt.Errorf("%s is another scheduler's, and was written to: %v", name, pod.ManagedFields))
		}
	}
	u, err := p.podGroup(ctx, r.theirGang())
	if err != nil {
		return err
	}
	if u.GetResourceVersion() != t.gang {
		wrong = append(wrong, fmt.Errorf("PodGroup %s is another scheduler's, and was written to: %v", r.theirGang(), u.Object["status"]))
	}
	return errors.Join(wrong...)
}

// remake makes the PodGroups of the running gangs again, and waits until the scheduler has
// seen that: it tells about them.
func (p *preemptionRounds) remake(ctx context.Context, r *round) error {
	for g, team := range r.teams {
		if len(r.team(g)) == 0 {
			continue
		}
		if err := p.remakeOne(ctx, team.name,
			func() error { return p.createPodGroup(ctx, team.name, team.least, "", r.partners(g)...) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *preemptionRounds) remakeOne(ctx context.Context, name string, create func() error) error {
	err := p.shared.dynamic.Resource(sigs.PodGroups).Namespace(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil {
		return err
	}
	if err := create(); err != nil {
		return err
	}
	return p.await(ctx, func() string {
		u, err := p.podGroup(ctx, name)
		if err != nil {
			return err.Error()
		}
		if phase, _, _ := unstructured.NestedString(u.Object, "status", "phase"); phase == "" {
			return "PodGroup " + name + " has no phase"
		}
		return ""
	})
}

// replace (cases 45 and 46) has a member of the gang, which runs, made again under a new
// PodGroup, perhaps beside one that has finished: it starts, in the gang's spine.
func (p *preemptionRounds) replace(ctx context.Context, r *round) error {
	members, now := r.newMembers(), int64(0)
	if r.finished {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // KWOK writes, too
			pod, err := p.pods().Get(ctx, members[1].Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			pod.Status.Phase = v1.PodSucceeded
			_, err = p.pods().UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	err := p.remakeOne(ctx, r.name, func() error { return p.createPodGroup(ctx, r.name, r.members, oneSpine.spec()) })
	if err != nil {
		return err
	}
	if err := p.pods().Delete(ctx, members[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return err
	}
	again := members[0]
	again.Name += "-again"
	if err := p.create(ctx, again); err != nil {
		return err
	}
	var at []string
	err = p.await(ctx, func() string {
		pod, err := p.pods().Get(ctx, again.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if pod.Spec.NodeName == "" {
			return fmt.Sprintf("%s, a replacement, is not bound: %s", again.Name, message(pod))
		}
		at = []string{pod.Spec.NodeName}
		return ""
	})
	if err != nil || r.members == 1 {
		return err
	}
	other, err := p.pods().Get(ctx, members[r.members-1].Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if spines := r.spinesOf(append(at, other.Spec.NodeName)); len(spines) > 1 {
		return fmt.Errorf("%s, a replacement, is in another spine than its gang: %v", again.Name, spines)
	}
	return nil
}

// spinesOf lists the spines of some nodes.
func (r *round) spinesOf(names []string) (out []int) {
	for _, n := range r.nodes {
		if slices.Contains(names, n.name) && !slices.Contains(out, n.spine) {
			out = append(out, n.spine)
		}
	}
	return out
}

// partners are the gangs that leave with a running one; none if it is alone.
func (r *round) partners(g int) (names []string) {
	if !r.grouped {
		return nil
	}
	for k, team := range r.teams {
		if len(r.team(k)) > 0 {
			names = append(names, team.name)
		}
	}
	if len(names) < 2 || !slices.Contains(names, r.teams[g].name) {
		return nil
	}
	return names
}

// groupsWhole counts the GangGroups that are evicted whole.
func (r *round) groupsWhole(gone []int) int {
	if r.grouped && len(r.teams) > 1 && r.teamsWhole(gone) == len(r.teams) {
		return 1
	}
	return 0
}
