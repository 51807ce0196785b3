package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/muster-scheduler/muster/pkg/quota"
)

// places is how many the cluster has, all of them alike.
const places = 256

// team is a quota, and when its gangs come.
type team struct {
	name        string
	min, weight int64
	from, until int // minutes in which its gangs come, in bursts
	bursts      int // 0: one after the other, all the time
}

// teams: one always has work, one comes by bursts with twice the fair share, and one has all of its work in the first
// third.
var teams = []team{
	{name: "steady", min: 48, weight: 1, until: 4500},
	{name: "bursts", min: 96, weight: 2, from: 200, until: 4200, bursts: 8},
	{name: "early", min: 48, weight: 1, until: 1500, bursts: 3},
}

// most is the size of the largest gang, and perTeam how many each team has.
const (
	most    = 64
	perTeam = 200
)

// gang is one of the trace.
type gang struct {
	name             string
	team             int
	size             int
	comes, lasts     int // minutes
	number           int // in the order in which they come, ties by team
	started, ended   int // 0 as long as it has not; started is of the last time
	runs             bool
	evicted          int
	waitsFrom, waits int // since when it waits, and the longest time that it has waited
}

// draw makes the trace of a seed.
func draw(seed uint64) (all []*gang) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for t, of := range teams {
		for i := range perTeam {
			g := &gang{name: fmt.Sprintf("%s-%d", of.name, i), team: t, size: 1 + rng.IntN(most), lasts: 10 + rng.IntN(110)}
			if of.bursts == 0 {
				g.comes = of.from + rng.IntN(of.until-of.from)
			} else {
				step := (of.until - of.from) / of.bursts
				g.comes = of.from + rng.IntN(of.bursts)*step + rng.IntN(30)
			}
			all = append(all, g)
		}
	}
	return all
}

// book is the quotas of all teams below a root.
func book() *quota.Book {
	specs := []quota.Spec{{Name: "root", Inner: true}}
	for i, t := range teams {
		specs = append(specs, quota.Spec{
			Name: t.name, Parent: "root", Created: int64(i),
			Min: quota.List{gpu: t.min}, Max: quota.List{gpu: places}, Weight: quota.List{gpu: t.weight},
		})
	}
	tree, _ := quota.NewTree(specs)
	b := quota.NewBook(tree)
	b.Total("root", quota.List{gpu: places})
	return b
}

const gpu = "gpu"
