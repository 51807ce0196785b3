package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Events writes events on the objects that declare gangs: each note once for each object.
type Events struct {
	recorder events.EventRecorder
	lock     sync.Mutex
	notes    map[types.UID]map[podgang.Note]bool
}

// NewTeller returns an Events that writes with recorder.
func NewTeller(recorder events.EventRecorder) *Events {
	return &Events{recorder: recorder, notes: map[types.UID]map[podgang.Note]bool{}}
}

// Write writes a note on the object that owns a gang, unless it was written before.
func (t *Events) Write(namespace string, owner podgang.Owner, note podgang.Note) {
	if !t.isNew(owner.UID, note) {
		return
	}
	kind := corev1.EventTypeWarning
	if note.Info {
		kind = corev1.EventTypeNormal
	}
	t.recorder.Eventf(reference(namespace, owner), nil, kind, note.Reason, "Translate", "%s", note.Message)
}

// isNew returns true at the first call for an object and a note.
func (t *Events) isNew(uid types.UID, note podgang.Note) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.notes[uid][note] {
		return false
	}
	if t.notes[uid] == nil {
		t.notes[uid] = map[podgang.Note]bool{}
	}
	t.notes[uid][note] = true
	return true
}

// Forget drops the notes of a deleted object.
func (t *Events) Forget(uid types.UID) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.notes, uid)
}

func reference(namespace string, owner podgang.Owner) runtime.Object {
	return &corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: namespace, Name: owner.Name, UID: owner.UID}
}
