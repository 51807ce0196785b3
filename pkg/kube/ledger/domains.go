package ledger

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// A ComputeDomain of NVIDIA is a set of nodes whose GPUs share memory for one job. A member claims a channel of its node. When that is
// prepared, the node gets the domain's label, and pods of other ComputeDomains do not start there until the domain is deleted.
// DynamicResources does not consider this.
const (
	domainDriver = "compute-domain.nvidia.com"
	domainLabel  = "resource.nvidia.com/computeDomain"
	cliqueLabel  = "nvidia.com/gpu.clique" // equal for nodes whose GPUs are connected by NVLink
)

// domainOf returns the UID of the ComputeDomain of a claim for a channel; "" for other claims.
func domainOf(c *resourceapi.ResourceClaim) string {
	for i := range c.Spec.Devices.Config {
		o := c.Spec.Devices.Config[i].Opaque
		if o == nil || o.Driver != domainDriver {
			continue
		}
		var parameters struct {
			DomainID string `json:"domainID"`
		}
		if json.Unmarshal(o.Parameters.Raw, &parameters) == nil && parameters.DomainID != "" {
			return parameters.DomainID
		}
	}
	return ""
}

// otherDomain returns why a node cannot be in a claim's ComputeDomain; "" if it can.
func otherDomain(c *resourceapi.ResourceClaim, node *v1.Node) string {
	label := node.Labels[domainLabel]
	if label == "" {
		return ""
	}
	if domain := domainOf(c); domain == "" || domain == label {
		return ""
	}
	return "node(s) are in another ComputeDomain"
}

// Near implements an optional method of fit.Page: it returns the node label by which all members should have one value, even without a
// topology constraint; "" if there is none.
func (p *claimPage) Near() string { return p.nearLabel }
