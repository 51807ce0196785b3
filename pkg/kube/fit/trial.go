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

// Trial is the scheduler's snapshot with members put on nodes to see who fits then. It
// is for members that depend on one another across nodes (pod affinity, topology
// spread): PreFilters are run anew after every change, as they will be in the members'
// own cycles. The snapshot is as it was once the trial is closed, and no cycle may go
// on before.
type Trial struct {
	ctx     context.Context
	profile framework.Framework
	pods    fwk.MutableSnapshotSharedLister
	kinds   []*v1.Pod
	nodes   []string
	off     []Off  // by kind, where none may be
	seen    []seen // by kind; as it is now
	puts    []put
	err     error
	by      refusers
	pages   Pages
	ledgers rehearsals
}

// Refusers are the plugins that have refused a member on some node, sorted.
func (s *Trial) Refusers() []string { return s.by.list() }

// seen is what PreFilter said of a kind.
type seen struct {
	done    bool
	state   fwk.CycleState
	result  *fwk.PreFilterResult
	with    []string // the plugins that leave some nodes only
	refused bool
}

type put struct {
	pod  *v1.Pod
	node string
	took bool // of the ledgers
}

// NewTrial begins one with one member of each kind, on nodes by index, where "" is none that takes anybody, and with what the
// ledgers say of them. It must be closed.
func NewTrial(ctx context.Context, profile framework.Framework, kinds []*v1.Pod, nodes []string, pages ...opened) (*Trial, error) {
	pods := profile.MutableSnapshotSharedLister()
	if err := pods.StartMutations(); err != nil {
		return nil, err
	}
	return &Trial{
		ctx: context.WithValue(ctx, asking{}, true), profile: profile, pods: pods,
		kinds: kinds, nodes: nodes, off: make([]Off, len(kinds)), seen: make([]seen, len(kinds)), pages: pages, ledgers: Pages(pages).rehearse(),
	}, nil
}

// KeepOff has no member of a kind fit in some domains.
func (s *Trial) KeepOff(kind int, off Off) { s.off[kind] = off }

// Close restores the snapshot. The error is that of any call.
func (s *Trial) Close() error { return errors.Join(s.err, s.pods.EndMutations()) }

// Add puts a pod there that counts besides the snapshot. Those who leave do so before.
func (s *Trial) Add(node string, pod fwk.PodInfo) {
	s.take(pod.GetPod(), node)
	s.note(s.pods.AddPod(pod, node))
}

// take has a pod take of the ledgers what it needs there, and says whether it has.
func (s *Trial) take(pod *v1.Pod, node string) bool {
	if len(s.ledgers) == 0 {
		return false
	}
	n, err := s.pods.NodeInfos().Get(node)
	return err == nil && s.ledgers.Take(s.ctx, pod, n).IsSuccess()
}

// Remove has a pod leave.
func (s *Trial) Remove(pod *v1.Pod) {
	s.ledgers.Leave(pod)
	s.note(s.pods.RemovePod(klog.FromContext(s.ctx), pod, pod.Spec.NodeName))
}

// Fits says whether a member of a kind passes the Filters on a node now.
func (s *Trial) Fits(kind, node int) bool {
	look := s.look(kind)
	if s.err != nil || look.refused {
		return false
	}
	if !look.result.AllNodes() && !look.result.NodeNames.Has(s.nodes[node]) {
		s.by.add(look.with...)
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
	status := s.profile.RunFilterPlugins(s.ctx, look.state, s.pages.asked(s.kinds[kind]), n)
	if status.IsSuccess() && len(s.ledgers) > 0 {
		if status = s.ledgers.Take(s.ctx, s.kinds[kind], n); status.IsSuccess() {
			s.ledgers.Undo()
		}
	}
	if !status.IsSuccess() {
		s.by.add(status.Plugin())
	}
	return status.IsSuccess()
}

// look runs the PreFilters of a kind if something has changed since.
func (s *Trial) look(kind int) seen {
	if s.seen[kind].done {
		return s.seen[kind]
	}
	look := seen{done: true, state: framework.NewCycleState()}
	result, status, with := s.profile.RunPreFilterPlugins(s.ctx, look.state, s.pages.asked(s.kinds[kind]))
	look.result, look.with, look.refused = result, sets.List(with), !status.IsSuccess()
	if look.refused {
		s.by.add(append(look.with, status.Plugin())...)
	}
	if look.refused && !status.IsRejected() {
		s.note(status.AsError())
	}
	look.state = s.pages.afterLeaving(look.state) // of what is bound already the pages say nothing, but their plugins do
	s.seen[kind] = look
	return look
}

// Put puts a member of a kind on a node.
func (s *Trial) Put(kind, node int) {
	took := s.take(s.kinds[kind], s.nodes[node])
	pod := *s.kinds[kind]
	pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.UID, len(s.puts)))
	pod.Spec.NodeName = s.nodes[node]
	info, err := framework.NewPodInfo(&pod)
	if err == nil {
		err = s.pods.AddPod(info, s.nodes[node])
	}
	s.note(err)
	s.puts = append(s.puts, put{&pod, s.nodes[node], took})
}

// Undo takes the last member that was put back.
func (s *Trial) Undo() {
	last := s.puts[len(s.puts)-1]
	s.puts = s.puts[:len(s.puts)-1]
	s.note(s.pods.RemovePod(klog.FromContext(s.ctx), last.pod, last.node))
	if last.took {
		s.ledgers.Undo()
	}
}

// note remembers the first error, and that what was seen is no longer true.
func (s *Trial) note(err error) {
	if s.err == nil {
		s.err = err
	}
	for k := range s.seen {
		s.seen[k].done = false
	}
}

// Dependent says whether members that this counter counts may depend on others across
// nodes: a plugin that looks beyond one node has something to say about them. alone
// says that all members are of this kind.
func (c *Counter) Dependent(alone bool) bool {
	if c.refused != nil {
		return false
	}
	skipped := c.state.GetSkipFilterPlugins()
	for _, p := range c.plugins.PreFilter.Enabled {
		switch scope := facts[p.Name].scope; {
		case scope == local || scope == ledgered || skipped.Has(p.Name): // ledgers say so below
		case p.Name == names.InterPodAffinity && (hasNoTerms(c.member) || alone && onlyApartOnHosts(c.member)):
		default:
			return true
		}
	}
	return c.pages.far(c.member.GetPod())
}

// KeptOffBy says whether a pod that runs keeps members off other nodes than its own.
func (c *Counter) KeptOffBy(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil || c.refused != nil || c.state.GetSkipFilterPlugins().Has(names.InterPodAffinity) {
		return false
	}
	far := slices.DeleteFunc(slices.Clone(fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity)), func(t v1.PodAffinityTerm) bool { return t.TopologyKey == v1.LabelHostname })
	if len(far) == 0 {
		return false
	}
	terms, err := fwk.GetAffinityTerms(pod, far)
	return err == nil && c.keptOffFrom(terms)
}

// Seeks says whether a member must be near pods such as this one.
func (c *Counter) Seeks(pod *v1.Pod) bool {
	return slices.ContainsFunc(c.member.GetRequiredAffinityTerms(), func(t fwk.AffinityTerm) bool { return mayMatch(&t, pod) })
}

// onlyApartOnHosts says that a pod's own terms only keep others like it off its node:
// that can be counted node by node.
func onlyApartOnHosts(pod fwk.PodInfo) bool {
	for _, t := range pod.GetRequiredAntiAffinityTerms() {
		if t.TopologyKey != v1.LabelHostname {
			return false
		}
	}
	return len(pod.GetRequiredAffinityTerms()) == 0
}
