// Package mistakes has the mistakes that users make most, each as the file that a user would apply. simulate, queue and explain must say
// the cause, the effect and the remedy, with the object, the field and the value.
package mistakes

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/cli"
)

var rewrite = flag.Bool("rewrite", false, "write the answers to testdata; then read the diff")

// mistake is a file of testdata and what the user must learn.
type mistake struct {
	file  string
	nodes string // "" is nodes.yaml
	gang  string // "" is train
	// Each answer must have the phrases of all, and simulate and explain also their own.
	all, simulate, explain []string
	unlisted               bool // the gang need not be in the queue, since there is none
}

const (
	spec     = "gang.scheduling.koordinator.sh/network-topology-spec"
	never    = "Needs %s in one SpineLayer domain"
	noEffect = "network-topology-spec has no effect in a Job's own metadata; write it in spec.template.metadata.annotations"
)

var mistakes = []mistake{
	{file: "layer-typo", all: []string{`ayer "SpinLayer" is not in ClusterNetworkTopology default`, "has: SpineLayer, BlockLayer", "did you mean SpineLayer?"}},
	{file: "json-broken", all: []string{spec, "is not JSON", "invalid character ']' after object key:value pair (position 65)"}},
	{file: "strategy-case", all: []string{spec, `gatherStrategy[0].strategy: "mustGather" is invalid`, "did you mean MustGather?"}},
	{
		file: "missing-member", all: []string{"2 of 4 members exist", "after the creation of 2 more pods, or with minMember 2"},
		explain: []string{"check the controller"},
	},
	{
		file: "too-big", all: []string{fmt.Sprintf(never, "6"), "the largest, s0, has capacity for 4 members, even when empty"},
		explain: []string{"a layer above SpineLayer, at most 4 members"},
	},
	{
		file: "no-schedulername", all: []string{"schedulerName is default-scheduler; supported values: koord-scheduler, muster-scheduler"},
		explain: []string{"recreate the pods with a served spec.schedulerName"},
	},
	{file: "other-scheduler", all: []string{"schedulerName is muster-schduler; supported values: koord-scheduler, muster-scheduler"}},
	{
		file: "annotation-key-typo",
		all:  []string{"gang.scheduling.koordinator.sh/network-topology-spce: unknown; did you mean network-topology-spec?"},
	},
	{file: "no-gpu", all: []string{"no node has nvidia.com/gpu"}, explain: []string{"nodes with nvidia.com/gpu"}},
	{
		file: "quota-label-without-quota",
		all:  []string{"label quota.scheduling.koordinator.sh/name: team-x has no effect: there is no ElasticQuota"},
	},
	{file: "quota-max", all: []string{"Quota team-x: the gang requests 4 cpu; max is 3 cpu", "The gang never starts: raise max by at least 1 cpu"}},
	{
		file: "podgroup-name-typo", all: []string{"PodGroup default/train does not exist; did you mean trian, which has no members?"},
		simulate: []string{"pod default/train-0 (and 1 more) names gang train, which does not exist; did you mean trian?"},
	},
	{
		file: "unlabelled-nodes", nodes: "nodes-unlabelled", all: []string{
			"no node has label network.topology.nvidia.com/spine", "node node-0 has other.label/block, other.label/spine",
		},
	},
	{
		file: "some-nodes-unlabelled", nodes: "nodes-some-unlabelled", all: []string{
			"6 of 8 nodes lack label network.topology.nvidia.com/spine, such as node-0: label them",
		},
	},
	{
		file: "label-of-another-api", all: []string{
			"PodGroup default/train does not exist; pod default/train-0 (and 1 more) names a PodGroup of scheduling.sigs.k8s.io by " +
				"label pod-group.scheduling.sigs.k8s.io",
			"the existing PodGroup is of scheduling.x-k8s.io: use label scheduling.x-k8s.io/pod-group",
		},
		simulate: []string{"0 of 2 members exist; pod default/train-0 (and 1 more) names a PodGroup of scheduling.sigs.k8s.io"},
	},
	{
		file: "podgroup-in-another-namespace", all: []string{
			"PodGroup team/train exists, but pod default/train-0 (and 1 more) names it from another namespace: use one namespace for both",
		},
		simulate: []string{"0 of 2 members exist; PodGroup team/train exists, but pod default/train-0"},
	},
	{file: "volcano-other-scheduler", all: []string{"2 cannot: schedulerName is muster; supported values: koord-scheduler, muster-scheduler"}},
	{
		file: "minmember-0", unlisted: true, all: []string{
			`testdata/minmember-0.yaml: document 1, line 1: PodGroup.scheduling.sigs.k8s.io "train" is invalid: spec.minMember`,
			"greater than or equal to 1",
		},
	},
	{
		file: "waiting-time-without-unit", all: []string{
			`gang.scheduling.koordinator.sh/waiting-time: "10" is invalid; supported values: a duration > 0, such as 600s; the default is used`,
		},
	},
	{
		file: "quota-name-typo", all: []string{
			`no ElasticQuota named "team-x"`, "the pod counts in quota koordinator-default-quota", "did you mean team-y?",
		},
	},
	{
		file: "reclaim", gang: "gx", simulate: []string{"preempting to accommodate gang default/gx: its quota reclaims what the quota of this pod borrows"},
		explain: []string{"Would evict default/gy-0 on node-0"},
	},
	{
		file: "reclaim-never", gang: "gx", all: []string{
			"Quota team-x: the gang requests 6 cpu; the fair share is 5500m cpu", "No other quota lends the missing 500m cpu (quotas above their min: " +
				"team-y)", "raise min",
		},
	},
	{file: "group-of-missing-gang", gang: "a", all: []string{"ang default/zz of the gang group does not exist: create it, or remove it from the group"}},
	{file: "odd-multiple", gang: "a", all: []string{"3 is not a multiple of 2: use 2 or 4 members"}},
	{file: "quota-parent", gang: "a", all: []string{`Quota team-x cannot be used: its parent "nope" does not exist`}},
	{
		file: "tainted-nodes", nodes: "nodes-tainted", gang: "a", all: []string{"8 nodes have the taint gpu:NoSchedule, which is not tolerated"},
		explain: []string{"a toleration of the taint gpu:NoSchedule in the pods"},
	},
	{
		file: "selector-and-topologykey", gang: "a", all: []string{
			"8 nodes do not match the node selector nope=x", "topologyKey network.topology.nvidia.com/nosuch: no node has this label",
		},
		explain: []string{"another nodeSelector, or nodes with the label nope=x"},
	},
	{
		file: "gang-label-typo", gang: "g", all: []string{
			"0 of 4 members exist", "pod-group.scheduling.sigs.k8s.io/nam: g; did you mean label pod-group.scheduling.sigs.k8s.io/name?",
		},
		simulate: []string{"label pod-group.scheduling.sigs.k8s.io/nam: unknown; did you mean label pod-group.scheduling.sigs.k8s.io/name?"},
	},
	{
		file: "gang-annotation-typo", gang: "g", all: []string{
			"0 of 2 members exist; pod default/g-0 (and 1 more) has the unknown annotation gang.scheduling.koordinator.sh/nam: g; " +
				"did you mean annotation gang.scheduling.koordinator.sh/name?",
		},
	},
	{
		file: "gang-name-typo-without-podgroup", gang: "g",
		simulate: []string{"gang.scheduling.koordinator.sh/nam: unknown; did you mean name?"},
		explain: []string{
			"there is no gang default/g; pod default/g-0 (and 1 more) has the unknown annotation gang.scheduling.koordinator.sh/nam: g",
		},
	},
	{
		file: "gang-without-podgroup-typo", gang: "g", all: []string{
			"gang.scheduling.koordinator.sh/min-availabel: unknown; did you mean min-available?",
		},
	},
	{
		file: "job-parallelism", gang: "g",
		all: []string{"Job j runs at most 2 pods at a time: recreate it with parallelism and completions ≥ 4, create the gang's other pods, " +
			"or lower minMember to 2"},
	},
	{file: "job-annotation", unlisted: true, simulate: []string{noEffect}},
	{file: "job-annotation-with-podgroup", gang: "g", simulate: []string{noEffect}},
	{
		file: "job-quota-label", unlisted: true,
		simulate: []string{"label quota.scheduling.koordinator.sh/name: team-x has no effect: there is no ElasticQuota; other pods with the " +
			"same warning: 1"},
	},
}

// TestUserLearnsFromAnswer runs simulate, queue and explain on each mistake. The answers must have the phrases, and equal
// testdata/FILE.txt. Run with -args -rewrite to write these files; then read the diff.
func TestUserLearnsFromAnswer(t *testing.T) {
	tested := map[string]bool{}
	for _, m := range mistakes {
		tested[m.file] = true
		t.Run(m.file, func(t *testing.T) {
			if m.nodes == "" {
				m.nodes = "nodes"
			}
			if m.gang == "" {
				m.gang = "train"
			}
			files := []string{"-f", "testdata/" + m.nodes + ".yaml", "-f", "../../manifests/topologies/topograph.yaml", "-f", "testdata/" + m.file + ".yaml"}
			simulate, simulateText := run(t, files, "simulate")
			queue, queueText := run(t, files, "queue", "-A")
			explain, explainText := run(t, files, "explain", "podgroup", m.gang)
			for _, phrase := range m.all {
				require.Contains(t, simulateText, phrase)
				require.Contains(t, queueText, phrase)
				require.Contains(t, explainText, phrase)
			}
			for _, phrase := range m.simulate {
				require.Contains(t, simulateText, phrase)
			}
			if !m.unlisted {
				require.Contains(t, queueText, " default/"+m.gang+" ")
			}
			for _, phrase := range m.explain {
				require.Contains(t, explainText, phrase)
			}
			golden, answer := filepath.Join("testdata", m.file+".txt"), simulate+"\n"+queue+"\n"+explain
			if *rewrite {
				require.NoError(t, os.WriteFile(golden, []byte(answer), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), answer)
		})
	}
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		require.True(t, tested[name] || strings.HasPrefix(name, "nodes"), "%s is not tested", file)
	}
}

// run returns the answer of a command, and the same on one line.
func run(t *testing.T, files []string, command ...string) (answer, line string) {
	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), append(command, files...), &out, &errs)
	answer = fmt.Sprintf("$ musterctl %s\n%s%s", strings.Join(command, " "), errs.String(), out.String())
	if code != 0 {
		answer += fmt.Sprintf("exit code %d\n", code)
	}
	return answer, strings.Join(strings.Fields(answer), " ")
}
