package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// An Image is FROM scratch: some files, and the program that is started.
type Image struct {
	Name  string            // such as registry.k8s.io/pause:3.10
	Files map[string]string // where it is in the image, and on this machine
	Entry string
	User  string
}

// archive writes the image as "docker save" would: one layer, uncompressed. Equal files make equal
// archives. What it must know before it can write is kept in a folder on the way.
func (i Image) archive(w io.Writer, work string) error {
	layer, err := os.CreateTemp(work, "layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	sum := sha256.New()
	if err := i.layer(io.MultiWriter(layer, sum)); err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	config := i.config(fmt.Sprintf("sha256:%x", sum.Sum(nil)))
	name := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out := newTape(w)
	out.bytes("manifest.json", 0o644, manifest)
	out.bytes(name, 0o644, config)
	out.file("layer.tar", 0o644, layer.Name())
	return out.close()
}

func (i Image) layer(w io.Writer) error {
	out := newTape(w)
	for _, to := range slices.Sorted(maps.Keys(i.Files)) {
		out.file(strings.TrimPrefix(to, "/"), 0o755, i.Files[to])
	}
	return out.close()
}

func (i Image) config(layer string) []byte {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": []string{i.Entry}, "User": i.User, "WorkingDir": "/",
			"Env": []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer}},
	})
	if err != nil {
		panic(err) // these are strings
	}
	return config
}

// tape writes a tar of files that root owns, with the folders above them. It remembers the first
// error, as bufio.Writer does.
type tape struct {
	w    *tar.Writer
	made map[string]bool // folders
	err  error
}

func newTape(w io.Writer) *tape { return &tape{tar.NewWriter(w), map[string]bool{".": true}, nil} }

// folders creates the missing folders above name.
func (t *tape) folders(name string) {
	dir := path.Dir(name)
	if t.made[dir] {
		return
	}
	t.folders(dir)
	t.made[dir] = true
	t.header(&tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755})
}

func (t *tape) header(h *tar.Header) {
	if t.err == nil {
		t.err = t.w.WriteHeader(h)
	}
}

func (t *tape) from(r io.Reader) {
	if t.err == nil {
		_, t.err = io.Copy(t.w, r)
	}
}

func (t *tape) bytes(name string, mode int64, content []byte) {
	t.folders(name)
	t.header(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))})
	t.from(bytes.NewReader(content))
}

func (t *tape) link(name, to string) {
	t.folders(name)
	t.header(&tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777})
}

// file puts the file at a path of this machine, which may be a link, under a name.
func (t *tape) file(name string, mode int64, from string) {
	if t.err != nil {
		return
	}
	file, err := os.Open(from)
	if err != nil {
		t.err = err
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.err = err
		return
	}
	t.folders(name)
	t.header(&tar.Header{Name: name, Mode: mode, Size: info.Size()})
	t.from(file)
}

func (t *tape) close() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Close()
}

// Save writes the image's archive to a file.
func (i Image) Save(file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(i.archive(out, filepath.Dir(file)), out.Close())
}
