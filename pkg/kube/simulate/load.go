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

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// Set is what some files hold: the objects that are there when a simulation begins, or
// those that come later, in the order of the files.
type Set struct {
	objects []object
	skipped map[string]noted
	ignored map[string]noted
	moment  time.Time // when a cluster was like that; zero if the set is of none
	unread  []string  // what of that cluster could not be listed, such as podgroups.scheduling.x-k8s.io
	podless []string  // what is said of workloads of which fewer pods are made than one may expect
	given   bool      // its objects may be changed

	configuration []byte // of a dump
	specs         *specs // of the pods that were read
}

// Give says that nobody uses the set any more but the simulation that it begins, which need not copy its objects.
func (s *Set) Give() { s.given = true }

type object struct {
	runtime.Object // *unstructured.Unstructured for custom resources
	kind           *kind
	at             Position
}

// Position says where an object was read.
type Position struct {
	File     string
	Document int // counts from 1
	Line     int
}

func (p Position) String() string {
	if p.Document == 0 {
		return p.File // it is none
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

// Add reads the documents of a file: YAML or JSON, objects or lists of them. The error
// is an *InputError. Nothing of the text is kept: whoever has it may use its memory again.
func (s *Set) Add(file string, data []byte) error {
	docs := split(data)
	return s.each(len(docs), func(part *Set, i int) error {
		return part.document(docs[i], Position{File: file, Document: i + 1, Line: docs[i].line})
	})
}

// split cuts a file at the lines that separate YAML documents, and JSON values that
// follow one another. Documents without content do not count.
func split(data []byte) (docs []chunk) {
	begin, from := 0, 1 // of a document, its line
	finish := func(end int) {
		doc := chunk{text: data[begin:end:end], line: from}
		if skip := blank(doc.text); skip < len(doc.text) {
			doc.line += bytes.Count(doc.text[:skip], []byte("\n"))
			doc.text = doc.text[skip:]
			docs = append(docs, values(doc)...)
		}
	}
	number, counted := 1, 0 // the line at which something was counted last
	for at := 0; ; {
		if rest := data[at:]; bytes.HasPrefix(rest, []byte("---")) && (len(rest) == 3 || rest[3] <= ' ') {
			number, counted = number+bytes.Count(data[counted:at], []byte("\n")), at
			finish(at)
			begin, from = at+3, number // what follows the dashes belongs to the document
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

// blank returns how many bytes of leading lines hold nothing but comments and space.
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

// values splits a document of several JSON values.
func values(doc chunk) []chunk {
	if doc.text[0] != '{' {
		return []chunk{doc}
	}
	all, err := cutObjects(doc.text)
	if err != nil {
		return []chunk{doc} // YAML can look like this too; if not, its reader complains
	}
	for i := range all {
		all[i].line += doc.line
		for k := range all[i].items {
			all[i].items[k].line += doc.line
		}
	}
	return all
}

// document reads one document, whose line is that of at.
func (s *Set) document(doc chunk, at Position) error {
	if doc.json {
		return s.object(doc, at, metav1.TypeMeta{})
	}
	if items, of, ok := listItems(doc.text); ok {
		return s.items(items, at, of)
	}
	return s.yaml(doc.text, at, metav1.TypeMeta{})
}

// together is how many documents or items are read by one goroutine, so that few are by one.
const together = 500

// items reads the items of a list, whose lines count from at.
func (s *Set) items(items []chunk, at Position, of metav1.TypeMeta) error {
	return s.each(len(items), func(part *Set, i int) error {
		here := at
		here.Line += items[i].line
		if items[i].json {
			return part.json(items[i].text, here, of)
		}
		return part.yaml(items[i].text, here, of)
	})
}

// each calls read for so many things, several at a time, and adds what was read in their order. It returns the first error, and adds
// nothing then.
func (s *Set) each(n int, read func(part *Set, i int) error) error {
	if s.specs == nil {
		s.specs = &specs{}
	}
	parts := make([]Set, (n+together-1)/together)
	failed := make([]error, len(parts))
	inParallel(len(parts), func(p int) {
		parts[p].specs = s.specs
		for i := p * together; i < min((p+1)*together, n) && failed[p] == nil; i++ {
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

// inParallel calls do for each number below n, as many at a time as there are processors.
func inParallel(n int, do func(i int)) {
	workqueue.ParallelizeUntil(context.Background(), goruntime.GOMAXPROCS(0), n, do)
}

// Append adds what was read after all before it.
func (s *Set) Append(o *Set) {
	s.objects, s.podless = append(s.objects, o.objects...), append(s.podless, o.podless...)
	s.unread = append(s.unread, o.unread...)
	if !o.moment.IsZero() {
		s.moment = o.moment
	}
	if o.configuration != nil {
		s.configuration = o.configuration
	}
	for what, n := range o.skipped {
		note(&s.skipped, what, n)
	}
	for what, n := range o.ignored {
		note(&s.ignored, what, n)
	}
}

// listItems cuts a YAML list as kubectl prints it into its items, whose lines count
// from that of the document. Reading a large list in one piece takes ten times the
// memory, and no item's line is known then.
func listItems(text []byte) (items []chunk, of metav1.TypeMeta, ok bool) {
	if text[0] == '{' {
		return nil, of, false
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
	if indent < 0 || yaml.Unmarshal(head, &of) != nil || !strings.HasSuffix(of.Kind, "List") {
		return nil, of, false
	}
	return items, of, true
}

var yamlLine = regexp.MustCompile(`yaml: line (\d+): `)

// yaml reads one YAML or JSON value, an element of a list if of is set.
func (s *Set) yaml(text []byte, at Position, of metav1.TypeMeta) error {
	raw := text
	if !json.Valid(text) {
		var err error
		if raw, err = yaml.YAMLToJSON(text); err != nil {
			return syntaxError(text, at, err)
		}
	}
	return s.json(raw, at, of)
}

// syntaxError names the line of a mistake, as the reader tells it that the text was
// written for.
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

// json reads one JSON value, an element of a list if of is set.
func (s *Set) json(raw []byte, at Position, of metav1.TypeMeta) error {
	all, err := cutObjects(raw)
	if err == nil && len(all) != 1 {
		err = errNoObject
	}
	if err != nil {
		return &InputError{at, fmt.Errorf("not an object: %w", err)}
	}
	return s.object(all[0], at, of)
}

// object reads one object, an element of a list if of is set, or the items of one that is a list.
func (s *Set) object(c chunk, at Position, of metav1.TypeMeta) error {
	raw, head := c.text, c.head
	if head.Kind == "" && of.Kind != "List" {
		head.Kind = strings.TrimSuffix(of.Kind, "List")
		if head.APIVersion == "" {
			head.APIVersion = of.APIVersion
		}
	}
	if head.Kind == "" || head.APIVersion == "" {
		return &InputError{at, errors.New("apiVersion or kind is missing")}
	}
	if c.items != nil {
		at.Line -= c.line // theirs count from where its own does
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
	if k == nil || k.custom == nil && !converts(gvk) || k.custom != nil && gvk.Version != k.resource.Version {
		note(&s.skipped, head.APIVersion+" "+head.Kind, noted{at, nameIn(raw, false), 1})
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
		note(&s.ignored, gvk.Kind+": "+why.Error(), noted{at, nameIn(raw, k.namespaced), 1})
	}
	m.SetManagedFields(nil)
	switch {
	case !k.namespaced:
		m.SetNamespace("")
	case m.GetNamespace() == "":
		m.SetNamespace(metav1.NamespaceDefault)
	}
	if pod, ok := o.(*v1.Pod); ok {
		lean(pod)
		if s.specs != nil {
			s.specs.share(pod)
		}
	}
	read := object{o, k, at}
	if k.workload {
		if err := s.promise(read); err != nil {
			return &InputError{at, err}
		}
	}
	s.objects = append(s.objects, read)
	return nil
}

// annotationErrors is what an API server would say of an object's annotations, of whatever
// kind it is: their keys have a form, and all of them together at most 256 KiB.
func annotationErrors(annotations map[string]string) field.ErrorList {
	errs := validation.ValidateAnnotations(annotations, field.NewPath("metadata", "annotations"))
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

// decode reads an object of a known kind, and says which of its fields nobody knows.
func decode(raw []byte, gvk schema.GroupVersionKind, k *kind) (read runtime.Object, unknown []error, err error) {
	if k.custom == nil {
		return decodeCore(raw, gvk, k)
	}
	o := k.custom()
	unknown, err = kjson.UnmarshalStrict(raw, o)
	if k.crd != nil && (err != nil || !k.lax) {
		crd, err := k.crd()
		if err != nil {
			return nil, nil, err
		}
		if why := crd.refuse(gvk, raw); why != nil {
			return nil, nil, why
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s %q: %w", gvk.Kind, nameIn(raw, false), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	return u, unknown, nil
}

// nameIn reads no more than the name of an object, and its namespace if it has one; if it must have
// one, it is "default" where none is said.
func nameIn(raw []byte, namespaced bool) string {
	var head struct {
		Metadata struct{ Name, Namespace string }
	}
	_ = json.Unmarshal(raw, &head) // it has no name then
	if m := &head.Metadata; namespaced && m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	if head.Metadata.Namespace == "" {
		return head.Metadata.Name
	}
	return head.Metadata.Namespace + "/" + head.Metadata.Name
}

// decodeCore reads an object of Kubernetes.
func decodeCore(raw []byte, gvk schema.GroupVersionKind, k *kind) (read runtime.Object, unknown []error, err error) {
	want := k.resource.GroupVersion()
	if gvk.GroupVersion() == want {
		if o, ok := decodePresent(raw, gvk); ok {
			return o, nil, nil
		}
	}
	decoder := present
	if gvk.GroupVersion() != want {
		decoder = internal
	}
	o, _, err := decoder.Decode(raw, &gvk, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && o != nil {
		unknown, err = strict.Errors(), nil
	}
	if pod, ok := o.(*v1.Pod); ok && err == nil {
		unknown = oldGang(raw, pod, unknown)
	}
	if err != nil || gvk.GroupVersion() == want {
		return o, unknown, err
	}
	o, err = legacyscheme.Scheme.ConvertToVersion(o, want)
	return o, unknown, err
}

// oldGang reads the field by which pods of Kubernetes 1.35 name their gang, if a pod has it, as the
// scheduler does with those of such an API server. It returns the fields that are still unknown.
func oldGang(raw []byte, pod *v1.Pod, unknown []error) []error {
	const field = `unknown field "spec.workloadRef"`
	is := func(err error) bool { return err.Error() == field }
	if !slices.ContainsFunc(unknown, is) || pod.Spec.SchedulingGroup != nil {
		return unknown
	}
	var says struct{ Spec map[string]any }
	if json.Unmarshal(raw, &says) != nil {
		return unknown
	}
	name := source.WorkloadRef(says.Spec)
	if name == "" {
		return unknown
	}
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	return slices.DeleteFunc(unknown, is)
}

// decodePresent is what the decoder present does with an object in which nothing is wrong, in half the
// time: most of a cluster's objects are such.
func decodePresent(raw []byte, gvk schema.GroupVersionKind) (runtime.Object, bool) {
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

// converts says whether Kubernetes knows this version of a kind and can convert it.
func converts(gvk schema.GroupVersionKind) bool {
	o, err := legacyscheme.Scheme.New(gvk)
	if err != nil {
		return false
	}
	_, err = legacyscheme.Scheme.UnsafeConvertToVersion(o, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	return err == nil
}
