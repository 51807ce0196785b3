// Package request reads what a gang asks for from words, for tests with pictures.
package request

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/muster-scheduler/muster/pkg/offer"
	"github.com/muster-scheduler/muster/pkg/plan"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// Parse reads what a gang asks for, written as words:
//
//	want=6 min=4 must=SpineLayer prefer=BlockLayer,SpineLayer multiple=BlockLayer:2
//
// Without min all that are wanted are needed.
func Parse(t *topology.Tree, words []string) (plan.Request, error) {
	var r plan.Request
	r.Multiple = make(offer.Multiples, t.Depth()+1)
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if err := parseWord(t, &r, key, value); err != nil {
			return r, fmt.Errorf("%s: %w", w, err)
		}
	}
	if r.Min == 0 {
		r.Min = r.Want
	}
	return r, nil
}

func parseWord(t *topology.Tree, r *plan.Request, key, value string) error {
	switch key {
	case "want":
		return parseSlots(value, &r.Want)
	case "min":
		return parseSlots(value, &r.Min)
	case "must":
		l, err := layerIndex(t, value)
		r.Must = max(r.Must, l)
		return err
	case "prefer":
		for name := range strings.SplitSeq(value, ",") {
			l, err := layerIndex(t, name)
			if err != nil {
				return err
			}
			r.Prefer = append(r.Prefer, plan.Preference{Layer: l})
		}
		return nil
	case "multiple":
		for one := range strings.SplitSeq(value, ",") {
			name, count, _ := strings.Cut(one, ":")
			l, err := layerIndex(t, name)
			if err != nil {
				return err
			}
			if err := parseSlots(count, &r.Multiple[l]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown word")
}

func parseSlots(s string, n *offer.Slots) error {
	i, err := strconv.Atoi(s)
	*n = offer.Slots(i)
	return err
}

func layerIndex(t *topology.Tree, name string) (int, error) {
	l, ok := t.LayerIndex(name)
	if !ok {
		return 0, fmt.Errorf("no layer %q, there are: %s", name, strings.Join(t.LayerNames(), ", "))
	}
	return l, nil
}
