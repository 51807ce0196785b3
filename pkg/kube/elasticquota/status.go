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

// touch has what quotas have written into their objects, some time after something has changed. r.mu is held.
func (r *Room) touch() {
	r.lookLater()
	if r.touched {
		return
	}
	r.touched = true
	r.cluster.Do("quotas of objects", r.settle, true, r.write)
}

// Settle is how long changes of quotas are gathered before they are written.
const Settle = time.Second

// writing is what is to be written into one object.
type writing struct {
	object *object
	patch  []byte
}

// write brings up to date what stands in all ElasticQuotas; where it yields, the others' turn comes later. It returns the first error,
// after which all are tried again.
func (r *Room) write(ctx context.Context, yields func() bool) (first error) {
	r.lock()
	r.touched = false // also where nothing may be written yet: Resume has it written
	if !r.cluster.Open() {
		r.mu.Unlock()
		return nil
	}
	all := r.writings()
	r.mu.Unlock()
	for _, w := range all {
		if yields() {
			r.lock()
			r.touch()
			r.mu.Unlock()
			break
		}
		of, sub := convert.ElasticQuotas, ""
		if w.object.x {
			of, sub = convert.ElasticQuotasX, "status"
		}
		if err := r.cluster.Patch(ctx, of, w.object.about.GetNamespace(), w.object.about.GetName(), w.patch, sub); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// writings are the objects that say something else than what is true. r.mu is held.
func (r *Room) writings() (all []writing) {
	if !r.Active() {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(r.objects)) {
		o := r.objects[k]
		version := r.asked().Version(o.Name)
		if o.written == version { // nothing has changed since it was found to be true
			continue
		}
		b, ok := r.book.Sums(o.Name)
		if s, _ := r.book.Tree().Spec(o.Name); !ok || o.said != "" && b.Broken == "" && s.Created != o.Created {
			continue // another object of its name counts
		}
		notes := map[string]string{}
		stand := o.about.GetAnnotations() // a copy
		if !o.x {
			for key, amounts := range map[string]map[string]string{
				scheduling.AnnotationQuotaRuntime: quantities(b.Entitled), scheduling.AnnotationQuotaRequest: quantities(b.Request),
				scheduling.AnnotationQuotaFixedUsed: quantities(b.Fixed),
			} {
				if text := asJSON(amounts); stand[key] != text {
					notes[key] = text
				}
			}
		}
		used := quantities(b.Used)
		same := sameAmounts(o.about, used)
		if len(notes) == 0 && same {
			o.written = version
			continue
		}
		patch := map[string]any{"metadata": map[string]any{"uid": o.about.GetUID()}}
		if len(notes) > 0 {
			patch["metadata"] = map[string]any{"uid": o.about.GetUID(), "annotations": notes}
		}
		if !same {
			patch["status"] = map[string]any{"used": replaced(o.about, used)}
		}
		data, err := json.Marshal(patch)
		if err != nil {
			continue
		}
		all = append(all, writing{o, data})
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

// used is what stands in an object.
func used(u *unstructured.Unstructured) map[string]string {
	was, _, _ := unstructured.NestedStringMap(u.Object, "status", "used")
	return was
}

func sameAmounts(u *unstructured.Unstructured, is map[string]string) bool {
	return maps.Equal(used(u), is)
}

// replaced is what makes of what stands in an object what is true, in a merge patch.
func replaced(u *unstructured.Unstructured, is map[string]string) map[string]any {
	out := map[string]any{}
	for name := range used(u) {
		out[name] = nil
	}
	for name, n := range is {
		out[name] = n
	}
	return out
}
