package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// mostMessage is the longest message that Muster may write, in bytes.
const mostMessage = 1024

// Message is a condition or an event of an object.
type Message struct {
	Bytes int    `json:"bytes"`
	Of    string `json:"of"` // kind and name
	Text  string `json:"text"`
}

// messages watches what is written for people about a backlog, and remembers the longest.
type messages struct {
	prefix string // of the names of its gangs and pods
	end    context.CancelFunc
	ended  func()

	mu      sync.Mutex
	longest Message
}

// listen watches the conditions of pods and PodGroups, and events.
func (b *bench) listen(ctx context.Context, c contender, drain string) (*messages, error) {
	ctx, end := context.WithCancel(ctx)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(b.dynamic, 0, metav1.NamespaceDefault, nil)
	m := &messages{prefix: drain + "-", end: end, ended: factory.Shutdown}
	kinds := []schema.GroupVersionResource{v1.SchemeGroupVersion.WithResource("pods"), v1.SchemeGroupVersion.WithResource("events")}
	if c.group != nil {
		kinds = append(kinds, c.groups)
	}
	for _, k := range kinds {
		_, err := factory.ForResource(k).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: m.see, UpdateFunc: func(_, now any) { m.see(now) },
		})
		if err != nil {
			end()
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for k, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			end()
			return nil, fmt.Errorf("cannot watch %s", k.Resource)
		}
	}
	return m, nil
}

func (m *messages) see(object any) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	about, texts := said(u)
	if !strings.HasPrefix(about, m.prefix) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range texts {
		if len(text) > m.longest.Bytes {
			m.longest = Message{Bytes: len(text), Of: u.GetKind() + " " + u.GetName(), Text: text}
		}
	}
}

// said returns an object's messages, and the name of the object that they are about.
func said(u *unstructured.Unstructured) (about string, texts []string) {
	if u.GetKind() == "Event" {
		about, _, _ = unstructured.NestedString(u.Object, "involvedObject", "name")
		text, _, _ := unstructured.NestedString(u.Object, "message")
		return about, []string{text}
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			text, _ := c["message"].(string)
			texts = append(texts, text)
		}
	}
	return u.GetName(), texts
}

// stop ends the watches and returns the longest message.
func (m *messages) stop() Message {
	m.end()
	m.ended()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.longest
}
