package elasticquota

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
	"github.com/muster-scheduler/muster/pkg/quota"
)

var everything = labels.Everything()

// object is an ElasticQuota, and what was reported about it and written into it.
type object struct {
	*convert.Quota
	raw              *unstructured.Unstructured
	schedulerPlugins bool   // an ElasticQuota of scheduler-plugins, not of Koordinator
	reported         string // the problem that was reported last; "" is none
	// writtenVersion is the quota's version (quota.Book) that the object shows; 0 if that is not known.
	writtenVersion uint64
}

// Resources returns the API objects that the Manager reads.
func (r *Manager) Resources() []cache.ExtraResource {
	return []cache.ExtraResource{
		{
			Resource: convert.ElasticQuotas,
			Set:      func(u *unstructured.Unstructured) { r.setObject(u, false) },
			Drop:     func(u *unstructured.Unstructured) { r.dropObject(u, false) },
		},
		{
			Resource: convert.ElasticQuotasX,
			Set:      func(u *unstructured.Unstructured) { r.setObject(u, true) },
			Drop:     func(u *unstructured.Unstructured) { r.dropObject(u, true) },
		},
	}
}

// objectKey returns the API group, namespace and name of an ElasticQuota as one text.
func objectKey(u *unstructured.Unstructured, schedulerPlugins bool) string {
	group := convert.ElasticQuotas.Group
	if schedulerPlugins {
		group = convert.ElasticQuotasX.Group
	}
	return group + "/" + u.GetNamespace() + "/" + u.GetName()
}

func (r *Manager) setObject(u *unstructured.Unstructured, schedulerPlugins bool) {
	q := convert.ReadQuota(u)
	if schedulerPlugins {
		q = convert.ReadQuotaX(u, SchedulerPluginsRoot)
	}
	r.mu.Lock()
	if r.objects == nil {
		r.objects = map[string]*object{}
	}
	k := objectKey(u, schedulerPlugins)
	previous := r.objects[k]
	current := &object{Quota: q, raw: u, schedulerPlugins: schedulerPlugins}
	if r.objects[k] = current; previous != nil {
		current.reported = previous.reported
		if reflect.DeepEqual(previous.Quota, q) { // its status changes often
			r.mu.Unlock()
			return
		}
	}
	r.invalidateTree()
}

func (r *Manager) dropObject(u *unstructured.Unstructured, schedulerPlugins bool) {
	r.mu.Lock()
	delete(r.objects, objectKey(u, schedulerPlugins))
	r.invalidateTree()
}

// invalidateTree makes the next call of lock rebuild the tree, and has its problems reported. It does not rebuild at once, because many
// objects may arrive together and a rebuild is slow; only the first quota is counted at once. The caller has locked r.mu; it is unlocked.
func (r *Manager) invalidateTree() {
	if r.treeStale = true; !r.Active() {
		r.rebuildTree()
	} else {
		r.cluster.Do("the tree of quotas", 0, false, func(context.Context, func() bool) error {
			r.lock()
			r.report()
			return nil
		})
	}
	r.report()
}

// report publishes notes, gangs above their max, and that waiting gangs may be admitted. The caller has locked r.mu; it is unlocked.
func (r *Manager) report() {
	var above []*v1.Pod
	if !r.treeStale {
		above = r.gangsAboveMax()
	}
	notes, ended := r.takeNotes(), r.lastQuotaGone
	r.lastQuotaGone = false
	r.mu.Unlock()
	r.reportNotes(notes)
	if len(above) > 0 {
		r.cluster.Hear(Event{Kind: MayNotKeep, Members: above})
	}
	if ended {
		r.cluster.Hear(Event{Kind: MayBeAdmitted})
		return
	}
	r.notifyMayBeAdmitted()
}

// gangsAboveMax returns one member of each gang whose reservation exceeds its quota even after all evictions. r.mu is locked.
func (r *Manager) gangsAboveMax() (members []*v1.Pod) {
	if !r.Active() {
		return nil
	}
	gangs := r.book.GangsAboveLimits(r.terminatingPods(r.isTerminating)...)
	for _, k := range sortedKeys(r.pods) {
		p := r.pods[k]
		if at := slices.Index(gangs, GangName(p.Pod)); at >= 0 && p.Spec.NodeName == "" {
			members, gangs = append(members, p.Pod), slices.Delete(gangs, at, at+1)
		}
	}
	return members
}

// builtIn returns whether a quota exists without a declaration.
func builtIn(name string) bool {
	return name == scheduling.RootQuota || name == scheduling.DefaultQuota || name == scheduling.SystemQuota
}

// rebuildTree builds the tree from r.objects, and counts the pods again whose quota has changed. r.mu is locked.
func (r *Manager) rebuildTree() {
	r.treeStale = false
	r.treeVersion++
	all := slices.SortedFunc(maps.Values(r.objects), func(a, b *object) int {
		keyA, keyB := objectKey(a.raw, a.schedulerPlugins), objectKey(b.raw, b.schedulerPlugins)
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(keyA, keyB))
	})
	specs, objects := r.declaredSpecs(all)
	tree, problems := quota.NewTree(specs)
	r.problems = map[string]string{}
	for _, p := range problems {
		if o := objects[p.Spec]; o != nil {
			k := objectKey(o.raw, o.schedulerPlugins)
			if p.Stops {
				p.Message = "the quota cannot be used, and its pods wait: " + p.Message
			}
			r.problems[k] = cmp.Or(r.problems[k], p.Message)
		}
	}
	if r.book == nil {
		r.book = r.newBook(tree)
	} else {
		r.book = r.book.Replant(tree)
		r.book.Runtime, r.book.ScaleMin = r.args.Runtime, r.args.ScaleMin
	}
	r.activate()
	if r.Active() {
		for _, name := range sortedKeys(r.pods) {
			p := r.pods[name]
			if objects, _ := r.quotaOf(p.Pod); p.requests == nil || objects != p.quota { // other pods are as the book has them
				r.update(p)
			}
		}
		r.markTotalsStale()
	}
}

// olderRoot is the root's name in objects that older Koordinator releases wrote.
const olderRoot = "root"

// declaredSpecs returns all quotas of the tree, and for each by the same index the object that declares it, or nil. It sets r.quotaNames.
func (r *Manager) declaredSpecs(all []*object) (specs []quota.Spec, objects []*object) {
	r.quotaNames, r.hasSchedulerPluginsQuotas, r.hasKoordinatorQuotas = map[string]string{}, false, false
	own := map[string]*object{}
	roots := map[string]string{}
	for _, o := range all {
		switch {
		case o.schedulerPlugins:
			r.hasSchedulerPluginsQuotas = true
		case builtIn(o.Name):
			own[o.Name] = o
			continue
		default:
			r.hasKoordinatorQuotas = true
			if o.Root && roots[o.Tree] == "" {
				roots[o.Tree] = o.Name
			}
		}
		for _, ns := range o.Namespaces {
			if _, taken := r.quotaNames[nsKey(ns, o.schedulerPlugins)]; !taken {
				r.quotaNames[nsKey(ns, o.schedulerPlugins)] = o.Name
			}
		}
		r.quotaNames[o.Name] = o.Name
	}
	add := func(s quota.Spec, o *object) { specs, objects = append(specs, s), append(objects, o) }
	if r.hasKoordinatorQuotas {
		add(quota.Spec{Name: scheduling.RootQuota, Inner: true}, own[scheduling.RootQuota])
		add(r.builtInSpec(scheduling.DefaultQuota, own, r.args.DefaultMax, r.args.SpareDefault), own[scheduling.DefaultQuota])
		add(r.builtInSpec(scheduling.SystemQuota, own, r.args.SystemMax, true), own[scheduling.SystemQuota])
	}
	if r.hasSchedulerPluginsQuotas {
		add(schedulerPluginsSpec(all), nil)
	}
	for _, o := range all {
		if builtIn(o.Name) && !o.schedulerPlugins {
			continue
		}
		s := o.Spec
		if s.Parent == olderRoot && r.quotaNames[olderRoot] == "" {
			s.Parent = scheduling.RootQuota
		}
		switch {
		case o.schedulerPlugins || s.Parent != "" && s.Parent != scheduling.RootQuota:
		case o.Root && o.Tree != "":
			s.Parent, s.Inner = "", true
		default:
			s.Parent = cmp.Or(roots[o.Tree], scheduling.RootQuota)
			if o.Tree == "" {
				s.Parent = scheduling.RootQuota
			}
		}
		add(s, o)
	}
	return specs, objects
}

func nsKey(namespace string, schedulerPlugins bool) string {
	if schedulerPlugins {
		return "x:" + namespace
	}
	return "namespace:" + namespace
}

// builtInSpec returns the default or the system quota. Its max and min are from its object if there is one, else max is limit. spared says
// that its pods are never evicted for other quotas.
func (r *Manager) builtInSpec(name string, own map[string]*object, limit map[string]resource.Quantity, spared bool) quota.Spec {
	s := quota.Spec{Name: name, Parent: scheduling.RootQuota, Detached: true, NeverEvicted: spared, Max: quota.List{}}
	for res, n := range limit {
		l := convert.Amounts(v1.ResourceList{v1.ResourceName(res): n})
		s.Max[res] = l[res]
	}
	if o := own[name]; o != nil && len(o.Max) > 0 {
		s.Max, s.Min, s.Invalid = o.Max, o.Min, o.Invalid
	}
	return s
}

// schedulerPluginsSpec returns the parent of the quotas of scheduler-plugins. Its max is the sum of their mins, for resources in all mins.
func schedulerPluginsSpec(all []*object) quota.Spec {
	s := quota.Spec{Name: SchedulerPluginsRoot, Inner: true, Max: quota.List{}}
	first := true
	for _, o := range all {
		if !o.schedulerPlugins || o.Invalid != "" {
			continue
		}
		if first {
			maps.Copy(s.Max, o.Min)
		} else {
			maps.DeleteFunc(s.Max, func(name string, _ int64) bool { _, ok := o.Min[name]; return !ok })
			for name := range s.Max {
				s.Max[name] += o.Min[name]
			}
		}
		first = false
	}
	return s
}

// quotaOf returns the quota of a pod; "" if it has none. missing is the quota that the pod's label names if that does not exist, else "".
func (r *Manager) quotaOf(p *v1.Pod) (name, missing string) {
	tree := r.book.Tree()
	if named := convert.NamesQuota(p); named != "" {
		if r.hasKoordinatorQuotas && tree.Has(named) {
			return named, ""
		}
		missing = named
	}
	if missing == "" {
		if o := r.objects[convert.ElasticQuotas.Group+"/"+p.Namespace+"/"+p.Namespace]; o != nil {
			return o.Name, ""
		}
		if name, ok := r.quotaNames[nsKey(p.Namespace, false)]; ok {
			return name, ""
		}
		if name, ok := r.quotaNames[nsKey(p.Namespace, true)]; ok {
			return name, ""
		}
	}
	if r.hasKoordinatorQuotas {
		return scheduling.DefaultQuota, missing
	}
	return "", missing
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
