package bundle

import "slices"

// MostPutBack bounds how many questions PutBack is mostly given.
const MostPutBack = 64

// PutBack returns which of some bundles need not be evicted, the first rather than the last. fits says whether all is well
// when some bundles are kept. Half of the bundles are tried at once while that succeeds, then each by itself. all is whether
// every bundle was tried in at most so many questions.
func PutBack[T any](bundles []T, most int, fits func(kept []T) bool) (kept []T, all bool) {
	left := slices.Clone(bundles)
	tries := 0
	for size := len(left); size > 0 && tries < most; size /= 2 {
		for i := 0; i < len(left) && tries < most; tries++ {
			to := min(i+size, len(left))
			if with := slices.Concat(kept, left[i:to]); fits(with) {
				kept = with
				left = slices.Delete(left, i, to)
			} else {
				i += size
			}
		}
		all = size == 1 && tries < most
	}
	return kept, all || len(left) == 0
}
