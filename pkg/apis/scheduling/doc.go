// Package scheduling has what users write: the keys of labels and annotations with
// their parsers, and the PodGroup specification that two API groups share.
//
// A parser returns the value, or an error that names the key, the invalid value and the
// supported values. The caller shows that error to the user.
//
//	scheduling/                       keys, annotation values, PodGroupSpec and PodGroupStatus
//	scheduling/koordinator/v1alpha1   ClusterNetworkTopology  (scheduling.koordinator.sh)
//	scheduling/sigs/v1alpha1          PodGroup                (scheduling.sigs.k8s.io)
//	                                  with podgroups-x.sed the CRD of scheduling.x-k8s.io, whose Go types are scheduler-plugins'
//
// It uses apimachinery, and no other package of Muster except strictjson.
package scheduling
