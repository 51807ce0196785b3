package manifests_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/muster-scheduler/muster/pkg/kube/connect"
)

// TestPoliciesOfTheOldest: the oldest API server takes the policies. It takes no function of CEL that
// the one before it does not have, so that it can be rolled back.
func TestPoliciesOfTheOldest(t *testing.T) {
	policies, _ := readPolicies(t)
	before := version.MajorMinor(connect.Oldest.Major(), connect.Oldest.Minor()-1)
	for _, p := range policies {
		compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(before))
		require.NoError(t, err)
		options := cel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
		for _, v := range p.Spec.Variables {
			result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, options,
				environment.NewExpressions)
			require.Nil(t, result.Error, "%s: variable %s: %v", p.Name, v.Name, result.Error)
		}
		compiles := func(e cel.ExpressionAccessor) {
			result := compiler.CompileCELExpression(e, options, environment.NewExpressions)
			require.Nil(t, result.Error, "%s: %s: %v", p.Name, e.GetExpression(), result.Error)
		}
		for _, v := range p.Spec.Validations {
			compiles(&validating.ValidationCondition{Expression: v.Expression})
			if v.MessageExpression != "" {
				compiles(&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
			}
		}
		for _, c := range p.Spec.MatchConditions {
			compiles(&matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
		}
	}
}
