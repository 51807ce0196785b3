package localcluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Process is a child process that ends no later than its cluster.
type Process struct {
	cmd  *exec.Cmd
	log  string
	stop context.CancelFunc
	done chan struct{} // closed after err is set
	err  error
}

// Launch starts a program as part of the cluster. The program gets SIGTERM when ctx ends or the cluster stops, and SIGKILL if this process
// is killed. Its output is appended to logs/<name of the program>.log in the cluster's folder.
func (c *Cluster) Launch(ctx context.Context, path string, args ...string) (*Process, error) {
	return c.LaunchWith(ctx, nil, path, args...)
}

// LaunchWith is Launch with environment variables env, each "NAME=value", in addition to the inherited ones.
func (c *Cluster) LaunchWith(ctx context.Context, env []string, path string, args ...string) (*Process, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{stop: cancel, done: make(chan struct{})}
	if err := p.start(ctx, c.folder, env, append([]string{path}, args...)); err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	if !c.adopt(p) {
		p.Stop()
		return nil, fmt.Errorf("start %s: the cluster has been stopped", path)
	}
	return p, nil
}

// adopt adds p to the cluster's processes. It returns false if the cluster has stopped.
func (c *Cluster) adopt(p *Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.processes = append(c.processes, p)
	}
	return !c.stopping
}

// start starts command, which begins with the program's path, through folder f, and sets p's fields. env are additional variables.
func (p *Process) start(ctx context.Context, f *folder, env, command []string) error {
	cmd, err := f.command(ctx, command[0], command[1:]...)
	if err != nil {
		return err
	}
	log, err := f.logFile(command[0])
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log
	p.cmd, p.log = cmd, log.Name()
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = cmd.Wait()
		p.stop()
		close(p.done)
	}()
	return nil
}

// Log returns the path of the file with the process's output.
func (p *Process) Log() string { return p.log }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the process has ended and returns its error, as exec.Cmd.Wait does.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Stop ends the process by SIGTERM, or by SIGKILL after five seconds, and returns when it has ended.
func (p *Process) Stop() {
	p.stop()
	<-p.done
}

// Kill ends the process and its children by SIGKILL and returns when it has ended.
func (p *Process) Kill() {
	select {
	case <-p.done:
		return // another process may have the id by now
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// failure returns the error about the unexpected end of a process. Call it after Done.
func (p *Process) failure() error {
	return fmt.Errorf("%s ended: %v\n%s", p.cmd.Path, p.err, p.logTail())
}

// silence returns the error about a process that has made no progress for some time.
func (p *Process) silence(since time.Duration) error {
	return fmt.Errorf("%s did nothing for them for %s; its log ends with:\n%s", p.cmd.Path, since, p.logTail())
}

func (p *Process) logTail() string {
	output, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(output)
}

// Group returns the id of the process group of the program and its children.
func (p *Process) Group() int { return p.cmd.Process.Pid }

// Pause stops the program and its children where they are (SIGSTOP) until Resume.
func (p *Process) Pause() error { return syscall.Kill(-p.Group(), syscall.SIGSTOP) }

// Resume lets a paused program go on (SIGCONT).
func (p *Process) Resume() error { return syscall.Kill(-p.Group(), syscall.SIGCONT) }

// FreePort returns a free port of this machine, outside of the range of outgoing connections, which would soon take it.
func FreePort() (int, error) {
	const first, some, attempts = 15000, 15000, 100
	for attempt := 1; ; attempt++ {
		port := first + rand.IntN(some)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if attempt == attempts {
			return 0, err
		}
	}
}
