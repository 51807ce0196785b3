package localcluster

import (
	"fmt"
	"slices"
	"strings"
)

// KubernetesVersions are the supported versions of a cluster, the oldest first. Each but the newest has a build/kubernetes-<minor>.mod.
var KubernetesVersions = []string{"1.34.4", "1.35.4", "1.36.3", "1.37.0"}

// KubernetesVersion returns the version for a name: "1.34.4", "v1.34.4" or "1.34"; "" is the newest. Any
// other name is an error that lists the versions.
func KubernetesVersion(name string) (string, error) {
	newest := KubernetesVersions[len(KubernetesVersions)-1]
	if name == "" {
		return newest, nil
	}
	version := strings.TrimPrefix(name, "v")
	for _, v := range KubernetesVersions {
		if v == version || minor(v) == version {
			return v, nil
		}
	}
	return "", fmt.Errorf("there is no Kubernetes %q to run; supported values: %s, or a minor version such as %s",
		name, strings.Join(KubernetesVersions, ", "), minor(newest))
}

// minor returns "1.34" for "1.34.4".
func minor(version string) string { return version[:strings.LastIndexByte(version, '.')] }

// forVersion returns the source of a component for a Kubernetes version. Clients such as kubectl are always the newest.
func (s source) forVersion(c Component, version string) source {
	newest := version == KubernetesVersions[len(KubernetesVersions)-1]
	if !newest && slices.Contains([]Component{APIServer, ControllerManager, Scheduler}, c) {
		s.module += "-" + minor(version)
	}
	return s
}
