package offer

// Runs is how many runs a curve has.
func Runs(c Curve) int { return len(c.runs()) }

// InRuns says whether two curves are merged run by run.
func InRuns(a, b Curve) bool {
	t := table{}
	t.clear(a.Most()+b.Most(), a.width)
	return t.mergeRuns(a, b)
}
