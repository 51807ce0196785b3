package plugin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/kube/source"
	"github.com/muster-scheduler/muster/test/testcluster"
)

// A gang waits because preemption is disabled. It starts once preemption is enabled. A gang without a timeout of
// its own waits for its members as long as the arguments say now.
func TestArgumentsChange(t *testing.T) {
	t.Parallel()
	args, err := config.Decode(nil)
	require.NoError(t, err)
	args.EnablePreemption = false
	c := testcluster.New(t, "s/b/n0=8")
	c.Pod(testcluster.A("low", 10, "8", "n0"))
	c.Run()
	changed, stay := c.Plugin.Configure("muster-scheduler", args)
	require.Equal(t, []string{"enablePreemption"}, changed)
	require.Empty(t, stay)
	c.Gang("g", 1, testcluster.Pending(1, 100, "8")...)
	c.WaitSaid(1, "desiredOfferSlot: 1")
	c.Never(func() bool { return c.Evicted() != "" })

	args.EnablePreemption, args.DefaultTimeout, args.ControllerWorkers = true, 7*time.Second, 5
	changed, stay = c.Plugin.Configure("muster-scheduler", args)
	require.Equal(t, []string{"enablePreemption", "defaultTimeout"}, changed)
	require.Equal(t, []string{"controllerWorkers"}, stay)
	c.Wait("g-0=n0", func() string { return c.Where("g-0") })
	require.Equal(t, "low", c.Evicted())
	group, refusal := c.Plugin.Cache.GroupOf(source.GangOf(c.Get("g-0")))
	require.False(t, refusal.Exists(), refusal.Words)
	require.Equal(t, 7*time.Second, group.Gangs[0].Wait)

	changed, stay = c.Plugin.Configure("nobody", args)
	require.Empty(t, changed)
	require.Empty(t, stay)
}
