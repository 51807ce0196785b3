package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	"github.com/muster-scheduler/muster/pkg/kube/ask"
	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
)

// builtIn is the prefix of quotas that exist without an object.
const builtIn = "koordinator-"

func newQuotaCommand() *cobra.Command {
	f := askFlags{}
	cmd := &cobra.Command{
		Use:   "quota [NAME...]",
		Short: "What each ElasticQuota uses, its fair share, and what it lends",
		Long: `List the tree of ElasticQuotas, a quota below its parent. With NAMEs only these quotas are listed.

  QUOTA                   MIN    MAX    USED   RESERVED  RUNTIME
  koordinator-root-quota  -      -      cpu:8  -         -
    team-x                cpu:4  cpu:8  cpu:0  -         cpu:5500m
      waits: default/gx
    team-y                cpu:1  cpu:8  cpu:8  -         cpu:2500m
      borrows: default/gy

USED is what bound pods request. RESERVED is what gangs with reserved nodes request. RUNTIME is the
fair share: min, and a part of what other quotas do not use. With -o wide, REQUEST is what all pods
of the quota request, and SHARE is what it uses above min, as a part of all resources, relative to
its weight.

Below a quota stand the gangs that use more than its min (borrows), the gangs within its min
(guaranteed, if others borrow or wait), the gangs that wait for it (waits), and why it cannot be
used. A dash means no value.` + askSource,
		Example: `  kubectl muster quota
  kubectl muster quota team-x team-y -o wide
  musterctl quota -f cluster.yaml -o json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.answer(cmd, func(_ context.Context, v *ask.View) (any, func(bool) string, error) {
				all := v.Quotas()
				for _, name := range names {
					if !slices.ContainsFunc(all, func(q elasticquota.Quota) bool { return q.Name == name }) {
						return nil, nil, fmt.Errorf("there is no ElasticQuota named %q", name)
					}
				}
				if len(names) > 0 {
					all = slices.DeleteFunc(all, func(q elasticquota.Quota) bool { return !slices.Contains(names, q.Name) })
				}
				return all, func(wide bool) string { return quotaText(all, wide) }, nil
			})
		},
	}
	f.add(cmd)
	return cmd
}

// quotaText formats quotas.
func quotaText(all []elasticquota.Quota, wide bool) string {
	if len(all) == 0 {
		return "There are no ElasticQuotas.\n"
	}
	t := newTable("QUOTA", "MIN", "MAX", "USED", "RESERVED", "RUNTIME")
	if wide {
		t.rows[0] = append(t.rows[0], "REQUEST", "SHARE")
	}
	for _, q := range all {
		if q.Parent == "" && strings.HasPrefix(q.Name, builtIn) {
			q.Borrows, q.Guaranteed = nil, nil
			if len(q.Used) == 0 && len(q.Waits) == 0 && len(all) > 1 && q.Depth == 0 && q.Name != scheduling.RootQuota {
				continue
			}
		}
		row := []string{strings.Repeat("  ", q.Depth) + q.Name}
		for _, amounts := range []map[string]string{q.Min, q.Max, q.Used, q.Reserved, q.Runtime} {
			row = append(row, elasticquota.FormatQuantities(amounts))
		}
		if wide {
			row = append(row, elasticquota.FormatQuantities(q.Request), fmt.Sprintf("%.3f", q.Share))
		}
		t.add(indented(quotaNote(q), maxMessageLines), row...)
	}
	var out strings.Builder
	t.write(&out)
	return out.String()
}

// quotaNote returns why a quota is invalid, and its gangs that borrow, are guaranteed, or wait.
func quotaNote(q elasticquota.Quota) string {
	var parts []string
	if q.Problem != "" {
		parts = append(parts, "cannot be used: "+q.Problem)
	}
	for _, use := range []struct {
		what  string
		gangs []string
	}{{"borrows", q.Borrows}, {"guaranteed", q.Guaranteed}, {"waits", q.Waits}} {
		if use.what == "borrows" && q.Parent == "" && len(q.Min) == 0 {
			continue // no quota lends to the top of a tree
		}
		if n := len(use.gangs); n > 0 && (use.what != "guaranteed" || len(q.Borrows) > 0 || len(q.Waits) > 0) {
			const most = 6
			names := strings.Join(use.gangs[:min(n, most)], ", ")
			if n > most {
				names += fmt.Sprintf(" and %d more", n-most)
			}
			parts = append(parts, use.what+": "+names)
		}
	}
	return strings.Join(parts, "; ")
}
