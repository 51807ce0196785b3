package podgang

import "slices"

// KeepMinima returns a copy of info in which a group with minimum 0 has its former minimum. minima is the former minimums by the name of
// the group's object (GroupName). Grove sets the minimum to 0 once the pods are placed, so that it may replace them. A group keeps 0 if it
// lists no pods while another lists some (it was scaled to zero), or if it never had a minimum. Groups of other APIs keep 0, too.
func KeepMinima(info *PodGangInfo, minima map[string]int32) *PodGangInfo {
	if info.Kind != PodGang {
		return info
	}
	out := *info
	out.PodGroups = slices.Clone(info.PodGroups)
	listsPods := slices.ContainsFunc(info.PodGroups, func(g PodGroupInfo) bool { return len(g.PodReferences) > 0 })
	for i := range out.PodGroups {
		if g := &out.PodGroups[i]; g.MinReplicas == 0 && (len(g.PodReferences) > 0 || !listsPods) {
			g.MinReplicas = minima[GroupName(info.Name, g.Name)]
		}
	}
	return &out
}
