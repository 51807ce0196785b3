package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/pkg/kube/status"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Result is the state of a settled cluster. All lists are sorted by namespace and name; pods of one name by creation.
type Result struct {
	// Changes were made before the scheduler tried any pod.
	Changes []ChangeReport `json:"changes,omitempty"`

	Pods    []Pod    `json:"pods"`
	Gangs   []Gang   `json:"gangs"`
	Evicted []string `json:"evicted"` // namespace/name
	// Held are the pods that their controller does not create yet.
	Held []HeldPod `json:"held,omitempty"`
	// Quotas describe the ElasticQuotas, parents before children.
	Quotas []elasticquota.Quota `json:"quotas,omitempty"`
	// Warnings report mistakes in objects as they were written.
	Warnings []Event `json:"warnings,omitempty"`
	// Events are all events, sorted by object, reason and message.
	Events []Event `json:"-"`
	// Time is the simulated time.
	Time time.Time `json:"-"`
	// Summary counts pods and gangs.
	Summary Summary `json:"-"`
	// Topology is the condition Ready of the ClusterNetworkTopology; nil if it has none.
	Topology *metav1.Condition `json:"-"`

	unlistedDeclarations []string // kinds of objects that declare gangs and could not be listed
}

// State is the progress of a pod or a gang. The states of gangs are the reasons of their conditions, see status.Condition.
type State string

// The states of pods.
const (
	Bound   State = "Bound"
	Pending State = "Pending"
	Evicted State = "Evicted"
)

// States of gangs.
const (
	Scheduled State = reasons.Scheduled
	Finished  State = reasons.Finished
	Waiting   State = reasons.Waiting
)

// Started says whether the gang runs or has finished, so that it does not wait.
func (s State) Started() bool { return s == Scheduled || s == Finished }

// Pod is one pod. An evicted pod is listed with its last node.
type Pod struct {
	Namespace     string `json:"namespace"`
	Name          string `json:"name"`
	Node          string `json:"node"`
	NominatedNode string `json:"nominatedNode"`
	State         State  `json:"state"`
	Message       string `json:"message"`
	// Unknown is the kind, such as podgroups.scheduling.sigs.k8s.io, that the caller may not list, so that the cause of waiting is unknown.
	Unknown string `json:"unknown,omitempty"`
	// Devices are the pod's devices from DeviceShare, such as "gpu 0,1 rdma 0", and the devices of its claims by pool, such as
	// "x0/gpu-0,gpu-1".
	Devices string `json:"devices,omitempty"`
	// Ran says that the pod had its node before the simulation began.
	Ran bool `json:"-"`

	gang string // name of the pod's gang in the pod's namespace
}

// HeldPod is a pod that its controller creates only when other pods run.
type HeldPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	WaitsFor  string `json:"waitsFor"`

	gang string
}

// Gang is one gang. Domain is the path of the deepest named domain that holds all bound members. It is "" for the whole cluster, or
// if no member is bound.
type Gang struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Bound and Min count members.
	Bound  int    `json:"bound"`
	Min    int    `json:"min"`
	Domain string `json:"domain"`
	// Position is the gang's position in the queue, as in the status of a PodGroup.
	Position int32 `json:"position,omitempty"`
	// Start is the promised start of the gang; nil if none is or was promised.
	Start   *Start `json:"start,omitempty"`
	Message string `json:"message"`
	Unknown string `json:"unknown,omitempty"` // see Pod.Unknown
	// Repair is the repair of an incomplete gang; nil for other gangs.
	Repair *Repair `json:"repair,omitempty"`
	// Eviction explains the gang's last eviction; nil if the gang evicted no pod.
	Eviction *status.Explanation `json:"eviction,omitempty"`
	// Status is the status of the PodGroup, if there is one.
	Status *scheduling.PodGroupStatus `json:"-"`
}

// Start is when a waiting gang starts, as far as that is known.
type Start struct {
	Kind   StartKind `json:"kind"`
	Time   time.Time `json:"time,omitzero"`
	Domain string    `json:"domain,omitempty"` // "" is the whole cluster, or unknown
	Why    string    `json:"why,omitempty"`    // a sentence
}

// StartKind says how sure a start is.
type StartKind string

// The kinds of starts.
const (
	Promised     StartKind = "promised" // the scheduler holds capacity for the gang until then
	Forecast     StartKind = "forecast" // computed for an answer, and not kept
	UnknownStart StartKind = "unknown"
)

// ForecastOf returns a forecast.
func ForecastOf(at time.Time, domain, why string) *Start {
	return &Start{Kind: Forecast, Time: startTime(at), Domain: domain, Why: why}
}

// startTime returns a time as Start has it: UTC, in whole seconds.
func startTime(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }

// StartOf returns the start that p promises; nil if none is or was promised.
func StartOf(p gang.Promise) *Start {
	switch {
	case p.Exists() && p.Cause == "":
		return &Start{Promised, startTime(p.At), p.Domain, "By then the pods there end as they declare."}
	case p.Exists():
		return &Start{Promised, startTime(p.At), p.Domain, "The earlier promise was not kept: " + p.Cause + "."}
	case p.Cause != "":
		return &Start{Kind: UnknownStart, Why: "The start is not known any more: " + p.Cause + "."}
	}
	return nil
}

// Repair is the condition Repairing of a gang. Message does not say until when capacity is held.
type Repair struct {
	State   State  `json:"state"` // the reason
	Message string `json:"message"`
}

// RepairOf returns the repair of a gang with report r; nil if it is not incomplete.
func RepairOf(r cache.Report) *Repair {
	r.Repair.Until = time.Time{} // simulated time
	c, ok := status.Repairing(r)
	if !ok {
		return nil
	}
	return &Repair{State: State(c.Reason), Message: c.Message}
}

// result returns the current state of the cluster.
func (s *simulation) result() *Result {
	r := &Result{Pods: []Pod{}, Gangs: []Gang{}, Evicted: []string{}, Time: s.clock.Now()}
	r.Changes = s.changed
	evicted := s.cluster.evictedPods()
	all, _ := s.cluster.list(pods, "", nil)
	for _, o := range all {
		pod := o.(*v1.Pod)
		if victim := evicted[pod.UID]; victim != nil || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		r.Pods = append(r.Pods, s.podResult(pod))
	}
	for _, victim := range slices.SortedFunc(maps.Values(evicted), s.cluster.byAge) {
		_, condition := podutil.GetPodCondition(&victim.Status, v1.DisruptionTarget)
		p := Pod{Namespace: victim.Namespace, Name: victim.Name, Node: victim.Spec.NodeName, State: Evicted, gang: source.GangOf(victim).Name}
		if condition != nil {
			p.Message = status.Clip(condition.Message)
		}
		r.Pods = append(r.Pods, p)
		r.Evicted = append(r.Evicted, convert.PodKey(victim))
	}
	positions := status.Positions(s.shared.Cache)
	for _, ref := range s.shared.Cache.Gangs() {
		if report, ok := s.shared.Cache.Report(ref); ok {
			g := s.gangResult(ref, report, positions[ref])
			g.Eviction = s.recorder.eviction(ref)
			r.Gangs = append(r.Gangs, g)
		}
	}
	for _, h := range s.cluster.held {
		_, why := s.cluster.waitsFor(h)
		waits := HeldPod{Namespace: h.id.key.namespace, Name: h.id.key.name, WaitsFor: why}
		if pod, ok := h.Object.(*v1.Pod); ok {
			waits.gang = source.GangOf(pod).Name
		}
		r.Held = append(r.Held, waits)
	}
	r.Quotas = s.shared.Quotas()
	r.Topology = s.topologyCondition()
	r.unlistedDeclarations = s.unlistedDeclarations()
	r.Events = s.recorder.sorted()
	r.Warnings = s.warnings()
	// A pod with the name of an evicted pod is younger than the evicted pod.
	rank := func(p Pod) int {
		if p.State == Evicted {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(r.Pods, func(a, b Pod) int {
		return cmp.Or(topology.CompareNames(a.Namespace, b.Namespace), topology.CompareNames(a.Name, b.Name), cmp.Compare(rank(a), rank(b)))
	})
	slices.SortFunc(r.Gangs, func(a, b Gang) int {
		return cmp.Or(topology.CompareNames(a.Namespace, b.Namespace), topology.CompareNames(a.Name, b.Name))
	})
	slices.SortFunc(r.Held, func(a, b HeldPod) int {
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

// podResult returns the result for a pod of the cluster.
func (s *simulation) podResult(pod *v1.Pod) Pod {
	p := Pod{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, State: Bound,
		Devices: convert.DevicesText(pod), Ran: s.cluster.ranBefore[pod.UID], gang: source.GangOf(pod).Name,
	}
	if p.Node != "" {
		p.Devices = strings.TrimSpace(p.Devices + " " + s.cluster.claimedDevices(pod))
	}
	if p.Node == "" {
		p.State = Pending
		p.NominatedNode = pod.Status.NominatedNodeName
		p.Message = status.Clip(s.pendingReason(pod))
		if p.Unknown = s.unlistedCause(pod); p.Unknown != "" {
			p.Message = unknown(p.Unknown)
		}
	}
	return p
}

// pendingReason returns why a pod has no node; "" if nothing is known.
func (s *simulation) pendingReason(pod *v1.Pod) string {
	if _, ok := s.scheduler.Profiles[pod.Spec.SchedulerName]; !ok {
		return fmt.Sprintf("no profile serves schedulerName %q (served: %s)", pod.Spec.SchedulerName,
			strings.Join(slices.Sorted(maps.Keys(s.scheduler.Profiles)), ", "))
	}
	// A pod keeps the message "… is tried first" even if that other pod has been tried since, so it is not shown.
	_, c := podutil.GetPodCondition(&pod.Status, v1.PodScheduled)
	if c != nil && c.Message != "" && !strings.Contains(c.Message, "which is tried first") {
		return c.Message
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		names := make([]string, len(pod.Spec.SchedulingGates))
		for i, g := range pod.Spec.SchedulingGates {
			names[i] = g.Name
		}
		return "this pod waits until its scheduling gates are removed: " + strings.Join(names, ", ")
	}
	ref := source.GangOf(pod)
	if ref.IsZero() {
		return ""
	}
	report, ok := s.shared.Cache.Report(ref)
	if !ok {
		return ""
	}
	if why := report.Refusal; why.Exists() && !why.WaitsForUser() {
		if group, refusal := s.shared.Cache.Group(pod); !refusal.Exists() && len(group.Pending) > 0 {
			if representative := group.Pods[group.Pending[0].Pod]; representative.UID != pod.UID {
				return status.Sibling(ref, representative, status.ExplainedOf(why), "", group.Held)
			}
		}
		return status.ExplainedOf(why).String()
	}
	if ok, why := s.shared.Cache.Admit(pod); !ok {
		return why + status.Hint(report)
	}
	if report.Refusal.Exists() && !s.shared.Cache.State(ref).Refusal.Exists() { // something beside members is missing
		return report.Refusal.String()
	}
	return ""
}

// topologyCondition returns the condition Ready of the ClusterNetworkTopology; nil if there is none.
func (s *simulation) topologyCondition() *metav1.Condition {
	t := s.shared.Cache.Topology()
	if t.Object == nil {
		return nil
	}
	return meta.FindStatusCondition(t.Object.Status.Conditions, status.Ready)
}

// StateOf returns the state of gang ref with report r. unlisted is the kind that could not be listed, so that the cause is unknown; or "".
func (s *simulation) StateOf(ref gang.Ref, r cache.Report) (state State, unlisted string) {
	if state = State(status.Condition(status.State(r), "").Reason); !state.Started() {
		if unlisted = s.Unlisted(ref, r); unlisted != "" {
			return Waiting, unlisted
		}
	}
	return state, ""
}

// gangResult returns the result for a gang, without its Eviction.
func (s *simulation) gangResult(ref gang.Ref, report cache.Report, position int32) Gang {
	g := Gang{Bound: report.Bound, Min: report.Min, Domain: report.Domain}
	g.Namespace, g.Name = ref.Namespace, ref.Name
	if report.PodGroup != nil {
		g.Status = &report.PodGroup.Status
	}
	c := status.Condition(status.State(report), report.Domain)
	g.Message, g.Position = c.Message, status.Position(c.Reason, position)
	if g.State, g.Unknown = s.StateOf(ref, report); g.Unknown != "" {
		g.Message = unknown(g.Unknown)
	}
	g.Repair, g.Start = RepairOf(report), StartOf(report.Promise)
	return g
}
