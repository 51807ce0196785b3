package config

import "github.com/spf13/pflag"

// Flags returns the flags that Muster adds to kube-scheduler's. The flag sets manage, which says whether Muster writes the status of
// ClusterNetworkTopology default; *manage is the flag's default.
func Flags(manage *bool) *pflag.FlagSet {
	own := pflag.NewFlagSet("muster", pflag.ContinueOnError)
	own.BoolVar(manage, "enable-network-topology-manager", *manage,
		"Keep the status of ClusterNetworkTopology default up to date.")
	return own
}
