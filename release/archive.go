package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string
	data []byte
	mode int64
}

// pack writes a tar that does not depend on the user or the time: its files are sorted, belong to root, and have one
// time.
func pack(entries []entry, made time.Time) ([]byte, error) {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, e := range entries {
		if i > 0 && entries[i-1].name == e.name {
			return nil, fmt.Errorf("%s twice", e.name)
		}
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(e.data)), Mode: e.mode, ModTime: made, Format: tar.FormatUSTAR,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// compress has neither a name nor a time in its head.
func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// packed writes entries to a .tar.gz.
func (r *release) packed(file string, entries []entry) error {
	data, err := pack(entries, r.made)
	if err != nil {
		return err
	}
	if data, err = compress(data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, file), data, 0o644)
}

// archives writes one for each architecture, with the terms of all that is in the programs.
func (r *release) archives(ctx context.Context) func([]program) error {
	return func(programs []program) error {
		text, err := licences(ctx, programs)
		if err != nil {
			return err
		}
		return r.writeArchives(programs, entry{licencesFile, text, 0o644})
	}
}

// writeArchives writes one for each architecture: the programs and what is to be read first.
func (r *release) writeArchives(programs []program, more ...entry) error {
	for _, arch := range r.arches {
		folder := fmt.Sprintf("muster-%s-linux-%s", r.version, arch)
		var entries []entry
		for _, p := range programs {
			if p.arch == arch {
				entries = append(entries, entry{folder + "/" + p.name, p.data, 0o755})
			}
		}
		for _, file := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			entries = append(entries, entry{folder + "/" + file, data, 0o644})
		}
		for _, e := range more {
			e.name = folder + "/" + e.name
			entries = append(entries, e)
		}
		if err := r.packed(folder+".tar.gz", entries); err != nil {
			return err
		}
	}
	return nil
}

// writeManifests writes what "kubectl apply -k" takes, with the image of this release.
func (r *release) writeManifests() error {
	folder := "muster-" + r.version + "-manifests"
	entries, err := readTree(folder, "deploy/base", "deploy/controller", "deploy/crds", "deploy/monitoring", "deploy/overlays", "manifests")
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool {
		return path.Ext(e.name) == ".go" || strings.Contains(e.name, "/testdata/")
	})
	name, tag := r.image[:strings.LastIndex(r.image, ":")], r.image[strings.LastIndex(r.image, ":")+1:]
	const none = "  newName: muster-scheduler\n  newTag: set-an-image--see-docs-admins-install # no registry has the image yet\n"
	for _, base := range []string{"deploy/base", "deploy/controller/base"} {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == folder+"/"+base+"/kustomization.yaml" })
		if i < 0 || !bytes.Contains(entries[i].data, []byte(none)) {
			return errors.New(base + "/kustomization.yaml does not say which image")
		}
		entries[i].data = bytes.Replace(entries[i].data, []byte(none), fmt.Appendf(nil, "  newName: %s\n  newTag: %s\n", name, tag), 1)
	}
	return r.packed(folder+".tar.gz", entries)
}

// readTree reads folders into one, with paths as they are.
func readTree(into string, folders ...string) (entries []entry, err error) {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(file)
			entries = append(entries, entry{path.Join(into, filepath.ToSlash(file)), data, 0o644})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}
