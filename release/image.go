package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Media types of https://github.com/opencontainers/image-spec.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"

	refName = "org.opencontainers.image.ref.name"
)

// descriptor says where a blob is, by its content.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	} `json:"history"`
}

// A layout is an OCI image layout: blobs by their digest.
type layout map[string][]byte

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

func (l layout) add(mediaType string, data []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
	l[blobPath(d.Digest)] = data
	return d
}

func (l layout) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return l.add(mediaType, data), nil
}

// labels are what an image says of itself.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "muster-scheduler",
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created":  r.made.Format(time.RFC3339),
		"org.opencontainers.image.source":   "https://github.com/muster-scheduler/muster",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// addImage makes the image of one architecture: from scratch, the program that it starts and others beside it. It needs
// no certificates, the API server's come with the service account.
func (r *release) addImage(l layout, p program, others []program) (descriptor, error) {
	entries := []entry{{p.name, p.data, 0o755}}
	for _, o := range others {
		if o.arch == p.arch {
			entries = append(entries, entry{o.name, o.data, 0o755})
		}
	}
	files, err := pack(entries, r.made)
	if err != nil {
		return descriptor{}, err
	}
	layer, err := compress(files)
	if err != nil {
		return descriptor{}, err
	}
	c := imageConfig{Created: r.made, Architecture: p.arch, OS: "linux"}
	c.Config.User, c.Config.Entrypoint, c.Config.Labels = "65532:65532", []string{"/" + p.name}, r.labels()
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(files)}
	c.History = append(c.History, struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}{r.made, "make image"})
	config, err := l.addJSON(configType, c)
	if err != nil {
		return descriptor{}, err
	}
	m := manifest{2, manifestType, config, []descriptor{l.add(layerType, layer)}, nil}
	d, err := l.addJSON(manifestType, m)
	d.Platform = &platform{p.arch, "linux"}
	return d, err
}

// writeImages writes a file with the image of all architectures, and one for each.
func (r *release) writeImages(programs []program) error {
	name := "muster-scheduler-" + r.version
	all, manifests := layout{}, []descriptor{}
	for _, p := range of(programs, "muster-scheduler") {
		one := layout{}
		d, err := r.addImage(one, p, of(programs, "muster-controller"))
		if err != nil {
			return err
		}
		for file, data := range one {
			all[file] = data
		}
		manifests = append(manifests, d)
		if err := r.writeLayout(fmt.Sprintf("%s-image-linux-%s.tar", name, p.arch), one, d); err != nil {
			return err
		}
	}
	d, err := all.addJSON(indexType, index{2, indexType, manifests})
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", r.image, d.Digest)
	r.digest = d.Digest
	return r.writeLayout(name+"-image.tar", all, d)
}

// writeLayout writes an archive that containerd, kind, skopeo and crane take and, if it is for one
// architecture, "docker load".
func (r *release) writeLayout(file string, l layout, d descriptor) error {
	d.Platform = nil
	d.Annotations = map[string]string{
		"io.containerd.image.name": wholeName(r.image),
		refName:                    r.image[strings.LastIndex(r.image, ":")+1:],
	}
	var more []entry
	if d.MediaType == manifestType {
		docker, err := r.dockerManifest(l[blobPath(d.Digest)])
		if err != nil {
			return err
		}
		more = append(more, entry{"manifest.json", docker, 0o644})
	}
	return r.writeOCI(file, l, d, more...)
}

// writeOCI writes an OCI archive with one object on top.
func (r *release) writeOCI(file string, l layout, d descriptor, more ...entry) error {
	top, err := json.Marshal(index{2, indexType, []descriptor{d}})
	if err != nil {
		return err
	}
	entries := append(more, entry{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644}, entry{"index.json", top, 0o644})
	for blob, data := range l {
		entries = append(entries, entry{blob, data, 0o644})
	}
	data, err := pack(entries, r.made)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, file), data, 0o644)
}

// dockerManifest names the same blobs for Docker, which knew no layouts until version 25.
func (r *release) dockerManifest(data []byte) ([]byte, error) {
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	type image struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	i := image{Config: blobPath(m.Config.Digest), RepoTags: []string{r.image}}
	for _, layer := range m.Layers {
		i.Layers = append(i.Layers, blobPath(layer.Digest))
	}
	return json.Marshal([]image{i})
}

// wholeName is an image's with its registry, which a short name leaves out. Docker adds that when it loads an
// archive; containerd does not, and kubelets would not find the image.
func wholeName(image string) string {
	first, _, inFolder := strings.Cut(image, "/")
	switch {
	case !inFolder:
		return "docker.io/library/" + image
	case first == "localhost" || strings.ContainsAny(first, ".:"):
		return image
	default:
		return "docker.io/" + image
	}
}
