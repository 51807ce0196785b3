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

// ElasticQuotas are Koordinator's, ElasticQuotasX scheduler-plugins'.
var (
	ElasticQuotas  = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
	ElasticQuotasX = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
)

// Beside says whether r is Device or an ElasticQuota: resources of other projects that declare no gangs.
func Beside(r schema.GroupVersionResource) bool {
	return r == Devices || r == ElasticQuotas || r == ElasticQuotasX
}

// Quota is an ElasticQuota as it is written.
type Quota struct {
	quota.Spec
	// Tree is its tree; "" is the cluster's. Root says that it is the top of the tree. Total is then the capacity of the tree. Own says
	// that this capacity does not count for the cluster's tree.
	Tree  string
	Root  bool
	Total quota.List
	Own   bool
	// Namespaces are the namespaces with pods of the quota.
	Namespaces []string
	// Profile is the profile that made it; "" for none.
	Profile string
}

// ReadQuota returns a Koordinator ElasticQuota. The first error is in Invalid.
func ReadQuota(u *unstructured.Unstructured) *Quota {
	labels, notes := u.GetLabels(), u.GetAnnotations()
	q := &Quota{Spec: quota.Spec{
		Name: u.GetName(), Parent: labels[scheduling.LabelQuotaParent], Inner: labels[scheduling.LabelQuotaIsParent] == "true",
		NotLent: labels[scheduling.LabelQuotaLends] == "false", Created: u.GetCreationTimestamp().UnixNano(),
	}}
	q.Tree, q.Root = labels[scheduling.LabelQuotaTree], labels[scheduling.LabelQuotaIsRoot] == "true"
	q.Own, q.Profile = labels[scheduling.LabelQuotaOwnNodes] == "true", labels[scheduling.LabelQuotaProfile]
	q.limits(u)
	q.Weight = q.annotationAmounts(notes, scheduling.AnnotationQuotaWeight)
	if text := notes[scheduling.AnnotationQuotaTotal]; q.Root && text != "" {
		q.Total = q.annotationAmounts(notes, scheduling.AnnotationQuotaTotal)
		for r, n := range q.annotationAmounts(notes, scheduling.AnnotationQuotaBroken) {
			if _, ok := q.Total[r]; ok {
				q.Total[r] = max(0, q.Total[r]-n)
			}
		}
	}
	if text := notes[scheduling.AnnotationQuotaNamespaces]; text != "" {
		var err error
		if q.Namespaces, err = scheduling.ParseQuotaNamespaces(text); err != nil {
			q.setInvalid("annotation %v", err)
		}
	}
	return q
}

// ReadQuotaX returns an ElasticQuota of scheduler-plugins, which counts the pods of its namespace. parent is its parent quota.
func ReadQuotaX(u *unstructured.Unstructured, parent string) *Quota {
	q := &Quota{
		Spec:       quota.Spec{Name: Key(u.GetNamespace(), u.GetName()), Parent: parent, Created: u.GetCreationTimestamp().UnixNano()},
		Namespaces: []string{u.GetNamespace()},
	}
	q.limits(u)
	return q
}

// setInvalid sets q.Invalid, unless it is set already.
func (q *Quota) setInvalid(format string, args ...any) {
	if q.Invalid == "" {
		q.Invalid = fmt.Sprintf(format, args...)
	}
}

// limits sets q.Min and q.Max from the spec.
func (q *Quota) limits(u *unstructured.Unstructured) {
	for _, f := range []struct {
		name   string
		target *quota.List
	}{{"min", &q.Min}, {"max", &q.Max}} {
		value, ok, err := unstructured.NestedFieldNoCopy(u.Object, "spec", f.name)
		amounts, isMap := value.(map[string]any)
		switch {
		case err != nil:
			q.setInvalid("spec: %v is invalid; write min and max", u.Object["spec"])
		case !ok || value == nil:
		case !isMap:
			q.setInvalid("spec.%s: %v is invalid; write amounts by resource, such as cpu: 8", f.name, value)
		default:
			*f.target = q.amounts("spec."+f.name, amounts)
		}
	}
}

// annotationAmounts returns amounts by resource from an annotation; nil for none.
func (q *Quota) annotationAmounts(notes map[string]string, key string) quota.List {
	text := notes[key]
	if text == "" {
		return nil
	}
	quantities, err := scheduling.ParseQuotaAmounts(key)(text)
	if err != nil {
		q.setInvalid("annotation %v", err)
		return nil
	}
	l := quota.List{}
	for name, n := range quantities {
		l[name] = amount(name, n)
	}
	return l
}

// amounts returns values, quantities by resource, in the units of quotas. path is their field, for errors.
func (q *Quota) amounts(path string, values map[string]any) quota.List {
	l := quota.List{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		n, err := resource.ParseQuantity(fmt.Sprint(value))
		if err != nil {
			q.setInvalid("%s.%s: %v is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi", path, name, value)
			continue
		}
		if l[name] = amount(name, n); n.Sign() < 0 {
			q.setInvalid("%s.%s: %v is invalid; supported values: a quantity ≥ 0, such as 8 or 64Gi", path, name, value)
		}
	}
	return l
}

// amount returns n in the units of quotas: CPU in thousandths. Amounts beyond int64 become the largest int64, which means unlimited:
// Koordinator's default quota has 2⁶³/5 CPUs.
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

// Amounts returns quantities in the units of quotas.
func Amounts(l v1.ResourceList) quota.List {
	out := make(quota.List, len(l))
	for name, n := range l {
		out[string(name)] = amount(string(name), n)
	}
	return out
}

// Quantity returns an amount as text.
func Quantity(name string, n int64) string { return quantity(name, n).String() }

// Float returns an amount in the units of the resource: cores, bytes, devices.
func Float(name string, n int64) float64 { return quantity(name, n).AsApproximateFloat64() }

// quantity is the inverse of amount: n is in the units of quotas.
func quantity(name string, n int64) *resource.Quantity {
	switch v1.ResourceName(name) {
	case v1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return resource.NewQuantity(n, resource.DecimalSI)
}

// Quantities returns amounts in Koordinator's format: sorted, without blanks, such as "cpu:8,memory:64Gi".
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

// Requests returns what a pod uses of its quota.
func Requests(pod *v1.Pod) quota.List {
	return Amounts(requests.PodRequests(pod, requests.PodResourcesOptions{}))
}

// AddDevices adds to l the devices of a claim by class, as Kubernetes' own quotas count them. Mode All counts as the maximum of a claim.
// Alternatives (firstAvailable) count for each of their classes.
func AddDevices(l quota.List, claim *resourceapi.DeviceClaim) {
	for _, request := range claim.Requests {
		if e := request.Exactly; e != nil {
			l[QuotaOfClass(e.DeviceClassName)] += devices(e.AllocationMode, e.Count)
		}
		largest := quota.List{}
		for _, sub := range request.FirstAvailable {
			name := QuotaOfClass(sub.DeviceClassName)
			largest[name] = max(largest[name], devices(sub.AllocationMode, sub.Count))
		}
		for name, n := range largest {
			l[name] += n
		}
	}
}

// UnsureDevices returns the quota resources that AddDevices may overcount: for mode All, alternatives, and admin access.
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

// DevicesOf returns the quota resources that AddDevices adds for a claim, sorted.
func DevicesOf(claim *resourceapi.DeviceClaim) []string {
	l := quota.List{}
	AddDevices(l, claim)
	return slices.Sorted(maps.Keys(l))
}

// AddExtended adds to l, a pod's usage, the devices of its extended resources; classOf returns a resource's device class, "" for none.
// It adds nothing for a bound pod without a claim, whose devices come from the node's kubelet.
func AddExtended(l quota.List, pod *v1.Pod, classOf func(name string) string) {
	if pod.Spec.NodeName != "" && pod.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if class := classOf(name); class != "" && l[name] > 0 {
			l[QuotaOfClass(class)] += l[name]
		}
	}
}

// ClassOfQuota returns the device class that the quota resource name counts; false if name is no such resource.
func ClassOfQuota(name string) (class string, ok bool) {
	return strings.CutSuffix(name, v1.ResourceClaimsPerClass)
}

// QuotaOfClass returns the quota resource that counts the devices of a class.
func QuotaOfClass(name string) string { return name + v1.ResourceClaimsPerClass }

// devices returns how many devices a quota counts for a request.
func devices(mode resourceapi.DeviceAllocationMode, count int64) int64 {
	if mode == resourceapi.DeviceAllocationModeAll {
		return resourceapi.AllocationResultsMaxSize
	}
	return min(max(1, count), math.MaxInt32) // the API server sets the default; files may lack it
}

// NamesQuota returns the quota that a pod names; "" for none.
func NamesQuota(pod *v1.Pod) string { return pod.Labels[scheduling.LabelQuotaName] }

// Fixed says whether a label forbids evicting the pod, so that it uses its quota's min.
func Fixed(pod *v1.Pod) bool { return pod.Labels[scheduling.LabelQuotaPreemptible] == "false" }
