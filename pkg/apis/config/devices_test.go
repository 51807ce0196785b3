package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestDeviceArgs: what Koordinator's plugin takes is taken, and what is wrong is named.
func TestDeviceArgs(t *testing.T) {
	for text, c := range map[string]struct {
		want DeviceArgs
		says []string
	}{
		`{}`: {},
		`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"DeviceShareArgs"}`: {},
		`{"scoringStrategy":{"type":"MostAllocated"}}`:                             {want: DeviceArgs{Packed: true}},
		`{"scoringStrategy":{"resources":[{"name":"koordinator.sh/gpu-memory","weight":1}]},"allocator":"default"}`: {
			want: DeviceArgs{Idle: []string{"scoringStrategy.resources", "allocator"}},
		},
		`{"disableDeviceNUMATopologyAlignment":true,"gpuSharedResourceTemplatesConfig":{"configMapName":"n"}}`: {
			want: DeviceArgs{Idle: []string{"disableDeviceNUMATopologyAlignment", "gpuSharedResourceTemplatesConfig"}},
		},
		`{"scoringStrategy":{"type":"Balanced"}}`: {
			says: []string{`DeviceShareArgs.scoringStrategy.type: "Balanced" is invalid; supported values: LeastAllocated, MostAllocated`},
		},
		`{"scoringStrategy":{"resources":[{"name":"a"},{"name":"b","weight":0}]}}`: {
			says: []string{"DeviceShareArgs.scoringStrategy.resources[1].weight: 0 is invalid; supported values: an integer ≥ 1"},
		},
		`{"alocator":"x","kind":"Args"}`: {says: []string{"DeviceShareArgs.alocator: unknown field", `DeviceShareArgs.kind: "Args" is invalid`}},
		`{"gpuSharedResourceTemplatesConfig":{"name":"n"}}`: {
			says: []string{"DeviceShareArgs.gpuSharedResourceTemplatesConfig.name: unknown field"},
		},
		`[]`: {says: []string{"DeviceShareArgs: [] is not an object"}},
	} {
		got, err := DecodeDevices(&runtime.Unknown{Raw: []byte(text)})
		if c.says == nil {
			require.NoError(t, err, text)
		}
		for _, says := range c.says {
			require.ErrorContains(t, err, says, text)
		}
		require.Equal(t, c.want, got, text)
	}
	got, err := DecodeDevices(nil)
	require.NoError(t, err)
	require.Zero(t, got)
}
