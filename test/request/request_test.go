package request_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
	"github.com/muster-scheduler/muster/test/request"
)

func TestParse(t *testing.T) {
	tree := topology.Build([]string{"SpineLayer", "BlockLayer"}, nil)
	words := strings.Fields("want=6 min=4 must=SpineLayer prefer=BlockLayer,SpineLayer multiple=BlockLayer:2,NodeTopologyLayer:4")
	got, err := request.Parse(tree, words)
	want := plan.Request{Want: 6, Min: 4, Must: 1, Prefer: plan.PreferGather(2, 1), Multiple: offer.Multiples{0, 0, 2, 4}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v %v, not %+v", got, err, want)
	}
	for _, bad := range []string{"want=x", "must=spineLayer", "prefer=", "multiple=BlockLayer", "multiple=Block:2", "wants=3", "want", ""} {
		if r, err := request.Parse(tree, []string{bad}); err == nil {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}
