package e2e

import (
	"os"
	"slices"
	"strings"
)

// off are kinds of rounds, and scripts, that show what is not mended yet: they are left out
// unless withEnv asks for them, with commas between them, or for "all".
var off = map[string]bool{leaderReplaced: true}

// leaderReplaced is a script of TestControllers: a leader that is made again stays where its
// workers' places are taken.
const leaderReplaced = "leader-replaced"

const withEnv = "E2E_WITH"

// replacements are members replaced whose gang runs: beside finished ones, after the
// PodGroup was made again, under another scheduler.
const replacements = "replacements"

// on says whether rounds of a kind are played.
func on(kind string) bool {
	with := strings.Split(os.Getenv(withEnv), ",")
	return !off[kind] || slices.Contains(with, kind) || slices.Contains(with, "all")
}
