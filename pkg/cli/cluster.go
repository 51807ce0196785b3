package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/muster-scheduler/muster/manifests"
	"github.com/muster-scheduler/muster/pkg/localcluster"
)

func newClusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Run a control plane with make-believe nodes on this machine",
		Args:  cobra.NoArgs, // with RunE cobra rejects unknown subcommands
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClusterUpCommand(), newClusterBuildCommand())
	return cmd
}

func newClusterBuildCommand() *cobra.Command {
	kubernetes := newest()
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build what a cluster needs into the cache, if it is not there",
		Long: `Build etcd, kube-apiserver, kube-controller-manager, kubectl and KWOK from source
into the cache ($MUSTER_CACHE, else "muster" in your cache folder). "cluster up" does so
by itself; this is for doing it at another time.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := localcluster.Binaries(cmd.Context(), cmd.ErrOrStderr(), string(kubernetes),
				localcluster.Etcd, localcluster.APIServer, localcluster.ControllerManager, localcluster.Kubectl, localcluster.KWOK)
			return err
		},
	}
	kubernetes.add(cmd.Flags())
	return cmd
}

// clusterFlags are the flags of "cluster up".
type clusterFlags struct {
	nodesFile                     string
	spines, blocks, nodesPerBlock count
	apiFeatureGates               string
	leaveDelay                    delay
	controllers                   bool
	kubernetes                    kubernetesVersion
}

func newClusterUpCommand() *cobra.Command {
	f := clusterFlags{spines: 3, blocks: 2, nodesPerBlock: 2, leaveDelay: delay(5 * time.Second), controllers: true, kubernetes: newest()}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, print its kubeconfig's path, run until interrupted",
		Long: `Start etcd, kube-apiserver, kube-controller-manager and KWOK on this machine, with
Muster's CRDs and make-believe nodes on which pods run and leave as on real ones. The
first start builds these programs from source, which takes several minutes.

Deployments, Jobs, StatefulSets and what else kube-controller-manager serves work as
everywhere, and pods without an existing owner are deleted. Its controllers for nodes are
off: KWOK runs the nodes.

Standard output is the path of the kubeconfig and nothing else. Ctrl-C ends
everything and leaves nothing behind. There is no scheduler in the cluster yet.`,
		Example: `  musterctl cluster up
  musterctl cluster up --spines 4 --blocks 8 --nodes-per-block 16
  musterctl cluster up --nodes nodes.yaml --leave-delay 30s
  musterctl cluster up --kubernetes-version 1.34`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.nodesFile, "nodes", "", "`FILE` of v1 Nodes, YAML or JSON, instead of generated ones")
	flags.Var(&f.spines, "spines", "spines to generate")
	flags.Var(&f.blocks, "blocks", "blocks in each spine")
	flags.Var(&f.nodesPerBlock, "nodes-per-block", "nodes of 8 CPUs and 32Gi in each block")
	flags.StringVar(&f.apiFeatureGates, "api-feature-gates", "", "feature `GATES` of kube-apiserver, such as Name=true,Other=false")
	flags.BoolVar(&f.controllers, "controller-manager", f.controllers, "run kube-controller-manager; =false leaves it out")
	flags.Var(&f.leaveDelay, "leave-delay", "how long a deleted pod stays Terminating")
	f.kubernetes.add(flags)
	return cmd
}

func (f *clusterFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	nodes, err := f.nodes()
	if err != nil {
		return err
	}
	err = f.up(cmd, nodes)
	if errors.Is(err, context.Canceled) {
		return nil // an interruption while starting is no failure
	}
	return err
}

// check returns an error for flags that exclude one another, and for invalid feature gates.
func (f *clusterFlags) check(cmd *cobra.Command) error {
	if f.nodesFile != "" {
		for _, name := range []string{"spines", "blocks", "nodes-per-block"} {
			if flag := cmd.Flags().Lookup(name); flag.Changed {
				return usageError("--nodes %s and --%s %s: give either a file or the numbers", f.nodesFile, name, flag.Value)
			}
		}
	}
	if f.apiFeatureGates == "" {
		return nil
	}
	for gate := range strings.SplitSeq(f.apiFeatureGates, ",") {
		name, value, _ := strings.Cut(gate, "=")
		if _, err := strconv.ParseBool(value); err != nil || name == "" {
			return usageError("--api-feature-gates %s: %q is not Name=true or Name=false", f.apiFeatureGates, gate)
		}
	}
	return nil
}

func (f *clusterFlags) nodes() ([]*v1.Node, error) {
	if f.nodesFile == "" {
		return localcluster.Nodes(int(f.spines), int(f.blocks), int(f.nodesPerBlock)), nil
	}
	file, err := os.Open(f.nodesFile)
	if err != nil {
		return nil, usageError("--nodes: %w", err)
	}
	defer file.Close()
	nodes, err := localcluster.ReadNodes(file)
	if err != nil {
		return nil, usageError("--nodes %s: %w", f.nodesFile, err)
	}
	return nodes, nil
}

// up runs the cluster until cmd's context ends.
func (f *clusterFlags) up(cmd *cobra.Command, nodes []*v1.Node) (err error) {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	c, err := localcluster.Start(ctx, localcluster.Options{
		Progress:        stderr,
		Kubernetes:      string(f.kubernetes),
		APIFeatureGates: f.apiFeatureGates,
		Controllers:     f.controllers,
		PodLeaveDelay:   time.Duration(f.leaveDelay),
		CRDs:            manifests.CRDs,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := c.AddNodes(ctx, nodes); err != nil {
		return err
	}
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		kubectl = c.Kubectl()
	}
	fmt.Fprintf(stderr, `Nodes ready: %d. In another terminal:
  export KUBECONFIG=%s
  %s get nodes -L %s,%s
Logs are in %s/logs. Ctrl-C ends the cluster and removes all of it.
`, len(nodes), c.Kubeconfig(), kubectl, localcluster.SpineLabel, localcluster.BlockLabel, c.Dir())
	fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig())
	<-ctx.Done()
	return nil
}

// count is a flag's value: a whole number, at least 1.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "N" }

func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("must be a whole number of at least 1")
	}
	*c = count(n)
	return nil
}

// delay is a flag's value: a duration, at least 0.
type delay time.Duration

func (d *delay) String() string { return time.Duration(*d).String() }
func (d *delay) Type() string   { return "DURATION" }

func (d *delay) Set(text string) error {
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		return errors.New("must be a duration of at least 0s, such as 5s or 1m30s")
	}
	*d = delay(value)
	return nil
}

// kubernetesVersion is a flag's value: one of localcluster.KubernetesVersions.
type kubernetesVersion string

// newest returns the newest version, which is the flag's default.
func newest() kubernetesVersion {
	return kubernetesVersion(localcluster.KubernetesVersions[len(localcluster.KubernetesVersions)-1])
}

func (k *kubernetesVersion) String() string { return string(*k) }
func (k *kubernetesVersion) Type() string   { return "VERSION" }

func (k *kubernetesVersion) Set(text string) error {
	version, err := localcluster.KubernetesVersion(text)
	*k = kubernetesVersion(version)
	return err
}

func (k *kubernetesVersion) add(flags *pflag.FlagSet) {
	flags.Var(k, "kubernetes-version", "`VERSION` of kube-apiserver and kube-controller-manager: "+
		strings.Join(localcluster.KubernetesVersions, ", "))
}
