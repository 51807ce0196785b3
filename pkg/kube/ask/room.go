package ask

import (
	"context"
	"strings"
)

// Room is what a domain has for a gang that waits.
type Room struct {
	// Needs is how many places there must be at once: for members of all gangs that start with this one, and
	// for those whom a controller makes only when these run.
	Needs int `json:"needs"`
	Slots int `json:"slots"` // so many of them have room there, by the gang's rules
	// Fits says whether the scheduler would start it there now, if it might go nowhere else.
	Fits bool `json:"fits"`
}

// Room has the scheduler try a gang on the nodes of one domain, by its path; "" is the whole cluster. It
// returns nil if there is no such domain.
func (v *View) Room(ctx context.Context, of Target, domain string) (*Room, error) {
	ref, err := v.find(of)
	if err != nil {
		return nil, err
	}
	t, err := v.Topology(ctx, Wanted{Gang: &of})
	if err != nil {
		return nil, err
	}
	b := t.Find(domain)
	if b == nil {
		return nil, nil
	}
	was := v.listed[ref]
	out := &Room{Needs: was.Min - was.Bound - was.Done, Slots: b.Free}
	if out.Needs <= 0 {
		out.Needs = was.Exist - was.Bound
	}
	group, refusal := v.cache().GroupOf(v.group(ref))
	if refusal.Is() || len(group.Pending) == 0 { // it waits for others, and nobody can say what they need
		return out, nil
	}
	if out.Needs = group.Need(); out.Needs == 0 { // it has what it needs, and more of it wait
		out.Needs = len(group.Pending)
	}
	out.Needs += len(group.Ahead)
	speaker := group.Pods[group.Pending[0].Pod]
	profile, p := v.Profile(speaker.Spec.SchedulerName), v.Shared().Profile(speaker.Spec.SchedulerName)
	if profile == nil || p == nil {
		return out, nil
	}
	nodes, err := v.Nodes(ctx, profile)
	if err != nil {
		return nil, err
	}
	in := map[string]bool{}
	b.nodes(in)
	trial := p.TryOn(ctx, group, nodes, func(node string) bool { return in[node] })
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

// Find is the domain of a path; nil if there is none.
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

// nodes notes the names of the nodes below.
func (b *Branch) nodes(names map[string]bool) {
	if len(b.Children) == 0 {
		names[b.Path[strings.LastIndexByte(b.Path, '/')+1:]] = true
	}
	for i := range b.Children {
		b.Children[i].nodes(names)
	}
}
