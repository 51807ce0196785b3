package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/simulate"
	"github.com/muster-scheduler/muster/pkg/topology"
)

// LayerError says that a layer does not exist.
type LayerError struct {
	Layer string
	Legal []string
}

func (e *LayerError) Error() string {
	if len(e.Legal) == 0 {
		return e.Layer + ": there are no layers"
	}
	return e.Layer + ": unsupported layer; supported values: " + strings.Join(e.Legal, ", ")
}

// FullError says that no domain of a layer can be emptied.
type FullError struct {
	Layer   string
	Why     []string // domain by domain
	Unknown bool     // unknown for at least one domain
}

func (e *FullError) Error() string {
	if len(e.Why) == 0 {
		return "no domain of layer " + e.Layer + " can be emptied: none has a name"
	}
	var out strings.Builder
	can := "no domain of layer " + e.Layer + " can be emptied"
	if e.Unknown {
		can = "it is not known whether a domain of layer " + e.Layer + " can be emptied"
	}
	out.WriteString(can + " so that all its pods run elsewhere and no other pod is evicted:")
	for i, why := range e.Why {
		if i == maxReasons {
			fmt.Fprintf(&out, "\n  and %d more", len(e.Why)-i)
			break
		}
		out.WriteString("\n  " + why)
	}
	return out.String()
}

// maxReasons bounds the domains with a reason in the message.
const maxReasons = 10

// Empty returns the effect of emptying that domain of layer which can be emptied by evicting the fewest pods; between equals, the first
// by path. If none can be emptied, it returns a FullError.
func Empty(ctx context.Context, o Options, set *simulate.Set, layer string) (*Drain, error) {
	all, err := candidates(ctx, o, set, layer)
	if err != nil {
		return nil, err
	}
	full := &FullError{Layer: layer}
	for i, c := range all {
		// Each attempt changes a cluster of its own, with the same tree.
		drain, err := drained(ctx, o, set, func(*topology.Tree) (topology.ID, error) { return c.id, nil })
		if err != nil {
			return nil, fmt.Errorf("%s, after %d of %d domains: %w", c.path, i, len(all), err)
		}
		if drain.Verdict == Fits {
			return drain, nil
		}
		full.Unknown = full.Unknown || drain.Verdict == NotKnown
		full.Why = append(full.Why, c.path+": "+drain.obstacle())
	}
	return nil, full
}

// candidate is a domain, and the number of pods that emptying it evicts.
type candidate struct {
	id   topology.ID
	path string
	pods int
}

// candidates returns the domains of a layer, the one with the fewest pods to evict first.
func candidates(ctx context.Context, o Options, set *simulate.Set, layer string) (all []candidate, err error) {
	v, err := open(ctx, o, set, false)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if _, err := v.runPending(ctx); err != nil {
		return nil, err
	}
	tree := v.cache().Topology().Tree
	number, ok := tree.LayerIndex(layer)
	if !ok || number == 0 {
		if err := v.unlistedError("a layer " + layer); err != nil {
			return nil, err
		}
		return nil, &LayerError{layer, tree.LayerNames()[1:]}
	}
	for d := topology.Root; int(d) < tree.Len(); d++ {
		if tree.Layer(d) == number && tree.Named(d) {
			all = append(all, candidate{d, tree.Path(d), len(v.emptied(tree, d).pods)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(a.pods-b.pods, topology.CompareNames(a.path, b.path))
	})
	return all, nil
}

// obstacle returns why a domain cannot be emptied, or why this is not known.
func (d *Drain) obstacle() string {
	if d.Verdict == NotKnown {
		return "not known: " + strings.Join(d.Unknown, "; ")
	}
	for _, g := range d.Gangs {
		if !g.Fits {
			return "gang " + g.Gang + ": " + g.Reason
		}
	}
	for _, p := range d.Others {
		if p.To == "" && !p.Elsewhere {
			return "pod " + p.Pod + ": " + p.Reason
		}
	}
	return "the pods from there would evict " + joinNames(d.Evicted)
}
