package translate

import (
	"context"
	"crypto/tls"
	"os"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/muster-scheduler/muster/pkg/kube/admit"
	"github.com/muster-scheduler/muster/pkg/kube/controller"
	"github.com/muster-scheduler/muster/pkg/podgang"
	"github.com/muster-scheduler/muster/pkg/version"
)

// run runs the controller and its webhooks until the context ends.
func run(ctx context.Context, o *options) error {
	ctrllog.SetLogger(klog.Background())
	klog.FromContext(ctx).Info("starting", "version", version.Get().Version, "sources", o.sources)
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	backends, err := o.backends()
	if err != nil {
		return err
	}
	sources, err := controller.SourcesOf(o.sources)
	if err != nil {
		return err
	}
	keeper, err := o.keeper(config)
	if err != nil {
		return err
	}
	managerOptions, err := o.manager(config, keeper)
	if err != nil {
		return err
	}
	m, err := manager.New(config, managerOptions)
	if err != nil {
		return err
	}
	c, err := controller.Add(m, controller.Options{
		Sources: sources, Config: backends, Gates: o.gatePods, Prepare: o.webhookPort != 0, Workers: o.workers,
		DiscoveryInterval: o.discoveryInterval,
	})
	if err != nil {
		return err
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if keeper != nil {
		if err := serve(m, c, keeper); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}

// manager returns the options of the controller's manager. keeper serves the webhooks' certificate; nil without webhooks.
func (o *options) manager(config *rest.Config, keeper *admit.Keeper) (manager.Options, error) {
	metrics := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	out := controller.ManagerOptions(manager.Options{
		LeaderElection:                o.leaderElect,
		LeaderElectionReleaseOnCancel: true, // nothing is written after the manager has ended
		LeaseDuration:                 &o.lease, RenewDeadline: &o.renew, RetryPeriod: &o.retry,
		HealthProbeBindAddress: o.healthAddr,
		Metrics:                metrics,
	})
	if keeper != nil {
		out.WebhookServer = webhook.NewServer(webhook.Options{
			Port:    o.webhookPort,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = keeper.Serve }},
		})
	}
	if !o.leaderElect {
		return out, nil
	}
	// Not the manager's own lock, which also writes events and needs permission for that.
	var err error
	out.LeaderElectionResourceLockInterface, err = resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.namespace,
		o.leaseName, resourcelock.ResourceLockConfig{Identity: o.identity()}, config, o.renew)
	return out, err
}

// identity returns the name of this process in the leader election.
func (o *options) identity() string {
	host, _ := os.Hostname() // the suffix differs, too
	return host + "_" + string(uuid.NewUUID())
}

// keeper returns the keeper of the webhooks' certificate; nil without webhooks.
func (o *options) keeper(config *rest.Config) (*admit.Keeper, error) {
	if o.webhookPort == 0 {
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &admit.Keeper{
		Client: client, Namespace: o.namespace, Secret: o.webhookSecret, Configuration: o.webhookConfig,
		Names: o.webhookHosts(), Clock: clock.RealClock{},
	}, nil
}

// serve registers the webhooks and the keeper of their certificate with manager m.
func serve(m manager.Manager, c *controller.Controller, keeper *admit.Keeper) error {
	if err := m.Add(keeper); err != nil {
		return err
	}
	if err := m.AddReadyzCheck("certificate", keeper.Ready); err != nil {
		return err
	}
	a := &admit.Admission{Registry: c.Registry, Cluster: c.Cluster, Ask: c.Ask}
	for i := range c.Sources {
		a.Kinds = append(a.Kinds, c.Sources[i].Kind)
		if c.Sources[i].Kind == podgang.PodCliqueSet {
			a.Kinds = append(a.Kinds, podgang.PodGang) // the labels of its pods
		}
		if c.Gates && c.Sources[i].OwnsPods {
			a.Gated = append(a.Gated, c.Sources[i].Kind)
		}
	}
	a.Register(m.GetWebhookServer())
	return nil
}
