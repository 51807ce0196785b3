package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// TestOwnersAdmission: an annotation of gangs on a Job has no effect if the Job's pods are no gang. The user gets a
// warning when the Job is applied, since the scheduler does not read such Jobs.
func TestOwnersAdmission(t *testing.T) {
	const (
		job    = "apiVersion: batch/v1, kind: Job"
		set    = "apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet"
		jobSet = "apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet"
		least  = "gang.scheduling.koordinator.sh/min-available"
		spec   = "gang.scheduling.koordinator.sh/network-topology-spec"
		noGang = " has no effect on a Job without a gang: they are if spec.template.metadata.annotations has network-topology-spec or min-available"
		known  = " has no effect here: how many pods start together is known from the spec"
	)
	d := newDoor(t)
	for name, c := range map[string]struct{ kind, annotations, pods, warned string }{
		"a Job alone":               {job, least + ": '2'", "", least + noGang},
		"of two the first":          {job, least + ": '2', " + spec + ": '{}'", "", spec + noGang},
		"a Job whose pods are one":  {job, spec + ": '{}'", least + ": '2'", ""},
		"a Job whose pods are not":  {job, least + ": '2'", "team: x", least + noGang},
		"nothing of ours":           {job, "team: x", "", ""},
		"a key that nobody knows":   {job, "gang.scheduling.koordinator.sh/other: x", "", ""},
		"a set that says a minimum": {set, least + ": '2'", "", least + known},
		"a set that says a rule":    {set, spec + ": '{}'", "", ""},
		"a JobSet with a minimum":   {jobSet, least + ": '2'", "", least + known},
	} {
		text := "{" + c.kind + ", metadata: {namespace: default, name: a, annotations: {" + c.annotations +
			"}}, spec: {template: {metadata: {annotations: {" + c.pods + "}}}}}"
		data, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err, text)
		u := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(data, &u.Object))
		require.Equal(t, said{warned: c.warned}, d.enter(u, nil), name)
		changed := u.DeepCopy()
		changed.SetLabels(map[string]string{"a": "b"})
		require.Equal(t, said{}, d.enter(changed, u), name+": what was there before can be changed otherwise")
	}
}
