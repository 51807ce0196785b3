package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/muster-scheduler/muster/pkg/apis/config"
	"github.com/muster-scheduler/muster/pkg/cli"
	"github.com/muster-scheduler/muster/pkg/kube/translate"
)

// flags writes the flags of the programs.
func flags(out *strings.Builder, _ string) error {
	manage := true
	out.WriteString("\n## Flags\n\n### muster-scheduler\n\nAll flags of kube-scheduler, and:\n")
	table(out, flagHeads, flagRows(config.Flags(&manage)))
	command(out, cli.New())
	command(out, translate.Command())
	return nil
}

var flagHeads = []string{"flag", "meaning", "default", "example"}

// command writes the flags of a command and of its subcommands.
func command(out *strings.Builder, cmd *cobra.Command) {
	if rows := flagRows(cmd.LocalFlags()); len(rows) > 0 {
		fmt.Fprintf(out, "\n### %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
		table(out, flagHeads, rows)
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			command(out, sub)
		}
	}
}

func flagRows(set *pflag.FlagSet) (rows [][]string) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		standard := f.DefValue
		if standard == "" || standard == "[]" {
			standard = "none"
		} else {
			standard = code(standard)
		}
		rows = append(rows, []string{code(name), usage, standard, code(sample(f, kind))})
	})
	return rows
}

// sample is a flag as it is written.
func sample(f *pflag.Flag, kind string) string {
	switch {
	case f.Value.Type() == "bool":
		return "--" + f.Name + "=" + map[bool]string{true: "false", false: "true"}[f.DefValue == "true"]
	case f.DefValue != "" && f.DefValue != "[]":
		return "--" + f.Name + "=" + f.DefValue
	}
	return "--" + f.Name + "=" + kind
}
