package quota

// Enough returns whether these victims, given by gang, may be evicted and the ask is admitted then.
func (r *Reclaim) Enough(victims map[string][]string) bool {
	return r.MayEvict(victims) && r.Admits(victims) && r.eachByRight(victims)
}

// Reduced returns whether a pod has left the view.
func (v *View) Reduced() bool { return len(v.gone) > 0 }
