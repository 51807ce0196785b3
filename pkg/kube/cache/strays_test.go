package cache

import "testing"

// TestNamesOfUnrelatedJobs: names that differ only in digits are no misspellings of one another.
func TestNamesOfUnrelatedJobs(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{{"train-1", "train-27", true}, {"train", "trian", false}, {"train", "train-x", false}} {
		if got := sameButDigits(c.a, c.b); got != c.same {
			t.Errorf("sameButDigits(%q, %q) = %v", c.a, c.b, got)
		}
	}
}
