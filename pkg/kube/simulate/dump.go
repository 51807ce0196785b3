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

// A dump is a file that begins with an object of its own, which says when the cluster was like that:
//
//	apiVersion: musterctl/v1
//	kind: Dump
//	at: "2026-01-01T00:00:00Z"
//	unread: [podgroups.scheduling.x-k8s.io]
//	configuration: ...
//	versions: ...
//	book: ...
//
// Who reads it takes the others for those of a cluster at that moment. Without a time they are what
// somebody wrote, as in any other file. What is unread may have been there. The configuration is that of the scheduler that was asked, if it
// was not the usual one. The rest is for people, and not read.
var dumpKind = schema.GroupVersionKind{Group: "musterctl", Version: "v1", Kind: "Dump"}

type dump struct {
	metav1.TypeMeta `json:",inline"`
	At              string `json:"at,omitempty"`
	// Unread are the kinds of which whoever made the dump might see no objects.
	Unread []string `json:"unread,omitempty"`
	Notes  `json:",inline"`
}

// Notes are what a dump says beside the objects.
type Notes struct {
	Configuration string            `json:"configuration,omitempty"` // a KubeSchedulerConfiguration
	Versions      map[string]string `json:"versions,omitempty"`      // of what the dump was made with, and of
	Book          any               `json:"book,omitempty"`          // what a scheduler makes of the objects
}

// Configuration is the KubeSchedulerConfiguration that came with the set; nil if none did.
func (s *Set) Configuration() []byte { return s.configuration }

// Moment is when a cluster was like that; zero if the set is of no cluster.
func (s *Set) Moment() time.Time { return s.moment }

// Miss notes that objects of some kinds could not be listed: that there are none in the set says nothing of the cluster.
func (s *Set) Miss(resources ...string) { s.unread = append(s.unread, resources...) }

// Missed says whether objects of a kind could not be listed.
func (s *Set) Missed(resource string) bool { return slices.Contains(s.unread, resource) }

// Found says that the set is a cluster as it was then.
func (s *Set) Found(at time.Time) { s.moment = at }

// readDump reads when a dump was made, and of which scheduler.
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
	s.Miss(d.Unread...)
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

// Write writes what Add reads, with the objects in the order in which they were read, and notes. What may hold
// secrets and is of no use to a scheduler is left out: of containers all but their size, ports and
// volumes, what users applied last, what containers said when they ended, parameters of volumes and devices,
// and of the objects of other projects all but their metadata where nothing else is read.
func (s *Set) Write(w io.Writer, notes Notes) error {
	d := dump{TypeMeta: metav1.TypeMeta{APIVersion: dumpKind.GroupVersion().String(), Kind: dumpKind.Kind}, Unread: s.unread, Notes: notes}
	if !s.moment.IsZero() {
		d.At = s.moment.UTC().Format(time.RFC3339Nano)
	}
	if err := writeDocument(w, d); err != nil {
		return err
	}
	for objects := range slices.Chunk(s.objects, together) {
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

// writeObject writes an object without what is left out.
func writeObject(w io.Writer, o object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.Object)
	if err != nil {
		return err
	}
	content = maps.Clone(content) // an unstructured object is not copied
	content["apiVersion"], content["kind"] = o.kind.resource.GroupVersion().String(), o.kind.name
	if onlyMetadata(o.kind) {
		content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": content["metadata"]}
	}
	return writeDocument(w, discreet(content))
}

// onlyMetadata says whether nothing else is read of an object.
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

// known are the fields of containers, and of what is said of them, that a scheduler can read.
var known = map[string][]string{
	"containers": containerFields, "initContainers": containerFields, "ephemeralContainers": containerFields,
	"containerStatuses": statusFields, "initContainerStatuses": statusFields, "ephemeralContainerStatuses": statusFields,
}

var (
	containerFields = []string{"name", "image", "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "volumeMounts", "volumeDevices"}
	statusFields    = []string{"name", "ready", "started", "restartCount", "resources", "allocatedResources", "allocatedResourcesStatus"}
)

// parameters are fields of volumes and devices whose values only their drivers know.
var parameters = map[string]string{
	"csi": "volumeAttributes", "flexVolume": "options", "gitRepo": "repository", "opaque": "parameters", "attachError": "message", "detachError": "message",
}

// ofDrivers are what a volume, its class or what has attached it has for those who mount it.
var ofDrivers = []string{"parameters", "mountOptions", "attachmentMetadata"}

// discreet returns a copy of a value without what may hold secrets.
func discreet(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range value {
			switch list, isList := v.([]any); {
			case k == "managedFields" || isCopy(k) && isText(v):
			case k == "data" && value["driver"] != nil && value["pool"] != nil: // of a device that was given: its driver's
			case known[k] != nil && isList:
				out[k] = chosen(list, known[k])
			case slices.Contains(ofDrivers, k) && !isText(v): // else it is a label's key
			case parameters[k] != "":
				out[k] = without(discreet(v), parameters[k])
			default:
				out[k] = discreet(v)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, v := range value {
			out[i] = discreet(v)
		}
		return out
	}
	return value
}

// isCopy says whether an annotation is one in which some tool keeps the whole object as it was applied, with all that is left
// out elsewhere: kubectl's, and those of Rancher, Kopf and Banzai Cloud.
func isCopy(key string) bool {
	_, name, _ := strings.Cut(key, "/")
	return strings.HasPrefix(name, "last-applied") || strings.HasPrefix(name, "last-handled") || key == "objectset.rio.cattle.io/applied"
}

func isText(v any) bool { _, ok := v.(string); return ok }

// chosen keeps some fields of each object of a list.
func chosen(list []any, fields []string) []any {
	out := []any{}
	for _, v := range list {
		of, ok := v.(map[string]any)
		if !ok {
			continue
		}
		kept := map[string]any{}
		for _, k := range fields {
			if v, ok := of[k]; ok {
				kept[k] = v
			}
		}
		out = append(out, kept)
	}
	return out
}

func without(value any, field string) any {
	if of, ok := value.(map[string]any); ok {
		delete(of, field)
	}
	return value
}
