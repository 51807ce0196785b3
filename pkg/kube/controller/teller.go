package controller

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/muster-scheduler/muster/pkg/podgang"
)

// Teller writes events on the objects of which gangs are built. It says each thing once, as long as it lives: what is
// looked at again and is as it was is no news.
type Teller struct {
	recorder events.EventRecorder
	lock     sync.Mutex
	told     map[types.UID]map[podgang.Note]bool
}

// NewTeller is a teller that writes events with a recorder.
func NewTeller(recorder events.EventRecorder) *Teller {
	return &Teller{recorder: recorder, told: map[types.UID]map[podgang.Note]bool{}}
}

// Tell says something of the object that owns a gang.
func (t *Teller) Tell(namespace string, owner podgang.Owner, note podgang.Note) {
	if !t.news(owner.UID, note) {
		return
	}
	kind := corev1.EventTypeWarning
	if note.Info {
		kind = corev1.EventTypeNormal
	}
	t.recorder.Eventf(reference(namespace, owner), nil, kind, note.Reason, "Translate", "%s", note.Message)
}

func (t *Teller) news(uid types.UID, note podgang.Note) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.told[uid][note] {
		return false
	}
	if t.told[uid] == nil {
		t.told[uid] = map[podgang.Note]bool{}
	}
	t.told[uid][note] = true
	return true
}

// Forget is called for an object that has gone.
func (t *Teller) Forget(uid types.UID) {
	t.lock.Lock()
	defer t.lock.Unlock()
	delete(t.told, uid)
}

func reference(namespace string, owner podgang.Owner) runtime.Object {
	return &corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: namespace, Name: owner.Name, UID: owner.UID}
}
