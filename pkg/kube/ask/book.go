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

// Book is what a scheduler knows that takes the cluster over and goes on, for who looks for a fault: in it
// everything has the names that the scheduler's parts have for it.
type Book struct {
	// Reservations are places that were held when the cluster was found as it is.
	Reservations []Reserved `json:"reservations"`
	// Gangs are those that wait, in the order in which they are tried.
	Gangs []Entry `json:"gangs"`
	// Answers are those of the Filters, for pods of gangs that wait, on the cluster as it was found.
	Answers []Answers `json:"answers"`
	// Unanswered is for how many more templates nobody was asked.
	Unanswered int `json:"unanswered,omitempty"`
}

// Reserved is the places that are held for a group of gangs.
type Reserved struct {
	Group    string   `json:"group"`
	Priority int32    `json:"priority"`
	Places   []string `json:"places"` // namespace/name on node; after ~ is the number of one who is still to be made
}

// Entry is one gang.
type Entry struct {
	Gang     string   `json:"gang"`
	Group    []string `json:"group,omitempty"` // who starts together, if these are several
	Position int      `json:"position"`        // as Place's
	Priority int32    `json:"priority"`
	Members  Members  `json:"members"`
	State    State    `json:"state"`
	// Plan is what the scheduler would do; nil if that is nothing.
	Plan    *Next    `json:"plan,omitempty"`
	Refusal *Refused `json:"refusal,omitempty"`
}

// Refused is a refusal as the scheduler has it.
type Refused struct {
	By        string   `json:"by"` // whose refusal it is
	Says      string   `json:"says,omitempty"`
	Words     string   `json:"words"`
	Plugins   []string `json:"plugins,omitempty"`
	Evictable bool     `json:"evictable"` // more room would cure it
	Never     bool     `json:"never"`     // nobody who leaves cures it
}

// Answers are what the Filters say of one template: of members that need the same.
type Answers struct {
	Pod   string       `json:"pod"` // the first that is one
	Pods  int          `json:"pods"`
	Nodes []NodeAnswer `json:"nodes"`
}

// NodeAnswer is what they say of some nodes alike.
type NodeAnswer struct {
	Slots   int      `json:"slots"`
	Reasons []string `json:"reasons,omitempty"`
	Nodes   []string `json:"nodes"`
}

// mostTemplates is of how many templates the Filters are asked.
const mostTemplates = 50

// refusers are the names of those who refuse.
var refusers = map[gang.Refuser]string{
	gang.Declaration: "Declaration", gang.Conflict: "Conflict", gang.Consent: "Consent", gang.Missing: "Missing",
	gang.Plan: "Plan", gang.Template: "Template", gang.Quota: "Quota", gang.Veto: "Veto", gang.API: "API",
}

// Book reads the book as the cluster was found, has the scheduler go on, and notes what has become of those who
// wait. It returns what Queue does, too, of all namespaces.
func (v *View) Book(ctx context.Context) (*Book, []Waiter, error) {
	out := &Book{Reservations: v.reservations(), Gangs: []Entry{}, Answers: []Answers{}}
	if err := v.answers(ctx, out); err != nil {
		return nil, nil, err
	}
	all, err := v.Queue(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	for i, ref := range v.queue {
		w := &all[i]
		e := Entry{Gang: w.Gang, Position: w.Position, Priority: w.Priority, Members: w.Members, State: w.State, Plan: w.next}
		if together := v.cache().Together(ref); len(together) > 1 {
			for _, other := range together {
				e.Group = append(e.Group, other.String())
			}
		}
		if r, ok := v.cache().Report(ref); ok && r.Refusal.Is() {
			e.Refusal = &Refused{
				By: refusers[r.Refusal.By], Says: r.Refusal.Says, Words: r.Refusal.String(), Plugins: r.Refusal.Plugins,
				Evictable: r.Refusal.Evictable, Never: r.Refusal.Never,
			}
		}
		out.Gangs = append(out.Gangs, e)
	}
	return out, all, nil
}

// reservations are all places that are held for somebody who has no node yet.
func (v *View) reservations() []Reserved {
	all := []Reserved{}
	tree := v.cache().Topology().Tree
	places := v.cache().PlacesIn(tree, lowest)
	for i := range tree.NumNodes() {
		for _, p := range places[i] {
			if p.Spec.NodeName != "" {
				continue
			}
			group := v.cache().GroupKey(p).String()
			at := slices.IndexFunc(all, func(r Reserved) bool { return r.Group == group })
			if at < 0 {
				at = len(all)
				all = append(all, Reserved{Group: group, Priority: v.cache().Priority(p)})
			}
			all[at].Places = append(all[at].Places, convert.PodKey(p)+" on "+tree.NodeName(i))
		}
	}
	return all
}

// answers asks the Filters about each template of which pods wait. Templates that they cannot tell apart have one
// answer.
func (v *View) answers(ctx context.Context, out *Book) error {
	const none = -1
	known := map[string]int{} // of a template, the index in out.Answers
	alike := map[string]int{} // the same by what the Filters read of it
	for _, ref := range v.queue {
		for _, pod := range v.withAhead(ref, v.cache().Pending(ref)) {
			template := v.kind(pod)
			if at, ok := known[template]; ok {
				if at != none {
					out.Answers[at].Pods++
				}
				continue
			}
			err := v.eachTemplate(ctx, v.cache().Topology().Tree, []*v1.Pod{pod}, func(c *fit.Counter, nodes []fwk.NodeInfo) {
				key := c.Key()
				at, ok := alike[key]
				switch {
				case ok && key != "":
					out.Answers[at].Pods++
				case len(out.Answers) == mostTemplates:
					at = none
					out.Unanswered++
				default:
					at = len(out.Answers)
					alike[key] = at
					out.Answers = append(out.Answers, Answers{Pod: convert.PodKey(pod), Pods: 1, Nodes: v.answersOf(ctx, c, pod, nodes)})
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

// answersOf are the answers about one template, each with the nodes for which it is the same.
func (v *View) answersOf(ctx context.Context, c *fit.Counter, pod *v1.Pod, nodes []fwk.NodeInfo) []NodeAnswer {
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
