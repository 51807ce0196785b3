package ask

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/fit"
	"github.com/muster-scheduler/muster/pkg/offer"
)

// Book is the internal state of a scheduler that takes over the cluster, for debugging, in the scheduler's internal terms.
type Book struct {
	// Reservations are the reserved nodes at the start.
	Reservations []GroupReservation `json:"reservations"`
	// Gangs are the waiting gangs, in scheduling order.
	Gangs []BookGang `json:"gangs"`
	// Answers are the answers of the Filters at the start, for pods of waiting gangs.
	Answers []Answers `json:"answers"`
	// Unanswered counts the templates beyond maxTemplates, for which the Filters were not run.
	Unanswered int `json:"unanswered,omitempty"`
}

// GroupReservation is the reserved nodes of a gang group.
type GroupReservation struct {
	Group    string   `json:"group"`
	Priority int32    `json:"priority"`
	Places   []string `json:"places"` // namespace/name on node; ~ is before the number of a member that is not created yet
}

// BookGang is one gang.
type BookGang struct {
	Gang     string   `json:"gang"`
	Group    []string `json:"group,omitempty"` // the gangs that start together, if there are several
	Position int      `json:"position"`        // see QueuePosition
	Priority int32    `json:"priority"`
	Members  Members  `json:"members"`
	State    State    `json:"state"`
	// Plan is what the scheduler would do; nil if nothing.
	Plan    *Next   `json:"plan,omitempty"`
	Refusal *Reason `json:"refusal,omitempty"`
}

// Reason is why the scheduler does not start a gang.
type Reason struct {
	By        string   `json:"by"` // the kind of obstacle, see refusers
	Says      string   `json:"says,omitempty"`
	Words     string   `json:"words"`
	Plugins   []string `json:"plugins,omitempty"`
	Evictable bool     `json:"evictable"` // more capacity would help
	Never     bool     `json:"never"`     // no eviction helps
}

// Answers are the results of the Filters for one template: members with equal requirements.
type Answers struct {
	Pod   string       `json:"pod"` // the first of these members
	Pods  int          `json:"pods"`
	Nodes []NodeAnswer `json:"nodes"`
}

// NodeAnswer is a result of the Filters that is the same for several nodes.
type NodeAnswer struct {
	Slots   int      `json:"slots"`
	Reasons []string `json:"reasons,omitempty"`
	Nodes   []string `json:"nodes"`
}

// maxTemplates bounds the templates for which Book runs the Filters.
const maxTemplates = 50

// refusers maps a kind of obstacle to the name of the part that found it.
var refusers = map[gang.ObstacleKind]string{
	gang.Declaration: "Declaration", gang.Conflict: "Conflict", gang.Consent: "Consent", gang.Missing: "Missing",
	gang.Plan: "Plan", gang.Template: "Template", gang.Quota: "Quota", gang.Veto: "Veto", gang.API: "API",
}

// Book returns the state at the start, and for each waiting gang what a run of the scheduler decides. The second result is that of
// Queue for all namespaces.
func (v *View) Book(ctx context.Context) (*Book, []Waiter, error) {
	out := &Book{Reservations: v.reservations(), Gangs: []BookGang{}, Answers: []Answers{}}
	if err := v.answers(ctx, out); err != nil {
		return nil, nil, err
	}
	all, err := v.Queue(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	for i, ref := range v.queue {
		w := &all[i]
		e := BookGang{Gang: w.Gang, Position: w.Position, Priority: w.Priority, Members: w.Members, State: w.State, Plan: w.next}
		if together := v.cache().Together(ref); len(together) > 1 {
			for _, other := range together {
				e.Group = append(e.Group, other.String())
			}
		}
		if r, ok := v.cache().Report(ref); ok && r.Refusal.Exists() {
			e.Refusal = &Reason{
				By: refusers[r.Refusal.By], Says: r.Refusal.Summary, Words: r.Refusal.String(), Plugins: r.Refusal.Plugins,
				Evictable: r.Refusal.Evictable, Never: r.Refusal.NeverEvictable,
			}
		}
		out.Gangs = append(out.Gangs, e)
	}
	return out, all, nil
}

// reservations returns all nodes that are reserved for pods without a node.
func (v *View) reservations() []GroupReservation {
	all := []GroupReservation{}
	tree := v.cache().Topology().Tree
	places := v.cache().PlacesIn(tree, lowest)
	for i := range tree.NumNodes() {
		for _, p := range places[i] {
			if p.Spec.NodeName != "" {
				continue
			}
			group := v.cache().GroupKey(p).String()
			at := slices.IndexFunc(all, func(r GroupReservation) bool { return r.Group == group })
			if at < 0 {
				at = len(all)
				all = append(all, GroupReservation{Group: group, Priority: v.cache().Priority(p)})
			}
			all[at].Places = append(all[at].Places, convert.PodKey(p)+" on "+tree.NodeName(i))
		}
	}
	return all
}

// answers sets out.Answers to the Filters' results for each template of waiting pods. Templates that Filters treat alike share one.
func (v *View) answers(ctx context.Context, out *Book) error {
	const none = -1
	known := map[string]int{}       // by template, the index in out.Answers
	byFilterKey := map[string]int{} // the same by what the Filters read of the template
	for _, ref := range v.queue {
		for _, pod := range v.withAhead(ref, v.cache().Pending(ref)) {
			template := v.templateKey(pod)
			if at, ok := known[template]; ok {
				if at != none {
					out.Answers[at].Pods++
				}
				continue
			}
			err := v.eachTemplate(ctx, v.cache().Topology().Tree, []*v1.Pod{pod}, func(c *fit.Counter, nodes []fwk.NodeInfo) {
				key := c.Key()
				at, ok := byFilterKey[key]
				switch {
				case ok && key != "":
					out.Answers[at].Pods++
				case len(out.Answers) == maxTemplates:
					at = none
					out.Unanswered++
				default:
					at = len(out.Answers)
					byFilterKey[key] = at
					out.Answers = append(out.Answers, Answers{Pod: convert.PodKey(pod), Pods: 1, Nodes: v.answersFor(ctx, c, pod, nodes)})
				}
				known[template] = at
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// answersFor returns the Filters' results for pod's template, each with the nodes that it applies to.
func (v *View) answersFor(ctx context.Context, c *fit.Counter, pod *v1.Pod, nodes []fwk.NodeInfo) []NodeAnswer {
	slots, reasons := make([]offer.Slots, len(nodes)), make([][]string, len(nodes))
	v.onEach(ctx, pod, nodes, func(i int, n fwk.NodeInfo) { slots[i], reasons[i] = c.Count(ctx, n, nil) })
	all := []NodeAnswer{}
	for i, n := range nodes {
		if n == nil {
			continue
		}
		at := slices.IndexFunc(all, func(a NodeAnswer) bool { return a.Slots == int(slots[i]) && slices.Equal(a.Reasons, reasons[i]) })
		if at < 0 {
			at = len(all)
			all = append(all, NodeAnswer{Slots: int(slots[i]), Reasons: reasons[i]})
		}
		all[at].Nodes = append(all[at].Nodes, n.Node().Name)
	}
	return all
}
