package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// launch starts a contender's scheduler and waits until it has bound a first pod.
func (b *bench) launch(ctx context.Context, c contender) (*scheduler, error) {
	file := filepath.Join(b.cluster.Dir(), c.name+".yaml")
	if err := os.WriteFile(file, []byte(c.config(b.cluster.Kubeconfig())), 0o644); err != nil {
		return nil, err
	}
	if err := b.cluster.ApplyCRDs(ctx, b.crds(c)); err != nil {
		return nil, err
	}
	port, err := localcluster.FreePort()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--config=" + file, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--cert-dir=" + filepath.Join(b.cluster.Dir(), c.name+"-certificates"),
		"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
	}
	if c.gates != "" {
		args = append(args, "--feature-gates="+c.gates)
	}
	if c.foreign != nil {
		args = append(args, c.foreign.flags...)
	}
	process, err := b.cluster.Launch(ctx, b.path(c), args...)
	if err != nil {
		return nil, err
	}
	p := &scheduler{Process: process, port: port}
	if err := p.answers(ctx); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s does not start: %w; its log ends with\n%s", c.name, err, lastLines(p.Log()))
	}
	first := Shape{Gangs: 1, Pods: 1, GPUs: 1}
	if _, err := b.drain(ctx, c, first, p, false); err != nil {
		p.Stop()
		return nil, fmt.Errorf("%s does not bind a first pod: %w; its log ends with\n%s", c.name, err, lastLines(p.Log()))
	}
	return p, nil
}

// path is where a contender's program is.
func (b *bench) path(c contender) string {
	switch {
	case c.foreign != nil:
		return b.foreign[c.name].program
	case c.before:
		return b.before
	case c.program == musterProgram:
		return b.muster
	}
	return b.stock
}

// crds are the CRDs with which a contender is run. Two projects use some of the same names. A scheduler that writes a
// status which the other project's CRD does not have would write in vain, or again and again.
func (b *bench) crds(c contender) fs.FS {
	if c.foreign != nil {
		return b.foreign[c.name].crds
	}
	return manifests.CRDs
}

// startsWithin bounds how long a scheduler may take until it tells its metrics.
const startsWithin = time.Minute

// answers waits until the scheduler tells its metrics.
func (p *scheduler) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for {
		_, err := p.counts(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Wait()
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
