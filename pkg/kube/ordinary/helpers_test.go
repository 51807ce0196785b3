package ordinary_test

import (
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/test/testcluster"
)

var a = testcluster.A

// group makes two gangs of one GangGroup: a launcher, and workers of which least are needed.
func group(c *testcluster.Cluster, least int, launcher *v1.Pod, workers ...*v1.Pod) {
	both := map[string]string{scheduling.AnnotationGroups: `["default/l","default/w"]`}
	c.GangWith(both, "l", 1, launcher)
	c.GangWith(both, "w", least, workers...)
}
