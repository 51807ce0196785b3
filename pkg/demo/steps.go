package demo

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/muster-scheduler/muster/docs/examples"
	"github.com/muster-scheduler/muster/pkg/picture"
)

// demo runs steps: they print prose, run commands, show their output and check it.
type demo struct {
	*narrator
	kubectl kubectl
}

// A step is one action of the demo. Its error ends the demo; an unexpected result is a failed check, not an error.
type step func(ctx context.Context, d *demo) error

// expect returns the checks of a command's output.
type expect func(out string) []check

// play runs the steps in order, until one returns an error.
func (d *demo) play(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// title returns a step that prints the title of a part of the demo.
func title(text string) step {
	return func(_ context.Context, d *demo) error {
		d.title(text)
		return nil
	}
}

// say returns a step that prints prose.
func say(sentences ...string) step {
	return func(_ context.Context, d *demo) error {
		d.say(sentences...)
		return nil
	}
}

// runShown returns a step that runs a command and shows its output.
func runShown(args ...string) step {
	return func(ctx context.Context, d *demo) error {
		d.command(args...)
		out, err := d.kubectl(ctx, args...)
		d.show(present(out))
		return err
	}
}

// runHidden returns a step that runs a command without showing it.
func runHidden(args ...string) step {
	return func(ctx context.Context, d *demo) error {
		_, err := d.kubectl(ctx, args...)
		return err
	}
}

// runChecked returns a step that runs a command until its output is as want expects or time is up, and shows it and the checks.
func runChecked(want expect, args ...string) step {
	return func(ctx context.Context, d *demo) error {
		out, results, err := d.await(ctx, want, args...)
		if err != nil {
			return err
		}
		d.command(args...)
		d.show(present(out))
		d.checks(results)
		return nil
	}
}

// checkAndRun returns a step that runs command checked, without showing it, until its output is as want expects or time is up. Then the
// step runs and shows command shown, whose output is shorter, and reports the checks. A failed check is not an error.
func checkAndRun(want expect, checked []string, shown ...string) step {
	return func(ctx context.Context, d *demo) error {
		_, results, err := d.await(ctx, want, checked...)
		if err != nil {
			return err
		}
		if err := runShown(shown...)(ctx, d); err != nil {
			return err
		}
		d.checks(results)
		return nil
	}
}

// The time limits of a command's expected output. After a failed check the demo waits only briefly.
const (
	patience     = 20 * time.Second
	lostPatience = 2 * time.Second
	lookEvery    = 100 * time.Millisecond
)

// await runs a command until its output is as expected or time is up. Only an interruption is an error; an error of kubectl fails checks.
func (d *demo) await(ctx context.Context, want expect, args ...string) (string, []check, error) {
	limit := patience
	if len(d.failed) > 0 {
		limit = lostPatience
	}
	until := time.Now().Add(limit)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		out, err := d.kubectl(ctx, args...)
		if ctx.Err() != nil {
			return "", nil, errors.Join(ctx.Err(), err)
		}
		if err != nil {
			out += err.Error() + "\n"
		}
		results := want(out)
		if time.Now().After(until) || !slices.ContainsFunc(results, func(c check) bool { return !c.ok }) {
			return out, results, nil
		}
		select {
		case <-ctx.Done():
			return "", nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// world is the command whose output decodeObjects reads for pictures.
var world = []string{"get", "nodes,pods,clusternetworktopologies", "-o", "json"}

// draw returns a step that shows the cluster as a tree with its free slots, and stores the drawn objects in o.
func draw(o *objects) step {
	return func(ctx context.Context, d *demo) error {
		if err := o.read(ctx, d); err != nil {
			return err
		}
		c, err := o.pictureForExamples()
		if err != nil {
			return err
		}
		d.show("\n" + drawOffers(c))
		return nil
	}
}

// read sets o to the cluster's current objects of the kinds in world.
func (o *objects) read(ctx context.Context, d *demo) error {
	out, err := d.kubectl(ctx, world...)
	if err != nil {
		return err
	}
	*o, err = decodeObjects(out)
	return err
}

// pictureForExamples returns the picture with slots of the size of the examples' pods, which are all equal.
func (o *objects) pictureForExamples() (*picture.Cluster, error) {
	member, err := firstPod("example1-pods.yaml")
	if err != nil {
		return nil, err
	}
	return o.picture(member, markOf)
}

// firstPod returns the first pod of a fixture.
func firstPod(name string) (*v1.Pod, error) {
	content, err := fs.ReadFile(examples.FS, name)
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(content), "\n---\n")
	pod := &v1.Pod{}
	err = yaml.UnmarshalStrict([]byte(first), pod)
	return pod, err
}
