package simulate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	utf16 "golang.org/x/text/encoding/unicode"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/apis/workloads"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Set is the content of some files, in their order: the objects at the start of a simulation, or objects to apply later.
type Set struct {
	objects  []object
	skipped  map[string]occurrences
	ignored  map[string]occurrences
	moment   time.Time // when a cluster was in this state; zero if the set is not from a cluster
	unlisted []string  // kinds that could not be listed, such as podgroups.scheduling.x-k8s.io
	podNotes []string  // notes about workloads with fewer pods than expected
	mutable  bool      // the simulation may change the objects

	pause         time.Duration // see Pause
	configuration []byte        // from a dump
	specs         *specs        // shared specs of the pods
}

// Pause returns a set without objects. If it is applied later, time passes, and Kubernetes ends the pods whose activeDeadlineSeconds are
// over.
func Pause(d time.Duration) *Set { return &Set{pause: d} }

// GiveObjects allows the simulation that begins with the set to use its objects without a copy. The caller must not use the set any more.
func (s *Set) GiveObjects() { s.mutable = true }

// object is an object of a set, with its kind and the position where it was read.
type object struct {
	runtime.Object // *unstructured.Unstructured for custom resources
	kind           *kind
	at             Position
}

// about returns the kind and the name of an object, as events name it.
func (o object) about() string {
	m, err := meta.Accessor(o.Object)
	if err != nil {
		return o.kind.name
	}
	if o.kind.namespaced {
		return o.kind.name + " " + m.GetNamespace() + "/" + m.GetName()
	}
	return o.kind.name + " " + m.GetName()
}

// Position says where an object was read.
type Position struct {
	File     string
	Document int // counts from 1
	Line     int
}

func (p Position) String() string {
	if p.Document == 0 {
		return p.File // not from a document
	}
	return fmt.Sprintf("%s: document %d, line %d", p.File, p.Document, p.Line)
}

// InputError says what is wrong with an object that was read.
type InputError struct {
	At  Position
	Err error
}

func (e *InputError) Error() string { return e.At.String() + ": " + e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// Add adds the documents of a file: YAML or JSON, objects or lists of objects. The text is UTF-8, or UTF-16 with a byte order mark. The
// error is an *InputError. The set keeps no part of data.
func (s *Set) Add(file string, data []byte) error {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		utf8, err := utf16.UTF16(utf16.BigEndian, utf16.UseBOM).NewDecoder().Bytes(data)
		if err != nil {
			return &InputError{Position{File: file}, err}
		}
		data = utf8
	}
	docs := split(data)
	return s.readAll(len(docs), func(part *Set, i int) error {
		return part.document(docs[i], Position{File: file, Document: i + 1, Line: docs[i].line})
	})
}

// split returns the documents of a file: it cuts at YAML separators, and between JSON values. It omits empty documents.
func split(data []byte) (docs []chunk) {
	begin, firstLine := 0, 1 // of the current document
	finish := func(end int) {
		doc := chunk{text: data[begin:end:end], line: firstLine}
		if skip := blank(doc.text); skip < len(doc.text) {
			doc.line += bytes.Count(doc.text[:skip], []byte("\n"))
			doc.text = doc.text[skip:]
			docs = append(docs, values(doc)...)
		}
	}
	number, counted := 1, 0 // the line at the last count
	for at := 0; ; {
		if rest := data[at:]; bytes.HasPrefix(rest, []byte("---")) && (len(rest) == 3 || rest[3] <= ' ') {
			number, counted = number+bytes.Count(data[counted:at], []byte("\n")), at
			finish(at)
			begin, firstLine = at+3, number // text after the dashes belongs to the document
		}
		next := bytes.Index(data[at:], []byte("\n---"))
		if next < 0 {
			break
		}
		at += next + 1
	}
	finish(len(data))
	return docs
}

// blank returns the length in bytes of the leading lines with only comments and space.
func blank(text []byte) int {
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n') + 1
		if end == 0 {
			end = len(text) - at
		}
		if line := bytes.TrimSpace(text[at : at+end]); len(line) > 0 && line[0] != '#' {
			return at
		}
		at += end
	}
	return len(text)
}

// values splits a document of several JSON objects into one chunk each. Any other document is returned as one chunk.
func values(doc chunk) []chunk {
	if doc.text[0] != '{' {
		return []chunk{doc}
	}
	all, err := cutObjects(doc.text)
	if err != nil {
		return []chunk{doc} // the text may still be YAML; otherwise the YAML reader reports the error
	}
	for i := range all {
		all[i].line += doc.line
		for k := range all[i].items {
			all[i].items[k].line += doc.line
		}
	}
	return all
}

// document adds the objects of one document, which begins at position at.
func (s *Set) document(doc chunk, at Position) error {
	if doc.json {
		return s.object(doc, at, metav1.TypeMeta{})
	}
	if items, listType, ok := listItems(doc.text); ok {
		return s.items(items, at, listType)
	}
	return s.yaml(doc.text, at, metav1.TypeMeta{})
}

// batchSize is how many documents or items one goroutine reads.
const batchSize = 500

// items adds the items of a list, whose lines count from at.
func (s *Set) items(items []chunk, at Position, listType metav1.TypeMeta) error {
	return s.readAll(len(items), func(part *Set, i int) error {
		position := at
		position.Line += items[i].line
		if items[i].json {
			return part.json(items[i].text, position, listType)
		}
		return part.yaml(items[i].text, position, listType)
	})
}

// readAll calls read(part, i) for each i below n, in parallel, and appends the parts to s in order; nothing if a call fails.
func (s *Set) readAll(n int, read func(part *Set, i int) error) error {
	if s.specs == nil {
		s.specs = &specs{}
	}
	parts := make([]Set, (n+batchSize-1)/batchSize)
	failed := make([]error, len(parts))
	inParallel(len(parts), func(p int) {
		parts[p].specs = s.specs
		for i := p * batchSize; i < min((p+1)*batchSize, n) && failed[p] == nil; i++ {
			failed[p] = read(&parts[p], i)
		}
	})
	if err := cmp.Or(failed...); err != nil {
		return err
	}
	for p := range parts {
		s.Append(&parts[p])
	}
	return nil
}

// inParallel calls do(i) for each i below n, as many at a time as there are processors.
func inParallel(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), goruntime.GOMAXPROCS(0), n, do)
}

// Append adds the content of o after the content of s.
func (s *Set) Append(o *Set) {
	s.objects, s.podNotes = append(s.objects, o.objects...), append(s.podNotes, o.podNotes...)
	s.unlisted = append(s.unlisted, o.unlisted...)
	if !o.moment.IsZero() {
		s.moment = o.moment
	}
	if o.configuration != nil {
		s.configuration = o.configuration
	}
	for what, n := range o.skipped {
		addNote(&s.skipped, what, n)
	}
	for what, n := range o.ignored {
		addNote(&s.ignored, what, n)
	}
}

// listItems splits a YAML list, as kubectl prints it, into its items. Their lines count from the start of text. It returns false if
// text is no such list. (Parsing a large list as a whole takes ten times the memory and loses the lines.)
func listItems(text []byte) (items []chunk, listType metav1.TypeMeta, ok bool) {
	if text[0] == '{' {
		return nil, listType, false
	}
	var head []byte
	inside := false
	indent := -1
	for number, line := range bytes.SplitAfter(text, []byte("\n")) {
		bare := bytes.TrimLeft(line, " ")
		depth := len(line) - len(bare)
		starts := bytes.HasPrefix(bare, []byte("- ")) || bytes.Equal(bytes.TrimSpace(bare), []byte("-"))
		switch {
		case !inside && bytes.Equal(bytes.TrimRight(line, " \r\n"), []byte("items:")):
			inside = true
		case !inside:
			head = append(head, line...)
		case len(bytes.TrimSpace(bare)) == 0 || bare[0] == '#' && depth <= max(indent, 0):
			if len(items) > 0 {
				items[len(items)-1].text = append(items[len(items)-1].text, line...)
			}
		case starts && (indent < 0 || depth == indent):
			indent = depth
			item := append(bytes.Repeat([]byte(" "), depth+1), bare[1:]...)
			items = append(items, chunk{text: item, line: number})
		case depth > indent && len(items) > 0:
			items[len(items)-1].text = append(items[len(items)-1].text, line...)
		default: // a key after the items
			inside = false
			head = append(head, line...)
		}
	}
	if indent < 0 || yaml.Unmarshal(head, &listType) != nil || !strings.HasSuffix(listType.Kind, "List") {
		return nil, listType, false
	}
	return items, listType, true
}

var yamlLine = regexp.MustCompile(`yaml: line (\d+): `)

// yaml adds one object in YAML or JSON, an element of a list if listType is set.
func (s *Set) yaml(text []byte, at Position, listType metav1.TypeMeta) error {
	raw := text
	if !json.Valid(text) {
		var err error
		if raw, err = yaml.YAMLToJSON(text); err != nil {
			return syntaxError(text, at, err)
		}
	}
	return s.json(raw, at, listType)
}

// syntaxError returns err, an error of the YAML reader, as an *InputError with the line of the mistake.
func syntaxError(text []byte, at Position, err error) error {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(text, new(any)), &syntax) && text[0] == '{' {
		at.Line += bytes.Count(text[:syntax.Offset], []byte("\n"))
		return &InputError{at, syntax}
	}
	message := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		n, _ := strconv.Atoi(m[1])
		at.Line += n - 1
		message = strings.Replace(message, m[0], "", 1)
	}
	return &InputError{at, errors.New(strings.TrimPrefix(message, "yaml: "))}
}

var errNoObject = errors.New("it is not a JSON object")

// json adds one JSON object, an element of a list if listType is set.
func (s *Set) json(raw []byte, at Position, listType metav1.TypeMeta) error {
	all, err := cutObjects(raw)
	if err == nil && len(all) != 1 {
		err = errNoObject
	}
	if err != nil {
		return &InputError{at, fmt.Errorf("not an object: %w", err)}
	}
	return s.object(all[0], at, listType)
}

// object adds one object, which is an element of a list if listType is set. If the object is a list, it adds the items.
func (s *Set) object(c chunk, at Position, listType metav1.TypeMeta) error {
	raw, head := c.text, c.head
	if head.Kind == "" && listType.Kind != "List" {
		head.Kind = strings.TrimSuffix(listType.Kind, "List")
		if head.APIVersion == "" {
			head.APIVersion = listType.APIVersion
		}
	}
	if head.Kind == "" || head.APIVersion == "" {
		return &InputError{at, errors.New("apiVersion or kind is missing")}
	}
	if c.items != nil {
		at.Line -= c.line // the lines of items count from the start of the text
		return s.items(c.items, at, head)
	}
	gvk := head.GroupVersionKind()
	if gvk == dumpKind {
		if err := s.readDump(raw); err != nil {
			return &InputError{at, err}
		}
		return nil
	}
	k := kinds()[gvk.GroupKind()]
	if k != nil && slices.Contains(k.versions, gvk.Version) {
		gvk.Version = k.resource.Version
	}
	if k == nil || k.custom == nil && !convertible(gvk) || k.custom != nil && gvk.Version != k.resource.Version {
		addNote(&s.skipped, head.APIVersion+" "+head.Kind, occurrences{at, nameIn(raw, false), 1})
		return nil
	}
	o, unknown, err := decode(raw, gvk, k)
	if err != nil {
		return &InputError{at, err}
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return &InputError{at, err}
	}
	if m.GetName() == "" {
		return &InputError{at, errors.New("metadata.name is missing")}
	}
	if errs := annotationErrors(m.GetAnnotations()); len(errs) > 0 {
		return &InputError{at, apierrors.NewInvalid(gvk.GroupKind(), m.GetName(), errs)}
	}
	for _, why := range unknown {
		addNote(&s.ignored, gvk.Kind+": "+why.Error(), occurrences{at, nameIn(raw, k.namespaced), 1})
	}
	for _, why := range scheduling.MisspeltOn(gvk.Kind, m.GetAnnotations(), m.GetLabels()) { // not reported by events
		addNote(&s.ignored, gvk.Kind+": "+why, occurrences{at, nameIn(raw, k.namespaced), 1})
	}
	if k.workload && k.custom == nil && gvk.Kind != "Job" && metav1.GetControllerOf(m) == nil { // Muster does not read these
		u := &unstructured.Unstructured{}
		_ = json.Unmarshal(raw, &u.Object) // decode has read it
		u.SetKind(gvk.Kind)
		for _, why := range source.Misplaced(u) {
			addNote(&s.ignored, gvk.Kind+": "+why, occurrences{at, nameIn(raw, k.namespaced), 1})
		}
	}
	m.SetManagedFields(nil)
	switch {
	case !k.namespaced:
		m.SetNamespace("")
	case m.GetNamespace() == "":
		m.SetNamespace(metav1.NamespaceDefault)
	}
	if pod, ok := o.(*v1.Pod); ok {
		if err := checkPod(pod); err != nil {
			return &InputError{at, err}
		}
		trimPod(pod)
		if s.specs != nil {
			s.specs.share(pod)
		}
	}
	loaded := object{o, k, at}
	if k.workload {
		if err := s.checkWorkload(loaded); err != nil {
			return &InputError{at, err}
		}
	}
	s.objects = append(s.objects, loaded)
	return nil
}

// annotationErrors returns what an API server rejects in annotations: malformed keys, and more than 256 KiB in total.
func annotationErrors(annotations map[string]string) field.ErrorList {
	return sortErrors(validation.ValidateAnnotations(annotations, field.NewPath("metadata", "annotations")))
}

// decode returns the object in raw, of a known kind. unknown has an error for each unknown field; err says why raw is invalid.
func decode(raw []byte, gvk schema.GroupVersionKind, k *kind) (read runtime.Object, unknown []error, err error) {
	if k.custom == nil {
		if read, unknown, err = decodeCore(raw, gvk, k); err != nil {
			if o, noType := legacyscheme.Scheme.New(gvk); noType == nil {
				err = invalidField(raw, gvk, o, err)
			}
		}
		return read, unknown, err
	}
	o := k.custom()
	unknown, err = kjson.UnmarshalStrict(raw, o)
	if k.spec != nil {
		unknown, _ = kjson.UnmarshalStrict(raw, &shape{Spec: k.spec()}) // the scheduler reports invalid values
	}
	if k.crd != nil && (err != nil || !k.lax) {
		crd, err := k.crd()
		if err != nil {
			return nil, nil, err
		}
		if why := crd.validate(gvk, raw); why != nil {
			return nil, nil, why
		}
	}
	if u, ok := o.(*unstructured.Unstructured); ok && err == nil {
		err = workloads.Read(u, "metadata", &metav1.ObjectMeta{})
	}
	if err != nil {
		return nil, nil, invalidField(raw, gvk, o, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, unknown, nil
}

// invalidField returns the error that the object in raw cannot be decoded into o. It names the object, and the first invalid field with its
// value and the supported values. If there is no such field, it says why instead.
func invalidField(raw []byte, gvk schema.GroupVersionKind, o any, why error) error {
	var content map[string]any
	if _, custom := o.(*unstructured.Unstructured); !custom && utiljson.Unmarshal(raw, &content) == nil {
		why = cmp.Or(workloads.ReadObject(content, o), why)
	}
	return fmt.Errorf("%s %q: %w", gvk.Kind, nameIn(raw, false), why)
}

// shape is a custom resource whose spec has a known type.
type shape struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any `json:"spec"`
	Status            any `json:"status"`
}

// nameIn returns namespace/name of the object raw, or its name if it has no namespace. If namespaced, a missing namespace is "default".
func nameIn(raw []byte, namespaced bool) string {
	var head struct {
		Metadata struct{ Name, Namespace string }
	}
	_ = json.Unmarshal(raw, &head) // without a readable name the result is empty
	if m := &head.Metadata; namespaced && m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	if head.Metadata.Namespace == "" {
		return head.Metadata.Name
	}
	return head.Metadata.Namespace + "/" + head.Metadata.Name
}

// decodeCore is decode for an object of Kubernetes' own API. It converts the object to the version that the scheduler reads.
func decodeCore(raw []byte, gvk schema.GroupVersionKind, k *kind) (read runtime.Object, unknown []error, err error) {
	want := k.resource.GroupVersion()
	if gvk.GroupVersion() == want {
		if o, ok := decodeFast(raw, gvk); ok {
			return o, nil, nil
		}
	}
	decoder := strictDecoder
	if gvk.GroupVersion() != want {
		decoder = convertingDecoder
	}
	o, _, err := decoder.Decode(raw, &gvk, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && o != nil {
		unknown, err = strict.Errors(), nil
	}
	if pod, ok := o.(*v1.Pod); ok && err == nil {
		unknown = readWorkloadRef(raw, pod, unknown)
	}
	if err != nil || gvk.GroupVersion() == want {
		return o, unknown, err
	}
	o, err = legacyscheme.Scheme.ConvertToVersion(o, want)
	return o, unknown, err
}

// readWorkloadRef reads spec.workloadRef, by which pods of Kubernetes 1.35 name their gang, into pod.Spec.SchedulingGroup. It returns
// the errors in unknown without the one about that field.
func readWorkloadRef(raw []byte, pod *v1.Pod, unknown []error) []error {
	const fieldError = `unknown field "spec.workloadRef"`
	matchesField := func(err error) bool { return err.Error() == fieldError }
	if !slices.ContainsFunc(unknown, matchesField) || pod.Spec.SchedulingGroup != nil {
		return unknown
	}
	var content struct{ Spec map[string]any }
	if json.Unmarshal(raw, &content) != nil {
		return unknown
	}
	name := source.WorkloadRef(content.Spec)
	if name == "" {
		return unknown
	}
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	return slices.DeleteFunc(unknown, matchesField)
}

// decodeFast does what strictDecoder does with a valid object without unknown fields, in half the time. It returns false for others.
func decodeFast(raw []byte, gvk schema.GroupVersionKind) (runtime.Object, bool) {
	o, err := legacyscheme.Scheme.New(gvk)
	if err != nil {
		return nil, false
	}
	if unknown, err := kjson.UnmarshalStrict(raw, o); err != nil || len(unknown) > 0 {
		return nil, false
	}
	o.GetObjectKind().SetGroupVersionKind(gvk)
	legacyscheme.Scheme.Default(o)
	return o, true
}

// convertible reports whether Kubernetes knows this version of a kind and can convert it.
func convertible(gvk schema.GroupVersionKind) bool {
	o, err := legacyscheme.Scheme.New(gvk)
	if err != nil {
		return false
	}
	_, err = legacyscheme.Scheme.UnsafeConvertToVersion(o, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	return err == nil
}
