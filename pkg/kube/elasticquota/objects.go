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

// object is an ElasticQuota, and what was said of it.
type object struct {
	*convert.Quota
	about *unstructured.Unstructured
	x     bool
	said  string
	// written is the version of what the quota has (quota.Book) that stands in the object; 0 if that is not known.
	written uint64
}

// Resources are what the room reads of the cluster.
func (r *Room) Resources() []cache.Beside {
	return []cache.Beside{
		{Resource: convert.ElasticQuotas, Set: func(u *unstructured.Unstructured) { r.setObject(u, false) }, Drop: func(u *unstructured.Unstructured) { r.dropObject(u, false) }},
		{Resource: convert.ElasticQuotasX, Set: func(u *unstructured.Unstructured) { r.setObject(u, true) }, Drop: func(u *unstructured.Unstructured) { r.dropObject(u, true) }},
	}
}

func objectKey(u *unstructured.Unstructured, x bool) string {
	group := convert.ElasticQuotas.Group
	if x {
		group = convert.ElasticQuotasX.Group
	}
	return group + "/" + u.GetNamespace() + "/" + u.GetName()
}

func (r *Room) setObject(u *unstructured.Unstructured, x bool) {
	q := convert.ReadQuota(u)
	if x {
		q = convert.ReadQuotaX(u, TopX)
	}
	r.mu.Lock()
	if r.objects == nil {
		r.objects = map[string]*object{}
	}
	k := objectKey(u, x)
	was := r.objects[k]
	is := &object{Quota: q, about: u, x: x}
	if r.objects[k] = is; was != nil {
		is.said = was.said
		if reflect.DeepEqual(was.Quota, q) { // what is written of it changes often
			r.mu.Unlock()
			return
		}
	}
	r.regrow()
}

func (r *Room) dropObject(u *unstructured.Unstructured, x bool) {
	r.mu.Lock()
	delete(r.objects, objectKey(u, x))
	r.regrow()
}

// regrow has the tree made anew when somebody next asks, and what is wrong with it said: objects come by the hundred at the start, and
// everything that pods have is counted anew with the tree. The first quota counts at once. It gives r.mu back, which is held.
func (r *Room) regrow() {
	if r.wild = true; !r.Active() {
		r.grow()
	} else {
		r.cluster.Do("the tree of quotas", 0, false, func(context.Context, func() bool) error {
			r.lock()
			r.tell()
			return nil
		})
	}
	r.tell()
}

// tell says what is to be said, and that somebody may be admitted. It gives r.mu back, which is held.
func (r *Room) tell() {
	var above []*v1.Pod
	if !r.wild {
		above = r.above()
	}
	notes, ended := r.takeNotes(), r.ended
	r.ended = false
	r.mu.Unlock()
	r.say(notes)
	if len(above) > 0 {
		r.cluster.Hear(Event{What: MayNotKeep, Members: above})
	}
	if ended {
		r.cluster.Hear(Event{What: MayBeAdmitted})
		return
	}
	r.changed()
}

// above are members of the gangs that keep what their quotas do not allow any more when those have left who are to, one of each. r.mu is held.
func (r *Room) above() (members []*v1.Pod) {
	if !r.Active() {
		return nil
	}
	gangs := r.book.Above(r.departing(r.leaves)...)
	for _, k := range sorted(r.pods) {
		p := r.pods[k]
		if at := slices.Index(gangs, gangOf(p.Pod)); at >= 0 && p.Spec.NodeName == "" {
			members, gangs = append(members, p.Pod), slices.Delete(gangs, at, at+1)
		}
	}
	return members
}

// builtIn says whether a quota is there without being declared.
func builtIn(name string) bool {
	return name == scheduling.RootQuota || name == scheduling.DefaultQuota || name == scheduling.SystemQuota
}

// grow makes the tree anew. r.mu is held.
func (r *Room) grow() {
	r.wild = false
	r.grown++
	all := slices.SortedFunc(maps.Values(r.objects), func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(objectKey(a.about, a.x), objectKey(b.about, b.x)))
	})
	specs, of := r.specs(all)
	tree, problems := quota.Grow(specs)
	r.wrong = map[string]string{}
	for _, p := range problems {
		if o := of[p.Spec]; o != nil {
			k := objectKey(o.about, o.x)
			r.wrong[k] = cmp.Or(r.wrong[k], p.Words)
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
		for _, name := range sorted(r.pods) {
			p := r.pods[name]
			if of, _ := r.quotaOf(p.Pod); p.asks == nil || of != p.quota { // the others have what they had
				r.put(p)
			}
		}
		r.totals()
	}
}

// olderRoot is how Koordinator called the root in what it wrote before it had its name.
const olderRoot = "root"

// specs are the quotas, and by index which object declares each.
func (r *Room) specs(all []*object) (specs []quota.Spec, of []*object) {
	r.names, r.ofX, r.ofK = map[string]string{}, false, false
	own := map[string]*object{}
	roots := map[string]string{}
	for _, o := range all {
		switch {
		case o.x:
			r.ofX = true
		case builtIn(o.Name):
			own[o.Name] = o
			continue
		default:
			r.ofK = true
			if o.Root && roots[o.Tree] == "" {
				roots[o.Tree] = o.Name
			}
		}
		for _, ns := range o.Namespaces {
			if _, taken := r.names[nsKey(ns, o.x)]; !taken {
				r.names[nsKey(ns, o.x)] = o.Name
			}
		}
		r.names[o.Name] = o.Name
	}
	add := func(s quota.Spec, o *object) { specs, of = append(specs, s), append(of, o) }
	if r.ofK {
		add(quota.Spec{Name: scheduling.RootQuota, Inner: true}, own[scheduling.RootQuota])
		add(r.apart(scheduling.DefaultQuota, own, r.args.DefaultMax, r.args.SpareDefault), own[scheduling.DefaultQuota])
		add(r.apart(scheduling.SystemQuota, own, r.args.SystemMax, true), own[scheduling.SystemQuota])
	}
	if r.ofX {
		add(topX(all), nil)
	}
	for _, o := range all {
		if builtIn(o.Name) && !o.x {
			continue
		}
		s := o.Spec
		if s.Parent == olderRoot && r.names[olderRoot] == "" {
			s.Parent = scheduling.RootQuota
		}
		switch {
		case o.x || s.Parent != "" && s.Parent != scheduling.RootQuota:
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
	return specs, of
}

func nsKey(namespace string, x bool) string {
	if x {
		return "x:" + namespace
	}
	return "namespace:" + namespace
}

// apart is a quota that is there without being declared, limited by its object if there is one.
func (r *Room) apart(name string, own map[string]*object, most map[string]resource.Quantity, spared bool) quota.Spec {
	s := quota.Spec{Name: name, Parent: scheduling.RootQuota, Apart: true, Spared: spared, Max: quota.List{}}
	for res, n := range most {
		l := convert.Amounts(v1.ResourceList{v1.ResourceName(res): n})
		s.Max[res] = l[res]
	}
	if o := own[name]; o != nil && len(o.Max) > 0 {
		s.Max, s.Min, s.Wrong = o.Max, o.Min, o.Wrong
	}
	return s
}

// topX is the quota above those of scheduler-plugins: together they never have more than the sum of their mins, of what all of
// them name.
func topX(all []*object) quota.Spec {
	s := quota.Spec{Name: TopX, Inner: true, Max: quota.List{}}
	first := true
	for _, o := range all {
		if !o.x || o.Wrong != "" {
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

// quotaOf is the quota of a pod; "" if it has none. bad is a quota that it names, and that there is not.
func (r *Room) quotaOf(p *v1.Pod) (name, bad string) {
	tree := r.book.Tree()
	if named := convert.NamesQuota(p); named != "" {
		if r.ofK && tree.Has(named) {
			return named, ""
		}
		bad = named
	}
	if bad == "" {
		if o := r.objects[convert.ElasticQuotas.Group+"/"+p.Namespace+"/"+p.Namespace]; o != nil {
			return o.Name, ""
		}
		if name, ok := r.names[nsKey(p.Namespace, false)]; ok {
			return name, ""
		}
		if name, ok := r.names[nsKey(p.Namespace, true)]; ok {
			return name, ""
		}
	}
	if r.ofK {
		return scheduling.DefaultQuota, bad
	}
	return "", bad
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
