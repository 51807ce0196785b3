// Package reasons lists the reasons of all conditions and events that Muster writes. The name of a constant is its value, or its end.
// docs/reference/reasons.md has the meaning, the cause and the remedy of each: test/reference compares that page with this list, and this
// list with the code.
package reasons

// The reasons. docs/reference/reasons.md says what each means.
const (
	// Of the condition Scheduled of a gang, and of events about the gang.

	Scheduled            = "Scheduled"
	Finished             = "Finished"
	Binding              = "Binding"
	Preempting           = "Preempting"
	Unschedulable        = "Unschedulable"
	NeverFits            = "NeverFits"
	Rejected             = "Rejected"
	TopologySpecConflict = "TopologySpecConflict"
	Waiting              = "Waiting"
	Ready                = "Ready"
	ScheduleTimeout      = "ScheduleTimeout"
	EvictionFailed       = "EvictionFailed"
	Reserved             = "Reserved"
	ReservationGivenUp   = "ReservationGivenUp"
	Moving               = "Moving"

	// Of the condition Repairing of a gang that has lost members, and of events about it.

	HoldingCapacity = "HoldingCapacity"
	Replacing       = "Replacing"
	Evicting        = "Evicting"
	NoCapacity      = "NoCapacity"
	MemberStuck     = "MemberStuck"

	// Of the condition StartPromised of a gang that waits, and of events about it.

	StartPromised = "StartPromised"
	StartMoved    = "StartMoved"
	StartUnknown  = "StartUnknown"

	// Of conditions and events of pods.

	WaitingForGang = "WaitingForGang" // more nodes would not help
	Preempted      = "Preempted"
	BoundByAnother = "BoundByAnother"

	// Of the conditions of a ClusterNetworkTopology.

	InUse          = "InUse"
	InvalidSpec    = "InvalidSpec"
	NotUsed        = "NotUsed"
	TooManyDomains = "TooManyDomains"
	InvalidSpares  = "InvalidSpares"

	// Of events of the scheduler about what users wrote.

	InvalidAnnotation    = "InvalidAnnotation"
	InvalidTopologyIndex = "InvalidTopologyIndex"
	TopologyRule         = "TopologyRule"
	OwnerNotRead         = "OwnerNotRead"
	TwoGangs             = "TwoGangs"
	UnknownKey           = "UnknownKey"
	UnknownTopologyKey   = "UnknownTopologyKey"
	QuotaNotFound        = "QuotaNotFound"
	QuotaNotUsable       = "QuotaNotUsable"
	QuotaRevoked         = "QuotaRevoked"
	QuotaNotRevoked      = "QuotaNotRevoked"

	// Of events about the scheduler itself.

	APIServerNewer            = "APIServerNewer"
	ConfigurationApplied      = "ConfigurationApplied"
	ConfigurationRefused      = "ConfigurationRefused"
	ConfigurationNeedsRestart = "ConfigurationNeedsRestart"

	// Of events of the scheduler and of muster-controller about the declaration of a gang.

	LeaderFirst = "LeaderFirst"
	TierMissing = "NetworkTopologyTierMissing"
	TierTooHigh = "NetworkTopologyTierTooHigh"
	TierIsNode  = "NetworkTopologyTierIsNode"

	// Of events of muster-controller.

	TierUnknown                    = "NetworkTopologyTierUnknown"
	InvalidTopology                = "InvalidTopology"
	TopologyKeyNotMapped           = "TopologyKeyNotMapped"
	TopologyGroupConfigUnsupported = "TopologyGroupConfigUnsupported"
	ReuseReservationUnsupported    = "ReuseReservationUnsupported"
	PodGroupConflict               = "PodGroupConflict"
	NotTranslated                  = "NotTranslated"
	TwoTopologyRules               = "TwoTopologyRules"
	SchedulingAPINotServed         = "SchedulingAPINotServed"
	TooManyPodGroups               = "TooManyPodGroups"
	NoBackend                      = "NoBackend"
	InvalidGang                    = "InvalidGang"
	NotWritten                     = "NotWritten"
	PodNotPrepared                 = "PodNotPrepared"
	PodGroupRecreated              = "PodGroupRecreated"
	PodGroupTerminating            = "PodGroupTerminating"
)
