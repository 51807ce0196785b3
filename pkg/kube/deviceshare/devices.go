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
	number  int64
	labels  map[string]string // of the node, when it was parsed
	node    *device.Node      // nil if the object is invalid
	invalid bool              // the object is invalid
	parsed  bool
}

// set stores a Device object, and says whether its content is new.
func (d *devices) set(u object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if former := d.byNode[u.GetName()]; former != nil && same(former.object, u) {
		return false
	}
	if d.byNode == nil {
		d.byNode = map[string]*deviceObject{}
	}
	d.last++
	d.byNode[u.GetName()] = &deviceObject{object: u, number: d.last}
	return true
}

// same returns whether two versions of an object declare the same devices: status and times change all the time.
func same(a, b object) bool {
	return maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}

// drop removes a Device object, and says whether there was one.
func (d *devices) drop(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, existed := d.byNode[name]
	delete(d.byNode, name)
	return existed
}

// never returns whether no Device object has existed so far.
func (d *devices) never() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last == 0
}

// of returns the devices of a node, nil without a valid object; the number of the object's version; and whether the object is
// invalid.
func (d *devices) of(node *v1.Node) (has *device.Node, number int64, invalid bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry := d.byNode[node.Name]
	if entry == nil {
		return nil, 0, false
	}
	if !entry.parsed || convert.OtherDevices(entry.labels, node.Labels) {
		n, err := convert.DeviceNode(entry.object, node.Labels)
		if err != nil {
			klog.Background().Error(err, "Cannot read a Device object: its node takes no pods with devices", "node", node.Name)
		}
		entry.node = n
		entry.labels = node.Labels
		entry.invalid = err != nil
		entry.parsed = true
	}
	return entry.node, entry.number, entry.invalid
}
