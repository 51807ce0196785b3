package quota

// Enough returns whether these victims, given by gang, may be evicted and the ask is admitted then.
func (r *Reclaim) Enough(victims map[string][]string) bool {
	return r.MayEvict(victims) && r.Check(victims) == Admitted
}

// Reduced returns whether the view counts a pod as gone.
func (v *View) Reduced() bool { return len(v.gone) > 0 }

// Class returns the class of a gang at a quota.
func (b *Book) Class(gang, quota string) Class {
	i, ok := b.tree.byName[quota]
	if !ok {
		return Absent
	}
	if g := b.gangs[gang]; g != nil {
		return b.class.at(i)[g]
	}
	return Absent
}
