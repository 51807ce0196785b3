package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Oldest and Newest limit the Kubernetes versions that the scheduler can emulate; Newest is its own version. NewestServer is the newest
// version of an API server that it runs with. Kubernetes supports a scheduler that is one minor version older than its API server, so
// that the API server can be upgraded first.
var (
	Oldest       = version.MajorMinor(1, 34)
	Newest       = version.MajorMinor(1, 37)
	NewestServer = Newest.AddMinor(1)
)

// The limits of ServerVersion: the total time, the interval between requests, and the timeout of a request.
const (
	versionTimeout        = 20 * time.Second
	versionInterval       = time.Second
	versionRequestTimeout = 5 * time.Second
)

// ErrHidden says that this user may not read the API server's version.
var ErrHidden = errors.New("the API server does not tell its version")

// ServerVersion returns the version of the API server, or the version that it emulates. It retries for 20 seconds.
func ServerVersion(ctx context.Context, config *rest.Config) (*version.Version, error) {
	clientConfig := rest.CopyConfig(config)
	clientConfig.Timeout = versionRequestTimeout
	client, err := discovery.NewDiscoveryClientForConfig(clientConfig)
	if err != nil {
		return nil, err
	}
	var info *apiversion.Info
	var lastErr error
	err = wait.PollUntilContextTimeout(ctx, versionInterval, versionTimeout, true, func(context.Context) (bool, error) {
		if info, lastErr = client.ServerVersion(); apierrors.IsForbidden(lastErr) || apierrors.IsUnauthorized(lastErr) {
			return false, fmt.Errorf("%w: %w", ErrHidden, lastErr)
		}
		return lastErr == nil, nil
	})
	switch {
	case errors.Is(err, ErrHidden), err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("the API server at %s does not answer: %w", config.Host, lastErr)
	}
	return parseVersion(info)
}

// parseVersion parses a version, including clouds' formats: minor "34+".
func parseVersion(info *apiversion.Info) (*version.Version, error) {
	major, minor := cmp.Or(info.EmulationMajor, info.Major), cmp.Or(info.EmulationMinor, info.Minor)
	v, err := version.ParseGeneric(major + "." + strings.TrimRight(minor, "+"))
	if err != nil {
		return nil, fmt.Errorf("the API server says that it is of version %q.%q: %w", major, minor, err)
	}
	return v, nil
}

// Supported returns an error for an unsupported version of the API server.
func Supported(server *version.Version) error {
	if server.LessThan(Oldest) || server.GreaterThan(NewestServer) {
		return fmt.Errorf("the API server is of Kubernetes %s; muster-scheduler runs with %s to %s (--emulated-version=kube=%s "+
			"or the like has it try all the same)",
			server, Oldest, NewestServer, Newest)
	}
	return nil
}
