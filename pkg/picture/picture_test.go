package picture_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// TestDraw: a tree and what its nodes have, without a picture before it.
func TestDraw(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, []topology.Node{
		{Name: "n1", Path: []string{"s1", "b1"}},
		{Name: "n2", Path: []string{"s1", "b1"}},
		{Name: "n3", Path: []string{"s1", ""}},
	})
	got := picture.Draw(tree, []picture.Marks{
		strings.Split("##x...", ""), slices.Repeat(picture.Marks{picture.Free}, 64), nil,
	})
	want := "s1\n  b1  n1 ##x...  n2 64.\n  -  n3 #\n"
	if got != want {
		t.Fatalf("%s\nnot\n%s", got, want)
	}
}
