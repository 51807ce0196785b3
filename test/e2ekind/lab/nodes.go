package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// A node of the cluster that is a container.
type node struct {
	name, address, pods string // pods is their range of addresses
}

// nodes asks the API server. Make-believe nodes have no internal address.
func (l *Lab) nodes(ctx context.Context) ([]node, error) {
	printed, err := l.Kubectl(ctx, "get", "nodes", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDR string }
			Status   struct {
				Addresses []struct{ Type, Address string }
			}
		}
	}
	if err := json.Unmarshal([]byte(printed), &list); err != nil {
		return nil, err
	}
	var nodes []node
	for _, item := range list.Items {
		for _, a := range item.Status.Addresses {
			if a.Type == "InternalIP" && item.Spec.PodCIDR != "" && strings.HasPrefix(item.Metadata.Name, l.name) {
				nodes = append(nodes, node{item.Metadata.Name, a.Address, item.Spec.PodCIDR})
			}
		}
	}
	return nodes, nil
}

// Connect does what kindnetd does elsewhere: it gives every node a network for its pods, and routes to the pods of other
// nodes. A node that was stopped has lost its routes.
func (l *Lab) Connect(ctx context.Context) error {
	if !l.own {
		return nil
	}
	nodes, err := l.nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := l.connect(ctx, n, nodes); err != nil {
			return err
		}
	}
	return nil
}

// network is a node's: a pair of devices for each pod, addresses by number, ports of the host.
const network = `{"cniVersion": "0.4.0", "name": "kind", "plugins": [
  {"type": "ptp", "ipMasq": false, "mtu": 1400, "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam-state",
    "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": %q}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`

func (l *Lab) connect(ctx context.Context, n node, nodes []node) error {
	script := "set -e; mkdir -p /etc/cni/net.d; cat >/etc/cni/net.d/.new; mv /etc/cni/net.d/.new /etc/cni/net.d/10-kind.conflist\n"
	for _, other := range nodes {
		if other.name != n.name {
			script += fmt.Sprintf("ip route replace %s via %s\n", other.pods, other.address)
		}
	}
	_, err := l.runWith(ctx, strings.NewReader(fmt.Sprintf(network, n.pods)), nil, "docker", "exec", "-i", n.name, "sh", "-c", script)
	return err
}

// ControlPlane is the name of that node, and of its container.
func (l *Lab) ControlPlane() string { return l.name + "-control-plane" }

// Workers are the names of the others.
func (l *Lab) Workers() []string {
	workers := []string{l.name + "-worker"}
	for i := 2; i <= l.workers; i++ {
		workers = append(workers, fmt.Sprintf("%s-worker%d", l.name, i))
	}
	return workers
}

// Load gives an image's archive to all nodes, with a second name if that is not "".
func (l *Lab) Load(ctx context.Context, archive, name, second string) error {
	for _, node := range append(l.Workers(), l.ControlPlane()) {
		if err := l.load(ctx, archive, node); err != nil {
			return err
		}
		if second == "" {
			continue
		}
		if _, err := l.Docker(ctx, "exec", node, "ctr", "--namespace=k8s.io", "images", "tag", "--force", name, second); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) load(ctx context.Context, archive, node string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = l.runWith(ctx, file, nil, "docker", "exec", "-i", node, "ctr", "--namespace=k8s.io", "images", "import", "--no-unpack", "-")
	return err
}
