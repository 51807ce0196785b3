package podgang

import "slices"

// KeepMinima gives groups whose minimum was released (0) the one that was written for them before, by the name of the
// group's object (GroupName); info is not changed. Grove releases it once they are placed, so that it may replace them,
// and not because fewer would do. A group that lists no pods where others list theirs was scaled to zero: it keeps 0, as does a group that
// never had a minimum, and one of another API: there 0 is how many.
func KeepMinima(info *PodGangInfo, before map[string]int32) *PodGangInfo {
	if info.Kind != PodGang {
		return info
	}
	out := *info
	out.PodGroups = slices.Clone(info.PodGroups)
	listed := slices.ContainsFunc(info.PodGroups, func(g PodGroupInfo) bool { return len(g.PodReferences) > 0 })
	for i := range out.PodGroups {
		if g := &out.PodGroups[i]; g.MinReplicas == 0 && (len(g.PodReferences) > 0 || !listed) {
			g.MinReplicas = before[GroupName(info.Name, g.Name)]
		}
	}
	return &out
}
