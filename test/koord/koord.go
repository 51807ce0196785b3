// Package koord is Koordinator's scheduler as its project has released it. Two users start this program: the
// measurements of Muster beside it, and the tests that it reads what Muster's controller writes. It is built and run as
// a program; nothing of it is linked, and nothing here knows what it does.
package koord

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-scheduler/muster/pkg/localcluster"
)

// Profile is the schedulerName of its pods.
const Profile = "koord-scheduler"

// Flags it needs. The manager of the network's tree is off by default. Without --port=0 the program also listens,
// without authentication, at a port that another program may have.
var Flags = []string{"--enable-network-topology-manager=true", "--port=0"}

// Program builds it if need be. The CRDs come from the same release.
func Program(ctx context.Context, progress io.Writer) (path string, crds fs.FS, err error) {
	programs, err := localcluster.Binaries(ctx, progress, "", localcluster.KoordScheduler)
	if err != nil {
		return "", nil, err
	}
	path = programs[localcluster.KoordScheduler]
	return path, os.DirFS(filepath.Join(localcluster.Kept(path), CRDs)), nil
}

// CRDs is where they are among the files that are kept of its module.
const CRDs = "config/crd/bases"

// Config is a KubeSchedulerConfiguration with what its gangs and its topology need, and nothing of what else it does: each of
// its other plugins costs time in every cycle. PostFilter is Coscheduling alone: it is what evicts for gangs.
func Config(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 100000, burst: 100000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
  plugins:
    preEnqueue: {enabled: [{name: Coscheduling}]}
    preFilter: {enabled: [{name: Coscheduling}]}
    postFilter: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}
    preScore: {enabled: [{name: Coscheduling}]}
    score: {enabled: [{name: Coscheduling, weight: 1}]}
    reserve: {enabled: [{name: Coscheduling}]}
    permit: {enabled: [{name: Coscheduling}]}
    preBind: {enabled: [{name: Coscheduling}]}
    postBind: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: Coscheduling
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: CoschedulingArgs, awareNetworkTopology: true, enablePreemption: true}
`, kubeconfig, Profile)
}

// FullConfig is Config with its quotas and devices, as its chart enables them.
func FullConfig(kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 100000, burst: 100000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s
  plugins:
    preEnqueue: {enabled: [{name: Coscheduling}]}
    preFilter: {enabled: [{name: Reservation}, {name: Coscheduling}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: ElasticQuota}]}
    filter: {enabled: [{name: NodeNUMAResource}, {name: DeviceShare}, {name: Reservation}]}
    postFilter: {disabled: [{name: "*"}], enabled: [{name: Reservation}, {name: Coscheduling}, {name: ElasticQuota}]}
    preScore: {enabled: [{name: Reservation}, {name: Coscheduling}]}
    score: {enabled: [{name: Coscheduling, weight: 1}, {name: DeviceShare, weight: 1}, {name: Reservation, weight: 5000}]}
    reserve: {enabled: [{name: Reservation}, {name: Coscheduling}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: ElasticQuota}]}
    permit: {enabled: [{name: Coscheduling}]}
    preBind: {enabled: [{name: Reservation}, {name: Coscheduling}, {name: NodeNUMAResource}, {name: DeviceShare}, {name: DefaultPreBind}]}
    postBind: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: Coscheduling
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: CoschedulingArgs, awareNetworkTopology: true, enablePreemption: true}
`, kubeconfig, Profile)
}
