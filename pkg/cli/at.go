package cli

import (
	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
)

// atHelp is the help text about the flag --at.
const atHelp = `pods whose declared
end is not later have ended, and terminating pods are gone. Maintenance windows count as at that
time. Nothing else has happened until then.`

// addAt adds the flag --at.
func addAt(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "", "`TIME` that the answer is for: "+simulate.MomentForms+" (default: now)")
}

// parseAt returns the value of --at; "" is the zero value.
func parseAt(text string) (simulate.Moment, error) {
	if text == "" {
		return simulate.Moment{}, nil
	}
	m, err := simulate.ParseMoment(text)
	if err != nil {
		return m, usageError("--at %w", err)
	}
	return m, nil
}
