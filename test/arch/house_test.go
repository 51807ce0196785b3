package arch

import (
	"testing"

	"github.com/muster-scheduler/muster/test/house"
)

// TestHouse fails when the source is larger or more tangled than test/house/limits.go allows.
func TestHouse(t *testing.T) {
	all, err := house.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	memories, err := house.Memories(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range house.Check(all, memories) {
		t.Error(wrong)
	}
}
