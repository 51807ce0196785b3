// Vet is a tool for "go vet -vettool". It runs go vet's own analyzers, on Muster's packages only.
//
// go vet also reads the whole source of all dependencies, to find functions that format like Printf or never return. That takes minutes from
// cold. This tool leaves it out. The analyzers know the functions of the standard library anyway.
//
// VET is the path of go vet's program, as "go tool -n vet" prints it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// own is what the paths of Muster's packages begin with.
const own = "github.com/muster-scheduler/muster/"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vet:", err)
		code = 1
	}
	os.Exit(code)
}

// run analyzes one package, and returns the exit code. The last argument is the file in which the go command describes the package.
func run(args []string) (code int, err error) {
	if len(args) > 0 && strings.HasSuffix(args[len(args)-1], ".cfg") {
		skipped, err := skip(args[len(args)-1])
		if skipped || err != nil {
			return 0, err
		}
	}
	vet := exec.Command(os.Getenv("VET"), args...)
	vet.Stdin, vet.Stdout, vet.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = vet.Run()
	if vet.ProcessState != nil {
		return vet.ProcessState.ExitCode(), nil
	}
	return 0, fmt.Errorf("running VET: %w", err)
}

// skip writes an empty result for a dependency, and says whether it did.
func skip(config string) (bool, error) {
	data, err := os.ReadFile(config)
	if err != nil {
		return false, err
	}
	var pkg struct {
		ImportPath, VetxOutput string
		VetxOnly               bool
	}
	if err := json.Unmarshal(data, &pkg); err != nil {
		return false, fmt.Errorf("%s: %w", config, err)
	}
	if !pkg.VetxOnly || strings.HasPrefix(pkg.ImportPath, own) {
		return false, nil
	}
	return true, os.WriteFile(pkg.VetxOutput, nil, 0o600)
}
