package plugin_test

import (
	"testing"

	"github.com/muster-scheduler/muster/test/testcluster"
)

// A victim terminates for gang r. Gang x has a higher priority and a member without other capacity. It takes the
// node if the member is needed, and not if the member is beyond minMember.
func TestSurplusTakesFreePlacesOnly(t *testing.T) {
	for name, test := range map[string]struct {
		needs int
		want  string
	}{
		"x needs both": {2, "r-0> x-0=n0 x-1=n1"},
		"x needs one":  {1, "r-0=n0 x-0=n1 x-1>"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testcluster.New(t, "s/b/n0=8 s/b/n1=8")
			c.Pod(testcluster.A("low", 10, "8", "n0"))
			c.Stay()
			c.Run()
			c.Pod(testcluster.A("other", 1000, "8", "n1"))
			c.Gang("r", 1, testcluster.Pending(1, 100, "8")...)
			c.Wait("low", c.Evicted)
			c.Remove("other")
			c.Gang("x", test.needs, testcluster.Pending(2, 200, "8")...)
			if test.needs == 1 {
				c.WaitSaid(1, "Pod/x-0 Normal Scheduled")
			} else { // else r is there first, and leaves for x
				c.Wait("both", func() string {
					for _, name := range []string{"x-0", "x-1"} {
						if pod := c.Plugin.Cache.Pod("default/" + name); pod == nil || !c.Plugin.Cache.HasPlace(pod) {
							return name
						}
					}
					return "both"
				})
			}
			c.Release()
			where := func() string { return c.Where("r-0", "x-0", "x-1") }
			c.Wait(test.want, where)
			c.Never(func() bool { return where() != test.want || c.Evicted() != "low" })
		})
	}
}
