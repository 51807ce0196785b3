// Package survey reads a cluster as the scheduler does, and reports for each integration its APIs, gangs and topology constraints. It uses
// the cache, but no plans and no victims. Invariant: it writes nothing into the cluster.
package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/muster-scheduler/muster/pkg/gang"
	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/kube/connect"
	"github.com/muster-scheduler/muster/pkg/kube/source"
)

// State is whether objects of an API are read.
type State string

// The states.
const (
	Read      State = "read"
	NotServed State = "not served" // the API server does not serve it
	Denied    State = "denied"     // reading is forbidden
	Unused    State = "not needed" // served, but read only if a pod names such an object
	PodsOnly  State = "-"          // no objects: pods have all data
)

// Source is one integration, in the order in which pods are matched.
type Source struct {
	Way      string `json:"way"`
	Resource string `json:"resource,omitempty"` // the resource of its objects, with group and version
	State    State  `json:"state"`
	Gangs    int    `json:"gangs"`
	Members  int    `json:"members"`
	Message  string `json:"message,omitempty"` // the remedy for denied objects
}

// Owner is a kind of object that may declare something about gangs that it owns.
type Owner struct {
	Kind     string `json:"kind"`
	Resource string `json:"resource"`
	State    State  `json:"state"`
	Gangs    int    `json:"gangs"` // number of gangs that such objects own
	Message  string `json:"message,omitempty"`
}

// Gang is the result for a gang.
type Gang struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Way       string `json:"way,omitempty"`
	Members   int    `json:"members"`
	Min       int    `json:"min"`
	Rule      string `json:"rule,omitempty"`    // where its topology constraint is declared
	Problem   string `json:"problem,omitempty"` // why it cannot be planned
	Elsewhere bool   `json:"otherScheduler,omitempty"`
}

// Report is the result.
type Report struct {
	Sources []Source `json:"sources"`
	Owners  []Owner  `json:"owners"`
	Gangs   []Gang   `json:"gangs"`
}

// Options are the scheduler's configuration.
type Options struct {
	Schedulers []string // the scheduler names that it serves
	Namespace  string   // the namespace of listed gangs; "" is all
}

const pollInterval = 50 * time.Millisecond

// Run reads the cluster and returns the report. It returns an error if objects cannot be read, or the context ends before all are read.
func Run(ctx context.Context, config *rest.Config, o Options) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config = rest.CopyConfig(config)
	config.QPS = -1 // one list of each kind, and one request for each: no limit is needed
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	custom, err := connect.Custom(config)
	if err != nil {
		return nil, err
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("the API server does not answer: %w", err)
	}
	if err := connect.CheckReading(ctx, client, custom); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	fill, err := connect.WorkloadRefs(ctx, custom, connect.Served(client.Discovery()))
	if err != nil {
		return nil, err
	}
	if err := connect.FillPods(factory.Core().V1().Pods().Informer(), fill); err != nil {
		return nil, err
	}
	src := cache.Source{Core: factory, Dynamic: custom, Served: connect.Readable(ctx, client)}
	if src.Finished, err = connect.Finished(client, fill); err != nil {
		return nil, err
	}
	c := cache.New(cache.Options{
		Aware: true, Limits: cache.Limits{Wait: time.Minute, Policy: gang.OnceSatisfied}, Clock: clock.RealClock{},
		Leading: func() bool { return true }, Do: func([]gang.Effect) {}, Note: func(cache.Note) {},
	})
	for _, name := range o.Schedulers {
		c.Serve(name)
	}
	if err := c.Start(ctx, src); err != nil {
		return nil, err
	}
	factory.StartWithContext(ctx)
	for !c.Open() {
		select {
		case <-ctx.Done():
			return nil, errors.New("not all objects could be read in time: may pods, nodes and namespaces be listed and watched, " +
				"and are the CRDs of manifests/crd installed?")
		case <-time.After(pollInterval):
		}
	}
	return report(c, src.Served, o.Namespace), nil
}

// report returns the report of a cache. namespace is that of the listed gangs; "" is all.
func report(c *cache.Cache, isServed func(schema.GroupVersionResource) (bool, error), namespace string) *Report {
	out := &Report{Gangs: []Gang{}}
	sourceOf, ownerOf := map[string]*Source{}, map[string]*Owner{}
	for i := range source.All {
		s := &source.All[i]
		row := Source{Way: s.Way, State: PodsOnly}
		if s.Object != nil {
			row.Resource, row.State, row.Message = readVersion(s.Object.Versions(), isServed)
		}
		out.Sources = append(out.Sources, row)
	}
	for i := range out.Sources {
		sourceOf[out.Sources[i].Way] = &out.Sources[i]
	}
	for _, kind := range source.Owners {
		row := Owner{Kind: kind.Kind}
		row.Resource, row.State, row.Message = readVersion([]schema.GroupVersionResource{kind.Resource}, isServed)
		out.Owners = append(out.Owners, row)
	}
	for i := range out.Owners {
		ownerOf[out.Owners[i].Kind] = &out.Owners[i]
	}
	for _, ref := range c.Gangs() {
		declaration, ok := c.Declarations(ref)
		if !ok {
			continue
		}
		if s := sourceOf[declaration.Way]; s != nil {
			s.Gangs++
			s.Members += declaration.Members
		}
		if o := ownerOf[declaration.Owner]; o != nil {
			o.Gangs++
		}
		if namespace == "" || namespace == ref.Namespace {
			out.Gangs = append(out.Gangs, Gang{
				Namespace: ref.Namespace, Name: ref.Name, Way: declaration.Way, Members: declaration.Members, Min: declaration.Min,
				Rule: declaration.Rule, Problem: declaration.Problem, Elsewhere: !declaration.Served,
			})
		}
	}
	for i, kind := range source.Owners {
		if o := &out.Owners[i]; kind.Lazy && o.Gangs == 0 && o.State == Read {
			o.State = Unused
		}
	}
	return out
}

// readVersion returns the first of the versions that is served, as text, with the state Read. Without one, the state says why, and resource
// is the version that may not be read or the first one.
func readVersion(
	versions []schema.GroupVersionResource, isServed func(schema.GroupVersionResource) (bool, error),
) (resource string, state State, message string) {
	i := slices.IndexFunc(versions, func(r schema.GroupVersionResource) bool {
		ok, err := isServed(r)
		if err != nil {
			resource = name(r)
			state = Denied
			message = err.Error()
		}
		return ok || err != nil
	})
	switch {
	case message != "":
		return resource, state, message
	case i >= 0:
		return name(versions[i]), Read, ""
	}
	return name(versions[0]), NotServed, ""
}

func name(r schema.GroupVersionResource) string {
	return strings.TrimPrefix(r.Resource+"."+r.Version+"."+r.Group, ".")
}
