package evict

// The searches with another bound on their branches.
var (
	ChooseAmongGangsWithin    = chooseAmongGangs
	ChooseJobAmongGangsWithin = chooseJobAmongGangs
)

// MostBranches is the bound.
const MostBranches = mostBranches
