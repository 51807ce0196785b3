package podgang

import "slices"

// KeepMinima gives groups whose minimum was released (0) the one that was written for them before, by the name of the
// group's object (GroupName); info is not changed. Grove releases it once they are placed, so that it may replace them,
// and not because fewer would do. A group without pods was scaled to zero and keeps 0, as does a group that never had a minimum, and
// one of another API: there 0 is how many.
func KeepMinima(info *PodGangInfo, before map[string]int32) *PodGangInfo {
	if info.Kind != PodGang {
		return info
	}
	out := *info
	out.PodGroups = slices.Clone(info.PodGroups)
	for i := range out.PodGroups {
		if g := &out.PodGroups[i]; g.MinReplicas == 0 && len(g.PodReferences) > 0 {
			g.MinReplicas = before[GroupName(info.Name, g.Name)]
		}
	}
	return &out
}
