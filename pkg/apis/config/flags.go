package config

import "github.com/spf13/pflag"

// Flags returns the flags that Muster adds to kube-scheduler's. manage says whether the status of ClusterNetworkTopology
// default is maintained; its value is the default.
func Flags(manage *bool) *pflag.FlagSet {
	own := pflag.NewFlagSet("muster", pflag.ContinueOnError)
	own.BoolVar(manage, "enable-network-topology-manager", *manage,
		"Keep the status of ClusterNetworkTopology default up to date.")
	return own
}
