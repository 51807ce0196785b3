package eligible

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/pkg/kube/cache"
	"github.com/muster-scheduler/muster/pkg/quota"
)

// Quotas say who may be evicted for whom where teams have quotas: there priorities alone do not.
type Quotas interface {
	// Claim begins a search for pods that may be evicted for a group; nil if there are no quotas. A terminating pod counts as gone if it is to be
	// gone within a time.
	Claim(group *cache.Group, within time.Duration) Claim
	// Revoke begins a search for pods that may be evicted for a group since their quotas have had more than they are entitled to for long; nil if there
	// are no such quotas.
	Revoke(group *cache.Group) Claim
	// Fits says whether the quotas have enough for a group that has its places reserved, when those have left who leave.
	Fits(group *cache.Group, leaves func(*v1.Pod) bool) bool
	// Told is another number whenever the quotas were told of something.
	Told() uint64
}

// Claim is what quotas say during one search.
type Claim interface {
	// May says whether a pod may be evicted, and its gang; lower is whether its priority is.
	May(pod *v1.Pod, lower bool) bool
	// QuotaOf is the quota of a member of the group, and Uses says whether members of a quota may use what a pod leaves: it may leave for others of the
	// group alone.
	QuotaOf(member *v1.Pod) string
	Uses(quota string, gone *v1.Pod) bool
	// Own says whether a pod is of the quota that the members ask first.
	Own(pod *v1.Pod) bool
	// OwnFirst has the claim count those, too, who may leave when others of the own quotas have; it says whether there are any.
	OwnFirst() bool
	// BelowMin has the claim count members of gangs that do not borrow as a whole, as long as no quota lacks a part of what there is of its min then: with
	// 1 each keeps its min. It returns whether more pods count then. Shortfall returns what the quota lacks that lacks most when pods have terminated.
	BelowMin(lacks quota.Share) bool
	Shortfall(gone []*v1.Pod) quota.Share
	// Several says whether members of several quotas ask.
	Several() bool
	// Short says whether something must be freed in a quota, and Frees whether a pod's leaving does that.
	Short() bool
	Frees(*v1.Pod) bool
	// Of is equal for those who ask the same of the same quotas.
	Of() string
	// Leaving are those who leave already, and count as gone.
	Leaving() []*v1.Pod
	// Check returns what the quotas say of a victim set as a whole.
	Check(gone []*v1.Pod) quota.Verdict
	// Revoked notes that pods are evicted since their quotas have had too much for long, and returns what they are told. NotRevoked notes that no pod is:
	// disruption budgets do not allow it, or, without any, no set of such pods makes room.
	Revoked(gone []*v1.Pod) (why string)
	NotRevoked(budgets []string)
	// Turns is for those who leave one after another: may says whether some may leave, too, when all have for whom leave was called.
	Turns() (may func([]*v1.Pod) bool, leave func([]*v1.Pod))
}
