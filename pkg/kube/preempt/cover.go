package preempt

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/eligible"
)

// covered is a solution with those who leave besides, anywhere, so that the quotas have enough; nil if that cannot be. Nobody leaves for the quotas without
// whom the members cannot take their places: of those who depend on others some must be near him, or spread as long as he is there.
func (c *candidates) covered(ctx context.Context, e *solution) *solution {
	more := c.cover(e)
	if more == nil || !c.Dependent() || len(more.gone) == len(e.gone) || c.holds(ctx, more) {
		return more
	}
	if more = c.keeping(c.Seek).cover(e); more != nil && c.holds(ctx, more) {
		return more
	}
	c.unsure = true
	return nil
}

// holds says whether members that depend on one another can take their places when all have left who are to.
func (c *candidates) holds(ctx context.Context, e *solution) bool {
	gone := c.gone(nil)
	for _, pod := range e.gone {
		if i, ok := c.Net.Tree.NodeIndex(pod.Spec.NodeName); ok {
			gone[i] = append(gone[i], pod)
		}
	}
	return c.Fits(ctx, e.Places, gone)
}

// cover is covered as far as the quotas go. Nobody leaves who need not.
func (c *candidates) cover(e *solution) *solution {
	if c.claim.Enough(e.gone) {
		return e
	}
	if !c.claim.Right(e.gone) {
		return nil // nor is it if more leave
	}
	if add := c.besides(e); add != nil {
		return c.with(e, add)
	}
	return nil
}

// with is a solution if some leave besides.
func (c *candidates) with(e *solution, add []party) *solution {
	leaves := eligible.UIDs([][]*v1.Pod{e.gone})
	more := *e
	more.gone, more.why = slices.Clone(e.gone), nil
	for _, u := range add {
		u = c.party(u.pods, leaves) // somebody may be in two of them: spared, and of a group that leaves
		for _, pod := range u.pods {
			leaves[pod.UID] = true
		}
		more.gone, more.cost = append(more.gone, u.pods...), more.cost.Add(u.cost)
	}
	return &more
}

// besides is who leaves besides, so that the quotas have enough; nil is nobody. Where own ones leave first, who else may leave is judged anew for each set of
// those, which may not be asked often: so it is first asked who would do, own ones before others, and then who costs less.
func (c *candidates) besides(e *solution) []party {
	parties := c.parties(eligible.UIDs([][]*v1.Pod{e.gone}))
	l := asLeavers(parties)
	l.Enough = func(some []int) bool {
		gone := slices.Clone(e.gone)
		for _, u := range pick(parties, some) {
			gone = append(gone, u.pods...)
		}
		return c.claim.Enough(gone)
	}
	var known []int
	if c.ownFirst {
		if known = l.Many(c.inOrder(e, parties)); known == nil || c.claim.Untried() {
			return nil
		}
	}
	if known = l.Few(known); known == nil && !c.ownFirst {
		known = l.Many(c.inOrder(e, parties))
	}
	return pick(parties, known)
}

// inOrder are, of some parties, in the order in which as many of them leave as the quotas need, those who may leave when those before them have; and how
// many of them are own ones, who come first where they do.
func (c *candidates) inOrder(e *solution, parties []party) (order []int, own int) {
	var others []int
	for i, u := range parties {
		if c.ownFirst && c.isOwn(u) {
			order = append(order, i)
		} else {
			others = append(others, i)
		}
	}
	own = len(order)
	may, leave := c.claim.Turns()
	leave(e.gone)
	for _, i := range others {
		if may(parties[i].pods) {
			leave(parties[i].pods)
			order = append(order, i)
		}
	}
	return order, own
}
