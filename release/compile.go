package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// program is one that is built.
type program struct {
	name, arch string
	data       []byte
}

func of(programs []program, name string) (found []program) {
	for _, p := range programs {
		if p.name == name {
			found = append(found, p)
		}
	}
	return found
}

// compile builds the programs for all architectures. What the user's environment says of other
// builds does not reach them, nor does the folder that they are built in.
func (r *release) compile(ctx context.Context, names ...string) (all []program, err error) {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	for _, arch := range r.arches {
		for _, name := range names {
			fmt.Fprintf(os.Stderr, "building %s for %s\n", name, arch)
			file := filepath.Join(folder, name+"-"+arch)
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
				"-ldflags", "-s -w -buildid= "+r.ldflags, "-o", file, "./cmd/"+name)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0",
				"GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build %s for %s: %w\n%s", name, arch, err, out)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			all = append(all, program{name, arch, data})
		}
	}
	return all, nil
}
