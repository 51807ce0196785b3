package convert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	requests "k8s.io/component-helpers/resource"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// ElasticQuotas are Koordinator's, ElasticQuotasX those of scheduler-plugins.
var (
	ElasticQuotas  = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
	ElasticQuotasX = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
)

// Beside says whether a resource is another project's, and says nothing of gangs.
func Beside(r schema.GroupVersionResource) bool {
	return r == Devices || r == ElasticQuotas || r == ElasticQuotasX
}

// Quota is an ElasticQuota as it is written.
type Quota struct {
	quota.Spec
	// Tree is of which tree it is; "" is the one of the whole cluster. Root says that it is the top of it, Total how much there
	// is for it then, and Own that this is not for the tree of the cluster.
	Tree  string
	Root  bool
	Total quota.List
	Own   bool
	// Namespaces are those whose pods belong to it.
	Namespaces []string
	// Profile is by whom it was made; "" if by nobody.
	Profile string
}

// ReadQuota reads a Koordinator ElasticQuota. What cannot be read of it stands in Wrong.
func ReadQuota(u *unstructured.Unstructured) *Quota {
	labels, notes := u.GetLabels(), u.GetAnnotations()
	q := &Quota{Spec: quota.Spec{
		Name: u.GetName(), Parent: labels[scheduling.LabelQuotaParent], Inner: labels[scheduling.LabelQuotaIsParent] == "true",
		Keeps: labels[scheduling.LabelQuotaLends] == "false", Created: u.GetCreationTimestamp().UnixNano(),
	}}
	q.Tree, q.Root = labels[scheduling.LabelQuotaTree], labels[scheduling.LabelQuotaIsRoot] == "true"
	q.Own, q.Profile = labels[scheduling.LabelQuotaOwnNodes] == "true", labels[scheduling.LabelQuotaProfile]
	q.limits(u)
	q.Weight = q.annotated(notes, scheduling.AnnotationQuotaWeight)
	if text := notes[scheduling.AnnotationQuotaTotal]; q.Root && text != "" {
		q.Total = q.annotated(notes, scheduling.AnnotationQuotaTotal)
		for r, n := range q.annotated(notes, scheduling.AnnotationQuotaBroken) {
			if _, ok := q.Total[r]; ok {
				q.Total[r] = max(0, q.Total[r]-n)
			}
		}
	}
	if text := notes[scheduling.AnnotationQuotaNamespaces]; text != "" {
		var err error
		if q.Namespaces, err = scheduling.ParseQuotaNamespaces(text); err != nil {
			q.wrong("annotation %v", err)
		}
	}
	return q
}

// ReadQuotaX reads an ElasticQuota of scheduler-plugins, which is that of its namespace. top is the quota above all of them.
func ReadQuotaX(u *unstructured.Unstructured, top string) *Quota {
	q := &Quota{Spec: quota.Spec{Name: Key(u.GetNamespace(), u.GetName()), Parent: top, Created: u.GetCreationTimestamp().UnixNano()}, Namespaces: []string{u.GetNamespace()}}
	q.limits(u)
	return q
}

func (q *Quota) wrong(format string, args ...any) {
	if q.Wrong == "" {
		q.Wrong = fmt.Sprintf(format, args...)
	}
}

// limits reads min and max.
func (q *Quota) limits(u *unstructured.Unstructured) {
	for _, f := range []struct {
		name string
		into *quota.List
	}{{"min", &q.Min}, {"max", &q.Max}} {
		value, ok, err := unstructured.NestedFieldNoCopy(u.Object, "spec", f.name)
		amounts, is := value.(map[string]any)
		switch {
		case !ok || value == nil && err == nil:
		case err != nil || !is:
			q.wrong("spec.%s: %v is invalid; supported values: amounts by resource", f.name, value)
		default:
			*f.into = q.amounts("spec."+f.name, amounts)
		}
	}
}

// annotated reads amounts by resource from an annotation; nil if there is none.
func (q *Quota) annotated(notes map[string]string, key string) quota.List {
	text := notes[key]
	if text == "" {
		return nil
	}
	all, err := scheduling.ParseQuotaAmounts(key)(text)
	if err != nil {
		q.wrong("annotation %v", err)
		return nil
	}
	l := quota.List{}
	for name, n := range all {
		l[name] = amount(name, n)
	}
	return l
}

func (q *Quota) amounts(where string, all map[string]any) quota.List {
	l := quota.List{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		n, err := resource.ParseQuantity(fmt.Sprint(value))
		if err != nil {
			q.wrong("%s.%s: %v is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi", where, name, value)
			continue
		}
		if l[name] = amount(name, n); n.Sign() < 0 {
			q.wrong("%s.%s: %v is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi", where, name, value)
		}
	}
	return l
}

// amount is a quantity in the units that quotas count in: processors in thousandths. What is more than can be counted is
// without end: Koordinator limits its default quota to 2⁶³/5 processors.
func amount(name string, n resource.Quantity) int64 {
	unit := int64(1)
	if name == string(v1.ResourceCPU) {
		unit = 1000
	}
	switch {
	case n.CmpInt64(math.MaxInt64/unit) > 0:
		return math.MaxInt64
	case n.CmpInt64(math.MinInt64/unit) < 0:
		return math.MinInt64
	case unit == 1:
		return n.Value()
	}
	return n.MilliValue()
}

// Amounts are quantities in the units that quotas count in.
func Amounts(l v1.ResourceList) quota.List {
	out := make(quota.List, len(l))
	for name, n := range l {
		out[string(name)] = amount(string(name), n)
	}
	return out
}

// Quantity is an amount that quotas count, in words.
func Quantity(name string, n int64) string { return quantity(name, n).String() }

// Float is an amount that quotas count, in the units of a resource: cores, bytes, devices.
func Float(name string, n int64) float64 { return quantity(name, n).AsApproximateFloat64() }

func quantity(name string, n int64) *resource.Quantity {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return resource.NewQuantity(n, resource.DecimalSI)
}

// Quantities are amounts in the words of Koordinator: sorted, without blanks, such as "cpu:8,memory:64Gi".
func Quantities(l quota.List) string {
	out := ""
	for i, name := range slices.Sorted(maps.Keys(l)) {
		if i > 0 {
			out += ","
		}
		out += name + ":" + Quantity(name, l[name])
	}
	if out == "" {
		return "<empty>"
	}
	return out
}

// Requests is what a pod takes of its quota.
func Requests(pod *v1.Pod) quota.List {
	return Amounts(requests.PodRequests(pod, requests.PodResourcesOptions{}))
}

// AddDevices adds what a claim asks for to what a pod takes of its quota, by class and as Kubernetes' own quotas count it: all that a node
// has is as many devices as a claim may have, and of requests that may be met in several ways each class counts that is named there.
func AddDevices(l quota.List, claim *resourceapi.DeviceClaim) {
	for _, request := range claim.Requests {
		if e := request.Exactly; e != nil {
			l[QuotaOfClass(e.DeviceClassName)] += devices(e.AllocationMode, e.Count)
		}
		most := quota.List{}
		for _, sub := range request.FirstAvailable {
			name := QuotaOfClass(sub.DeviceClassName)
			most[name] = max(most[name], devices(sub.AllocationMode, sub.Count))
		}
		for name, n := range most {
			l[name] += n
		}
	}
}

// UnsureDevices are the names under which quotas count more devices than a claim may take, or some that others may have, too: all that a node
// has, requests that may be met in several ways, and administrators' access.
func UnsureDevices(claim *resourceapi.DeviceClaim) (names []string) {
	for _, request := range claim.Requests {
		if e := request.Exactly; e != nil && (e.AllocationMode == resourceapi.DeviceAllocationModeAll || e.AdminAccess != nil && *e.AdminAccess) {
			names = append(names, QuotaOfClass(e.DeviceClassName))
		}
		for _, sub := range request.FirstAvailable {
			if len(request.FirstAvailable) > 1 || sub.AllocationMode == resourceapi.DeviceAllocationModeAll {
				names = append(names, QuotaOfClass(sub.DeviceClassName))
			}
		}
	}
	return names
}

// DevicesOf are the names under which quotas count the devices that a claim asks for.
func DevicesOf(claim *resourceapi.DeviceClaim) []string {
	l := quota.List{}
	AddDevices(l, claim)
	return slices.Sorted(maps.Keys(l))
}

// AddExtended adds the devices that a pod takes under the name of an extended resource to what it takes of its quota; backs says which class
// has a name. One that is bound has them of its node's kubelet if no claim was made for it.
func AddExtended(l quota.List, pod *v1.Pod, backs func(resource string) string) {
	if pod.Spec.NodeName != "" && pod.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if class := backs(name); class != "" && l[name] > 0 {
			l[QuotaOfClass(class)] += l[name]
		}
	}
}

// ClassOfQuota is the class whose devices a quota counts under a name, if it is the name of such.
func ClassOfQuota(name string) (class string, is bool) {
	return strings.CutSuffix(name, v1.ResourceClaimsPerClass)
}

// QuotaOfClass is the name under which quotas count the devices of a class.
func QuotaOfClass(name string) string { return name + v1.ResourceClaimsPerClass }

func devices(mode resourceapi.DeviceAllocationMode, count int64) int64 {
	if mode == resourceapi.DeviceAllocationModeAll {
		return resourceapi.AllocationResultsMaxSize
	}
	return min(max(1, count), math.MaxInt32) // files need not have what the API server fills in
}

// NamesQuota is the quota that a pod names; "" if it names none.
func NamesQuota(pod *v1.Pod) string { return pod.Labels[scheduling.LabelQuotaName] }

// Fixed says that a pod is never evicted, so that it takes of its quota's min.
func Fixed(pod *v1.Pod) bool { return pod.Labels[scheduling.LabelQuotaPreemptible] == "false" }
