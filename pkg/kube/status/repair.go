package status

import (
	"fmt"
	"time"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
)

// These sentences say what may repair an incomplete gang that finds no capacity in its domain.

// SwapOff returns the sentence on nodes with free capacity outside of the domain of a gang, for which no other gang makes way.
func SwapOff(domain string, freeOutside []string) string {
	return fmt.Sprintf("Outside %s, %s %s free: with repairSwap a smaller gang of equal priority could make way and start there.",
		clipPath(domain), FirstNames(freeOutside), map[bool]string{true: "is", false: "are"}[len(freeOutside) == 1])
}

// WouldMove returns the sentence on a domain that takes the whole gang, which its repair policy forbids.
func WouldMove(domain string) string {
	return fmt.Sprintf("%s; set %s: %s.", wouldFit(domain), scheduling.AnnotationRepair, scheduling.RepairMove)
}

// MovesLater returns the sentence on a domain to which the gang moves after repairTimeout.
func MovesLater(domain string, repairTimeout time.Duration) string {
	return fmt.Sprintf("%s; it moves there once it is unschedulable for %s (repairTimeout).", wouldFit(domain), repairTimeout)
}

// MoveForbidden returns the sentence on a domain that takes the whole gang, whose members must not be evicted.
func MoveForbidden(domain string) string {
	return wouldFit(domain) + "; it does not move there, because a running member must not be evicted, or has no controller that recreates it."
}

// Moving returns the sentence on the domain to which the gang moves now.
func Moving(domain string) string {
	return fmt.Sprintf("The gang moves to %s: nodes are reserved there for all its members, and its running members are evicted.",
		inWords(domain))
}

func wouldFit(domain string) string { return "The whole gang would fit in " + inWords(domain) }

// inWords returns the path of a domain, or its words if it is the whole cluster.
func inWords(domain string) string {
	if domain == "" {
		return "other domains"
	}
	return clipPath(domain)
}
