package simulate

import (
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
//	versions: ...
//	book: ...
//
// Who reads it takes the others for those of a cluster at that moment. Without a time they are what
// somebody wrote, as in any other file. The rest is for people, and not read.
var dumpKind = schema.GroupVersionKind{Group: "musterctl", Version: "v1", Kind: "Dump"}

type dump struct {
	metav1.TypeMeta `json:",inline"`
	At              string `json:"at,omitempty"`
	Notes           `json:",inline"`
}

// Notes are what a dump says beside the objects.
type Notes struct {
	Versions map[string]string `json:"versions,omitempty"` // of what the dump was made with, and of
	Book     any               `json:"book,omitempty"`     // what a scheduler makes of the objects
}

// Moment is when a cluster was like that; zero if the set is of no cluster.
func (s *Set) Moment() time.Time { return s.moment }

// Found says that the set is a cluster as it was then.
func (s *Set) Found(at time.Time) { s.moment = at }

// readDump reads when a dump was made.
func (s *Set) readDump(raw []byte) error {
	var d struct {
		At string `json:"at"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return fmt.Errorf("%s: %w", dumpKind.Kind, err)
	}
	if d.At == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, d.At)
	if err != nil {
		return fmt.Errorf("%s: at: %q is no time; legal: such as 2026-01-01T00:00:00Z", dumpKind.Kind, d.At)
	}
	s.moment = at
	return nil
}

// Write writes what Add reads, with the objects in the order in which they were read, and notes. What may hold
// secrets and is of no use to a scheduler is left out: of containers all but their size, ports and
// volumes, what users applied last, what containers said when they ended, parameters of volumes,
// and of the objects of other projects all but their metadata where nothing else is read.
func (s *Set) Write(w io.Writer, notes Notes) error {
	d := dump{TypeMeta: metav1.TypeMeta{APIVersion: dumpKind.GroupVersion().String(), Kind: dumpKind.Kind}, Notes: notes}
	if !s.moment.IsZero() {
		d.At = s.moment.UTC().Format(time.RFC3339Nano)
	}
	if err := writeDocument(w, d); err != nil {
		return err
	}
	for _, o := range s.objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.Object)
		if err != nil {
			return err
		}
		content = maps.Clone(content) // an unstructured object is not copied
		content["apiVersion"], content["kind"] = o.kind.resource.GroupVersion().String(), o.kind.name
		if onlyMetadata(o.kind) {
			content = map[string]any{"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": content["metadata"]}
		}
		if err := writeDocument(w, discreet(content)); err != nil {
			return err
		}
	}
	return nil
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
	containerFields = []string{"name", "image", "ports", "resources", "resizePolicy", "restartPolicy", "volumeMounts", "volumeDevices"}
	statusFields    = []string{"name", "ready", "started", "restartCount", "resources", "allocatedResources", "allocatedResourcesStatus"}
)

// parameters are fields of volumes whose values only their drivers know.
var parameters = map[string]string{"csi": "volumeAttributes", "flexVolume": "options"}

// discreet returns a copy of a value without what may hold secrets.
func discreet(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range value {
			switch list, isList := v.([]any); {
			case k == "managedFields" || strings.HasSuffix(k, "/last-applied-configuration"):
			case known[k] != nil && isList:
				out[k] = chosen(list, known[k])
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
