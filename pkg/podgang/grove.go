package podgang

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
)

// GroveGate is Grove's own gate, which Muster does not touch.
const GroveGate = "grove.io/podgang-pending-creation"

// packConstraint returns a topologyConstraint of a PodGang; nil if it names no label key.
func packConstraint(c workloads.TopologyConstraint, path string) *TopologyConstraint {
	if c.PackConstraint.Required == "" && c.PackConstraint.Preferred == "" {
		return nil
	}
	return &TopologyConstraint{
		Where: path + ".topologyConstraint.packConstraint",
		Pack:  &Pack{c.PackConstraint.Required, c.PackConstraint.Preferred},
	}
}

// FromPodGang returns the gang of a PodGang. An error means that the API server should have rejected the object.
func FromPodGang(pg *unstructured.Unstructured) (*PodGangInfo, error) {
	var spec workloads.PodGangSpec
	if err := read(pg, &spec); err != nil {
		return nil, err
	}
	out := newInfo(pg, PodGang, pg.GetName())
	labels := pg.GetLabels()
	out.SchedulerName, out.Base = labels[workloads.LabelSchedulerName], labels[workloads.LabelBasePodGang]
	out.Labels = map[string]string{workloads.LabelPodGang: Short(pg.GetName(), MaxName)}
	out.TopologyConstraint = packConstraint(spec.TopologyConstraint, "spec")
	out.PriorityClassName = spec.PriorityClassName
	if ref := spec.ReuseReservationRef; ref != nil {
		out.ReuseReservationRef = &types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	for i, g := range spec.PodGroups {
		if g.Name == "" || out.group(g.Name) != nil {
			return nil, invalidField(pg, "spec.podgroups[%d].name: %q is invalid; write a name that no other podgroup has", i, g.Name)
		}
		group := PodGroupInfo{
			Name: g.Name, MinReplicas: g.MinReplicas, Selector: groveSelector(pg.GetName(), g.Name),
			TopologyConstraint: packConstraint(g.TopologyConstraint, fmt.Sprintf("spec.podgroups[%d]", i)),
		}
		for _, ref := range g.PodReferences {
			group.PodReferences = append(group.PodReferences, types.NamespacedName(ref))
		}
		if n := int32(len(g.PodReferences)); n > 0 && n >= g.MinReplicas { // else some pods do not exist yet
			group.Total = n
		}
		out.PodGroups = append(out.PodGroups, group)
	}
	for i, c := range spec.TopologyConstraintGroupConfigs {
		out.TopologyConstraintGroupConfigs = append(out.TopologyConstraintGroupConfigs, TopologyConstraintGroupConfig{
			c.Name, c.PodGroupNames, packConstraint(c.TopologyConstraint, fmt.Sprintf("spec.topologyConstraintGroupConfigs[%d]", i)),
		})
	}
	return out, nil
}

// groveSelector returns the labels of the pods of a podgroup. Several gangs of one scaling group may have a podgroup of the same name.
func groveSelector(gang, group string) map[string]string {
	return map[string]string{workloads.LabelPodGang: gang, workloads.LabelPodClique: group}
}

// Domains are the label keys of PodCliqueSets' topology domains, by the name of a ClusterTopologyBinding and of the domain. The
// name "" is for PodCliqueSets that name no binding.
type Domains map[string]map[string]string

// DomainsFrom reads ClusterTopologyBindings, called ClusterTopologies before. If there is only one, it also has the name "".
func DomainsFrom(bindings []*unstructured.Unstructured) (Domains, error) {
	out := Domains{}
	for _, u := range bindings {
		var spec struct {
			Levels []struct {
				Domain string `json:"domain"`
				Key    string `json:"key"`
			} `json:"levels"`
		}
		if err := read(u, &spec); err != nil {
			return nil, err
		}
		keys := map[string]string{}
		for _, l := range spec.Levels {
			keys[l.Domain] = l.Key
		}
		out[u.GetName()] = keys
	}
	if len(out) == 1 {
		for _, keys := range out {
			return Domains{bindings[0].GetName(): keys, "": keys}, nil
		}
	}
	return out, nil
}

// packDomain is a topologyConstraint of a PodCliqueSet, by domain names.
type packDomain struct {
	TopologyName string `json:"topologyName"`
	Pack         *struct {
		Required  string `json:"required"`
		Preferred string `json:"preferred"`
	} `json:"pack"`
	PackDomain string `json:"packDomain"`
}

// domains returns the required and the preferred domain; "" for none.
func (p *packDomain) domains() (required, preferred string) {
	if p == nil {
		return "", ""
	}
	if p.Pack != nil {
		required, preferred = p.Pack.Required, p.Pack.Preferred
	}
	return cmp.Or(required, p.PackDomain), preferred
}

// cliqueTemplate is a clique in the spec of a PodCliqueSet.
type cliqueTemplate struct {
	Name               string            `json:"name"`
	Annotations        map[string]string `json:"annotations"`
	TopologyConstraint *packDomain       `json:"topologyConstraint"`
	Spec               struct {
		Replicas     *int32 `json:"replicas" min:"0"`
		MinAvailable *int32 `json:"minAvailable" min:"0"`
		PodSpec      struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"podSpec"`
	} `json:"spec"`
}

// scalingGroup is a podCliqueScalingGroup in the spec of a PodCliqueSet: cliques that are scaled together.
type scalingGroup struct {
	Name               string            `json:"name"`
	CliqueNames        []string          `json:"cliqueNames"`
	Replicas           *int32            `json:"replicas"`
	MinAvailable       *int32            `json:"minAvailable"`
	TopologyConstraint *packDomain       `json:"topologyConstraint"`
	Annotations        map[string]string `json:"annotations"`
}

// podCliqueSet is the fields of a PodCliqueSet's spec that are read.
type podCliqueSet struct {
	Replicas int32 `json:"replicas" min:"0"`
	Template struct {
		Cliques                []cliqueTemplate `json:"cliques"`
		PriorityClassName      string           `json:"priorityClassName"`
		TopologyConstraint     *packDomain      `json:"topologyConstraint"`
		PodCliqueScalingGroups []scalingGroup   `json:"podCliqueScalingGroups"`
	} `json:"template"`
}

// cliqueSet is the state of building gangs from a PodCliqueSet.
type cliqueSet struct {
	object    *unstructured.Unstructured
	spec      podCliqueSet
	scheduler string
	domains   Domains
	pods      map[[2]string][]types.NamespacedName // by podgang and podclique
}

// FromPodCliqueSet returns the gangs of a PodCliqueSet, as Grove's operator would make PodGangs: for each replica a base gang,
// and one for each replica of a scaling group above minAvailable. pods are the existing pods, by Grove's labels.
//
//	demo, 1 replica, a clique router and a scaling group prefill of leader and worker, 3 replicas, minAvailable 2
//	demo-0            demo-0-router demo-0-prefill-0-leader demo-0-prefill-0-worker demo-0-prefill-1-leader ...
//	demo-0-prefill-0  demo-0-prefill-2-leader demo-0-prefill-2-worker
func FromPodCliqueSet(pcs *unstructured.Unstructured, domains Domains, pods []metav1.Object) ([]*PodGangInfo, error) {
	s := cliqueSet{object: pcs, domains: domains, pods: map[[2]string][]types.NamespacedName{}}
	if err := read(pcs, &s.spec); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if key := [2]string{pod.GetLabels()[workloads.LabelPodGang], pod.GetLabels()[workloads.LabelPodClique]}; !isTerminating(pod) {
			s.pods[key] = append(s.pods[key], types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()})
		}
	}
	for _, refs := range s.pods {
		slices.SortFunc(refs, func(a, b types.NamespacedName) int { return cmp.Compare(a.Name, b.Name) })
	}
	var out []*PodGangInfo
	for i := range s.spec.Replicas {
		gangs, err := s.replica(fmt.Sprintf("%s-%d", pcs.GetName(), i))
		if err != nil {
			return nil, err
		}
		out = append(out, gangs...)
	}
	return out, nil
}

// check validates what does not depend on the replica: scheduler names and the number of gangs. It sets scheduler.
func (s *cliqueSet) check() error {
	names := SchedulerNames(s.object)
	if len(names) > 1 {
		return invalidField(s.object, "the schedulerName for all pods have to be the same: %q", names)
	}
	if len(names) == 1 {
		s.scheduler = names[0]
	}
	parts := int64(1 + len(s.spec.Template.Cliques))
	for i := range s.spec.Template.PodCliqueScalingGroups {
		g := &s.spec.Template.PodCliqueScalingGroups[i]
		parts += limitGangs(workloads.OrOne(g.Replicas)) * int64(1+len(g.CliqueNames))
	}
	return checkGangLimit(s.object, "spec.replicas, spec.template.podCliqueScalingGroups[].replicas",
		limitGangs(s.spec.Replicas)*min(parts, MaxGangs+1))
}

// replica returns the gangs of one replica: the base gang, and the scaled ones. base is the name of the base gang.
func (s *cliqueSet) replica(base string) (out []*PodGangInfo, err error) {
	baseInfo, err := s.gang(base, "")
	if err != nil {
		return nil, err
	}
	out = append(out, baseInfo)
	template := &s.spec.Template
	for i := range template.Cliques {
		c := &template.Cliques[i]
		if !slices.ContainsFunc(template.PodCliqueScalingGroups, func(g scalingGroup) bool { return slices.Contains(g.CliqueNames, c.Name) }) {
			if err := s.add(baseInfo, c, base+"-"+c.Name); err != nil {
				return nil, err
			}
		}
	}
	for i := range template.PodCliqueScalingGroups {
		g := &template.PodCliqueScalingGroups[i]
		minAvailable := workloads.OrOne(g.MinAvailable)
		for j := range workloads.OrOne(g.Replicas) {
			info := baseInfo
			if j >= minAvailable {
				if info, err = s.gang(fmt.Sprintf("%s-%s-%d", base, g.Name, j-minAvailable), base); err != nil {
					return nil, err
				}
				out = append(out, info)
			}
			if err := s.addScaled(info, g, fmt.Sprintf("%s-%s-%d", base, g.Name, j)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// gang returns a gang without groups; base is "" for a base gang.
func (s *cliqueSet) gang(name, base string) (*PodGangInfo, error) {
	out := newInfo(s.object, PodCliqueSet, name)
	out.Labels = map[string]string{workloads.LabelPodGang: Short(name, MaxName)}
	out.Base, out.PriorityClassName = base, s.spec.Template.PriorityClassName
	out.SchedulerName = s.scheduler
	var err error
	out.TopologyConstraint, err = s.constraint("spec.template", s.spec.Template.TopologyConstraint, nil)
	return out, err
}

// add adds the group of clique c to a gang, unless the clique has no replicas. name is the name of the group.
func (s *cliqueSet) add(info *PodGangInfo, c *cliqueTemplate, name string) error {
	replicas := workloads.OrOne(c.Spec.Replicas)
	minAvailable := replicas
	if c.Spec.MinAvailable != nil {
		minAvailable = *c.Spec.MinAvailable
	}
	constraint, err := s.constraint(fmt.Sprintf("spec.template.cliques[%s]", c.Name), c.TopologyConstraint, s.spec.Template.TopologyConstraint)
	if err != nil {
		return err
	}
	if replicas == 0 { // the clique is idle
		return nil
	}
	info.PodGroups = append(info.PodGroups, PodGroupInfo{
		Name: name, MinReplicas: minAvailable, Total: max(replicas, minAvailable), Selector: groveSelector(info.Name, name),
		PodReferences: s.pods[[2]string{info.Name, name}], TopologyConstraint: constraint,
	})
	return nil
}

// addScaled adds the groups of one replica of a scaling group, and the constraint for these groups together, if any.
func (s *cliqueSet) addScaled(info *PodGangInfo, g *scalingGroup, name string) error {
	var names []string
	for _, clique := range g.CliqueNames {
		i := slices.IndexFunc(s.spec.Template.Cliques, func(c cliqueTemplate) bool { return c.Name == clique })
		if i < 0 {
			return invalidField(s.object, "spec.template.podCliqueScalingGroups[%s].cliqueNames: %q is no clique", g.Name, clique)
		}
		if err := s.add(info, &s.spec.Template.Cliques[i], name+"-"+clique); err != nil {
			return err
		}
		names = append(names, name+"-"+clique)
	}
	constraint, err := s.constraint(fmt.Sprintf("spec.template.podCliqueScalingGroups[%s]", g.Name), g.TopologyConstraint,
		s.spec.Template.TopologyConstraint)
	if err != nil || constraint == nil {
		return err
	}
	info.TopologyConstraintGroupConfigs = append(info.TopologyConstraintGroupConfigs, TopologyConstraintGroupConfig{name, names, constraint})
	return nil
}

// constraint returns p with label keys instead of domains; nil if it names none. TopologyName is p's, else parent's. path is for messages.
func (s *cliqueSet) constraint(path string, p, parent *packDomain) (*TopologyConstraint, error) {
	required, preferred := p.domains()
	if required == "" && preferred == "" {
		return nil, nil
	}
	topology := p.TopologyName
	if topology == "" && parent != nil {
		topology = parent.TopologyName
	}
	out := &TopologyConstraint{Where: path + ".topologyConstraint.pack", Pack: &Pack{}}
	for _, d := range []struct {
		domain string
		key    *string
	}{{required, &out.Pack.Required}, {preferred, &out.Pack.Preferred}} {
		if d.domain == "" {
			continue
		}
		key, ok := s.domains[topology][d.domain]
		if !ok {
			return nil, &Error{
				reasons.TopologyKeyNotMapped, fmt.Sprintf("PodCliqueSet %s/%s: %s: topology domain %q does not exist in ClusterTopologyBinding %q",
					s.object.GetNamespace(), s.object.GetName(), path, d.domain, topology),
			}
		}
		*d.key = key
	}
	return out, nil
}

// SchedulerNames returns the scheduler names of a PodCliqueSet's pods, sorted and unique.
func SchedulerNames(pcs *unstructured.Unstructured) (out []string) {
	var spec podCliqueSet
	if read(pcs, &spec) != nil {
		return nil
	}
	for _, c := range spec.Template.Cliques {
		if name := c.Spec.PodSpec.SchedulerName; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
