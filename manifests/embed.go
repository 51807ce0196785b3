// Package manifests embeds the YAML that a cluster needs before Muster can run in it: custom resources, permissions, scheduler
// configuration.
package manifests

import "embed"

var (
	// CRDs has crd/*.yaml, one CustomResourceDefinition each, generated from pkg/apis by "make generate".
	//
	//go:embed crd/*.yaml
	CRDs embed.FS

	// RBAC has rbac/*.yaml: a ServiceAccount and its permissions.
	//
	//go:embed rbac/*.yaml
	RBAC embed.FS

	// SourceRBAC has rbac/sources/*.yaml: the permissions to read objects of other projects, one optional file for each project.
	//
	//go:embed rbac/sources/*.yaml
	SourceRBAC embed.FS

	// Admission has admission/*.yaml: policies by which the API server rejects invalid annotations, and warns of unknown ones.
	//
	//go:embed admission/*.yaml
	Admission embed.FS

	// SchedulerConfigs has three files in scheduler-config: native.yaml serves muster-scheduler, drop-in.yaml also koord-scheduler, and
	// scheduler-plugins.yaml also scheduler-plugins-scheduler.
	//
	//go:embed scheduler-config/*.yaml
	SchedulerConfigs embed.FS

	// Controller has what muster-controller needs: its ServiceAccount, backends.yaml, permissions, and its components.
	//
	//go:embed controller/*.yaml controller/rbac/*.yaml controller/components/*/*.yaml
	Controller embed.FS

	// Topologies has topologies/*.yaml, each a ClusterNetworkTopology named default for one way of labelling nodes.
	//
	//go:embed topologies/*.yaml
	Topologies embed.FS
)
