package ledger

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// NVIDIA's ComputeDomains: nodes whose GPUs reach one another's memory for one job. A member of one claims a channel of its
// node. When that is made ready the node is labelled with the domain, and is none of another one's until this has gone:
// a pod that comes before that does not start. Neither the channel nor DynamicResources say so.
const (
	domainDriver = "compute-domain.nvidia.com"
	domainLabel  = "resource.nvidia.com/computeDomain"
	cliqueLabel  = "nvidia.com/gpu.clique" // whose GPUs NVLink joins
)

// domainOf is the UID of the ComputeDomain of which a claim is for a channel; "" if it is for something else.
func domainOf(c *resourceapi.ResourceClaim) string {
	for i := range c.Spec.Devices.Config {
		o := c.Spec.Devices.Config[i].Opaque
		if o == nil || o.Driver != domainDriver {
			continue
		}
		var says struct {
			DomainID string `json:"domainID"`
		}
		if json.Unmarshal(o.Parameters.Raw, &says) == nil && says.DomainID != "" {
			return says.DomainID
		}
	}
	return ""
}

// otherDomain says why a node cannot be in a claim's ComputeDomain; "" if it can.
func otherDomain(c *resourceapi.ResourceClaim, node *v1.Node) string {
	is := node.Labels[domainLabel]
	if is == "" {
		return ""
	}
	if of := domainOf(c); of == "" || of == is {
		return ""
	}
	return "node(s) are in another ComputeDomain"
}

// Near implements what package fit asks of a page: the node label of the domains that members had better not leave, though
// nobody has said so; "" if there are none.
func (p *claimPage) Near() string { return p.near }
