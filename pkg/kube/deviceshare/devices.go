package deviceshare

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/muster-scheduler/muster/pkg/device"
	"github.com/muster-scheduler/muster/pkg/kube/convert"
)

type object = *unstructured.Unstructured

// devices are what nodes have, as their Device objects say, by node name.
type devices struct {
	mu    sync.Mutex
	last  int64 // numbers states of objects
	known map[string]*described
}

// described is one Device object, and what it means for its node as that was last.
type described struct {
	object object
	number int64
	labels map[string]string // of the node
	node   *device.Node      // nil if the object cannot be read
	bad    bool              // it cannot
	read   bool
}

// set notes a Device object, and says whether it tells something new.
func (d *devices) set(u object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was := d.known[u.GetName()]; was != nil && same(was.object, u) {
		return false
	}
	if d.known == nil {
		d.known = map[string]*described{}
	}
	d.last++
	d.known[u.GetName()] = &described{object: u, number: d.last}
	return true
}

// same says whether two states of an object say the same of the devices: status and times change all the time.
func same(a, b object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// drop forgets a Device object, and says whether there was one.
func (d *devices) drop(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, was := d.known[name]
	delete(d.known, name)
	return was
}

// never says that no Device object has been there so far.
func (d *devices) never() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last == 0
}

// of returns what a node has, nil if nobody says so, or not so that it can be understood, which is bad; and a number for
// what is written of it: another one whenever that has changed.
func (d *devices) of(node *v1.Node) (has *device.Node, number int64, bad bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.known[node.Name]
	if is == nil {
		return nil, 0, false
	}
	if !is.read || convert.OtherDevices(is.labels, node.Labels) {
		n, err := convert.DeviceNode(is.object, node.Labels)
		if err != nil {
			klog.Background().Error(err, "Cannot read a Device object: its node takes no pods with devices", "node", node.Name)
		}
		is.node, is.labels, is.bad, is.read = n, node.Labels, err != nil, true
	}
	return is.node, is.number, is.bad
}
