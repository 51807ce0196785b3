// Command release builds the files of a release: programs for both architectures, the container image, the charts, a
// list of what is in the programs, and checksums.
//
// The same commit and the same Go give the same files, byte for byte. The command knows nothing of what the programs do,
// and needs no Docker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/release/checks"
)

// release is what is to be built.
type release struct {
	version string
	commit  string
	ldflags string
	image   string // name:tag
	arches  []string
	out     string
	made    time.Time // the commit's, so that it is the same every time

	checks    string // the file of records
	unchecked bool
	lacks     []string         // what a release needs and this one does not have
	green     map[string]green // what is recorded for the files of the commit, by check
	digest    string           // of the image
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, imageOnly, err := parse(os.Args[1:])
	if err == nil && !imageOnly {
		err = r.check(ctx, r.checks)
	}
	if err == nil {
		err = r.build(ctx, imageOnly)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (r *release, imageOnly bool, err error) {
	r = &release{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "`VERSION`, such as v0.1.0")
	flags.StringVar(&r.commit, "commit", "", "`HASH`")
	flags.StringVar(&r.ldflags, "ldflags", "", "`FLAGS` of the linker")
	flags.StringVar(&r.image, "image", "", "`NAME:TAG` of the image; muster-scheduler:VERSION")
	flags.StringVar(&r.out, "o", "dist", "`FOLDER` to write into; what is in it goes")
	arches := flags.String("arch", "amd64,arm64", "`ARCHITECTURES`")
	epoch := flags.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "`SECONDS` since 1970: the time in all files")
	flags.BoolVar(&imageOnly, "image-only", false, "nothing but the image")
	flags.StringVar(&r.checks, "checks", checks.File, "`FILE` of the parts that ran whole and green; make writes it")
	flags.BoolVar(&r.unchecked, "unchecked", false, "do not reject a commit on which something did not run: the notes say it")
	if err := flags.Parse(args); err != nil {
		return nil, false, err
	}
	seconds, err := strconv.ParseInt(*epoch, 10, 64)
	if err != nil || seconds < 0 {
		return nil, false, fmt.Errorf("-epoch %q: must be seconds since 1970", *epoch)
	}
	if r.version == "" || r.commit == "" {
		return nil, false, errors.New("-version and -commit must be given")
	}
	if r.image == "" {
		r.image = "muster-scheduler:" + r.version
	}
	name := r.image[strings.LastIndex(r.image, "/")+1:]
	if strings.Count(name, ":") != 1 || strings.ContainsAny(r.image, "@ ") {
		return nil, false, fmt.Errorf("-image %s: must be NAME:TAG", r.image)
	}
	if !imageOnly {
		if !released.MatchString(r.version) {
			return nil, false, fmt.Errorf("VERSION=%s; supported values: v and three numbers, such as v0.1.0 or v0.1.0-rc.1", r.version)
		}
		if tag := r.image[strings.LastIndex(r.image, ":")+1:]; tag != r.version {
			return nil, false, fmt.Errorf("RELEASE_IMAGE=%s; supported values: an image with the tag %s, which is the version", r.image, r.version)
		}
	}
	r.made, r.arches = time.Unix(seconds, 0).UTC(), strings.Split(*arches, ",")
	return r, imageOnly, nil
}

// clear makes the folder empty. It refuses one that was never written by this program.
func (r *release) clear() error {
	mark := filepath.Join(r.out, sumsFile)
	entries, err := os.ReadDir(r.out)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("%s is not empty, and has no %s: remove it first", r.out, sumsFile)
		}
	}
	return errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755))
}

// build writes everything, or the image and what it is made of.
func (r *release) build(ctx context.Context, imageOnly bool) error {
	if err := r.clear(); err != nil {
		return err
	}
	names := []string{"muster-scheduler", "muster-controller", "musterctl"}
	writers := []func([]program) error{r.writeImages, r.writeBills, r.archives(ctx)}
	if imageOnly {
		names, writers = names[:2], writers[:2]
	}
	programs, err := r.compile(ctx, names...)
	if err != nil {
		return err
	}
	for _, write := range writers {
		if err := write(programs); err != nil {
			return err
		}
	}
	if !imageOnly {
		if err := errors.Join(r.writeManifests(), r.writeCharts(), r.writeKrew()); err != nil {
			return err
		}
	}
	if err := writeSums(r.out); err != nil || imageOnly {
		return err
	}
	return r.writeNotes()
}
