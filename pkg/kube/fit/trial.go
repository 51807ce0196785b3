package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Trial is the scheduler's snapshot with members added to nodes, for interdependent members (pod affinity, topology spread).
// PreFilters run again after every change, as in the members' own cycles.
// Invariant: Close restores the snapshot, and no cycle may continue before.
type Trial struct {
	ctx        context.Context
	profile    framework.Framework
	pods       fwk.MutableSnapshotSharedLister
	kinds      []*v1.Pod
	nodes      []string
	off        []ClosedDomains // closed domains by kind
	results    []preFiltered   // PreFilter results by kind
	puts       []put
	err        error
	rejectedBy pluginSet
	pages      Pages
	ledgers    rehearsals
}

// RejectingPlugins returns the plugins that rejected a member on some node, sorted.
func (s *Trial) RejectingPlugins() []string { return s.rejectedBy.list() }

// preFiltered is the PreFilter result of a kind.
type preFiltered struct {
	done         bool
	state        fwk.CycleState
	result       *fwk.PreFilterResult
	restrictedBy []string // the plugins that restrict nodes
	rejected     bool
}

type put struct {
	pod       *v1.Pod
	node      string
	allocated bool // from the ledgers
}

// NewTrial begins a trial with one pod per kind, on nodes by index; "" is a node that takes no member. It must be closed.
func NewTrial(ctx context.Context, profile framework.Framework, kinds []*v1.Pod, nodes []string, pages ...opened) (*Trial, error) {
	pods := profile.MutableSnapshotSharedLister()
	if err := pods.StartMutations(); err != nil {
		return nil, err
	}
	return &Trial{
		ctx: context.WithValue(ctx, asking{}, true), profile: profile, pods: pods,
		kinds: kinds, nodes: nodes, off: make([]ClosedDomains, len(kinds)), results: make([]preFiltered, len(kinds)),
		pages: pages, ledgers: Pages(pages).rehearse(),
	}, nil
}

// CloseDomains closes some domains to a kind.
func (s *Trial) CloseDomains(kind int, off ClosedDomains) { s.off[kind] = off }

// Close restores the snapshot. The error is the first of all calls.
func (s *Trial) Close() error { return errors.Join(s.err, s.pods.EndMutations()) }

// Add adds a pod that counts beside the snapshot. Call it after Remove.
func (s *Trial) Add(node string, pod fwk.PodInfo) {
	s.take(pod.GetPod(), node)
	s.note(s.pods.AddPod(pod, node))
}

// take allocates for a pod in the ledgers and returns whether that succeeded.
func (s *Trial) take(pod *v1.Pod, node string) bool {
	if len(s.ledgers) == 0 {
		return false
	}
	n, err := s.pods.NodeInfos().Get(node)
	return err == nil && s.ledgers.Take(s.ctx, pod, n).IsSuccess()
}

// Remove removes a pod.
func (s *Trial) Remove(pod *v1.Pod) {
	s.ledgers.Release(pod)
	s.note(s.pods.RemovePod(klog.FromContext(s.ctx), pod, pod.Spec.NodeName))
}

// Fits returns whether a member of a kind passes the Filters on a node now.
func (s *Trial) Fits(kind, node int) bool {
	pre := s.preFilter(kind)
	if s.err != nil || pre.rejected {
		return false
	}
	if !pre.result.AllNodes() && !pre.result.NodeNames.Has(s.nodes[node]) {
		s.rejectedBy.add(pre.restrictedBy...)
		return false
	}
	n, err := s.pods.NodeInfos().Get(s.nodes[node])
	if err != nil {
		return false
	}
	if _, closed := s.off[kind].Closes(n.Node()); closed {
		return false
	}
	runs.Add(1)
	status := s.profile.RunFilterPlugins(s.ctx, pre.state, s.pages.asked(s.kinds[kind]), n)
	if status.IsSuccess() && len(s.ledgers) > 0 {
		if status = s.ledgers.Take(s.ctx, s.kinds[kind], n); status.IsSuccess() {
			s.ledgers.Undo()
		}
	}
	if !status.IsSuccess() {
		s.rejectedBy.add(status.Plugin())
	}
	return status.IsSuccess()
}

// preFilter runs the PreFilters of a kind if something has changed.
func (s *Trial) preFilter(kind int) preFiltered {
	if s.results[kind].done {
		return s.results[kind]
	}
	pre := preFiltered{done: true, state: framework.NewCycleState()}
	result, status, with := s.profile.RunPreFilterPlugins(s.ctx, pre.state, s.pages.asked(s.kinds[kind]))
	pre.result = result
	pre.restrictedBy = sets.List(with)
	pre.rejected = !status.IsSuccess()
	if pre.rejected {
		s.rejectedBy.add(append(pre.restrictedBy, status.Plugin())...)
	}
	if pre.rejected && !status.IsRejected() {
		s.note(status.AsError())
	}
	pre.state = s.pages.withoutFreeing(pre.state) // pages do not know bound pods, their plugins do
	s.results[kind] = pre
	return pre
}

// Put puts a member of a kind on a node.
func (s *Trial) Put(kind, node int) {
	allocated := s.take(s.kinds[kind], s.nodes[node])
	pod := *s.kinds[kind]
	pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.UID, len(s.puts)))
	pod.Spec.NodeName = s.nodes[node]
	info, err := framework.NewPodInfo(&pod)
	if err == nil {
		err = s.pods.AddPod(info, s.nodes[node])
	}
	s.note(err)
	s.puts = append(s.puts, put{&pod, s.nodes[node], allocated})
}

// Undo removes the last member.
func (s *Trial) Undo() {
	last := s.puts[len(s.puts)-1]
	s.puts = s.puts[:len(s.puts)-1]
	s.note(s.pods.RemovePod(klog.FromContext(s.ctx), last.pod, last.node))
	if last.allocated {
		s.ledgers.Undo()
	}
}

// note records the first error, and invalidates the PreFilter results.
func (s *Trial) note(err error) {
	if s.err == nil {
		s.err = err
	}
	for k := range s.results {
		s.results[k].done = false
	}
}

// Dependent returns whether members may be interdependent: a plugin that reads more than one node applies to them.
// alone says that all members are of this kind.
func (c *Counter) Dependent(alone bool) bool {
	if c.rejected != nil {
		return false
	}
	skipped := c.state.GetSkipFilterPlugins()
	for _, p := range c.plugins.PreFilter.Enabled {
		switch scope := facts[p.Name].scope; {
		case scope == local || scope == ledgered || skipped.Has(p.Name): // ledgers are asked below
		case p.Name == names.InterPodAffinity && (hasNoTerms(c.member) || alone && onlyApartOnHosts(c.member)):
		default:
			return true
		}
	}
	return c.pages.far(c.member.GetPod())
}

// KeptOffBy returns whether a running pod keeps members off nodes other than its own.
func (c *Counter) KeptOffBy(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || c.rejected != nil || c.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) {
		return false
	}
	onHost := func(t v1.PodAffinityTerm) bool { return t.TopologyKey == v1.LabelHostname }
	far := slices.DeleteFunc(slices.Clone(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity)), onHost)
	if len(far) == 0 {
		return false
	}
	terms, err := fwk.GetAffinityTerms(pod, far)
	return err == nil && c.keptOffFrom(terms)
}

// Seeks returns whether a member must be near pods such as this one.
func (c *Counter) Seeks(pod *v1.Pod) bool {
	return slices.ContainsFunc(c.member.GetRequiredAffinityTerms(), func(t fwk.AffinityTerm) bool { return mayMatch(&t, pod) })
}

// onlyApartOnHosts returns whether a pod's own terms only keep pods off its node, which can be counted per node.
func onlyApartOnHosts(pod fwk.PodInfo) bool {
	for _, t := range pod.GetRequiredAntiAffinityTerms() {
		if t.TopologyKey != v1.LabelHostname {
			return false
		}
	}
	return len(pod.GetRequiredAffinityTerms()) == 0
}
