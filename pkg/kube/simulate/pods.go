package simulate

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"
)

// alike are parts of pods that were read, by their text. The members of a gang, and all pods of a controller, say the same
// but for a few words of each one's own: what is said once is read once, and is there once.
//
//	{"metadata": …, "spec": {"nodeName": "n1", "containers": […]}, "status": …}
//	                         own: "n1"         alike                alike, if there is nothing of its own in it
//
// Nobody may change what is behind a pointer, in a slice or in a map of a pod therefore, but for its conditions.
type alike struct {
	specs    remembered[v1.PodSpec]
	statuses remembered[v1.PodStatus]
}

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// mostKnown bounds how many parts are kept: where each pod is like no other, they help nobody.
const mostKnown = 1024

// remembered are things that were read. Several may ask at a time.
type remembered[T any] struct {
	mu  sync.Mutex
	all map[string]*T
}

// of returns what a text says, and reads it if nobody has.
func (k *remembered[T]) of(text []byte, read func() (*T, bool)) (*T, bool) {
	k.mu.Lock()
	is := k.all[string(text)]
	k.mu.Unlock()
	if is != nil {
		return is, true
	}
	is, ok := read()
	if !ok {
		return nil, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) == mostKnown {
		k.all = map[string]*T{}
	}
	k.all[string(text)] = is
	return is, true
}

// pod reads a pod in which nothing is wrong, and leaves out what lean does.
func (s *Set) pod(raw []byte, known [3]extent) (*v1.Pod, bool) {
	parts, ok := podParts(raw, known)
	if !ok {
		return nil, false
	}
	if s.alike == nil {
		s.alike = &alike{}
	}
	pod := &v1.Pod{}
	if !readPart(parts.metadata, &pod.ObjectMeta) {
		return nil, false
	}
	var own ownTexts
	if s.general = general(s.general[:0], parts.spec, own.inSpec); own.mixed {
		return nil, false
	}
	spec, ok := s.alike.specs.of(s.general, func() (*v1.PodSpec, bool) {
		like := &v1.Pod{}
		ok := readPart(s.general, &like.Spec)
		complete(like)
		return &like.Spec, ok
	})
	if !ok {
		return nil, false
	}
	s.general = general(s.general[:0], parts.status, own.inStatus)
	status, ok := s.alike.statuses.of(s.general, func() (*v1.PodStatus, bool) {
		like := &v1.Pod{}
		ok := readPart(s.general, &like.Status)
		complete(like)
		return &like.Status, ok
	})
	if !ok {
		return nil, false
	}
	pod.Spec, pod.Status = *spec, *status
	pod.Status.Conditions = slices.Clone(status.Conditions) // the kubelet changes them
	pod.Spec.NodeName, pod.Spec.Hostname = cmp.Or(string(own.node), spec.NodeName), cmp.Or(string(own.hostname), spec.Hostname)
	own.mount(&pod.Spec)
	pod.SetGroupVersionKind(podKind)
	return pod, true
}

// complete does to a part of a pod what is done to a whole one: its defaults look at nothing else.
func complete(like *v1.Pod) {
	legacyscheme.Scheme.Default(like)
	lean(like)
}

// readPart reads a part of an object, if it is there. It says false if anything is wrong with it.
func readPart(text []byte, into any) bool {
	if len(text) == 0 {
		return true
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	return err == nil && len(unknown) == 0
}

// podTexts are the texts of a pod's parts; nil where there is none.
type podTexts struct{ apiVersion, kind, metadata, spec, status []byte }

func (p *podTexts) called(key []byte) *[]byte {
	switch string(key) {
	case "apiVersion":
		return &p.apiVersion
	case "kind":
		return &p.kind
	case "metadata":
		return &p.metadata
	case "spec":
		return &p.spec
	case "status":
		return &p.status
	}
	return nil
}

// podParts cuts a pod, of which is known where some of its parts end. It says false if that has other parts, or one twice.
func podParts(raw []byte, known [3]extent) (p podTexts, ok bool) {
	w := walk{text: raw, known: known}
	ok = w.fields(func(key, value []byte) bool {
		at := p.called(key)
		if at == nil || *at != nil {
			return false
		}
		*at = value
		return true
	})
	is := func(text []byte, word string) bool { return text == nil || string(text) == `"`+word+`"` }
	return p, ok && is(p.apiVersion, podKind.Version) && is(p.kind, podKind.Kind)
}

// ownTexts are the texts of a pod that no other has, and that say nothing of its kind.
type ownTexts struct {
	node, hostname []byte
	token          []byte // name of the volume with the token that each pod is given
	dropped        []byte
	mixed          bool // there are several tokens, or volumes without a name
}

// inSpec says where such a text of a pod's spec is kept; nil if it counts. Lean drops what containers are started with.
func (o *ownTexts) inSpec(path [][]byte, word []byte) *[]byte {
	last := string(path[len(path)-1])
	switch len(path) {
	case 1:
		switch last {
		case "nodeName":
			return &o.node
		case "hostname":
			return &o.hostname
		}
	case 3:
		if last == "name" && string(path[0]) == "volumes" {
			return o.volume(word)
		}
	case 4:
		if key := string(path[2]); (key == "command" || key == "args") && isContainers(path[0]) {
			return &o.dropped
		}
	case 5:
		switch key := string(path[2]); {
		case !isContainers(path[0]):
		case key == "env" && last == "value":
			return &o.dropped
		case key == "volumeMounts" && last == "name":
			return o.volume(word)
		}
	}
	return nil
}

// volume is inSpec for the name of a volume.
func (o *ownTexts) volume(name []byte) *[]byte {
	if len(name) == 0 {
		o.mixed = true
	}
	if !bytes.HasPrefix(name, []byte("kube-api-access-")) {
		return nil
	}
	o.mixed = o.mixed || o.token != nil && !bytes.Equal(o.token, name)
	return &o.token
}

// mount names the volume with the token, which has no name in what pods have in common.
func (o *ownTexts) mount(spec *v1.PodSpec) {
	if o.token == nil {
		return
	}
	name := string(o.token)
	spec.Volumes = slices.Clone(spec.Volumes)
	for i := range spec.Volumes {
		spec.Volumes[i].Name = cmp.Or(spec.Volumes[i].Name, name)
	}
	for _, all := range []*[]v1.Container{&spec.InitContainers, &spec.Containers} {
		*all = slices.Clone(*all)
		for i := range *all {
			mounts := slices.Clone((*all)[i].VolumeMounts)
			for m := range mounts {
				mounts[m].Name = cmp.Or(mounts[m].Name, name)
			}
			(*all)[i].VolumeMounts = mounts
		}
	}
}

func isContainers(key []byte) bool {
	return string(key) == "containers" || string(key) == "initContainers"
}

// inStatus is inSpec for the status.
func (o *ownTexts) inStatus(path [][]byte, _ []byte) *[]byte {
	if len(path) != 3 || string(path[0]) != "containerStatuses" && string(path[0]) != "initContainerStatuses" {
		return nil
	}
	if key := string(path[2]); key == "containerID" || key == "imageID" {
		return &o.dropped
	}
	return nil
}

// deepest bounds the paths at which texts may be somebody's own.
const deepest = 5

// general appends JSON with empty texts in place of those that are somebody's own. own is given the keys above a text,
// an empty one for a list. What is wrong with a text stays in it.
func general(into, text []byte, own func(path [][]byte, word []byte) *[]byte) []byte {
	var path [deepest + 1][]byte
	w := walk{text: text}
	depth, from := 0, 0
	for ; w.at < len(text); w.at++ {
		switch text[w.at] {
		case '{', '[':
			if depth++; depth <= deepest {
				path[depth] = nil
			}
		case '}', ']':
			depth--
		case '"':
			begin := w.at + 1
			word, ok := w.word()
			if !ok {
				return append(into, text[from:]...)
			}
			if depth < 1 || depth > deepest {
				continue
			}
			if isKey(text[w.at+1:]) {
				path[depth] = word
				continue
			}
			if to := own(path[1:depth+1], word); to != nil && isPlain(word) {
				*to = word
				into = append(into, text[from:begin]...)
				from = w.at
			}
		}
	}
	return append(into, text[from:]...)
}

// isKey says whether a value follows the text before.
func isKey(rest []byte) bool {
	w := walk{text: rest}
	return w.space() == ':'
}

// isPlain says whether what is between the quotes is the text.
func isPlain(word []byte) bool {
	return !slices.ContainsFunc(word, func(c byte) bool { return c < ' ' || c > '~' || c == '\\' })
}
