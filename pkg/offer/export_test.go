package offer

import "math"

// Runs is how many runs a curve has.
func Runs(c Curve) int { return len(c.appendRuns(nil)) }

// InRuns says whether two curves are merged run by run.
func InRuns(a, b Curve) bool {
	return len(a.upTo) >= fewSteps && len(b.upTo) >= fewSteps && worthwhile(a.appendRuns(nil), b.appendRuns(nil))
}

// Merge merges two curves.
func Merge(a, b Curve, most Slots) Curve {
	m := Merger{Most: most, Dearest: math.MaxInt64}
	return m.Merge(a, b)
}

// Stairs returns Free with more steps of ascending prices; a step for no more members is omitted.
func Stairs(n Slots, width int, steps func(yield func(Slots, Price) bool)) Curve {
	c := Free(n, width)
	for upTo, price := range steps {
		c.add(upTo, price)
	}
	return c
}
