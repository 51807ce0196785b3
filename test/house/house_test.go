package house

import "testing"

// TestBack counts the arrows that run back in small packages with a known best order.
func TestBack(t *testing.T) {
	for _, test := range []struct {
		name   string
		arrows []Arrow
		back   int
	}{
		{"a chain", []Arrow{{"c", "b"}, {"b", "a"}, {"c", "a"}}, 0},
		{"two files that use each other", []Arrow{{"a", "b"}, {"b", "a"}}, 1},
		{"a ring", []Arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}}, 1},
		{"a ring and a pair", []Arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"c", "d"}, {"d", "c"}}, 2},
	} {
		if order, back := Back(test.arrows); back != test.back {
			t.Errorf("%s: %d arrows run back in the order %v, want %d", test.name, back, order, test.back)
		}
	}
}
