package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-scheduler/muster/pkg/version"
)

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which Muster this is, and of which Kubernetes its scheduler is made",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get())
				return err
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(version.Get())
			}
			return usageError("--output %s: must be text or json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "`FORMAT` of the answer: text or json")
	return cmd
}
