package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// dumpKind is the kind of the object at the start of a dump, which says when the cluster was in that state:
//
//	apiVersion: musterctl/v1
//	kind: Dump
//	at: "2026-01-01T00:00:00Z"
//	unread: [podgroups.scheduling.x-k8s.io]
//	configuration: ...
//	versions: ...
//	book: ...
//
// With a time, the other objects are the objects of a cluster at that moment. Without a time they are input, as in any other file. Kinds in
// unread could not be listed. The configuration is that of the scheduler, if it is not the drop-in one. Other fields are for people.
var dumpKind = schema.GroupVersionKind{Group: "musterctl", Version: "v1", Kind: "Dump"}

type dump struct {
	metav1.TypeMeta `json:",inline"`
	At              string `json:"at,omitempty"`
	// Unread are the kinds that could not be listed.
	Unread []string `json:"unread,omitempty"`
	Notes  `json:",inline"`
}

// Notes are the parts of a dump beside the objects.
type Notes struct {
	Configuration string            `json:"configuration,omitempty"` // a KubeSchedulerConfiguration
	Versions      map[string]string `json:"versions,omitempty"`      // of the tool that made the dump, and of the cluster
	Book          any               `json:"book,omitempty"`          // the scheduler's decisions about the objects
}

// Configuration returns the KubeSchedulerConfiguration in the set's dump; nil if there is none.
func (s *Set) Configuration() []byte { return s.configuration }

// Moment returns the time at which the cluster was in this state; zero if the set is not from a cluster.
func (s *Set) Moment() time.Time { return s.moment }

// MarkUnlisted records that objects of some kinds could not be listed. The cluster may have such objects.
func (s *Set) MarkUnlisted(resources ...string) { s.unlisted = append(s.unlisted, resources...) }

// Unlisted reports whether objects of a kind could not be listed.
func (s *Set) Unlisted(resource string) bool { return slices.Contains(s.unlisted, resource) }

// SetMoment records that the set has the objects of a cluster at that time.
func (s *Set) SetMoment(at time.Time) { s.moment = at }

// readDump sets s.moment, s.configuration and s.unlisted from the dump object raw.
func (s *Set) readDump(raw []byte) error {
	var d struct {
		At, Configuration string
		Unread            []string
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("%s: %w", dumpKind.Kind, err)
	}
	if d.Configuration != "" {
		s.configuration = []byte(d.Configuration)
	}
	s.MarkUnlisted(d.Unread...)
	if d.At == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, d.At)
	if err != nil {
		return fmt.Errorf("%s: at: %q is no time; supported values: such as 2026-01-01T00:00:00Z", dumpKind.Kind, d.At)
	}
	s.moment = at
	return nil
}

// Write writes the set as YAML that Add can read: the notes, then the objects in the order of reading. It omits what may contain
// secrets and what no scheduler reads: most fields of containers and their statuses, applied configurations, parameters of volumes
// and devices. Of some kinds it writes only the metadata (see onlyMetadata).
func (s *Set) Write(w io.Writer, notes Notes) error {
	d := dump{TypeMeta: metav1.TypeMeta{APIVersion: dumpKind.GroupVersion().String(), Kind: dumpKind.Kind}, Unread: s.unlisted, Notes: notes}
	if !s.moment.IsZero() {
		d.At = s.moment.UTC().Format(time.RFC3339Nano)
	}
	if err := writeDocument(w, d); err != nil {
		return err
	}
	for objects := range slices.Chunk(s.objects, batchSize) {
		texts, failed := make([]bytes.Buffer, len(objects)), make([]error, len(objects))
		inParallel(len(objects), func(i int) { failed[i] = writeObject(&texts[i], objects[i]) })
		for i := range texts {
			if failed[i] != nil {
				return failed[i]
			}
			if _, err := texts[i].WriteTo(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeObject writes an object without the fields that Write omits.
func writeObject(w io.Writer, o object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.Object)
	if err != nil {
		return err
	}
	content = maps.Clone(content) // the content of an unstructured object is not a copy
	content["apiVersion"], content["kind"] = o.kind.resource.GroupVersion().String(), o.kind.name
	if onlyMetadata(o.kind) {
		content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": content["metadata"]}
	}
	return writeDocument(w, redact(content))
}

// onlyMetadata says whether Muster reads only the metadata of objects of kind k.
func onlyMetadata(k *kind) bool {
	return slices.ContainsFunc(source.Owners, func(o *source.Owner) bool { return o.Resource == k.resource && o.Read == nil })
}

func writeDocument(w io.Writer, value any) error {
	data, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "---\n%s", data)
	return err
}

// readFields are the fields of containers and container statuses that a scheduler can read.
var readFields = map[string][]string{
	"containers": containerFields, "initContainers": containerFields, "ephemeralContainers": containerFields,
	"containerStatuses": statusFields, "initContainerStatuses": statusFields, "ephemeralContainerStatuses": statusFields,
}

var (
	containerFields = []string{
		"name", "image", "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices",
	}
	statusFields = []string{"name", "ready", "started", "restartCount", "resources", "allocatedResources", "allocatedResourcesStatus"}
)

// driverFields are fields of volumes and devices whose values only their drivers understand.
var driverFields = map[string]string{
	"csi": "volumeAttributes", "flexVolume": "options", "gitRepo": "repository", "opaque": "parameters",
	"attachError": "message", "detachError": "message",
}

// driverKeys are fields of a volume, its class or its attachment that only the driver reads.
var driverKeys = []string{"parameters", "mountOptions", "attachmentMetadata"}

// redact returns a copy of a value without the fields that may contain secrets.
func redact(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range value {
			switch list, isList := v.([]any); {
			case k == "managedFields" || isAppliedCopy(k) && isText(v):
			case k == "data" && value["driver"] != nil && value["pool"] != nil: // of an allocated device: the driver's data
			case readFields[k] != nil && isList:
				out[k] = selectFields(list, readFields[k])
			case slices.Contains(driverKeys, k) && !isText(v): // a text is the value of a label with this key
			case driverFields[k] != "":
				out[k] = withoutField(redact(v), driverFields[k])
			default:
				out[k] = redact(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = redact(v)
		}
		return out
	}
	return value
}

// isAppliedCopy says whether annotation key contains a copy of the object as it was applied, with the fields that a dump omits.
// Such annotations come from kubectl, Rancher, Kopf and Banzai Cloud.
func isAppliedCopy(key string) bool {
	_, name, _ := strings.Cut(key, "/")
	return strings.HasPrefix(name, "last-applied") || strings.HasPrefix(name, "last-handled") || key == "objectset.rio.cattle.io/applied"
}

func isText(v any) bool { _, ok := v.(string); return ok }

// selectFields returns copies of the objects in list that have only the given fields.
func selectFields(list []any, fields []string) []any {
	out := []any{}
	for _, v := range list {
		item, ok := v.(map[string]any)
		if !ok {
			continue
		}
		kept := map[string]any{}
		for _, k := range fields {
			if v, ok := item[k]; ok {
				kept[k] = v
			}
		}
		out = append(out, kept)
	}
	return out
}

// withoutField removes the field from value, if value is an object, and returns value.
func withoutField(value any, field string) any {
	if content, ok := value.(map[string]any); ok {
		delete(content, field)
	}
	return value
}
