package manifests_test

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling/koordinator/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// preset is what a file of topologies/ should say and do.
type preset struct {
	layers string   // one line for each layer above the nodes, top down: its name and its keys.
	nodes  []string // name, then key=value. A key may leave out the prefix of the preset's first key, up to its last slash.
	tree   []string // layer and path of each named domain, and the number of unnamed ones.
}

var presets = map[string]preset{
	"topograph": {
		layers: `SpineLayer network.topology.nvidia.com/spine
BlockLayer network.topology.nvidia.com/block`,
		nodes: []string{"n1 spine=s1 block=b1", "n2 spine=s1 block=b2", "n3 spine=s2 block=b1"},
		tree:  []string{"SpineLayer s1", "BlockLayer s1/b1", "BlockLayer s1/b2", "SpineLayer s2", "BlockLayer s2/b1", "0 unnamed"},
	},
	"topograph-v0.1": {
		layers: `DatacenterLayer network.topology.nvidia.com/datacenter
SpineLayer network.topology.nvidia.com/spine
BlockLayer network.topology.nvidia.com/block
AcceleratorLayer network.topology.nvidia.com/accelerator`,
		// n3 has no NVLink domain.
		nodes: []string{
			"n1 datacenter=d spine=s1 block=b1 accelerator=nvl1", "n2 datacenter=d spine=s1 block=b1 accelerator=nvl1",
			"n3 datacenter=d spine=s1 block=b2",
		},
		tree: []string{
			"DatacenterLayer d", "SpineLayer d/s1", "BlockLayer d/s1/b1", "AcceleratorLayer d/s1/b1/nvl1", "BlockLayer d/s1/b2", "1 unnamed",
		},
	},
	"topograph-v0.3": {
		layers: `CoreLayer network.topology.nvidia.com/core
SpineLayer network.topology.nvidia.com/spine
LeafLayer network.topology.nvidia.com/leaf
AcceleratorLayer network.topology.nvidia.com/accelerator nvidia.com/gpu.clique`,
		nodes: []string{
			"n1 core=c spine=s leaf=l accelerator=nvl1 nvidia.com/gpu.clique=uuid.0", "n2 core=c spine=s leaf=l nvidia.com/gpu.clique=uuid.1",
			"n3 core=c spine=s leaf=l accelerator= nvidia.com/gpu.clique=uuid.1",
		},
		tree: []string{
			"CoreLayer c", "SpineLayer c/s", "LeafLayer c/s/l", "AcceleratorLayer c/s/l/nvl1", "AcceleratorLayer c/s/l/uuid.1", "0 unnamed",
		},
	},
	"topograph-v1": {
		layers: `FabricTier2Layer fabric.topograph.run/tier-2
FabricTier1Layer fabric.topograph.run/tier-1
FabricTier0Layer fabric.topograph.run/tier-0
AcceleratorLayer accelerator.topograph.run/domain nvidia.com/gpu.clique`,
		// A fabric of two tiers: both switches next to nodes stay below one spine.
		nodes: []string{
			"n1 tier-1=s tier-0=l1 accelerator.topograph.run/domain=nvl1", "n2 tier-1=s tier-0=l2 accelerator.topograph.run/domain=nvl2",
		},
		tree: []string{
			"FabricTier1Layer -/s", "FabricTier0Layer -/s/l1", "AcceleratorLayer -/s/l1/nvl1",
			"FabricTier0Layer -/s/l2", "AcceleratorLayer -/s/l2/nvl2", "1 unnamed",
		},
	},
	"topograph-any": {
		layers: `DatacenterLayer fabric.topograph.run/tier-2 network.topology.nvidia.com/core network.topology.nvidia.com/datacenter
SpineLayer fabric.topograph.run/tier-1 network.topology.nvidia.com/spine
BlockLayer fabric.topograph.run/tier-0 network.topology.nvidia.com/leaf network.topology.nvidia.com/block
AcceleratorLayer accelerator.topograph.run/domain network.topology.nvidia.com/accelerator nvidia.com/gpu.clique`,
		// One node of each age, and one with old and new labels.
		nodes: []string{
			"n1 network.topology.nvidia.com/datacenter=d network.topology.nvidia.com/spine=s network.topology.nvidia.com/block=b network.topology.nvidia.com/accelerator=a",
			"n2 network.topology.nvidia.com/core=d network.topology.nvidia.com/spine=s network.topology.nvidia.com/leaf=b network.topology.nvidia.com/accelerator=a",
			"n3 tier-2=d tier-1=s tier-0=b accelerator.topograph.run/domain=a",
			"n4 tier-2=d tier-1=s tier-0=b network.topology.nvidia.com/spine=old network.topology.nvidia.com/leaf=old nvidia.com/gpu.clique=uuid.0",
		},
		tree: []string{
			"DatacenterLayer d", "SpineLayer d/s", "BlockLayer d/s/b", "AcceleratorLayer d/s/b/a", "AcceleratorLayer d/s/b/uuid.0", "0 unnamed",
		},
	},
	"aws-eks": {
		layers: `ZoneLayer topology.kubernetes.io/zone
SpineLayer topology.k8s.aws/network-node-layer-1
AggLayer topology.k8s.aws/network-node-layer-2
LeafLayer topology.k8s.aws/network-node-layer-3
AcceleratorLayer topology.k8s.aws/ultraserver-id nvidia.com/gpu.clique topology.k8s.aws/capacity-block-id`,
		// Layer 1 is above layer 3; n4 is of a type without an instance topology.
		nodes: []string{
			"n1 zone=us-east-1a topology.k8s.aws/network-node-layer-1=nn-1 topology.k8s.aws/network-node-layer-2=nn-2 topology.k8s.aws/network-node-layer-3=nn-3",
			"n2 zone=us-east-1a topology.k8s.aws/network-node-layer-1=nn-1 topology.k8s.aws/network-node-layer-2=nn-2 topology.k8s.aws/network-node-layer-3=nn-4 " +
				"topology.k8s.aws/capacity-block-id=cr-1 nvidia.com/gpu.clique=uuid.0 topology.k8s.aws/ultraserver-id=us-1",
			"n3 zone=us-east-1a topology.k8s.aws/network-node-layer-1=nn-1 topology.k8s.aws/network-node-layer-2=nn-2 topology.k8s.aws/network-node-layer-3=nn-4 " +
				"topology.k8s.aws/capacity-block-id=cr-1",
			"n4 zone=us-east-1b",
		},
		tree: []string{
			"ZoneLayer us-east-1a", "SpineLayer us-east-1a/nn-1", "AggLayer us-east-1a/nn-1/nn-2", "LeafLayer us-east-1a/nn-1/nn-2/nn-3",
			"LeafLayer us-east-1a/nn-1/nn-2/nn-4", "AcceleratorLayer us-east-1a/nn-1/nn-2/nn-4/cr-1",
			"AcceleratorLayer us-east-1a/nn-1/nn-2/nn-4/us-1",
			"ZoneLayer us-east-1b", "5 unnamed",
		},
	},
	"gke": {
		layers: `ZoneLayer topology.kubernetes.io/zone
BlockLayer cloud.google.com/gce-topology-block
SubBlockLayer cloud.google.com/gce-topology-subblock
HostLayer cloud.google.com/gce-topology-host`,
		nodes: []string{
			"n1 zone=z cloud.google.com/gce-topology-block=b cloud.google.com/gce-topology-subblock=sb1 cloud.google.com/gce-topology-host=h1",
			"n2 zone=z cloud.google.com/gce-topology-block=b cloud.google.com/gce-topology-subblock=sb2 cloud.google.com/gce-topology-host=h2",
		},
		tree: []string{
			"ZoneLayer z", "BlockLayer z/b", "SubBlockLayer z/b/sb1", "HostLayer z/b/sb1/h1", "SubBlockLayer z/b/sb2", "HostLayer z/b/sb2/h2",
			"0 unnamed",
		},
	},
	"oci": {
		layers: `IslandLayer oci.oraclecloud.com/rdma.hpc_island_id
NetworkBlockLayer oci.oraclecloud.com/rdma.network_block_id oci.oraclecloud.com/host.network_block_id
LocalBlockLayer oci.oraclecloud.com/rdma.local_block_id`,
		// Without hpc_island_id; n3 and n4 without a capacity topology.
		nodes: []string{
			"n1 rdma.network_block_id=nb1 host.network_block_id=other rdma.local_block_id=lb1",
			"n2 rdma.network_block_id=nb1 rdma.local_block_id=lb2",
			"n3 host.network_block_id=nb2", "n4 host.network_block_id=nb2",
		},
		tree: []string{
			"NetworkBlockLayer -/nb1", "LocalBlockLayer -/nb1/lb1", "LocalBlockLayer -/nb1/lb2", "NetworkBlockLayer -/nb2", "4 unnamed",
		},
	},
	"coreweave": {
		layers: `FabricLayer backend.coreweave.cloud/fabric ib.coreweave.cloud/fabric
SuperpodLayer ib.coreweave.cloud/superpod
LeafLayer backend.coreweave.cloud/leafgroup ib.coreweave.cloud/leafgroup
AcceleratorLayer ds.coreweave.com/nvlink.domain`,
		// n1 and n2 InfiniBand, with both kinds of labels and with the old ones; n3 RoCE.
		nodes: []string{
			"n1 fabric=f1 leafgroup=4 ib.coreweave.cloud/fabric=f1 ib.coreweave.cloud/superpod=1 ib.coreweave.cloud/leafgroup=4 ds.coreweave.com/nvlink.domain=nvl-1",
			"n2 ib.coreweave.cloud/fabric=f1 ib.coreweave.cloud/superpod=1 ib.coreweave.cloud/leafgroup=10",
			"n3 fabric=f2 leafgroup=4",
		},
		tree: []string{
			"FabricLayer f1", "SuperpodLayer f1/1", "LeafLayer f1/1/4", "AcceleratorLayer f1/1/4/nvl-1", "LeafLayer f1/1/10",
			"FabricLayer f2", "LeafLayer f2/-/4", "3 unnamed",
		},
	},
	"volcano": {
		layers: `HyperClusterLayer volcano.sh/hypercluster
HyperNodeLayer volcano.sh/hypernode volcano.sh/tor`,
		nodes: []string{"n1 hypercluster=hc hypernode=hn-0", "n2 hypercluster=hc tor=tor-1"},
		tree:  []string{"HyperClusterLayer hc", "HyperNodeLayer hc/hn-0", "HyperNodeLayer hc/tor-1", "0 unnamed"},
	},
	"grove": {
		layers: `blockLayer topology.kubernetes.io/block
rackLayer topology.kubernetes.io/rack
hostLayer kubernetes.io/hostname`,
		nodes: []string{"n1 block=b rack=r1 kubernetes.io/hostname=n1", "n2 block=b rack=r1 kubernetes.io/hostname=n2"},
		tree:  []string{"blockLayer b", "rackLayer b/r1", "hostLayer b/r1/n1", "hostLayer b/r1/n2", "0 unnamed"},
	},
	"zones": {
		layers: `RegionLayer topology.kubernetes.io/region
ZoneLayer topology.kubernetes.io/zone`,
		nodes: []string{"n1 region=eu zone=eu-1", "n2 region=eu zone=eu-2", "n3 zone=eu-2"},
		tree:  []string{"RegionLayer eu", "ZoneLayer eu/eu-1", "ZoneLayer eu/eu-2", "ZoneLayer -/eu-2", "1 unnamed"},
	},
}

// TestPresets: every file is legal, has the layers that its users expect, and makes a tree
// of the labels that its vendor writes.
func TestPresets(t *testing.T) {
	files, err := fs.Glob(manifests.Topologies, "topologies/*.yaml")
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(path.Base(f), ".yaml"))
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(presets)), names)

	apply := applier(t, "crd/scheduling.koordinator.sh_clusternetworktopologies.yaml")
	for name, p := range presets {
		t.Run(name, func(t *testing.T) {
			data, err := manifests.Topologies.ReadFile("topologies/" + name + ".yaml")
			require.NoError(t, err)
			require.Empty(t, apply(t, data))
			var cnt v1alpha1.ClusterNetworkTopology
			require.NoError(t, yaml.UnmarshalStrict(data, &cnt))
			require.Equal(t, v1alpha1.GroupVersion.String(), cnt.APIVersion)
			require.Equal(t, "ClusterNetworkTopology", cnt.Kind)
			require.Equal(t, scheduling.TopologyName, cnt.Name)

			chain, err := v1alpha1.OrderLayers(cnt.Spec)
			require.NoError(t, err)
			last := len(chain) - 1
			require.Equal(t, v1alpha1.Layer{Name: scheduling.NodeTopologyLayer}, chain[last])
			var layers []convert.Layer
			var lines []string
			for _, l := range chain[:last] {
				layers = append(layers, convert.Layer{Name: l.Name, Keys: l.LabelKeys})
				lines = append(lines, strings.Join(append([]string{l.Name}, l.LabelKeys...), " "))
			}
			require.Equal(t, p.layers, strings.Join(lines, "\n"))
			require.Equal(t, p.tree, tree(layers, p.nodes))
		})
	}
}

// tree builds a tree and lists its named domains above the nodes, depth first.
func tree(layers []convert.Layer, lines []string) (domains []string) {
	prefix, _ := path.Split(layers[0].Keys[0])
	var nodes []topology.Node
	for _, line := range lines {
		words := strings.Fields(line)
		labels := map[string]string{}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			if !strings.Contains(key, "/") {
				key = prefix + key
			}
			labels[key] = value
		}
		nodes = append(nodes, convert.Node(words[0], labels, layers))
	}
	t := topology.Build(convert.LayerNames(layers), nodes)
	unnamed := 0
	for d := topology.Root + 1; int(d) < t.Len(); d++ {
		switch {
		case t.IsNode(d):
		case t.Named(d):
			domains = append(domains, t.LayerNames()[t.Layer(d)]+" "+dashed(t, d))
		default:
			unnamed++
		}
	}
	return append(domains, strconv.Itoa(unnamed)+" unnamed")
}

// dashed is a domain's path, with "-" for what has no name.
func dashed(t *topology.Tree, d topology.ID) string {
	var names []string
	for ; d != topology.Root; d = t.Parent(d) {
		names = append(names, cmp.Or(t.Name(d), "-"))
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}
