// Command reference writes docs/reference.md: every annotation, label, field, argument, metric and flag, from where each
// is defined; and docs/reference/reasons.md: every reason of conditions and events. It knows how to read these places and how a
// table looks, and no key by name.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// pages are the generated pages, by their file, and what returns their text.
var pages = map[string]func(root string) (string, error){
	"docs/reference.md":         page,
	"docs/reference/reasons.md": reasonsPage,
}

func write() error {
	root, err := rootFolder()
	if err != nil {
		return err
	}
	for file, text := range pages {
		content, err := text(root)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// rootFolder is the nearest folder above that has a go.mod.
func rootFolder() (string, error) {
	folder, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(folder, "go.mod")); missing == nil {
			return folder, nil
		}
		if filepath.Dir(folder) == folder {
			err = errors.New("no go.mod here or above")
		}
		folder = filepath.Dir(folder)
	}
	return "", err
}

const head = `# Reference

This page lists all annotations, labels, fields, arguments, metrics and flags of Muster, with their meaning, supported values,
default and an example. It is made from the source by ` + "`make generate`" + `; do not edit it.

The [admission policies](admins/install.md#admission-policies), if installed, reject invalid values when you apply an object. The scheduler
reports invalid values in an event and in the PodGroup's status. [Reasons of conditions and events](reference/reasons.md) are on
a page of their own.
`

// page is the whole of docs/reference.md.
func page(root string) (string, error) {
	var out strings.Builder
	out.WriteString(head)
	keys(&out)
	for _, section := range []func(*strings.Builder, string) error{fields, arguments, metrics, flags} {
		if err := section(&out, root); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// table writes rows below their heads.
func table(out *strings.Builder, heads []string, rows [][]string) {
	fmt.Fprintf(out, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`)
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}

// code is text as it is written in a file.
func code(text string) string { return "`" + text + "`" }
