package ask

import (
	"context"

	"github.com/muster-scheduler/muster/pkg/kube/elasticquota"
)

// Quotas lists what all ElasticQuotas have as the cluster is, before the scheduler does anything more.
func (v *View) Quotas(context.Context) ([]elasticquota.Quota, error) {
	return v.Shared().Quotas(), nil
}
