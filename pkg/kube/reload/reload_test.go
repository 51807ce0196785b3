package reload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/apis/reasons"
	"github.com/muster-scheduler/muster/pkg/kube/reload"
)

// written is a configuration with arguments of the plugin, and with lines of its own.
func written(args, more string) string {
	return "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + more +
		"profiles:\n- schedulerName: muster-scheduler\n  pluginConfig:\n  - name: Coscheduling\n    args: {" + args + "}\n"
}

// watched is a configuration file and the results of its changes.
type watched struct {
	*reload.File
	t    *testing.T
	args config.Args
	said []string
}

func watch(t *testing.T, begin string) *watched {
	config.InstallDefaults()
	w := &watched{t: t}
	w.args, _ = config.Decode(nil)
	w.File = &reload.File{
		Path: filepath.Join(t.TempDir(), "config.yaml"), Clock: clock.RealClock{},
		Apply: func(profile string, args config.Args) (changed, stay []string) {
			require.Equal(t, "muster-scheduler", profile)
			w.args, changed, stay = w.args.Take(args)
			return changed, stay
		},
		Report: func(kind, reason, message string) { w.said = append(w.said, kind+" "+reason+": "+message) },
	}
	w.write(begin)
	require.NoError(t, w.Begin())
	return w
}

func (w *watched) write(content string) {
	require.NoError(w.t, os.WriteFile(w.Path, []byte(content), 0o600))
}

// edit writes the file and has it read, twice: nothing is said twice. It returns what was said.
func (w *watched) edit(content string) []string {
	w.said = nil
	w.write(content)
	w.Look()
	w.Look()
	for i := range w.said {
		w.said[i] = w.said[i][:min(len(w.said[i]), 400)]
	}
	return w.said
}

// TestLook: what an edit changes, and what is said of it.
func TestLook(t *testing.T) {
	usual := written("defaultTimeout: 60s", "")
	for name, test := range map[string]struct {
		edit string
		want []string // parts of what is said
		wait time.Duration
	}{
		"nothing":            {edit: usual, wait: time.Minute},
		"other words for it": {edit: written("defaultTimeout: 1m", "# the same\n"), wait: time.Minute},
		"an argument": {
			edit: written("defaultTimeout: 90s", ""), wait: 90 * time.Second,
			want: []string{"Normal ConfigurationApplied: ", "defaultTimeout is 1m30s (muster-scheduler)"},
		},
		"an illegal value": {
			edit: written("defaultTimeout: -5s", ""), wait: time.Minute,
			want: []string{"Warning ConfigurationRefused: ", "defaultTimeout", "-5s", "supported values: a duration > 0"},
		},
		"an unknown argument": {
			edit: written("defaultTimeOut: 5s", ""), wait: time.Minute,
			want: []string{"Warning ConfigurationRefused: ", "defaultTimeOut", "supported values: "},
		},
		"an unknown field": {
			edit: written("defaultTimeout: 90s", "paralelism: 3\n"), wait: time.Minute,
			want: []string{"Warning ConfigurationRefused: ", "paralelism"},
		},
		"an illegal field": {
			edit: written("defaultTimeout: 90s", "parallelism: -3\n"), wait: time.Minute,
			want: []string{"Warning ConfigurationRefused: ", "parallelism", "-3"},
		},
		"no YAML":      {edit: "profiles: [", wait: time.Minute, want: []string{"Warning ConfigurationRefused: "}},
		"another kind": {edit: "apiVersion: v1\nkind: Pod\n", wait: time.Minute, want: []string{"Warning ConfigurationRefused: ", "Pod"}},
		"a second document": {
			edit: written("defaultTimeout: 90s", "") + "---\n" + usual, wait: time.Minute,
			want: []string{"Warning ConfigurationRefused: ", "second document at line 9, kind KubeSchedulerConfiguration"},
		},
		"what needs a restart": {
			edit: written("defaultTimeout: 1m, controllerWorkers: 4", "parallelism: 3\n"), wait: time.Minute,
			want: []string{"Warning ConfigurationNeedsRestart: ", "restart the scheduler to apply parallelism, controllerWorkers (muster-scheduler)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, usual)
			w.edit(usual)
			w.args.DefaultTimeout = time.Minute // as at the start
			said := w.edit(test.edit)
			if len(test.want) == 0 {
				require.Empty(t, said)
			} else {
				require.Len(t, said, 1, said)
			}
			for _, part := range test.want {
				require.Contains(t, said[0], part)
			}
			require.Equal(t, test.wait, w.args.DefaultTimeout)
			w.edit(written("defaultTimeout: 3m", ""))
			require.Equal(t, 3*time.Minute, w.args.DefaultTimeout, "the next edit counts")
		})
	}
}

// TestBothAtOnce: what may change does, although something else needs a restart; and when the file
// says again what the scheduler was started with, nothing does.
func TestBothAtOnce(t *testing.T) {
	w := watch(t, written("", ""))
	said := w.edit(written("maxGrace: 7s", "parallelism: 3\n"))
	require.Len(t, said, 2)
	require.Contains(t, said[0], "maxGrace is 7s (muster-scheduler)")
	require.Contains(t, said[1], "restart the scheduler to apply parallelism")
	require.Len(t, w.edit(written("maxGrace: 8s", "")), 1)
	require.Equal(t, 8*time.Second, w.args.MaxGrace)
}

// TestAFileThatGoes: the last configuration stays valid while the file is missing, since some editors delete a file
// before they replace it.
func TestAFileThatGoes(t *testing.T) {
	w := watch(t, written("", ""))
	require.NoError(t, os.Remove(w.Path))
	w.Look()
	w.Look()
	require.Len(t, w.said, 1)
	require.Contains(t, w.said[0], "cannot be read; the previous configuration stays in effect")
	require.Len(t, w.edit(written("maxGrace: 9s", "")), 1)
	require.Equal(t, 9*time.Second, w.args.MaxGrace)

	invalid := written("maxGrace: soon", "")
	require.Contains(t, w.edit(invalid)[0], "is invalid")
	require.NoError(t, os.Remove(w.Path))
	w.Look()
	said := w.edit(invalid)
	require.Len(t, said, 1, "an event says again what is wrong now")
	require.Contains(t, said[0], "is invalid")
	w.Look()
	require.Contains(t, w.said[len(w.said)-1], "is invalid")
}

// TestWatch: the file is read every few seconds.
func TestWatch(t *testing.T) {
	w := watch(t, written("", ""))
	now := clocktesting.NewFakeClock(time.Now())
	took := make(chan string, 1)
	w.Clock, w.Report = now, func(_, reason, _ string) { took <- reason }
	ended := make(chan struct{})
	go func() { w.Watch(t.Context()); close(ended) }()
	require.Eventually(t, now.HasWaiters, time.Minute, time.Millisecond)
	w.write(written("maxGrace: 5s", ""))
	now.Step(time.Minute)
	require.Equal(t, reasons.ConfigurationApplied, <-took)
	t.Cleanup(func() { <-ended })
}

// TestTake: every argument may change while the scheduler runs, or says that it needs a restart.
func TestTake(t *testing.T) {
	was, _ := config.Decode(nil)
	is := config.Args{DefaultMatchPolicy: "only-waiting", SkipCheckScheduleCycle: true}
	now, changed, stay := was.Take(is)
	require.Equal(t,
		"[enablePreemption defaultTimeout preemptionTimeout maxGrace backfill repairTimeout repairSwap repairPolicy "+
			"defaultMatchPolicy maintenanceLead skipCheckScheduleCycle]",
		fmt.Sprint(changed))
	require.Equal(t, "[awareNetworkTopology controllerWorkers]", fmt.Sprint(stay))
	is.AwareNetworkTopology, is.ControllerWorkers = was.AwareNetworkTopology, was.ControllerWorkers
	require.Equal(t, is, now)
}
