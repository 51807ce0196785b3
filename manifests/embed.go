// Package manifests holds what a cluster needs before Muster can run in it, as YAML and embedded: custom resources,
// permissions, scheduler configuration.
package manifests

import "embed"

var (
	// CRDs holds crd/*.yaml, one CustomResourceDefinition each. They are generated from
	// pkg/apis by "make generate".
	//
	//go:embed crd/*.yaml
	CRDs embed.FS

	// RBAC holds rbac/*.yaml: a ServiceAccount and what it may do.
	//
	//go:embed rbac/*.yaml
	RBAC embed.FS

	// SourceRBAC holds rbac/sources/*.yaml: what the scheduler may read of the objects of other
	// projects, a file each, which may be left out.
	//
	//go:embed rbac/sources/*.yaml
	SourceRBAC embed.FS

	// Admission holds admission/*.yaml: policies by which the API server refuses bad
	// annotations, and warns of unknown ones.
	//
	//go:embed admission/*.yaml
	Admission embed.FS

	// SchedulerConfigs holds scheduler-config/native.yaml, which serves muster-scheduler,
	// scheduler-config/drop-in.yaml, which serves koord-scheduler as well, and
	// scheduler-config/scheduler-plugins.yaml, which serves scheduler-plugins-scheduler as well.
	//
	//go:embed scheduler-config/*.yaml
	SchedulerConfigs embed.FS

	// Controller holds what muster-controller needs: its ServiceAccount, backends.yaml, permissions, and its components.
	//
	//go:embed controller/*.yaml controller/rbac/*.yaml controller/components/*/*.yaml
	Controller embed.FS

	// Topologies holds topologies/*.yaml, each a ClusterNetworkTopology named default for
	// one way of labelling nodes.
	//
	//go:embed topologies/*.yaml
	Topologies embed.FS
)
