package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Notes returns notes on what the set lacks: skipped objects, ignored fields, kinds that could not be listed, and missing pods. It returns
// notes on repeated objects and on pods of unknown nodes, too. A node of the sets in before is known.
func (s *Set) Notes(before ...*Set) (notes []string) {
	for _, what := range slices.Sorted(maps.Keys(s.skipped)) {
		n := s.skipped[what]
		notes = append(notes, fmt.Sprintf("%s: skipped %s %s%s: not read by a scheduler%s", n.at, what, n.name, n.moreText(), meantKind(what)))
	}
	for _, what := range slices.Sorted(maps.Keys(s.ignored)) {
		n := s.ignored[what]
		kind, why, _ := strings.Cut(what, ": ")
		notes = append(notes, fmt.Sprintf("%s: ignored in %s %s%s: %s", n.at, kind, n.name, n.moreText(), why))
	}
	for _, resource := range s.unlisted {
		notes = append(notes, UnlistedNote(resource))
	}
	return slices.Concat(notes, s.podNotes, s.unlistedPodNotes(), s.repeatNotes(), s.unknownNodeNotes(before))
}

// repeatNotes returns a note for each object that the set has more than once.
func (s *Set) repeatNotes() (notes []string) {
	all, repeated := map[identity][]object{}, []identity{}
	for _, o := range s.objects {
		id, m, err := identify(o)
		if err != nil || m.GetDeletionTimestamp() != nil { // it deletes the other
			continue
		}
		if all[id] = append(all[id], o); len(all[id]) == 2 {
			repeated = append(repeated, id)
		}
	}
	for i, id := range repeated {
		if i == mostRepeats {
			return append(notes, fmt.Sprintf("objects that the input has more than once, beside these: %d", len(repeated)-i))
		}
		slices.SortStableFunc(all[id], compareCreation)
		last := len(all[id]) - 1
		counts, first := all[id][last], occurrences{at: all[id][0].at, times: last}
		text := fmt.Sprintf("%s: %s is also at %s%s; only this one counts", counts.at, counts.about(), first.at, first.moreText())
		pod, ok := all[id][0].Object.(*v1.Pod)
		if ok && pod.Spec.NodeName != "" && pod.Spec.NodeName != counts.Object.(*v1.Pod).Spec.NodeName {
			text += ", with spec.nodeName of the other" // see keepImmutable
		}
		notes = append(notes, text)
	}
	return notes
}

const mostRepeats = 10

// compareCreation compares two objects of one name in the order in which cluster.apply stores them.
func compareCreation(a, b object) int {
	rank := func(o object) (n int) {
		if creationTime(o).IsZero() {
			n = 1
			if pod, ok := o.Object.(*v1.Pod); ok && pod.Spec.NodeName == "" {
				n = 2
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), creationTime(a).Compare(creationTime(b)))
}

// unknownNodeNotes returns a note for each node that pods name and that is neither in the set nor in the sets before.
func (s *Set) unknownNodeNotes(before []*Set) (notes []string) {
	known, named := map[string]bool{}, map[string]occurrences{}
	for _, set := range slices.Concat(before, []*Set{s}) {
		if set.Unlisted(nodes.Resource) {
			return nil
		}
		set.ForEach(func(o runtime.Object) {
			if node, ok := o.(*v1.Node); ok {
				known[node.Name] = true
			}
		})
	}
	for _, o := range s.objects {
		if pod, ok := o.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" && !known[pod.Spec.NodeName] && !convert.Finished(pod) {
			addNote(&named, pod.Spec.NodeName, occurrences{o.at, o.about(), 1})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(named)) {
		n := named[node]
		notes = append(notes, fmt.Sprintf("%s: %s%s: spec.nodeName is %s, and no Node of this name has been read: the requests count on no node",
			n.at, n.name, n.moreText(), node))
	}
	return notes
}

// meantKind returns the end of a note about a skipped object: the kinds that it seems to mean; "" for none. what is its apiVersion and
// kind. Kinds of that name in the same group come first, then in groups of a similar name. An object of a known group may mean any group.
func meantKind(what string) string {
	apiVersion, name, _ := strings.Cut(what, " ")
	group := schema.FromAPIVersionAndKind(apiVersion, name).Group
	matches := [3][]string{}
	for _, k := range slices.SortedFunc(maps.Values(kinds()), func(a, b *kind) int { return a.order - b.order }) {
		text := k.resource.GroupVersion().String() + " " + k.name
		switch {
		case !scheduling.Similar(name, k.name):
		case group == k.resource.Group:
			matches[0] = append(matches[0], text)
		case scheduling.Similar(group, k.resource.Group):
			matches[1] = append(matches[1], text)
		default:
			matches[2] = append(matches[2], text)
		}
	}
	isKnown := func(known schema.GroupKind) bool { return group != "" && known.Group == group }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(kinds())), isKnown) {
		matches[2] = nil
	}
	for _, all := range matches {
		if len(all) > 0 {
			return "; did you mean " + strings.Join(all, ", ") + "?"
		}
	}
	return ""
}

// occurrences is the first object that a note is about, and the number of such objects.
type occurrences struct {
	at    Position
	name  string
	times int
}

// addNote adds the occurrences of one to note what. The first object of a note is kept.
func addNote(notes *map[string]occurrences, what string, one occurrences) {
	if *notes == nil {
		*notes = map[string]occurrences{}
	}
	sum, ok := (*notes)[what]
	if !ok {
		sum = occurrences{at: one.at, name: one.name}
	}
	sum.times += one.times
	(*notes)[what] = sum
}

// moreText counts the objects that the note does not name.
func (n occurrences) moreText() string {
	if n.times == 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n.times-1)
}

// warnings returns the mistakes in objects that events report, and the mistakes of unusedKeys, which would need an event on every pod.
func (s *simulation) warnings() []Event {
	return append(s.cluster.warnings(s.recorder.sorted()), s.unusedKeys()...)
}

// unusedKeys returns warnings of quota labels in a cluster without quotas, and of topologyKeys that no node has. Each warning names
// the first pod with the mistake, and counts the others.
func (s *simulation) unusedKeys() (out []Event) {
	type mistake struct{ reason, text string }
	labels := map[string]bool{} // of some node
	nodeObjects, _ := s.cluster.list(nodes, "", nil)
	for _, o := range nodeObjects {
		for key := range o.(*v1.Node).Labels {
			labels[key] = true
		}
	}
	quotas := s.cluster.unlisted(convert.ElasticQuotas.GroupResource().String())
	for _, r := range []schema.GroupVersionResource{convert.ElasticQuotas, convert.ElasticQuotasX} {
		quotas = quotas || s.cluster.hasObjects(r)
	}
	owners := s.ownersWithKeys()
	at, order := map[mistake][]*v1.Pod{}, []mistake{}
	objects, _ := s.cluster.list(pods, "", nil)
	for _, o := range objects {
		pod := o.(*v1.Pod)
		var found []mistake
		if quota := convert.NamesQuota(pod); quota != "" && !quotas {
			text := fmt.Sprintf("label %s: %s has no effect: there is no ElasticQuota", scheduling.LabelQuotaName, quota)
			found = append(found, mistake{reasons.QuotaNotFound, text})
		}
		for _, ref := range pod.OwnerReferences {
			if text := owners[ref.UID]; text != "" && source.GangOf(pod).IsZero() {
				found = append(found, mistake{reasons.InvalidAnnotation, text})
			}
		}
		for _, key := range topologyKeys(pod) {
			if len(nodeObjects) > 0 && key != v1.LabelHostname && !labels[key] {
				found = append(found, mistake{reasons.UnknownTopologyKey, fmt.Sprintf("topologyKey %s: no node has this label", key)})
			}
		}
		for _, m := range found {
			if at[m] == nil {
				order = append(order, m)
			}
			at[m] = append(at[m], pod)
		}
	}
	for _, m := range order {
		first, text := "Pod "+convert.PodKey(at[m][0]), m.text
		if n := len(at[m]) - 1; n > 0 {
			text += fmt.Sprintf("; other pods with the same warning: %d", n)
		}
		position := ""
		if p, ok := s.cluster.positions[first]; ok {
			position = p.String()
		}
		out = append(out, Event{Object: first, Type: v1.EventTypeWarning, Reason: m.reason, Message: text, At: position})
	}
	return out
}

// ownersWithKeys returns a message on the annotations of each object that has an effect on gangs of its pods only, by its UID.
func (s *simulation) ownersWithKeys() map[types.UID]string {
	out := map[types.UID]string{}
	for _, kind := range source.Owners {
		objects, _ := s.cluster.list(kind.Resource, "", nil)
		for _, o := range objects {
			if u, ok := o.(*unstructured.Unstructured); ok && u.GetUID() != "" {
				out[u.GetUID()] = source.KeysOfGangs(u)
			}
		}
	}
	return out
}

// topologyKeys returns the topologyKeys of a pod's affinity and spread rules that must hold, each once.
func topologyKeys(pod *v1.Pod) (keys []string) {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, term := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			keys = append(keys, term.TopologyKey)
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			keys = append(keys, term.TopologyKey)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		keys = append(keys, c.TopologyKey)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
