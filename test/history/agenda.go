package history

import (
	"slices"
	"time"
)

// agenda is what is to be done, the next first.
type agenda []due

type due struct {
	at time.Duration
	do func() error
}

// add has something done at its time, after all that was to be done then.
func (a *agenda) add(when time.Duration, do func() error) {
	i, _ := slices.BinarySearchFunc(*a, when, func(d due, when time.Duration) int {
		if d.at <= when {
			return -1
		}
		return 1
	})
	*a = slices.Insert(*a, i, due{when, do})
}

// pop takes what is next.
func (a *agenda) pop() func() error {
	next := (*a)[0]
	*a = (*a)[1:]
	return next.do
}
