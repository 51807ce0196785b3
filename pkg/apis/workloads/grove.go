package workloads

// Labels of Grove's pods and objects.
const (
	LabelPodGang       = "grove.io/podgang"
	LabelPodClique     = "grove.io/podclique"
	LabelBasePodGang   = "grove.io/base-podgang"
	LabelSchedulerName = "grove.io/scheduler-name"
)

// PodGangSpec is the spec of Grove's PodGang.
type PodGangSpec struct {
	PodGroups                      []PodGangGroup     `json:"podgroups"`
	TopologyConstraint             TopologyConstraint `json:"topologyConstraint"`
	TopologyConstraintGroupConfigs []GroupConfig      `json:"topologyConstraintGroupConfigs"`
	PriorityClassName              string             `json:"priorityClassName"`
	ReuseReservationRef            *NamespacedName    `json:"reuseReservationRef"`
}

// PodGangGroup is a podgroup: the pods of one PodClique.
type PodGangGroup struct {
	Name               string             `json:"name"`
	MinReplicas        int32              `json:"minReplicas" min:"0"`
	PodReferences      []NamespacedName   `json:"podReferences"`
	TopologyConstraint TopologyConstraint `json:"topologyConstraint"`
}

// GroupConfig is a constraint on some podgroups together.
type GroupConfig struct {
	Name               string             `json:"name"`
	PodGroupNames      []string           `json:"podGroupNames"`
	TopologyConstraint TopologyConstraint `json:"topologyConstraint"`
}

// TopologyConstraint names label keys of nodes; "" is none.
type TopologyConstraint struct {
	PackConstraint struct {
		Required  string `json:"required"`
		Preferred string `json:"preferred"`
	} `json:"packConstraint"`
}

// NamespacedName names an object.
type NamespacedName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}
