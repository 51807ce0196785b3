package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const licencesFile = "LICENSES.txt"

// licenceFile is what modules call the terms under which they are given.
var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|notice|copying)([.-].*)?$`)

// licences are the terms of all modules that programs are made of.
func licences(ctx context.Context, programs []program) ([]byte, error) {
	modules := map[string]bool{}
	for _, p := range programs {
		built, err := buildinfo.Read(bytes.NewReader(p.data))
		if err != nil {
			return nil, fmt.Errorf("%s for %s: %w", p.name, p.arch, err)
		}
		for _, m := range built.Deps {
			modules[m.Path] = true
		}
	}
	return licencesOf(ctx, slices.Sorted(maps.Keys(modules)))
}

// licencesOf has each text once, below all modules that it applies to.
func licencesOf(ctx context.Context, modules []string) ([]byte, error) {
	folders, err := foldersOf(ctx, modules)
	if err != nil {
		return nil, err
	}
	under := map[string][]string{} // modules by text
	for _, module := range slices.Sorted(maps.Keys(folders)) {
		text, err := terms(folders[module])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module, err)
		}
		under[text] = append(under[text], module)
	}
	texts := slices.SortedFunc(maps.Keys(under), func(a, b string) int { return strings.Compare(under[a][0], under[b][0]) })
	var out bytes.Buffer
	for _, text := range texts {
		fmt.Fprintf(&out, "%s\n%s\n\n%s\n\n", strings.Repeat("=", 80), strings.Join(under[text], "\n"), text)
	}
	return out.Bytes(), nil
}

// foldersOf says where modules are, and Go's own library.
func foldersOf(ctx context.Context, modules []string) (map[string]string, error) {
	root, err := goTool(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	const format = "{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}\t{{.Dir}}"
	list, err := goTool(ctx, append([]string{"list", "-m", "-f", format}, modules...)...)
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"Go": root}
	for line := range strings.Lines(list) {
		module, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		folders[module] = folder
	}
	return folders, nil
}

func goTool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, errs.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// terms returns the licence files of one module. A module without such a file must not be distributed.
func terms(folder string) (string, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var all []string
	for _, f := range files {
		if !f.IsDir() && licenceFile.MatchString(f.Name()) {
			data, err := os.ReadFile(filepath.Join(folder, f.Name()))
			if err != nil {
				return "", err
			}
			all = append(all, strings.TrimSpace(string(data)))
		}
	}
	if len(all) == 0 {
		return "", errors.New("it has no licence")
	}
	return strings.Join(all, "\n\n"), nil
}
