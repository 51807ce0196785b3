// Package version says which Muster this is. It knows what the linker and the Go tool wrote into the program, and nothing else of Muster.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Both are set by the linker: see the Makefile. Without it they are what the Go tool knows.
var (
	version string
	commit  string
)

// Info is what there is to say.
type Info struct {
	// Version is a tag such as v0.1.0, or what "git describe" makes of a commit without one.
	Version string `json:"version"`
	// Commit is the whole hash, with -dirty if the files were others.
	Commit string `json:"commit"`
	// Kubernetes is the version whose scheduler this is.
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// unknown stands for a value that the program does not contain.
const unknown = "unknown"

// Get returns it for this program.
func Get() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return from(version, commit, info)
}

// from returns the Info of a program. The linker's version and commit precede the values in built.
func from(version, commit string, built *debug.BuildInfo) Info {
	if built.Main.Version != "(devel)" {
		version = cmp.Or(version, built.Main.Version)
	}
	return Info{
		Version:    cmp.Or(version, "devel"),
		Commit:     cmp.Or(commit, revision(built), unknown),
		Kubernetes: cmp.Or(required(built, "k8s.io/kubernetes"), unknown),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// revision is the commit that the Go tool saw, "" if it did not look.
func revision(built *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range built.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.revision"] != "" && settings["vcs.modified"] == "true" {
		return settings["vcs.revision"] + "-dirty"
	}
	return settings["vcs.revision"]
}

func required(built *debug.BuildInfo, module string) string {
	for _, m := range built.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// String is for people: two lines, of which the second is kube-scheduler's own.
func (i Info) String() string {
	return fmt.Sprintf("Muster %s (commit %s, %s, %s)\nKubernetes %s", i.Version, i.Commit, i.Go, i.Platform, i.Kubernetes)
}
