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

// Trial is a what-if snapshot: members are added to nodes of the scheduler's snapshot. It is for interdependent members (pod affinity,
// topology spread). PreFilters run again after every change, as in the members' own cycles. Invariant: Close restores the snapshot, and no
// cycle continues before that.
type Trial struct {
	ctx        context.Context
	profile    framework.Framework
	pods       fwk.MutableSnapshotSharedLister
	kinds      []*v1.Pod
	nodes      []string
	closed     []ClosedDomains // closed domains by kind
	results    []preFiltered   // PreFilter results by kind
	puts       []put
	err        error
	rejectedBy pluginSet
	pages      Pages
	ledgers    rehearsals
}

// RejectingPlugins returns the plugins that rejected a member on any node, sorted.
func (s *Trial) RejectingPlugins() []string { return s.rejectedBy.list() }

// preFiltered is the PreFilter result of a kind.
type preFiltered struct {
	done         bool // the result is valid
	state        fwk.CycleState
	result       *fwk.PreFilterResult
	restrictedBy []string // the plugins that restrict nodes
	rejected     bool
}

type put struct {
	pod       *v1.Pod
	node      string
	allocated bool // the ledgers have allocated for it
}

// NewTrial returns a trial with one pod of each kind. nodes are names by index; "" takes no member. The caller must call Close.
func NewTrial(ctx context.Context, profile framework.Framework, kinds []*v1.Pod, nodes []string, pages ...opened) (*Trial, error) {
	pods := profile.MutableSnapshotSharedLister()
	if err := pods.StartMutations(); err != nil {
		return nil, err
	}
	return &Trial{
		ctx: context.WithValue(ctx, whatIfKey{}, true), profile: profile, pods: pods,
		kinds: kinds, nodes: nodes, closed: make([]ClosedDomains, len(kinds)), results: make([]preFiltered, len(kinds)),
		pages: pages, ledgers: Pages(pages).rehearse(),
	}, nil
}

// CloseDomains sets the domains that members of a kind must not use.
func (s *Trial) CloseDomains(kind int, closed ClosedDomains) { s.closed[kind] = closed }

// Close restores the snapshot. It returns the first error of all calls, if any.
func (s *Trial) Close() error { return errors.Join(s.err, s.pods.EndMutations()) }

// Add adds a pod that the snapshot lacks to a node. Call it after all calls of Remove.
func (s *Trial) Add(node string, pod fwk.PodInfo) {
	s.take(pod.GetPod(), node)
	s.noteChange(s.pods.AddPod(pod, node))
}

// take allocates for a pod in the ledgers, and returns whether that succeeded; false without ledgers.
func (s *Trial) take(pod *v1.Pod, node string) bool {
	if len(s.ledgers) == 0 {
		return false
	}
	n, err := s.pods.NodeInfos().Get(node)
	return err == nil && s.ledgers.Take(s.ctx, pod, n).IsSuccess()
}

// Remove removes a pod from its node, and its allocations from the ledgers.
func (s *Trial) Remove(pod *v1.Pod) {
	s.ledgers.Release(pod)
	s.noteChange(s.pods.RemovePod(klog.FromContext(s.ctx), pod, pod.Spec.NodeName))
}

// Fits returns whether the Filters and the ledgers accept a member of a kind on a node now.
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
	if _, isClosed := s.closed[kind].Closes(n.Node()); isClosed {
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

// preFilter returns the PreFilter result of a kind. It runs the PreFilters if the snapshot has changed since the last call.
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
		s.noteChange(status.AsError())
	}
	pre.state = s.pages.withoutFreeing(pre.state) // other plugins still run: they read bound pods, which pages do not
	s.results[kind] = pre
	return pre
}

// Put adds a member of a kind to a node.
func (s *Trial) Put(kind, node int) {
	allocated := s.take(s.kinds[kind], s.nodes[node])
	pod := *s.kinds[kind]
	pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.UID, len(s.puts)))
	pod.Spec.NodeName = s.nodes[node]
	info, err := framework.NewPodInfo(&pod)
	if err == nil {
		err = s.pods.AddPod(info, s.nodes[node])
	}
	s.noteChange(err)
	s.puts = append(s.puts, put{&pod, s.nodes[node], allocated})
}

// Undo removes the member that Put added last.
func (s *Trial) Undo() {
	last := s.puts[len(s.puts)-1]
	s.puts = s.puts[:len(s.puts)-1]
	s.noteChange(s.pods.RemovePod(klog.FromContext(s.ctx), last.pod, last.node))
	if last.allocated {
		s.ledgers.Undo()
	}
}

// noteChange invalidates the PreFilter results after a change. It records err if it is the first error.
func (s *Trial) noteChange(err error) {
	if s.err == nil {
		s.err = err
	}
	for k := range s.results {
		s.results[k].done = false
	}
}

// Dependent returns whether members may be interdependent: a plugin or ledger that reads more than one node applies to them. alone says
// that all members of the group are of this kind.
func (c *Counter) Dependent(alone bool) bool {
	if c.rejected != nil {
		return false
	}
	skipped := c.state.GetSkipFilterPlugins()
	for _, p := range c.plugins.PreFilter.Enabled {
		switch scope := facts[p.Name].scope; {
		case scope == local || scope == ledgered || skipped.Has(p.Name): // ledgers are checked below
		case p.Name == names.InterPodAffinity && (hasNoTerms(c.member) || alone && onlyApartOnHosts(c.member)):
		default:
			return true
		}
	}
	return c.pages.far(c.member.GetPod())
}

// KeptOffBy returns whether the anti-affinity of a running pod excludes members from nodes other than the pod's own.
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

// Seeks returns whether a member has a required affinity that may match the pod.
func (c *Counter) Seeks(pod *v1.Pod) bool {
	return slices.ContainsFunc(c.member.GetRequiredAffinityTerms(), func(t fwk.AffinityTerm) bool { return mayMatch(&t, pod) })
}

// onlyApartOnHosts returns whether a pod's only required terms are anti-affinity by host name. Such members can be counted node by node.
func onlyApartOnHosts(pod fwk.PodInfo) bool {
	for _, t := range pod.GetRequiredAntiAffinityTerms() {
		if t.TopologyKey != v1.LabelHostname {
			return false
		}
	}
	return len(pod.GetRequiredAffinityTerms()) == 0
}
