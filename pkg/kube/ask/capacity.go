package ask

import (
	"context"
	"strings"
)

// DomainCapacity is the capacity of a domain for a waiting gang.
type DomainCapacity struct {
	// Needs is the capacity that is needed at once: for the members of all gangs that start with this one, and for members that a
	// controller makes later.
	Needs int `json:"needs"`
	Slots int `json:"slots"` // how many of these members fit there, under the gang's topology constraint
	// Fits says whether the scheduler would start it there now, if no other domain existed.
	Fits bool `json:"fits"`
}

// DomainCapacity returns the result of a trial plan for a gang on the nodes of one domain only. domain is its path; "" is the whole
// cluster. It returns nil if the domain does not exist.
func (v *View) DomainCapacity(ctx context.Context, target Target, domain string) (*DomainCapacity, error) {
	ref, err := v.find(target)
	if err != nil {
		return nil, err
	}
	t, err := v.Topology(ctx, SlotSize{Gang: &target})
	if err != nil {
		return nil, err
	}
	b := t.Find(domain)
	if b == nil {
		return nil, nil
	}
	atStart := v.initial[ref]
	out := &DomainCapacity{Needs: atStart.Min - atStart.Bound - atStart.Done, Slots: b.Free}
	if out.Needs <= 0 {
		out.Needs = atStart.Exist - atStart.Bound
	}
	group, refusal := v.cache().GroupOf(v.group(ref))
	if refusal.Exists() || len(group.Pending) == 0 { // the gang waits for other gangs, whose needs are unknown
		return out, nil
	}
	if out.Needs = group.Need(); out.Needs == 0 { // the gang is whole, and more of its members wait
		out.Needs = len(group.Pending)
	}
	out.Needs += len(group.Future)
	representative := group.Pods[group.Pending[0].Pod]
	profile, p := v.Profile(representative.Spec.SchedulerName), v.Shared().Profile(representative.Spec.SchedulerName)
	if profile == nil || p == nil {
		return out, nil
	}
	nodes, err := v.Nodes(ctx, profile)
	if err != nil {
		return nil, err
	}
	inDomain := map[string]bool{}
	b.nodes(inDomain)
	trial := p.TryOn(ctx, group, nodes, func(node string) bool { return inDomain[node] })
	switch {
	case trial.Refusal == nil:
		out.Fits = len(trial.Found.Places) > 0
	case trial.Refusal.Plan != nil && len(trial.Refusal.Plan.Domains) > 0:
		out.Needs, out.Slots = int(trial.Refusal.Plan.Want), int(trial.Refusal.Plan.Domains[0].Slots)
	default:
		out.Slots = 0
	}
	if out.Fits {
		out.Slots = max(out.Slots, out.Needs)
	}
	return out, nil
}

// Find returns the domain of a path; nil if there is none.
func (b *Branch) Find(path string) *Branch {
	if b.Path == path {
		return b
	}
	for i := range b.Children {
		if c := &b.Children[i]; c.Path == path || strings.HasPrefix(path, c.Path+"/") {
			return c.Find(path)
		}
	}
	return nil
}

// nodes adds the names of all nodes in the domain to names.
func (b *Branch) nodes(names map[string]bool) {
	if len(b.Children) == 0 {
		names[b.Path[strings.LastIndexByte(b.Path, '/')+1:]] = true
	}
	for i := range b.Children {
		b.Children[i].nodes(names)
	}
}
