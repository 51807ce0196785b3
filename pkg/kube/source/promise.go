package source

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-scheduler/muster/pkg/apis/scheduling"
	sigs "github.com/muster-scheduler/muster/pkg/apis/scheduling/sigs/v1alpha1"
	"github.com/muster-scheduler/muster/pkg/gang"
)

// wholeCluster is the name of the domain with the path "".
const wholeCluster = "the cluster"

// promised is the message of a true condition StartPromised. A restarted scheduler reads it.
var promised = regexp.MustCompile(`^The gang starts by (\S+) in (.+?)(?:, when .*?(?:` + notKept + `(.*?)\.?)?)?$`)

// notKept precedes the cause in the message of a promise that has moved.
const notKept = "; the earlier promise was not kept: "

// MovedText returns the end of the message of a true condition StartPromised that has moved, which PromiseOf reads.
func MovedText(cause string) string { return notKept + cause }

// PromiseText returns the start of the message of a true condition StartPromised, which PromiseOf reads.
func PromiseText(p gang.Promise) string {
	domain := p.Domain
	if domain == "" {
		domain = wholeCluster
	}
	return fmt.Sprintf("The gang starts by %s in %s", p.At.UTC().Format(time.RFC3339), domain)
}

// PromiseOf returns the start that the condition StartPromised of a gang's object promises; ok is false without one.
func PromiseOf(pg *sigs.PodGroup) (p gang.Promise, ok bool) {
	if !meta.IsStatusConditionTrue(pg.Status.Conditions, scheduling.ConditionStartPromised) {
		return gang.Promise{}, false
	}
	parts := promised.FindStringSubmatch(meta.FindStatusCondition(pg.Status.Conditions, scheduling.ConditionStartPromised).Message)
	if parts == nil {
		return gang.Promise{}, false
	}
	at, err := time.Parse(time.RFC3339, parts[1])
	if err != nil {
		return gang.Promise{}, false
	}
	if p.Domain = parts[2]; p.Domain == wholeCluster {
		p.Domain = ""
	}
	p.At, p.Cause = at, parts[3]
	return p, true
}
