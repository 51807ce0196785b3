package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/picture"
	"github.com/muster-scheduler/muster/test/pictures"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		hang int
		want string
	}{
		{"", 0, ""},
		{"exactly 10", 0, "exactly 10"},
		{"one two three", 0, "one two\nthree"},
		{"one two three", 2, "one two\n  three"},
		{"  in one two", 4, "  in one\n    two"},
		{"unbreakable-word", 2, "unbreakable-word"},
		{"unbreakable-word next", 2, "unbreakable-word\n  next"},
		{"a   unbreakable-word", 6, "a\n      unbreakable-word"},
		{"ééé ééé éé", 0, "ééé ééé éé"},
		{"    unbreakable-word", 4, "    unbreakable-word"},
	} {
		require.Equal(t, c.want, wrap(c.text, c.hang, 10), c.text)
	}
}

func TestCommandLine(t *testing.T) {
	require.Equal(t, "$ kubectl get pods -o wide", commandLine([]string{"get", "pods", "-o", "wide"}))
	require.Equal(t, `$ kubectl get pod a -o 'jsonpath={.a[?(@.b=="c")]}' 'it'\''s'`,
		commandLine([]string{"get", "pod", "a", "-o", `jsonpath={.a[?(@.b=="c")]}`, "it's"}))

	// A flag stays with its value, and what is too long for a line has one of its own.
	file := strings.Repeat("f", 85)
	require.Equal(t, "$ kubectl apply \\\n    -f "+file+" \\\n    -f "+file+file+" \\\n    --force",
		commandLine([]string{"apply", "-f", file, "-f", file + file, "--force"}))
}

const wideOutput = `NAME     READY   STATUS    RESTARTS      AGE   IP          NODE     NOMINATED NODE   READINESS GATES
hp-0     0/1     Pending   0             0s    <none>      <none>   node-5           <none>
low-10   1/1     Running   1 (2s ago)    0s    10.64.0.2   node-0   <none>           <none>
`

func TestPresent(t *testing.T) {
	require.Equal(t, `NAME     READY   STATUS    RESTARTS      AGE   IP          NODE     NOMINATED NODE
hp-0     0/1     Pending   0             0s    <none>      <none>   node-5
low-10   1/1     Running   1 (2s ago)    0s    10.64.0.2   node-0   <none>
`, present(wideOutput))

	long := strings.Repeat("word ", 18) + "end"
	require.Equal(t, "REASON   MESSAGE\nWhy      "+strings.Repeat("word ", 18)+"\n         end\n",
		strings.ReplaceAll(present("REASON   MESSAGE\nWhy      "+long+"\n"), "word\n", "word \n"), "below the last column")
	require.Equal(t, strings.Repeat("word ", 19)+"word\n    end", strings.TrimSuffix(present(strings.Repeat("word ", 20)+"end"), "\n"))
	require.Equal(t, "pod/a created\npod/b created\n", present("pod/a created\npod/b created\n"))
	require.Empty(t, present(""))
	require.Equal(t, "\n", present("\n"))
}

func TestParseTable(t *testing.T) {
	require.Equal(t, []string{"hp-0  <none>  node-5", "low-10  node-0  <none>"},
		parseTable(wideOutput).rowsOf("NAME", "NODE", "NOMINATED NODE"))
	require.Equal(t, []string{"0", "1 (2s ago)"}, parseTable(wideOutput).rowsOf("RESTARTS"))
	require.Equal(t, []string{"?", "?"}, parseTable(wideOutput).rowsOf("PHASE"))
	require.Equal(t, []string{"a    Waiting"}, parseTable("NAME   COUNT   PHASE\na              Waiting\n").rowsOf("NAME", "COUNT", "PHASE"),
		"an empty cell")
	require.Empty(t, parseTable("").rowsOf("NAME"))

	// What the documents show is read as it is meant.
	require.Equal(t, []string{
		"hp-training-pod-0  Pending  <none>  node-5", "hp-training-pod-1  Pending  <none>  node-6",
		"hp-training-pod-2  Pending  <none>  node-7", "hp-training-pod-3  Pending  <none>  node-8",
		"low-priority-pod-0  Running  node-0  <none>", "low-priority-pod-1  Running  node-1  <none>",
		"low-priority-pod-5  Terminating  node-5  <none>",
	}, parseTable(example2During).rowsOf("NAME", "STATUS", "NODE", "NOMINATED NODE"))
	for text, rows := range map[string]int{example1Pods: 4, example2Before: 3, example2After: 6} {
		parsed := parseTable(text)
		require.Len(t, parsed.rows, rows)
		for _, row := range parsed.rowsOf(podsSettled...) {
			require.Regexp(t, `^[a-z]+-[a-z]+-pod-\d  1/1  Running  0  node-\d  <none>$|^training-pod-\d  1/1  Running  0  node-\d  <none>$`, row)
		}
	}
}

func TestSameTable(t *testing.T) {
	other := strings.Replace(wideOutput, "node-5", "node-6", 1)
	require.True(t, sameTable("", wideOutput, other, "NAME", "NODE").ok)
	c := sameTable("", wideOutput, other, "NAME", "NOMINATED NODE")
	require.Equal(t, check{"", false, "hp-0  node-5", "hp-0  node-6"}, c)
	require.False(t, sameTable("", wideOutput, "", "NAME").ok)
	c = sameTable("", wideOutput, wideOutput+"more\n", "NAME")
	require.Equal(t, check{"", false, "no such row", "more"}, c)
}

func TestChecks(t *testing.T) {
	var out strings.Builder
	n := newNarrator(&out)
	require.ErrorIs(t, n.verdict(time.Second), errChecksFailed, "nothing was checked")
	out.Reset()

	n.checks([]check{equal("numbers are equal", "1", "1"), contains("a text has a part", "part of this", "part")})
	require.Equal(t, "\n  ✓ numbers are equal\n  ✓ a text has a part\n", out.String())
	require.NoError(t, n.verdict(2500*time.Millisecond))
	require.Contains(t, out.String(), "\nAll 2 checks passed: the examples end as documented. That took 2 seconds.\n")
	out.Reset()

	long := strings.Repeat("1\n", 20)
	n.checks([]check{equal("b is there", "b", ""), equal("all lines are equal", long, long+"2\n")})
	require.Equal(t, `
  ✗ b is there
      expected:
        b
      got:
        (nothing)
  ✗ all lines are equal
      expected:
        from line 21 of 21:
      got:
        from line 21 of 22:
        2
`, out.String())
	require.EqualError(t, n.verdict(0), "the examples did not end as documented: 2 of 4 checks")
	require.Contains(t, out.String(), "\n2 of 4 checks failed:\n  ✗ b is there\n  ✗ all lines are equal\n")
}

func TestColour(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	require.False(t, mayColour(file), "no terminal")
	require.False(t, mayColour(io.Discard))

	var out strings.Builder
	n := &narrator{out: &out, colour: true}
	n.title("Title")
	n.checks([]check{equal("good", "", ""), equal("bad", "a", "b")})
	require.Equal(t, "\n\033[1m== Title\033[0m\n\n  \033[32m✓\033[0m good\n  \033[31m✗\033[0m bad\n"+
		"      expected:\n        a\n      got:\n        b\n", out.String())
}

func parsePicture(t *testing.T, text string) *picture.Cluster {
	c, err := pictures.Parse(text)
	require.NoError(t, err)
	return &c.Cluster
}

func TestDrawOffers(t *testing.T) {
	require.Equal(t, `  cluster                              8 free
    spine-0                            7
      block-0  node-0 .#  node-1 x     1
      -  node-3 ....                   4
      -  node-4 ..                     2
    spine-1                            1
      block-2  node-5 l  node-6 .      1
`, drawOffers(parsePicture(t, `
spine-0
  block-0  node-0 .#  node-1 x
  -        node-3 ....
  -        node-4 ..
spine-1
  block-2  node-5 l  node-6 .
`[1:])))

	// A domain may be continued on several lines; only the first has the count.
	text := "spine-0\n  block-0 "
	for i := range 20 {
		text += fmt.Sprintf(" node-%d ....", i)
	}
	drawn := drawOffers(parsePicture(t, text))
	require.Equal(t, 3, strings.Count(drawn, "80"))
	require.Greater(t, strings.Count(drawn, "\n"), 4)
}

// asList makes what kubectl prints of the objects in fixtures; change may change each.
func asList(t *testing.T, change func(object map[string]any), names ...string) string {
	items := []any{}
	for _, name := range names {
		content, err := fs.ReadFile(examples.FS, name)
		require.NoError(t, err)
		for doc := range strings.SplitSeq(string(content), "---\n") {
			object := map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(doc), &object))
			if len(object) > 0 {
				change(object)
				items = append(items, object)
			}
		}
	}
	list, err := json.Marshal(map[string]any{"kind": "List", "items": items})
	require.NoError(t, err)
	return string(list)
}

func TestObjectsPicture(t *testing.T) {
	half := func(object map[string]any) {
		if metadata := object["metadata"].(map[string]any); metadata["name"] == "node-2" {
			object["status"].(map[string]any)["allocatable"].(map[string]any)["memory"] = "31Gi"
		}
	}
	o, err := decodeObjects(asList(t, half, "clusternetworktopology.yaml", "example-nodes.yaml", "example2-low-priority-pods.yaml",
		"example2-pods.yaml"))
	require.NoError(t, err)
	require.Len(t, o.nodes, 12)
	require.Len(t, o.pods, 7)
	o.pods[3].Spec.NodeName = "node-10"
	o.pods[4].Spec.NodeName, o.pods[4].Status.Phase = "node-11", v1.PodSucceeded
	member, err := firstPod("example2-pods.yaml")
	require.NoError(t, err)
	c, err := o.picture(member, markOf)
	require.NoError(t, err)
	require.Equal(t, `
spine-0
  block-0  node-0 l  node-1 l  node-2 #
  block-1  node-3 .  node-4 .
spine-1
  block-2  node-5 l  node-6 .
  block-3  node-7 .  node-8 .
spine-2
  block-4  node-9 .  node-10 x  node-11 .
`[1:], picture.Draw(c.Tree, c.Nodes))

	// Twice as many members fit if they are half as large; a pod takes two of their slots.
	for name, q := range member.Spec.Containers[0].Resources.Requests {
		q.SetMilli(q.MilliValue() / 2)
		member.Spec.Containers[0].Resources.Requests[name] = q
	}
	c, err = o.picture(member, markOf)
	require.NoError(t, err)
	require.Contains(t, picture.Draw(c.Tree, c.Nodes), "node-0 ll  node-1 ll  node-2 .\n")

	_, err = decodeObjects("{")
	require.Error(t, err)
	_, err = decodeObjects(`{"items":[{"kind":"Pod","spec":1}]}`)
	require.ErrorContains(t, err, "Pod: ")
}

func TestWhileTerminating(t *testing.T) {
	sibling := saysSibling + "no room" + saysHeld + "preemption: " + saysAttempts + "."
	say := func(message string) func(map[string]any) {
		return func(object map[string]any) {
			metadata := object["metadata"].(map[string]any)
			object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "PodScheduled", "message": message}}}
			if metadata["name"] == "low-priority-pod-5" {
				metadata["deletionTimestamp"] = "2025-10-23T07:35:30Z"
			}
		}
	}
	failed := func(message string) (failed []string) {
		results := whileTerminating(asList(t, say(message), "example2-low-priority-pods.yaml", "example2-pods.yaml"))
		require.Len(t, results, 3)
		for i, c := range results {
			if !c.ok {
				failed = append(failed, fmt.Sprint(i))
			}
		}
		return failed
	}
	require.Empty(t, failed(sibling))
	require.Equal(t, []string{"0"}, failed("something else"))
	require.Equal(t, []string{"2"}, failed(sibling+strings.Repeat("x", longestMessage)))

	results := whileTerminating(asList(t, say(sibling), "example2-low-priority-pods.yaml"))
	require.False(t, results[0].ok, "no siblings")
	results = whileTerminating(asList(t, func(map[string]any) {}, "example2-pods.yaml"))
	require.False(t, results[1].ok, "no pod is evicted")
	require.False(t, results[2].ok, "no messages")
	require.False(t, whileTerminating("{")[0].ok)
}

func TestDocumentedTopology(t *testing.T) {
	content, err := fs.ReadFile(examples.FS, "clusternetworktopology-status.yaml")
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, yaml.Unmarshal(content, &object))
	object["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "True", "reason": "InUse"}}
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	oks := func(out string) string {
		results := documentedTopology(out)
		require.Len(t, results, 2)
		return fmt.Sprint(results[0].ok, results[1].ok)
	}
	good := string(raw)
	require.Equal(t, "true true", oks(good))
	require.Equal(t, "false true", oks(strings.Replace(good, "block-4", "block-5", 1)))
	require.Equal(t, "false true", oks(strings.Replace(good, `"topologyName":""`, `"topologyName":"all"`, 1)))
	require.Equal(t, "true false", oks(strings.Replace(good, "InUse", "InvalidSpec", 1)))
	require.Equal(t, "false false", oks("{}"))
	require.Equal(t, "false false", oks("not found"))
}

func TestOutcomes(t *testing.T) {
	require.True(t, disruptionTarget(`[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]`)[0].ok)
	for _, other := range []string{"[]", "Error", `[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}]`} {
		require.False(t, disruptionTarget(other)[0].ok, other)
	}
	require.True(t, deleted("")[0].ok)
	require.True(t, deleted("pod/low-priority-pod-5 condition met\n")[0].ok)
	require.False(t, deleted("timed out waiting for the condition\n")[0].ok)

	first := messageOfFirst("0/12 nodes are available: " + saysRefused + ". preemption: " + saysWaiting + ".")
	require.True(t, first[0].ok && first[1].ok)
	first = messageOfFirst("")
	require.False(t, first[0].ok || first[1].ok)
}

func TestOneEviction(t *testing.T) {
	pod := func(name, uid string) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":%q,"uid":%q}}`, name, uid)
	}
	event := func(name string) string {
		return fmt.Sprintf(`{"kind":"Event","reason":"Preempted","involvedObject":{"name":%q}}`, name)
	}
	list := func(items ...string) string { return `{"items":[` + strings.Join(items, ",") + `]}` }
	zero, one := pod("low-priority-pod-0", "u0"), pod("low-priority-pod-1", "u1")
	before, err := decodeObjects(list(zero, one, pod("low-priority-pod-5", "u5")))
	require.NoError(t, err)
	oks := func(items ...string) (oks []bool) {
		for _, c := range oneEviction(&before)(list(items...)) {
			oks = append(oks, c.ok)
		}
		return oks
	}
	evicted := event("low-priority-pod-5")
	require.Equal(t, []bool{true, true}, oks(zero, one, evicted))
	require.Equal(t, []bool{false, true}, oks(zero, one))
	require.Equal(t, []bool{false, true}, oks(zero, one, evicted, evicted))
	require.Equal(t, []bool{false, true}, oks(zero, one, evicted, event("low-priority-pod-0")))
	require.Equal(t, []bool{true, false}, oks(zero, evicted))
	require.Equal(t, []bool{true, false}, oks(zero, pod("low-priority-pod-1", "another"), evicted))
	require.False(t, oneEviction(&before)("{")[0].ok)
}

// TestAwait plays with the fake clock of synctest.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		d := &demo{narrator: newNarrator(io.Discard), kubectl: func(context.Context, ...string) (string, error) {
			calls++
			if calls == 1 {
				return "", errors.New("not found")
			}
			return fmt.Sprint("call ", calls), nil
		}}
		third := func(out string) []check { return []check{equal("third", "call 3", out)} }

		out, results, err := d.await(t.Context(), third)
		require.NoError(t, err)
		require.Equal(t, "call 3", out)
		require.True(t, results[0].ok)

		began := time.Now()
		_, results, err = d.await(t.Context(), third)
		require.NoError(t, err)
		require.False(t, results[0].ok)
		require.InDelta(t, patience, time.Since(began), float64(time.Second))

		calls = 0
		_, results, _ = d.await(t.Context(), func(out string) []check { return []check{equal("", "not found\n", out)} })
		require.True(t, results[0].ok, "what kubectl complains about is looked at")

		calls, d.failed = 10, []string{"something"}
		began = time.Now()
		_, _, err = d.await(t.Context(), third)
		require.NoError(t, err)
		require.InDelta(t, lostPatience, time.Since(began), float64(time.Second))

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Second) // of the fake clock
			cancel()
		}()
		require.ErrorIs(t, runChecked(third, "get")(ctx, d), context.Canceled)
	})
}

// TestSteps plays a script with a kubectl that repeats its arguments.
func TestSteps(t *testing.T) {
	var out strings.Builder
	d := &demo{narrator: newNarrator(&out), kubectl: func(_ context.Context, args ...string) (string, error) {
		if args[0] == "fail" {
			return "half of it\n", errors.New("failed")
		}
		return strings.Join(args, " ") + "\n", nil
	}}
	printed := func(want string) expect {
		return func(out string) []check { return []check{equal("it prints "+want, want+"\n", out)} }
	}
	err := d.play(t.Context(), []step{
		title("Scene"),
		say("Two", "words."),
		runShown("apply", "a"),
		runHidden("delete", "a"),
		runChecked(printed("get b"), "get", "b"),
		checkAndRun(printed("get all"), []string{"get", "all"}, "get", "c"),
		runShown("fail"),
		say("Not any more."),
	})
	require.EqualError(t, err, "failed")
	require.Equal(t, `
== Scene

Two words.

$ kubectl apply a
apply a

$ kubectl get b
get b

  ✓ it prints get b

$ kubectl get c
get c

  ✓ it prints get all

$ kubectl fail
half of it
`, out.String())
	require.Equal(t, 2, d.passed)
}

func TestFindScheduler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findScheduler()
	require.ErrorContains(t, err, "there is no muster-scheduler beside ")
	require.ErrorContains(t, err, "\n  make build\n  go build -o ")

	program := filepath.Join(os.Getenv("PATH"), schedulerProgram)
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	found, err := findScheduler()
	require.NoError(t, err)
	require.Equal(t, program, found)
}

// The scheduler gets the drop-in configuration as it is, and where the cluster is.
func TestConnectTo(t *testing.T) {
	dropIn, err := fs.ReadFile(manifests.SchedulerConfigs, "scheduler-config/drop-in.yaml")
	require.NoError(t, err)
	connected := connectTo(dropIn, "/tmp/a b/admin.kubeconfig")
	require.True(t, strings.HasPrefix(string(connected), string(dropIn)))
	var was, is map[string]any
	require.NoError(t, yaml.UnmarshalStrict(dropIn, &was))
	require.NoError(t, yaml.UnmarshalStrict(connected, &is))
	was["clientConnection"] = map[string]any{"kubeconfig": "/tmp/a b/admin.kubeconfig"}
	require.Equal(t, was, is)
}

func TestCopyExamples(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs", "examples")
	require.NoError(t, copyExamples(dir))
	for _, name := range []string{
		"example-nodes.yaml", "example1-pods.yaml", "example2-pods.yaml", "devices/gang.yaml", "quotas/second.yaml",
	} {
		copied, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		source, err := os.ReadFile(filepath.Join("../..", examplesPath, name))
		require.NoError(t, err)
		require.Equal(t, string(source), string(copied), name)
	}
}

func TestCopyLog(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	log := filepath.Join(t.TempDir(), "muster-scheduler.log")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("line\n", 30)+"last\n"), 0o644))
	var out strings.Builder
	require.NoError(t, copyLog(&out, log, true))
	require.Equal(t, "\nThe end of muster-scheduler's log, which is in "+log+":\n"+strings.Repeat("line\n", 19)+"last\n", out.String())

	out.Reset()
	require.NoError(t, copyLog(&out, log, false))
	copies, err := filepath.Glob(os.Getenv("TMPDIR") + "/muster-demo-*.log")
	require.NoError(t, err)
	require.Len(t, copies, 1)
	require.Contains(t, out.String(), "which is in "+copies[0]+":")
	require.Error(t, copyLog(&out, log+".gone", false))
}
