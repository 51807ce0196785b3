package localcluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

//go:embed guard.sh
var guardScript string

// grace is how long a process may take to end after SIGTERM before it is killed.
const grace = 5 * time.Second

// A folder is a temporary folder; the processes that are started through it end with it:
//
//	this process ──pipe──> /bin/sh guard.sh      (own session)
//	     ├── FOLDER/bin/etcd                     (links to the real programs,
//	     └── FOLDER/bin/kube-apiserver            each leads a process group)
//
// When the pipe closes, by Close or by the end of this process, the guard kills every FOLDER/bin/… and removes the folder. The pipe's
// write end closes on exec: a child between fork and exec delays the guard until the guard can recognise the child.
type folder struct {
	path      string
	pipe      *os.File
	guard     *exec.Cmd
	closeOnce func() error
}

// newFolder creates a folder in parent whose name begins with prefix, and starts its guard.
func newFolder(parent, prefix string) (*folder, error) {
	path, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	f.closeOnce = sync.OnceValue(f.close)
	if err := f.watch(); err != nil {
		return nil, errors.Join(fmt.Errorf("guard of %s: %w", path, err), os.RemoveAll(path))
	}
	return f, nil
}

// watch creates the folders bin and logs, and starts the guard.
func (f *folder) watch() error {
	if err := errors.Join(os.Mkdir(f.join("bin"), 0o755), os.Mkdir(f.join("logs"), 0o755)); err != nil {
		return err
	}
	script := f.join("guard.sh")
	if err := os.WriteFile(script, []byte(guardScript), 0o644); err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	f.pipe = write
	f.guard = exec.Command("/bin/sh", script, f.path)
	f.guard.Stdin = read
	f.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := f.guard.Start(); err != nil {
		write.Close()
		return err
	}
	return nil
}

func (f *folder) join(name ...string) string {
	return filepath.Join(append([]string{f.path}, name...)...)
}

// program creates a link in the folder to the program at path, and returns it. The guard recognises processes by such a link.
func (f *folder) program(path string) (string, error) {
	path, err := exec.LookPath(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	name := f.join("bin", filepath.Base(path))
	for link, i := name, 2; ; link, i = name+"-"+strconv.Itoa(i), i+1 {
		err := os.Symlink(path, link)
		if err == nil {
			return link, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", err
		}
		if to, err := os.Readlink(link); err == nil && to == path {
			return link, nil
		}
	}
}

// command returns a command, not started, that gets SIGTERM when ctx ends, and SIGKILL after grace.
func (f *folder) command(ctx context.Context, path string, args ...string) (*exec.Cmd, error) {
	link, err := f.program(path)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, link, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	return cmd, nil
}

// Close kills the folder's processes, removes it, and returns when both are done.
func (f *folder) Close() error { return f.closeOnce() }

// close closes the pipe, and waits until the guard has removed the folder.
func (f *folder) close() error {
	f.pipe.Close()
	_ = f.guard.Wait() // the result is whether the folder still exists
	if exists(f.path) {
		return f.sweep() // the guard was killed
	}
	return nil
}

// sweep does the guard's work in this process. After Close it ends processes that started while the guard was at work.
func (f *folder) sweep() error {
	out, err := exec.Command("/bin/sh", "-c", guardScript, "guard.sh", f.path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove %s: %w: %s", f.path, err, out)
	}
	return nil
}

// logFile opens the log of the program at path.
func (f *folder) logFile(path string) (*os.File, error) {
	name := f.join("logs", filepath.Base(path)+".log")
	return os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
}
