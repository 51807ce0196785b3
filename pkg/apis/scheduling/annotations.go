package scheduling

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// Mode says what one member's failure means for the members that wait.
type Mode string

const (
	// ModeStrict returns all members to the queue. It is the default.
	ModeStrict Mode = "Strict"
	// ModeNonStrict lets those that fit keep their nodes.
	ModeNonStrict Mode = "NonStrict"
)

// MatchPolicy says which members count towards minMember when Permit asks whether the
// gang may bind.
type MatchPolicy string

const (
	// MatchOnlyWaiting counts members that wait in Permit.
	MatchOnlyWaiting MatchPolicy = "only-waiting"
	// MatchWaitingAndRunning counts bound members as well.
	MatchWaitingAndRunning MatchPolicy = "waiting-and-running"
	// MatchOnceSatisfied counts waiting members until the gang was whole once; from then
	// on members are free, until none is left.
	MatchOnceSatisfied MatchPolicy = "once-satisfied"
)

// ParseMode reads the value of AnnotationMode.
func ParseMode(value string) (Mode, error) {
	return oneOf(AnnotationMode, value, ModeStrict, ModeNonStrict)
}

// ParseMatchPolicy reads the value of AnnotationMatchPolicy.
func ParseMatchPolicy(value string) (MatchPolicy, error) {
	return oneOf(AnnotationMatchPolicy, value, MatchPolicies()...)
}

// MatchPolicies lists the legal ones.
func MatchPolicies() []MatchPolicy {
	return []MatchPolicy{MatchOnlyWaiting, MatchWaitingAndRunning, MatchOnceSatisfied}
}

// ParseMinAvailable reads the value of AnnotationMinAvailable.
func ParseMinAvailable(value string) (int, error) { return integer(AnnotationMinAvailable, value, 1) }

// ParseLabelMinAvailable reads the value of LabelMinAvailable.
func ParseLabelMinAvailable(value string) (int, error) { return integer(LabelMinAvailable, value, 1) }

// ParseTotalNumber reads the value of AnnotationTotalNumber.
func ParseTotalNumber(value string) (int, error) { return integer(AnnotationTotalNumber, value, 1) }

// ParseTopologyIndex reads the value of AnnotationTopologyIndex.
func ParseTopologyIndex(value string) (int, error) { return ParseIndex(AnnotationTopologyIndex, value) }

// ParseIndex reads the value of a key that numbers things from 0.
func ParseIndex(key, value string) (int, error) { return integer(key, value, 0) }

// ParseOrdinal reads the ordinal at the end of the value of a key that names a pod of a
// StatefulSet.
func ParseOrdinal(key, value string) (int, error) {
	ordinal := value[strings.LastIndex(value, "-")+1:]
	n, err := strconv.ParseUint(ordinal, 10, 31)
	if err != nil || len(ordinal) == len(value) {
		return 0, illegal(key, value, "a name that ends in a hyphen and an integer ≥ 0")
	}
	return int(n), nil
}

// ParseWaitingTime reads the value of AnnotationWaitingTime, a duration as Go writes it.
func ParseWaitingTime(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, illegal(AnnotationWaitingTime, value, "a duration > 0, such as 600s")
	}
	return d, nil
}

// ParseGroups reads the value of AnnotationGroups: the gangs that start together, each as
// namespace/name, in the order in which they are written. An empty list stands for a gang
// on its own. There are at most MaxGroups.
func ParseGroups(value string) ([]string, error) {
	const legal = `a JSON list such as ["default/a","default/b"], each gang once`
	var gangs []string
	if err := json.Unmarshal([]byte(value), &gangs); err != nil {
		return nil, illegal(AnnotationGroups, value, legal)
	}
	seen := map[string]bool{}
	for i, g := range gangs {
		namespace, name, ok := strings.Cut(g, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") || seen[g] {
			return nil, illegal(fmt.Sprintf("%s[%d]", AnnotationGroups, i), g, legal)
		}
		if i >= MaxGroups {
			return nil, illegal(fmt.Sprintf("%s[%d]", AnnotationGroups, i), g, fmt.Sprintf("at most %d gangs", MaxGroups))
		}
		seen[g] = true
	}
	return gangs, nil
}

func oneOf[T ~string](key, value string, legal ...T) (T, error) {
	var names []string
	for _, l := range legal {
		if string(l) == value {
			return l, nil
		}
		names = append(names, string(l))
	}
	return "", illegal(key, value, strings.Join(names, ", "))
}

func integer(key, value string, least uint64) (int, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n < least {
		return 0, illegal(key, value, fmt.Sprintf("an integer ≥ %d", least))
	}
	return int(n), nil
}

func illegal(key, value, legal string) error {
	return strictjson.Illegal(key, strconv.Quote(value), legal)
}
