package elasticquota

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

// scheduleWrite schedules an update of the ElasticQuota objects after a change, unless one is scheduled. r.mu is locked.
func (r *Manager) scheduleWrite() {
	r.scheduleCheck()
	if r.writePending {
		return
	}
	r.writePending = true
	r.cluster.Do("quotas of objects", r.settle, true, r.write)
}

// Settle is how long changes of quotas are gathered before they are written.
const Settle = time.Second

type patchWrite struct {
	object *object
	patch  []byte
}

// write patches all ElasticQuotas that are out of date. If yields returns true, it stops and schedules the rest. It returns the first
// error; the caller then calls it again.
func (r *Manager) write(ctx context.Context, yields func() bool) (first error) {
	r.lock()
	r.writePending = false // even if writing is not allowed yet: Resume schedules it again
	if !r.cluster.Open() {
		r.mu.Unlock()
		return nil
	}
	all := r.pendingWrites()
	r.mu.Unlock()
	for _, w := range all {
		if yields() {
			r.lock()
			r.scheduleWrite()
			r.mu.Unlock()
			break
		}
		resource, sub := convert.ElasticQuotas, ""
		if w.object.schedulerPlugins {
			resource, sub = convert.ElasticQuotasX, "status"
		}
		if err := r.cluster.Patch(ctx, resource, w.object.raw.GetNamespace(), w.object.raw.GetName(), w.patch, sub); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// pendingWrites returns the patches for objects that are out of date. r.mu is locked.
func (r *Manager) pendingWrites() (all []patchWrite) {
	if !r.Active() {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[k]
		version := r.currentBook().Version(o.Name)
		if o.writtenVersion == version { // already compared
			continue
		}
		b, ok := r.book.Sums(o.Name)
		if s, _ := r.book.Tree().Spec(o.Name); !ok || o.reported != "" && b.Broken == "" && s.Created != o.Created {
			continue // another object declares this quota
		}
		annotations := map[string]string{}
		written := o.raw.GetAnnotations() // a copy
		if !o.schedulerPlugins {
			for key, amounts := range map[string]map[string]string{
				scheduling.AnnotationQuotaRuntime: quantities(b.FairShare), scheduling.AnnotationQuotaRequest: quantities(b.Request),
				scheduling.AnnotationQuotaFixedUsed: quantities(b.Fixed),
			} {
				if text := asJSON(amounts); written[key] != text {
					annotations[key] = text
				}
			}
		}
		used := quantities(b.Used)
		same := maps.Equal(usedInObject(o.raw), used)
		if len(annotations) == 0 && same {
			o.writtenVersion = version
			continue
		}
		patch := map[string]any{"metadata": map[string]any{"uid": o.raw.GetUID()}}
		if len(annotations) > 0 {
			patch["metadata"] = map[string]any{"uid": o.raw.GetUID(), "annotations": annotations}
		}
		if !same {
			patch["status"] = map[string]any{"used": usedPatch(o.raw, used)}
		}
		data, err := json.Marshal(patch)
		if err != nil {
			continue
		}
		all = append(all, patchWrite{o, data})
	}
	return all
}

func asJSON(amounts map[string]string) string {
	if amounts == nil {
		amounts = map[string]string{}
	}
	data, _ := json.Marshal(amounts)
	return string(data)
}

// usedInObject returns status.used of an object.
func usedInObject(u *unstructured.Unstructured) map[string]string {
	amounts, _, _ := unstructured.NestedStringMap(u.Object, "status", "used")
	return amounts
}

// usedPatch returns the merge patch of status.used that makes it equal to used. It removes other resources with null values.
func usedPatch(u *unstructured.Unstructured, used map[string]string) map[string]any {
	out := map[string]any{}
	for name := range usedInObject(u) {
		out[name] = nil
	}
	for name, n := range used {
		out[name] = n
	}
	return out
}
