package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Result is a cluster that has settled. All lists are sorted by namespace and name; pods
// of one name as they were made.
type Result struct {
	// Changes were made before the scheduler did anything.
	Changes []Changed `json:"changes,omitempty"`

	Pods    []Pod    `json:"pods"`
	Gangs   []Gang   `json:"gangs"`
	Evicted []string `json:"evicted"` // namespace/name
	// Held are the pods that their controller does not make yet.
	Held []Held `json:"held,omitempty"`
	// Quotas are what ElasticQuotas have, parents before children.
	Quotas []elasticquota.Quota `json:"quotas,omitempty"`
	// Warnings say what is wrong with objects as they were written.
	Warnings []Event `json:"warnings,omitempty"`
	// Events are all that was told of any object; by object, reason and message.
	Events []Event `json:"-"`
	// Summary counts pods and gangs.
	Summary Summary `json:"-"`
	// Topology is the condition of the ClusterNetworkTopology, if it has one.
	Topology *metav1.Condition `json:"-"`

	undeclared []string // kinds of objects that declare gangs and could not be listed
}

// State is how far a pod or a gang is.
type State string

// Of pods.
const (
	Bound   State = "Bound"
	Pending State = "Pending"
	Evicted State = "Evicted"
)

// Of gangs.
const (
	Scheduled     State = "Scheduled"     // minMember members are bound
	Waiting       State = "Waiting"       // for members, other gangs, victims
	Unschedulable State = "Unschedulable" // there is no plan, or what users wrote is rejected
)

// Pod is one pod. An evicted one is listed with the node that it had.
type Pod struct {
	Namespace     string `json:"namespace"`
	Name          string `json:"name"`
	Node          string `json:"node"`
	NominatedNode string `json:"nominatedNode"`
	State         State  `json:"state"`
	Message       string `json:"message"`
	// Unknown is the kind, such as podgroups.scheduling.sigs.k8s.io, that whoever asks may not list, so that nobody knows what
	// the pod waits for.
	Unknown string `json:"unknown,omitempty"`
	// Devices are those that the pod got of DeviceShare, such as "gpu 0,1 rdma 0", and those of its claims, by pool, such as
	// "x0/gpu-0,gpu-1".
	Devices string `json:"devices,omitempty"`
	// Ran says that the pod had its node before the simulation began.
	Ran bool `json:"-"`

	gang string // of its namespace, of which it is a member
}

// Held is a pod that waits for others to run before it is made.
type Held struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	WaitsFor  string `json:"waitsFor"`

	gang string
}

// Gang is one gang. Domain is the path of the deepest named domain that holds all
// bound members; "" is the whole cluster, or that none is bound.
type Gang struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Bound and Min count members.
	Bound  int    `json:"bound"`
	Min    int    `json:"min"`
	Domain string `json:"domain"`
	// Position is the gang's place in the queue, as its PodGroup would be told.
	Position int32  `json:"position,omitempty"`
	Message  string `json:"message"`
	Unknown  string `json:"unknown,omitempty"` // as a pod's
	// Eviction says why the gang has evicted where it has; if more than once, the last time.
	Eviction *status.Explanation `json:"eviction,omitempty"`
	// Status is what stands in the PodGroup, if there is one.
	Status *scheduling.PodGroupStatus `json:"-"`
}

// result reads the cluster as it is.
func (s *simulation) result() *Result {
	r := &Result{Pods: []Pod{}, Gangs: []Gang{}, Evicted: []string{}}
	r.Changes = s.changed
	evicted := s.cluster.gone()
	all, _ := s.cluster.list(pods, "", nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		if victim := evicted[pod.UID]; victim != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		r.Pods = append(r.Pods, s.pod(pod))
	}
	for _, victim := range slices.SortedFunc(maps.Values(evicted), s.cluster.byAge) {
		_, condition := podutil.GetPodCondition(&victim.Status, v1.DisruptionTarget)
		p := Pod{Namespace: victim.Namespace, Name: victim.Name, Node: victim.Spec.NodeName, State: Evicted, gang: source.Of(victim).Name}
		if condition != nil {
			p.Message = status.Clip(condition.Message)
		}
		r.Pods = append(r.Pods, p)
		r.Evicted = append(r.Evicted, convert.PodKey(victim))
	}
	positions := status.Positions(s.shared.Cache)
	for _, ref := range s.shared.Cache.Gangs() {
		if report, ok := s.shared.Cache.Report(ref); ok {
			g := toldOf(ref, report, positions[ref])
			s.doubt(&g, ref, report)
			g.Eviction = s.recorder.eviction(ref)
			r.Gangs = append(r.Gangs, g)
		}
	}
	for _, h := range s.cluster.held {
		_, why := s.cluster.missing(h)
		waits := Held{Namespace: h.id.key.namespace, Name: h.id.key.name, WaitsFor: why}
		if pod, ok := h.Object.(*v1.Pod); ok {
			waits.gang = source.Of(pod).Name
		}
		r.Held = append(r.Held, waits)
	}
	r.Quotas = s.shared.Quotas()
	r.Topology = s.topologyCondition()
	r.undeclared = s.undeclared()
	r.Events = s.recorder.all()
	r.Warnings = s.cluster.warnings(r.Events)
	// Whoever has the name of a pod that was evicted came after it.
	late := func(p Pod) int {
		if p.State == Evicted {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(topology.CompareNames(a.Namespace, b.Namespace), topology.CompareNames(a.Name, b.Name), cmp.Compare(late(a), late(b)))
	})
	slices.SortFunc(r.Gangs, func(a, b Gang) int {
		return cmp.Or(topology.CompareNames(a.Namespace, b.Namespace), topology.CompareNames(a.Name, b.Name))
	})
	slices.SortFunc(r.Held, func(a, b Held) int {
		return cmp.Or(topology.CompareNames(a.Namespace, b.Namespace), topology.CompareNames(a.Name, b.Name))
	})
	slices.SortFunc(r.Evicted, func(a, b string) int {
		x, m := convert.SplitKey(a)
		y, n := convert.SplitKey(b)
		return cmp.Or(topology.CompareNames(x, y), topology.CompareNames(m, n))
	})
	r.summarize()
	return r
}

func (s *simulation) pod(pod *v1.Pod) Pod {
	p := Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, State: Bound, Devices: convert.DevicesText(pod), Ran: s.cluster.ran[pod.UID], gang: source.Of(pod).Name}
	if p.Node != "" {
		p.Devices = strings.TrimSpace(p.Devices + " " + s.cluster.claimed(pod))
	}
	if p.Node == "" {
		p.State, p.NominatedNode, p.Message = Pending, pod.Status.NominatedNodeName, status.Clip(s.why(pod))
		if p.Unknown = s.doubted(pod); p.Unknown != "" {
			p.Message = unknown(p.Unknown)
		}
	}
	return p
}

// why says why a pod has no node.
func (s *simulation) why(pod *v1.Pod) string {
	if _, ok := s.scheduler.Profiles[pod.Spec.SchedulerName]; !ok {
		return fmt.Sprintf("no profile serves schedulerName %q (served: %s)", pod.Spec.SchedulerName,
			strings.Join(slices.Sorted(maps.Keys(s.scheduler.Profiles)), ", "))
	}
	// Who was tried before a lower rank came has that in its message, whatever came of it.
	if _, c := podutil.GetPodCondition(&pod.Status, v1.PodScheduled); c != nil && c.Message != "" && !strings.Contains(c.Message, "which is tried first") {
		return c.Message
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		names := make([]string, len(pod.Spec.SchedulingGates))
		for i, g := range pod.Spec.SchedulingGates {
			names[i] = g.Name
		}
		return "waits for scheduling gates: " + strings.Join(names, ", ")
	}
	ref := source.Of(pod)
	if ref.IsZero() {
		return ""
	}
	report, ok := s.shared.Cache.Report(ref)
	if !ok {
		return ""
	}
	if why := report.Refusal; why.Is() && !why.Waits() {
		if group, refusal := s.shared.Cache.Group(pod); !refusal.Is() && len(group.Pending) > 0 {
			if speaker := group.Pods[group.Pending[0].Pod]; speaker.UID != pod.UID {
				return status.Sibling(ref, speaker, status.Of(why), "", group.Held)
			}
		}
		return status.Of(why).String()
	}
	if ok, why := s.shared.Cache.Admit(pod); !ok {
		return why + status.Hint(report)
	}
	if report.Refusal.Is() && !s.shared.Cache.State(ref).Refusal.Is() { // what is lacking beside the members
		return report.Refusal.String()
	}
	return ""
}

// topologyCondition returns the condition Ready of the ClusterNetworkTopology.
func (s *simulation) topologyCondition() *metav1.Condition {
	t := s.shared.Cache.Topology()
	if t.Object == nil {
		return nil
	}
	return meta.FindStatusCondition(t.Object.Status.Conditions, status.Ready)
}

func toldOf(ref gang.Ref, report cache.Report, position int32) Gang {
	g := Gang{Bound: report.Bound, Min: report.Min, Domain: report.Domain}
	g.Namespace, g.Name = ref.Namespace, ref.Name
	if report.PodGroup != nil {
		g.Status = &report.PodGroup.Status
	}
	c := status.Condition(status.State(report), report.Domain)
	g.Message, g.Position = c.Message, status.Position(c.Reason, position)
	switch c.Reason {
	case status.ReasonScheduled:
		g.State = Scheduled
	case status.ReasonUnschedulable, status.ReasonNeverFits, status.ReasonRejected, status.ReasonConflict:
		g.State = Unschedulable
	default:
		g.State = Waiting
	}
	return g
}
