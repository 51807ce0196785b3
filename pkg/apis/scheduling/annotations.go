package scheduling

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/muster-scheduler/muster/pkg/apis/internal/strictjson"
)

// Mode says what happens to waiting members when one member fails.
type Mode string

const (
	// ModeStrict returns all members to the queue. It is the default.
	ModeStrict Mode = "Strict"
	// ModeNonStrict lets the members that fit keep their nodes.
	ModeNonStrict Mode = "NonStrict"
)

// MatchPolicy says which members count towards minMember when Permit checks whether the gang may bind.
type MatchPolicy string

const (
	// MatchOnlyWaiting counts members that wait in Permit.
	MatchOnlyWaiting MatchPolicy = "only-waiting"
	// MatchWaitingAndRunning counts bound members as well.
	MatchWaitingAndRunning MatchPolicy = "waiting-and-running"
	// MatchOnceSatisfied counts waiting members until the gang has reached minMember once. After that, members start one by one, until
	// the gang has no member left.
	MatchOnceSatisfied MatchPolicy = "once-satisfied"
)

// RepairPolicy says what happens to a running gang with a lost member that its domain cannot replace.
type RepairPolicy string

const (
	// RepairReplace waits for capacity in the domain. It is the default.
	RepairReplace RepairPolicy = "Replace"
	// RepairMove evicts the gang after repairTimeout if another domain takes all its members.
	RepairMove RepairPolicy = "Move"
)

// RepairPolicies lists the valid repair policies.
func RepairPolicies() []RepairPolicy { return []RepairPolicy{RepairReplace, RepairMove} }

// ParseRepair parses the value of AnnotationRepair.
func ParseRepair(value string) (RepairPolicy, error) {
	return oneOf(AnnotationRepair, value, RepairPolicies()...)
}

// BackfillEvictable is the only value of AnnotationBackfill.
const BackfillEvictable = "Evictable"

// ParseBackfill parses the value of AnnotationBackfill.
func ParseBackfill(value string) (string, error) {
	return oneOf(AnnotationBackfill, value, BackfillEvictable)
}

// ParseMaxRuntime parses the value of AnnotationMaxRuntime, a duration > 0 as Go writes it.
func ParseMaxRuntime(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, illegal(AnnotationMaxRuntime, value, "a duration > 0, such as 4h")
	}
	return d, nil
}

// Window is a time during which a node is to be empty.
type Window struct{ Start, End time.Time }

// ParseMaintenance returns the windows in the value of AnnotationMaintenance, in their written order. The value has intervals of RFC 3339
// times, separated by commas.
func ParseMaintenance(value string) (windows []Window, err error) {
	for interval := range strings.SplitSeq(value, ",") {
		from, to, _ := strings.Cut(strings.TrimSpace(interval), "/")
		start, invalidStart := time.Parse(time.RFC3339, from)
		end, invalidEnd := time.Parse(time.RFC3339, to)
		if invalidStart != nil || invalidEnd != nil || !end.After(start) {
			return nil, illegal(AnnotationMaintenance, value,
				"START/END with an END after START, such as 2026-12-01T02:00:00Z/2026-12-01T06:00:00Z; several separated by commas")
		}
		windows = append(windows, Window{start.UTC(), end.UTC()})
	}
	return windows, nil
}

// ParseMode parses the value of AnnotationMode.
func ParseMode(value string) (Mode, error) {
	return oneOf(AnnotationMode, value, ModeStrict, ModeNonStrict)
}

// ParseMatchPolicy parses the value of AnnotationMatchPolicy.
func ParseMatchPolicy(value string) (MatchPolicy, error) {
	return oneOf(AnnotationMatchPolicy, value, MatchPolicies()...)
}

// MatchPolicies lists the valid match policies.
func MatchPolicies() []MatchPolicy {
	return []MatchPolicy{MatchOnlyWaiting, MatchWaitingAndRunning, MatchOnceSatisfied}
}

// ParseMinAvailable parses the value of AnnotationMinAvailable.
func ParseMinAvailable(value string) (int, error) { return integer(AnnotationMinAvailable, value, 1) }

// ParseLabelMinAvailable parses the value of LabelMinAvailable.
func ParseLabelMinAvailable(value string) (int, error) { return integer(LabelMinAvailable, value, 1) }

// ParseTotalNumber parses the value of AnnotationTotalNumber.
func ParseTotalNumber(value string) (int, error) { return integer(AnnotationTotalNumber, value, 1) }

// ParseTopologyIndex parses the value of AnnotationTopologyIndex.
func ParseTopologyIndex(value string) (int, error) { return ParseIndex(AnnotationTopologyIndex, value) }

// ParseIndex parses an integer ≥ 0. key is the label or annotation with the value, for errors.
func ParseIndex(key, value string) (int, error) { return integer(key, value, 0) }

// ParseOrdinal returns the ordinal at the end of value, the name of a pod of a StatefulSet. key is its label, for errors.
func ParseOrdinal(key, value string) (int, error) {
	ordinal := value[strings.LastIndex(value, "-")+1:]
	n, err := strconv.ParseUint(ordinal, 10, 31)
	if err != nil || len(ordinal) == len(value) {
		return 0, illegal(key, value, "a name that ends in a hyphen and an integer ≥ 0")
	}
	return int(n), nil
}

// ParseWaitingTime parses the value of AnnotationWaitingTime, a duration > 0 as Go writes it.
func ParseWaitingTime(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, illegal(AnnotationWaitingTime, value, "a duration > 0, such as 600s")
	}
	return d, nil
}

// ParseGroups returns the gangs in the value of AnnotationGroups, which start together, each as namespace/name, in their written order.
// An empty list means that the gang has no group. More than MaxGroups are an error.
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

// oneOf returns the one of legal that equals value, or an error.
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

// integer parses an integer ≥ least. key is its label or annotation, for errors.
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
