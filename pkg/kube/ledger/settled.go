package ledger

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// settledPage is claimPage when the controller of claims has deallocated those that nobody uses any more.
type settledPage struct {
	*claimPage
	freed []*resourceapi.ResourceClaim
}

// Settled is the page without allocations of claims whose users have all gone; nil if there are none. A claim that
// nobody has used yet is kept, unless its owner has gone.
func (p *claimPage) Settled() fit.Page {
	all, err := p.manager.ResourceClaims().List()
	if err != nil {
		return nil
	}
	var freed []*resourceapi.ResourceClaim
	for _, c := range all {
		if c.Status.Allocation != nil && p.abandoned(c) {
			freed = append(freed, c)
		}
	}
	if freed == nil {
		return nil
	}
	return &settledPage{p, freed}
}

// abandoned says that all who used a claim have gone.
func (p *claimPage) abandoned(c *resourceapi.ResourceClaim) bool {
	for _, by := range c.Status.ReservedFor {
		if by.APIGroup != "" || by.Resource != "pods" || !p.hasGone(c.Namespace, by.Name, by.UID) {
			return false
		}
	}
	if len(c.Status.ReservedFor) > 0 {
		return true
	}
	for _, owner := range c.OwnerReferences {
		if owner.Kind == "Pod" && owner.Controller != nil && *owner.Controller {
			return p.hasGone(c.Namespace, owner.Name, owner.UID)
		}
	}
	return false
}

// hasGone says that there is no such pod any more, or that it has ended.
func (p *claimPage) hasGone(namespace, name string, uid types.UID) bool {
	pod, err := p.pods.Pods(namespace).Get(name)
	return err != nil || pod.UID != uid || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Rehearse implements fit.Page.
func (p *settledPage) Rehearse() fit.Rehearsal {
	r, _ := p.claimPage.Rehearse().(*claimRehearsal)
	for _, c := range p.freed {
		r.freed[c.UID] = true
		r.free(c.Status.Allocation)
	}
	return r
}

// State implements fit.Page.
func (p *settledPage) State(node fwk.NodeInfo) string { return "settled " + p.claimPage.State(node) }

// Settled says that it is.
func (*settledPage) Settled() fit.Page { return nil }
