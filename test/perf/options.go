package main

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type options struct {
	nodes      []int
	shapes     []Shape
	contenders []string
	rounds     int
	running    bool
	churn      time.Duration // 0: drains are measured.
	every      time.Duration // how often something changes in a churn.
	vain       bool          // what evictions could not help is asked of a churn.
	unlike     bool          // no two gangs of a churn ask for the same.
	timeout    time.Duration
	muster     string
	before     string // another build of it; "" for none.
	quotas     int    // how many there are for a contender with quotas; 0: there is none.
	root       string
	json, svg  string
}

// lists are the options that are read from one word each.
type lists struct{ nodes, shapes, contenders string }

// What is measured unless flags say otherwise. A churn's backlog is one that does not
// fit, so there need not be many nodes.
var (
	ofDrains = lists{"2048,8192", "32x32,128x4,8x128,256x8x1,2x2048p", strings.Join(names(contender.drains), ",")}
	ofChurn  = lists{"1024", "200x8", "stock,stock-gang-topology,muster"}
)

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("perf", flag.ContinueOnError)
	var l lists
	usual := func(what, drains, churn string) string {
		return fmt.Sprintf("%s (default %s; with -churn %s)", what, drains, churn)
	}
	flags.StringVar(&l.nodes, "nodes", "",
		usual("sizes of the cluster, multiples of "+strconv.Itoa(nodesPerSpine), ofDrains.nodes, ofChurn.nodes))
	flags.StringVar(&l.shapes, "shapes", "", usual("backlogs, GANGSxPODS[xGPUS][c][p]; c is GPUs by ResourceClaims, p is PreferGather. A shape that a cluster has no room for is left out", ofDrains.shapes, ofChurn.shapes))
	flags.StringVar(&l.contenders, "contenders", "", usual("who is measured", ofDrains.contenders, ofChurn.contenders))
	flags.IntVar(&o.rounds, "rounds", 1, "how often each drain is made; the median counts")
	flags.BoolVar(&o.running, "running", true, "also drain while pods come, at the first shape")
	flags.DurationVar(&o.churn, "churn", 0,
		"instead of drains: what a backlog costs that does not fit, while for so long pods are replaced or moved")
	flags.DurationVar(&o.every, "every", time.Second, "with -churn: how often a pod is replaced or moved")
	flags.BoolVar(&o.vain, "vain", false,
		"with -churn: a few others in each spine matter less than the backlog, so that it would evict, and all of them are too few")
	flags.BoolVar(&o.unlike, "unlike", false, "with -churn: no two gangs ask for the same")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "of one drain, and of each part of a churn")
	flags.StringVar(&o.muster, "muster", "bin/muster-scheduler", "path of the scheduler")
	flags.StringVar(&o.before, "before", "", "path of another build of the scheduler, which takes turns with the others as "+beforeName)
	flags.IntVar(&o.quotas, "quotas", 0, "also measure Muster with so many ElasticQuotas in three levels, over which the gangs are spread: it takes turns with the others as "+quotasName)
	flags.StringVar(&o.root, "root", ".", "path of the repository")
	flags.StringVar(&o.json, "json", "", "file for all figures")
	flags.StringVar(&o.svg, "svg", "", "file for a chart of the drains")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	return o, o.read(l)
}

// read fills in and checks the lists.
func (o *options) read(l lists) error {
	usual, takesPart := ofDrains, contender.drains
	if o.churn > 0 {
		usual, takesPart = ofChurn, contender.churns
	}
	for _, text := range strings.Split(cmp.Or(l.nodes, usual.nodes), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < nodesPerSpine || n%nodesPerSpine != 0 {
			return fmt.Errorf("-nodes %q: want multiples of %d", text, nodesPerSpine)
		}
		o.nodes = append(o.nodes, n)
	}
	for _, text := range strings.Split(cmp.Or(l.shapes, usual.shapes), ",") {
		s, err := parseShape(text)
		if err != nil {
			return err
		}
		if o.churn > 0 && !s.churns() {
			return fmt.Errorf("-shapes %q: with -churn, want gangs of 2 to %d whole-node pods", text, nodesPerSpine)
		}
		o.shapes = append(o.shapes, s)
	}
	for _, name := range strings.Split(cmp.Or(l.contenders, usual.contenders), ",") {
		if known := names(takesPart); !slices.Contains(known, name) {
			return fmt.Errorf("-contenders %q: want some of %s", name, strings.Join(known, ","))
		}
		o.contenders = append(o.contenders, name)
	}
	if o.before != "" {
		o.contenders = append(o.contenders, beforeName)
	}
	if o.vain && (o.churn == 0 || slices.ContainsFunc(o.shapes, func(s Shape) bool { return s.Pods < leastInVain })) {
		return fmt.Errorf("-vain: want -churn, and gangs of at least %d pods", leastInVain)
	}
	if o.every <= 0 || o.every != time.Second && o.churn == 0 {
		return fmt.Errorf("-every %s: want -churn, and a time above 0", o.every)
	}
	if o.unlike && o.churn == 0 {
		return fmt.Errorf("-unlike: want -churn")
	}
	if o.quotas > 0 {
		o.contenders = append(o.contenders, quotasName)
	}
	if o.rounds < 1 {
		return fmt.Errorf("-rounds %d: want at least 1", o.rounds)
	}
	return nil
}
