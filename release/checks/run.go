package checks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
)

// logs is the folder of what the parts print.
const logs = "bin/checks"

var (
	skipped  = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+)`)
	notFound = "no tests to run"
)

// Run runs parts, and adds a record of each that was whole and green to a file. It passes over parts with a record for these
// files. A part that fails does not stop the next ones.
func Run(ctx context.Context, out io.Writer, file string, parts []Part) error {
	var failed []error
	for _, p := range parts {
		if err := p.run(ctx, out, file); err != nil {
			failed = append(failed, fmt.Errorf("%s, part %s: %w", p.Check, p.Name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(append(failed, errors.New("interrupted: the same command continues with this part"))...)
		}
	}
	return errors.Join(failed...)
}

func (p Part) run(ctx context.Context, out io.Writer, file string) error {
	before, err := ReadTree(ctx)
	if err != nil {
		return err
	}
	records, err := Read(file)
	if err != nil {
		return err
	}
	if r, found := p.Last(records, before.Fingerprint); found && len(before.Changed) == 0 {
		fmt.Fprintf(out, "== %s, part %s: was green for these files on %s\n", p.Check, p.Name, r.At)
		return nil
	}
	seed := fmt.Sprint(1 + rand.Uint32N(1<<31-1))
	fmt.Fprintf(out, "== %s, part %s: %s\n", p.Check, p.Name, strings.ReplaceAll(p.Command, "$SEED", seed))
	began := time.Now()
	printed, err := p.execute(ctx, out, seed)
	if err != nil {
		return err
	}
	after, err := ReadTree(ctx)
	if err != nil {
		return err
	}
	if why := p.incomplete(before, after, printed); why != "" {
		fmt.Fprintf(out, "== %s, part %s: no record for a release: %s\n", p.Check, p.Name, why)
		return nil
	}
	if !strings.Contains(p.Command, "$SEED") {
		seed = "-"
	}
	return add(file, Record{
		p.Check, p.Name, before.Fingerprint, before.Head,
		time.Now().UTC().Format(time.RFC3339), time.Since(began).Round(time.Second).String(), seed,
	})
}

// incomplete returns why a green run is no record; "" if it is one.
func (p Part) incomplete(before, after Tree, printed string) string {
	changed := append(before.Changed, after.Changed...)
	switch skip := skipped.FindStringSubmatch(printed); {
	case len(changed) > 0:
		return "commit all changes first, and change nothing while it runs: " + changed[0]
	case before.Fingerprint != after.Fingerprint:
		return "another commit was checked out while it ran"
	case skip != nil && !p.MaySkip:
		return "it skipped " + skip[1]
	case strings.Contains(printed, notFound):
		return "its tests were not found"
	}
	return ""
}

// execute runs the command. What it prints goes to out and into a log, and is returned.
func (p Part) execute(ctx context.Context, out io.Writer, seed string) (printed string, err error) {
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(logs, p.Check+"-"+p.Name+".log"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	cmd := exec.CommandContext(ctx, "bash", "-c", p.Command)
	cmd.Env = append(os.Environ(), "SEED="+seed)
	cmd.Stdout = io.MultiWriter(out, log, &text)
	cmd.Stderr = cmd.Stdout
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // tests remove what they made outside of the folder
	err = errors.Join(cmd.Run(), log.Close())
	return text.String(), err
}

// List prints which parts are recorded for the files of the commit, and which are missing.
func List(ctx context.Context, out io.Writer, file string) error {
	tree, err := ReadTree(ctx)
	if err != nil {
		return err
	}
	records, err := Read(file)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	parts, green := All(), 0
	for _, p := range parts {
		state := "missing"
		if r, found := p.Last(records, tree.Fingerprint); found {
			state = fmt.Sprintf("green on %s after %s, seed %s", r.At, r.Took, r.Seed)
			green++
		} else if r, found := p.Last(records, ""); found {
			state = "missing, last time it took " + r.Took
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Check, p.Name, state)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d parts have a record for the files of commit %s\n", green, len(parts), tree.Head[:12])
	if len(tree.Changed) > 0 {
		fmt.Fprintf(out, "parts that run now leave no record: %s is not committed\n", tree.Changed[0])
	}
	return nil
}
