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

// devices are the Device objects by node name.
type devices struct {
	mu     sync.Mutex
	last   int64 // the last number of an object version
	byNode map[string]*deviceObject
}

// deviceObject is one Device object, parsed for its node.
type deviceObject struct {
	object  object
	number  int64             // version of the object
	labels  map[string]string // the node's labels with which it was parsed
	node    *device.Node      // nil if the object is invalid
	invalid bool              // the object is invalid
	parsed  bool              // node and invalid are set
}

// set stores a Device object if its devices differ from the stored version, and returns whether they do.
func (d *devices) set(u object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if former := d.byNode[u.GetName()]; former != nil && sameDevices(former.object, u) {
		return false
	}
	if d.byNode == nil {
		d.byNode = map[string]*deviceObject{}
	}
	d.last++
	d.byNode[u.GetName()] = &deviceObject{object: u, number: d.last}
	return true
}

// sameDevices returns whether two versions of an object declare the same devices. Other fields, such as the status, change often.
func sameDevices(a, b object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// drop removes the Device object of a node, and returns whether there was one.
func (d *devices) drop(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, existed := d.byNode[name]
	delete(d.byNode, name)
	return existed
}

// noneYet returns whether no Device object was stored so far.
func (d *devices) noneYet() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last == 0
}

// onNode returns the devices of a node, nil without a valid object; the number of the object's version; and whether it is invalid.
func (d *devices) onNode(node *v1.Node) (has *device.Node, number int64, invalid bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := d.byNode[node.Name]
	if entry == nil {
		return nil, 0, false
	}
	if !entry.parsed || convert.OtherDevices(entry.labels, node.Labels) {
		n, err := convert.DeviceNode(entry.object, node.Labels)
		if err != nil {
			klog.Background().Error(err, "Cannot read a Device object; its node accepts no pods with devices", "node", node.Name)
		}
		entry.node = n
		entry.labels = node.Labels
		entry.invalid = err != nil
		entry.parsed = true
	}
	return entry.node, entry.number, entry.invalid
}
