package ledger

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// NVIDIA's ComputeDomains: nodes with GPUs that share memory for one job. A member claims a channel of its node. Once that is
// prepared, the node is labelled with the domain, and cannot join another one until the domain is gone: a pod of another domain
// does not start there. Neither the channel nor DynamicResources say so.
const (
	domainDriver = "compute-domain.nvidia.com"
	domainLabel  = "resource.nvidia.com/computeDomain"
	cliqueLabel  = "nvidia.com/gpu.clique" // nodes with GPUs joined by NVLink
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

// Near implements an optional method of fit.Page: the node label of the domains that members should share although no
// constraint says so; "" for none.
func (p *claimPage) Near() string { return p.nearLabel }
