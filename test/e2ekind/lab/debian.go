package lab

import (
	"archive/tar"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// packages of Debian that a node needs: the packages of kind's own image, and runc.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "nftables", "conntrack", "ethtool", "kmod", "mount", "util-linux",
	"procps", "ca-certificates", "libseccomp2", "jq", "pigz", "curl", "hostname", "runc",
}

const release = "bookworm"

// debianArgs are mmdebstrap's, without where from and where to.
func debianArgs() []string {
	args := []string{"--variant=minbase", "--include=" + strings.Join(packages, ",")}
	for _, left := range []string{"doc", "man", "locale"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+left+"/*")
	}
	return args
}

// debian is the path of a tar of a small Debian with these packages. It is made once, by mmdebstrap,
// for each way of making it.
func (l *Lab) debian(ctx context.Context) (string, error) {
	args, done := debianArgs(), l.debianTar()
	program, err := l.mmdebstrap()
	if program == "" {
		return done, err
	}
	made := filepath.Join(l.folder, "debian.tar")
	err = l.step("making a small Debian, once", func() error {
		_, err := l.run(ctx, nil, program, append(args, release, made)...)
		return err
	})
	if err != nil {
		return "", err
	}
	return done, os.Rename(made, done)
}

// debianTar is where it is once it is made.
func (l *Lab) debianTar() string {
	return filepath.Join(l.cache, fmt.Sprintf("debian-%s-%08x.tar", release, crc32.ChecksumIEEE([]byte(strings.Join(debianArgs(), " ")))))
}

// mmdebstrap is the program's path; "" if what it makes is there.
func (l *Lab) mmdebstrap() (string, error) {
	if _, err := os.Stat(l.debianTar()); err == nil {
		return "", nil
	}
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return "", errors.New("a node image is built from Debian's packages by mmdebstrap, which is not on PATH (apt-get install mmdebstrap); or have kind's own: KIND_NODE=kindest")
	}
	return program, nil
}

// unwanted is what of Debian no node may have: services that are of machines, and settings of the
// kernel, which is the machine's. It is what kind's Dockerfile removes, and sysctl.d.
func unwanted(name string) bool {
	for _, pattern := range []string{
		"dev/*", "dev/*/*",
		"etc/systemd/system/*.wants/*",
		"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
		"usr/lib/systemd/system/multi-user.target.wants/*",
		"usr/lib/systemd/system/local-fs.target.wants/*",
		"usr/lib/systemd/system/basic.target.wants/*",
		"usr/lib/systemd/system/sockets.target.wants/*udev*",
		"usr/lib/systemd/system/sockets.target.wants/*initctl*",
		"usr/lib/sysctl.d/*.conf",
	} {
		if matched, _ := path.Match(pattern, name); matched {
			return true
		}
	}
	return false
}

// each shows every entry of a tar file, by its name without "./".
func each(file string, see func(name string, h *tar.Header, content io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := see(path.Clean(h.Name), h, in); err != nil {
			return fmt.Errorf("%s: %s: %w", file, h.Name, err)
		}
	}
}

// withLibraries takes a program and the libraries that it needs out of Debian, as files of an image.
func withLibraries(debian, program, folder string) (map[string]string, error) {
	libraries := map[string]string{} // by name; links have an entry of their own
	err := each(debian, func(name string, h *tar.Header, content io.Reader) error {
		of, _ := path.Match("usr/lib/*-linux-gnu/*.so*", name)
		if !of && name != program {
			return nil
		}
		to := filepath.Join(folder, name)
		libraries[path.Base(name)] = name
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeSymlink {
			return os.Symlink(h.Linkname, to)
		}
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, content)
		return errors.Join(err, out.Close())
	})
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	return files, need(files, libraries, folder, program)
}

// need adds a file, what starts it, and the libraries that it needs, directly or through other libraries.
func need(files, libraries map[string]string, folder, name string) error {
	here := filepath.Join(folder, name)
	if files["/"+name] != "" {
		return nil
	}
	files["/"+name] = here
	binary, err := elf.Open(here)
	if err != nil {
		return err
	}
	defer binary.Close()
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP {
			loader, err := io.ReadAll(p.Open())
			if err != nil {
				return err
			}
			at := strings.TrimRight(string(loader), "\x00")
			files[at] = filepath.Join(folder, libraries[path.Base(at)])
		}
	}
	wanted, err := binary.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, library := range wanted {
		if libraries[library] == "" {
			return fmt.Errorf("%s needs %s, which Debian's packages do not bring", name, library)
		}
		if err := need(files, libraries, folder, libraries[library]); err != nil {
			return err
		}
	}
	return nil
}
