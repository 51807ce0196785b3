// Package v1alpha1 is ClusterNetworkTopology, in scheduling.koordinator.sh: the layers
// of the network as the user names them, and what was found there.
//
// +kubebuilder:object:generate=true
// +groupName=scheduling.koordinator.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "scheduling.koordinator.sh", Version: "v1alpha1"}
	// ClusterNetworkTopologies is the resource.
	ClusterNetworkTopologies = GroupVersion.WithResource("clusternetworktopologies")
)

// ClusterNetworkTopology names the layers of the network and the node labels that say
// where a node stands. Only the one named "default" is read.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cnt
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=Nodes,type=integer,JSONPath=`.status.detailStatus[0].nodeNum`
// +kubebuilder:printcolumn:name=Unnamed,type=integer,JSONPath=`.status.unnamedDomains`,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterNetworkTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterNetworkTopologySpec `json:"spec"`
	// +optional
	Status ClusterNetworkTopologyStatus `json:"status,omitempty"`
}

// ClusterNetworkTopologyList is a list of them.
//
// +kubebuilder:object:root=true
type ClusterNetworkTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterNetworkTopology `json:"items"`
}

// ClusterNetworkTopologySpec is one chain of layers:
//
//	ClusterTopologyLayer <- SpineLayer <- BlockLayer <- NodeTopologyLayer
//	(implicit)              labelKey      labelKey      (the nodes)
type ClusterNetworkTopologySpec struct {
	// networkTopologySpec lists the layers, in any order. They form a chain: the highest layer has no parent, each other
	// layer names the layer above it as parent, and NodeTopologyLayer is the lowest. Each layer is listed once.
	//
	// ---
	// The rules are those of OrderLayers, in the same order and the same words. The last
	// one turns each layer into the index of its parent and follows it upwards, twice as
	// far each time: 2, 4, 8, 16 steps. Of 16 layers, only one that is in a circle or below
	// one still has a parent there.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule=`self.exists(l, l.topologyLayer == 'NodeTopologyLayer')`,message=`layer "NodeTopologyLayer" is missing; add it as the lowest layer`
	// +kubebuilder:validation:XValidation:rule=`self.all(l, self.exists_one(m, m.topologyLayer == l.topologyLayer))`,messageExpression=`'topologyLayer "' + self.map(l, !self.exists_one(m, m.topologyLayer == l.topologyLayer), l.topologyLayer)[0] + '" is listed more than once; list each layer once'`
	// +kubebuilder:validation:XValidation:rule=`self.all(l, l.?parentTopologyLayer.orValue('') in ['', 'ClusterTopologyLayer'] || self.exists(m, m.topologyLayer == l.parentTopologyLayer))`,messageExpression=`self.map(l, !(l.?parentTopologyLayer.orValue('') in ['', 'ClusterTopologyLayer'] || self.exists(m, m.topologyLayer == l.parentTopologyLayer)), 'layer "' + l.topologyLayer + '": parentTopologyLayer "' + l.parentTopologyLayer + '"')[0] + ' is not listed; write the topologyLayer of another entry, or leave it empty for the highest layer'`
	// +kubebuilder:validation:XValidation:rule=`self.filter(l, l.?parentTopologyLayer.orValue('') in ['', 'ClusterTopologyLayer']).size() < 2`,messageExpression=`'layers "' + self.map(l, l.?parentTopologyLayer.orValue('') in ['', 'ClusterTopologyLayer'], l.topologyLayer)[0] + '" and "' + self.map(l, l.?parentTopologyLayer.orValue('') in ['', 'ClusterTopologyLayer'], l.topologyLayer)[1] + '" both have no parentTopologyLayer; only the highest layer may have none'`
	// +kubebuilder:validation:XValidation:rule=`self.all(l, self.filter(m, m.?parentTopologyLayer.orValue('') == l.topologyLayer).size() < 2)`,messageExpression=`'parentTopologyLayer "' + self.map(l, self.filter(m, m.?parentTopologyLayer.orValue('') == l.topologyLayer).size() > 1, l.topologyLayer)[0] + '" is the parent of more than one layer; each layer may have one layer below it'`
	// +kubebuilder:validation:XValidation:rule=`[self.map(l, self.transformList(i, m, m.topologyLayer == l.?parentTopologyLayer.orValue(''), i))].map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).all(r, r.all(up, up.size() == 0))`,messageExpression=`'layer "' + [self.map(l, self.transformList(i, m, m.topologyLayer == l.?parentTopologyLayer.orValue(''), i))].map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, r.map(up, up.size() == 0 ? up : r[up[0]])).map(r, self.transformList(i, l, r[i].size() > 0, l.topologyLayer)[0])[0] + '": the parents form a cycle; parents must lead up to the highest layer'`
	// +listType=atomic
	NetworkTopologySpec []NetworkTopologyLayer `json:"networkTopologySpec"`
}

// NetworkTopologyLayer is one layer.
//
// +kubebuilder:validation:XValidation:rule=`self.topologyLayer != 'ClusterTopologyLayer'`,message=`topologyLayer "ClusterTopologyLayer" is the built-in root of the tree; use another name, or delete this entry`
// +kubebuilder:validation:XValidation:rule=`!has(self.parentTopologyLayer) || self.parentTopologyLayer != 'NodeTopologyLayer'`,messageExpression=`'layer "' + self.topologyLayer + '": parentTopologyLayer "NodeTopologyLayer" is the lowest layer; write the name of a layer above the nodes'`
// +kubebuilder:validation:XValidation:rule=`self.topologyLayer == 'NodeTopologyLayer' || self.?labelKey.orValue([]).size() > 0`,messageExpression=`'layer "' + self.topologyLayer + '": labelKey is empty; write at least one key of a node label'`
type NetworkTopologyLayer struct {
	// topologyLayer is the layer's name, such as SpineLayer. NodeTopologyLayer is the
	// layer of the nodes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TopologyLayer string `json:"topologyLayer"`

	// parentTopologyLayer is the name of the layer above. Empty, or ClusterTopologyLayer:
	// this layer is the first below the whole cluster. Default: empty.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ParentTopologyLayer string `json:"parentTopologyLayer,omitempty"`

	// labelKey lists keys of node labels. The value of the first key that a node has is the node's domain at this layer.
	// labelKey has no effect on NodeTopologyLayer, whose domains are the nodes. Default: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +listType=atomic
	// +optional
	LabelKey []string `json:"labelKey,omitempty"`
}

// ClusterNetworkTopologyStatus is the tree that was built.
type ClusterNetworkTopologyStatus struct {
	// detailStatus has one entry for each named domain above the nodes, depth first, children by name. The first entry is
	// the whole cluster. If one object is too small for all domains, the domains of the lowest layers are not listed, and
	// condition Truncated names these layers.
	// +listType=atomic
	// +optional
	DetailStatus []TopologyDetail `json:"detailStatus,omitempty"`

	// unnamedDomains is the number of domains without a name: their nodes lack the label of a layer. detailStatus does not
	// list them.
	// +optional
	UnnamedDomains int32 `json:"unnamedDomains,omitempty"`

	// conditions: Ready says whether Muster uses this spec. Truncated is there if detailStatus does not list all domains.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TopologyDetail is one domain.
type TopologyDetail struct {
	// topologyInfo is the domain itself.
	TopologyInfo TopologyInfo `json:"topologyInfo"`

	// parentTopologyInfo is the domain above. The whole cluster has none.
	// +optional
	ParentTopologyInfo *TopologyInfo `json:"parentTopologyInfo,omitempty"`

	// childTopologyLayer is the layer of the domains below.
	// +optional
	ChildTopologyLayer string `json:"childTopologyLayer,omitempty"`

	// childTopologyNames are the names of the domains below, sorted. Nodes are not listed.
	// +listType=atomic
	// +optional
	ChildTopologyNames []string `json:"childTopologyNames,omitempty"`

	// nodeNum is how many nodes stand in this domain.
	NodeNum int32 `json:"nodeNum"`
}

// TopologyInfo names a domain.
type TopologyInfo struct {
	// topologyLayer is the domain's layer.
	TopologyLayer string `json:"topologyLayer"`
	// topologyName is the domain's name at this layer, empty for the whole cluster.
	TopologyName string `json:"topologyName"`
}
