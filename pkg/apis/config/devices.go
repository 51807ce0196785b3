package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// DevicesName is the name of the plugin that allocates Koordinator's devices to pods.
const DevicesName = "DeviceShare"

const devicesKind = DevicesName + "Args"

// DeviceArgs is DeviceShareArgs after decoding: valid and with defaults.
//
//	field                               default         supported values
//	scoringStrategy.type                LeastAllocated  LeastAllocated, MostAllocated
//	scoringStrategy.resources           none            names with weights ≥ 1; without effect
//	allocator                           none            any; without effect
//	disableDeviceNUMATopologyAlignment  false           true, false; without effect
//	gpuSharedResourceTemplatesConfig    none            a ConfigMap; without effect
type DeviceArgs struct {
	// Packed says that the most used of the shared devices are preferred (MostAllocated).
	Packed bool
	// Idle are the fields that the user has set and that have no effect, in the order above.
	Idle []string
}

// DecodeDevices is Decode for DeviceShareArgs. It accepts all fields of Koordinator's plugin.
func DecodeDevices(raw runtime.Object) (a DeviceArgs, err error) {
	if raw == nil {
		return a, nil
	}
	unknown, ok := raw.(*runtime.Unknown)
	if !ok {
		return DeviceArgs{}, fmt.Errorf("%s: got %T; supported values: arguments as JSON", devicesKind, raw)
	}
	kind := devicesKind
	apiVersion := argsAPIVersion
	allocator := ""
	disable := false
	var scoring, templates json.RawMessage
	err = strictjson.Object(devicesKind, unknown.Raw,
		strictjson.Field{
			Name: "apiVersion", Into: &apiVersion, Legal: argsAPIVersion, Check: func() bool { return apiVersion == argsAPIVersion },
		},
		strictjson.Field{Name: "kind", Into: &kind, Legal: devicesKind, Check: func() bool { return kind == devicesKind }},
		strictjson.Field{Name: "scoringStrategy", Into: &scoring, Legal: "an object with the fields type, resources"},
		strictjson.Field{Name: "allocator", Into: &allocator, Legal: "a text"},
		strictjson.Field{Name: "disableDeviceNUMATopologyAlignment", Into: &disable, Legal: "true, false"},
		strictjson.Field{
			Name: "gpuSharedResourceTemplatesConfig", Into: &templates,
			Legal: "an object with the fields configMapNamespace, configMapName, matchedResources",
		},
	)
	resources, packed, wrong := decodeScoring(scoring)
	if err = errors.Join(err, wrong, checkTemplates(templates)); err != nil {
		return DeviceArgs{}, err
	}
	a.Packed = packed
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"scoringStrategy.resources", resources},
		{"allocator", allocator != ""},
		{"disableDeviceNUMATopologyAlignment", disable},
		{"gpuSharedResourceTemplatesConfig", templates != nil},
	} {
		if f.given {
			a.Idle = append(a.Idle, f.name)
		}
	}
	return a, nil
}

// decodeScoring parses scoringStrategy; nil data is none. resources says whether it lists resources, packed is DeviceArgs.Packed.
func decodeScoring(data json.RawMessage) (resources, packed bool, err error) {
	if data == nil {
		return false, false, nil
	}
	const least, most = "LeastAllocated", "MostAllocated"
	path := devicesKind + ".scoringStrategy"
	strategy := least
	var list []json.RawMessage
	err = strictjson.Object(path, data,
		strictjson.Field{
			Name: "type", Into: &strategy, Legal: least + ", " + most,
			Check: func() bool { return slices.Contains([]string{least, most}, strategy) },
		},
		strictjson.Field{Name: "resources", Into: &list, Legal: "a list of objects with the fields name, weight"},
	)
	for i, entry := range list {
		name, weight := "", 1
		err = errors.Join(err, strictjson.Object(fmt.Sprintf("%s.resources[%d]", path, i), entry,
			strictjson.Field{Name: "name", Into: &name, Legal: "a resource", Required: true, Check: func() bool { return name != "" }},
			strictjson.Field{Name: "weight", Into: &weight, Legal: "an integer ≥ 1", Check: func() bool { return weight >= 1 }},
		))
	}
	return len(list) > 0, strategy == most, err
}

// checkTemplates returns an error for an invalid gpuSharedResourceTemplatesConfig; nil data is none.
func checkTemplates(data json.RawMessage) error {
	if data == nil {
		return nil
	}
	var namespace, name string
	var resources []string
	return strictjson.Object(devicesKind+".gpuSharedResourceTemplatesConfig", data,
		strictjson.Field{Name: "configMapNamespace", Into: &namespace, Legal: "a namespace"},
		strictjson.Field{Name: "configMapName", Into: &name, Legal: "a name"},
		strictjson.Field{Name: "matchedResources", Into: &resources, Legal: "a list of resources"},
	)
}
