package ledger

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/kube/fit"
)

// settledPage is a claimPage as if the claim controller had deallocated all unused claims.
type settledPage struct {
	*claimPage
	freed []*resourceapi.ResourceClaim
}

// Settled returns the page without the allocations of claims whose users have all terminated; nil if there are no such claims. A claim
// without users keeps its allocation, unless the pod that owns it has terminated.
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

// abandoned returns whether all users of a claim have terminated, or its owner if it has no users.
func (p *claimPage) abandoned(c *resourceapi.ResourceClaim) bool {
	for _, by := range c.Status.ReservedFor {
		if by.APIGroup != "" || by.Resource != "pods" || !p.terminated(c.Namespace, by.Name, by.UID) {
			return false
		}
	}
	if len(c.Status.ReservedFor) > 0 {
		return true
	}
	for _, owner := range c.OwnerReferences {
		if owner.Kind == "Pod" && owner.Controller != nil && *owner.Controller {
			return p.terminated(c.Namespace, owner.Name, owner.UID)
		}
	}
	return false
}

// terminated returns whether a pod does not exist any more or has finished.
func (p *claimPage) terminated(namespace, name string, uid types.UID) bool {
	pod, err := p.pods.Pods(namespace).Get(name)
	return err != nil || pod.UID != uid || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Rehearse implements fit.Page, without the allocations of unused claims.
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

// Settled returns nil: the page is settled already.
func (*settledPage) Settled() fit.Page { return nil }
