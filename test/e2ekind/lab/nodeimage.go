package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// nodeFiles are the files of a node that come neither from Debian nor from kind.
//
//go:embed all:node
var nodeFiles embed.FS

// own is the folder of nodeFiles.
const own = "node"

// programs of a node, and of the images that it has from the beginning.
var programs = []localcluster.Component{
	localcluster.Etcd, localcluster.APIServer, localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kubectl,
	localcluster.Kubeadm, localcluster.Kubelet, localcluster.KubeProxy, localcluster.CoreDNS,
	localcluster.Containerd, localcluster.ContainerdShim, localcluster.ContainerdCtl,
	localcluster.CNIHostLocal, localcluster.CNILoopback, localcluster.CNIPointToPt, localcluster.CNIPortMap,
}

// kubernetes is the version of a node, as kubeadm writes it.
const kubernetes = "v1.37.0"

// A nodeImage is written as a stream. From it "docker import" makes an image of
//
//	Debian, without what is unwanted;
//	kind's own files, out of its module;
//	programs, built from source;
//	images, imported by a systemd unit when the node starts: there is no registry;
//	node/
type nodeImage struct {
	debian string
	kind   string // the folder of kind's files
	built  map[localcluster.Component]string
	work   string // for files on the way
}

// A nodeFile is one of the node's: a file of this machine, content, or a link.
type nodeFile struct {
	path    string // on this machine
	content []byte
	link    string
	mode    int64
}

// write writes the whole file system.
func (n nodeImage) write(ctx context.Context, l *Lab, w io.Writer) error {
	files, err := n.files(ctx, l)
	if err != nil {
		return err
	}
	return lay(w, n.debian, files)
}

// lay writes Debian, and files over it.
func lay(w io.Writer, debian string, files map[string]nodeFile) error {
	out := newTape(w)
	err := each(debian, func(name string, h *tar.Header, content io.Reader) error {
		if _, ours := files[name]; ours || unwanted(name) {
			return nil
		}
		if h.Typeflag == tar.TypeDir {
			out.made[name] = true
		}
		out.header(h)
		out.from(content)
		return out.err
	})
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch f := files[name]; {
		case f.link != "":
			out.link(name, f.link)
		case f.path != "":
			out.file(name, f.mode, f.path)
		default:
			out.bytes(name, f.mode, f.content)
		}
	}
	return out.close()
}

// files are all that is not Debian's.
func (n nodeImage) files(ctx context.Context, l *Lab) (map[string]nodeFile, error) {
	files := map[string]nodeFile{}
	for _, each := range []fs.FS{os.DirFS(n.kind), must(fs.Sub(nodeFiles, own))} {
		if err := collect(files, each); err != nil {
			return nil, err
		}
	}
	n.programs(files)
	for _, service := range []string{"kubelet", "containerd", "undo-mount-hacks", "kind-images"} {
		files["etc/systemd/system/multi-user.target.wants/"+service+".service"] = nodeFile{link: "/etc/systemd/system/" + service + ".service"}
	}
	files["etc/systemd/system/systemd-binfmt.service"] = nodeFile{link: "/dev/null"} // it is the kernel's
	files["etc/systemd/journald.conf.d/kind.conf"] = nodeFile{content: []byte("[Journal]\nReadKMsg=no\n"), mode: 0o644}
	files["etc/kubernetes/manifests/.keep"] = nodeFile{mode: 0o644}
	files["kind/version"] = nodeFile{content: []byte(kubernetes + "\n"), mode: 0o644}
	spec, err := n.containerSpec(ctx, l)
	if err != nil {
		return nil, err
	}
	files["etc/containerd/cri-base.json"] = nodeFile{content: spec, mode: 0o644}
	return files, n.images(files)
}

func (n nodeImage) programs(files map[string]nodeFile) {
	for folder, components := range map[string][]localcluster.Component{
		"usr/local/bin": {localcluster.Containerd, localcluster.ContainerdShim, localcluster.ContainerdCtl},
		"usr/bin":       {localcluster.Kubelet, localcluster.Kubeadm, localcluster.Kubectl},
		"opt/cni/bin":   {localcluster.CNIHostLocal, localcluster.CNILoopback, localcluster.CNIPointToPt, localcluster.CNIPortMap},
	} {
		for _, c := range components {
			files[folder+"/"+string(c)] = nodeFile{path: n.built[c], mode: 0o755}
		}
	}
}

// containerSpec is what every container starts from: containerd's own, without limits, which a
// node without CAP_SYS_RESOURCE cannot raise.
func (n nodeImage) containerSpec(ctx context.Context, l *Lab) ([]byte, error) {
	printed, err := l.run(ctx, nil, n.built[localcluster.ContainerdCtl], "oci", "spec")
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal([]byte(printed), &spec); err != nil {
		return nil, err
	}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("ctr oci spec has no process: %s", printed)
	}
	delete(process, "rlimits")
	return json.Marshal(spec)
}

// images are archives below kind/images: all are for every node, control-plane for that alone.
func (n nodeImage) images(files map[string]nodeFile) error {
	proxy, err := withLibraries(n.debian, "usr/sbin/nft", filepath.Join(n.work, "nft"))
	if err != nil {
		return err
	}
	proxy["/usr/local/bin/kube-proxy"] = n.built[localcluster.KubeProxy]
	images := map[string]Image{
		"all/pause": {
			Name: "registry.k8s.io/pause:3.10", Entry: "/pause", User: "65535:65535", Files: map[string]string{"/pause": n.built[pause]},
		},
		"all/kube-proxy": {Name: "registry.k8s.io/kube-proxy:" + kubernetes, Entry: "/usr/local/bin/kube-proxy", Files: proxy},
		"all/coredns": {
			Name: "registry.k8s.io/coredns/coredns:v1.14.6", Entry: "/coredns",
			Files: map[string]string{"/coredns": n.built[localcluster.CoreDNS]},
		},
	}
	for c, tag := range map[localcluster.Component]string{
		localcluster.APIServer: kubernetes, localcluster.ControllerManager: kubernetes, localcluster.Scheduler: kubernetes,
		localcluster.Etcd: "3.7.0-0",
	} {
		at := "/usr/local/bin/" + string(c)
		images["control-plane/"+string(c)] = Image{
			Name: "registry.k8s.io/" + string(c) + ":" + tag, Entry: at, Files: map[string]string{at: n.built[c]},
		}
	}
	for name, image := range images {
		archive := filepath.Join(n.work, path.Base(name)+".tar")
		if err := image.Save(archive); err != nil {
			return err
		}
		files["kind/images/"+name+".tar"] = nodeFile{path: archive, mode: 0o644}
	}
	return nil
}

// collect adds what is in a folder. Programs and scripts may be run; modules and embedded files
// do not say which they are.
func collect(files map[string]nodeFile, folder fs.FS) error {
	return fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(name, "LICENSES/") {
			return err
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}
		files[name] = nodeFile{content: content, mode: mode}
		return nil
	})
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
