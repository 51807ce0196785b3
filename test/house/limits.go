package house

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// bounds are the most that a figure may be. Limit is what test/arch demands, Target what the project wants to reach.
// Lower a limit to the new figure when the figure has sunk. Limit and Target are the same for what is reached.
type bounds struct{ Limit, Target int }

var (
	lines           = bounds{89581, 62000}
	schedulingPath  = bounds{4169, 3500}
	searches        = bounds{1, 1}
	definitions     = bounds{1, 1}
	remembered      = bounds{30, 15}
	locks           = bounds{38, 40}
	preemptionLocks = bounds{2, 4}
	roomFunctions   = bounds{0, 0}
	arrowsBack      = bounds{25, 25} // percent, worst package
)

// Searches are the searches for victims. A deleted search leaves the list, a new one enters it.
var Searches = []string{
	"pkg/evict.Cheapest",
}

// Definitions are the places that say which pods are evicted together.
var Definitions = []string{
	"pkg/bundle.Gang",
}

// Figure is one line of the table.
type Figure struct {
	Name          string
	Now           int
	Limit, Target int
	Note          string
}

func figure(name string, now int, b bounds, note string) Figure {
	return Figure{Name: name, Now: now, Limit: b.Limit, Target: b.Target, Note: note}
}

// Count returns the figures of the source, in the order of the table. Memories are the owners that docs/contributing/architecture.md lists.
func Count(all []*Package, memories []string) []Figure {
	sum, allLocks, pathLocks := 0, 0, 0
	for _, p := range all {
		sum += p.Lines
		allLocks += p.Locks
		if preempts(p) {
			pathLocks += p.Locks
		}
	}
	big := largest(closure(all, "pkg/kube/plugin"))
	worst := Tangle{}
	for _, t := range Tangles(all) {
		worst = t
		break
	}
	return []Figure{
		figure("pkg, lines that are not tests", sum, lines, ""),
		figure("largest package on the scheduling path, lines", big.Lines, schedulingPath, big.Path),
		figure("victim searches", len(Searches)-len(missing(all, Searches)), searches, "named in test/house/limits.go"),
		figure(`definitions of "evicted together"`, len(Definitions)-len(missing(all, Definitions)), definitions,
			"named in test/house/limits.go"),
		figure("remembered things", len(memories), remembered, "listed in docs/contributing/architecture.md"),
		figure("locks", allLocks, locks, ""),
		figure("locks on the preemption path", pathLocks, preemptionLocks, ""),
		figure("function fields of elasticquota.Manager", functionFields(all, "pkg/kube/elasticquota", "Manager"), roomFunctions, ""),
		figure("file arrows that run back, percent, worst package", worst.Percent(), arrowsBack,
			fmt.Sprintf("%s: %d of %d", worst.Package, worst.Back, worst.Arrows)),
	}
}

// Check returns what is wrong: figures over their limits, and listed names that the source no longer has.
func Check(all []*Package, memories []string) (wrong []string) {
	for _, f := range Count(all, memories) {
		if f.Now > f.Limit {
			wrong = append(wrong, fmt.Sprintf("%s: %d, and the limit is %d %s", f.Name, f.Now, f.Limit, f.Note))
		}
	}
	for _, name := range append(missing(all, Searches), missing(all, Definitions)...) {
		wrong = append(wrong, name+" is no longer in the source: delete its line in test/house/limits.go and lower the limit")
	}
	for _, name := range unknown(all, memories) {
		wrong = append(wrong, name+" owns something remembered in docs/contributing/architecture.md, and is no longer in the source")
	}
	return wrong
}

// Memories returns the owners of remembered things, as the rows of the table in docs/contributing/architecture.md name them.
func Memories(root string) (owners []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "docs/contributing/architecture.md"))
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "| what | owner | ends |\n")
	if !found {
		return nil, fmt.Errorf("docs/contributing/architecture.md has no table of remembered things")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		if !strings.HasPrefix(cells[1], "--") {
			owners = append(owners, strings.TrimSpace(cells[2]))
		}
	}
	return owners, nil
}

// unknown returns the owners in backticks, as in `fit.Memory`, that are no type of a package.
func unknown(all []*Package, owners []string) (gone []string) {
	for _, owner := range owners {
		_, name, _ := strings.Cut(owner, "`")
		name, _, _ = strings.Cut(name, "`")
		pkg, typ, isType := strings.Cut(name, ".")
		if isType && !slices.ContainsFunc(all, func(p *Package) bool { return path.Base(p.Path) == pkg && p.declares([]string{typ}) }) {
			gone = append(gone, name)
		}
	}
	return gone
}
