package admit

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Keeper renews the certificate of the webhooks in a Secret that all replicas share, and writes the authorities into the webhook
// configurations. Every replica may renew it. Of two concurrent renewals the second one fails, and then reads the result of the first.
type Keeper struct {
	Client kubernetes.Interface
	// Namespace and Secret locate the certificate.
	Namespace, Secret string
	// Configuration is the name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.
	Configuration string
	// Names are the names by which the API server calls the webhooks.
	Names []string
	Clock clock.WithTicker

	serving atomic.Pointer[tls.Certificate]
}

// The interval of checks, and the delay after a failed check. A recreated configuration has no authority until the next check. After
// a recreation of the Secret, other replicas serve an untrusted certificate until their next check.
const (
	checkEvery = time.Minute
	retryAfter = 5 * time.Second
)

// manager is the field manager of the keeper.
const manager = "muster-controller-webhook"

// NeedLeaderElection returns false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start calls Check every checkEvery, or retryAfter a failure, until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := checkEvery
		if err := k.Check(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Cannot renew the certificate of the webhooks")
			wait = retryAfter
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Clock.After(wait):
		}
	}
}

// Check renews the certificate in the Secret if necessary, publishes its authorities, and serves it.
func (k *Keeper) Check(ctx context.Context) error {
	secret, err := k.Client.CoreV1().Secrets(k.Namespace).Get(ctx, k.Secret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		secret = nil
	case err != nil:
		return err
	default:
		// First the current authority: a certificate signed from now on is signed by a known authority.
		if err := k.publish(ctx, secret.Data[authorityCert]); err != nil {
			return err
		}
	}
	if secret, err = k.renew(ctx, secret); err != nil {
		return err
	}
	if err := k.publish(ctx, secret.Data[authorityCert]); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[serverCert], secret.Data[serverKey])
	if err != nil {
		return err
	}
	k.serving.Store(&pair)
	return nil
}

// renew updates the Secret if necessary and returns it; secret is nil if there is none. A conflict with another replica is an error.
func (k *Keeper) renew(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Secret}}
	if secret != nil {
		held = secret.DeepCopy()
	}
	data, err := Renew(k.Clock.Now(), held.Data, k.Names)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(held.Data)
	if all == nil {
		all = map[string][]byte{}
	}
	maps.Copy(all, data) // other keys stay
	if maps.EqualFunc(all, held.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
		return held, nil
	}
	held.Data = all
	if secret == nil {
		return k.Client.CoreV1().Secrets(k.Namespace).Create(ctx, held, metav1.CreateOptions{FieldManager: manager})
	}
	return k.Client.CoreV1().Secrets(k.Namespace).Update(ctx, held, metav1.UpdateOptions{FieldManager: manager})
}

// hook is the common part of both kinds of webhooks.
type hook struct {
	Name         string       `json:"name"`
	ClientConfig clientConfig `json:"clientConfig"`
}

type clientConfig struct {
	CABundle string `json:"caBundle,omitempty"`
}

// publish writes bundle, the authorities, into the webhook configurations that exist.
func (k *Keeper) publish(ctx context.Context, bundle []byte) error {
	api, options := k.Client.AdmissionregistrationV1(), metav1.PatchOptions{FieldManager: manager}
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, k.Configuration, metav1.GetOptions{})
	if err == nil {
		var hooks []hook
		for _, h := range mutating.Webhooks {
			hooks = append(hooks, hook{h.Name, clientConfig{base64.StdEncoding.EncodeToString(h.ClientConfig.CABundle)}})
		}
		if patch := bundlePatch(hooks, bundle); patch != nil {
			_, err = api.MutatingWebhookConfigurations().Patch(ctx, k.Configuration, types.StrategicMergePatchType, patch, options)
		}
	}
	validating, validatingErr := api.ValidatingWebhookConfigurations().Get(ctx, k.Configuration, metav1.GetOptions{})
	if validatingErr == nil {
		var hooks []hook
		for _, h := range validating.Webhooks {
			hooks = append(hooks, hook{h.Name, clientConfig{base64.StdEncoding.EncodeToString(h.ClientConfig.CABundle)}})
		}
		if patch := bundlePatch(hooks, bundle); patch != nil {
			_, validatingErr = api.ValidatingWebhookConfigurations().Patch(ctx, k.Configuration, types.StrategicMergePatchType, patch, options)
		}
	}
	return errors.Join(ignoreMissing(err), ignoreMissing(validatingErr))
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// bundlePatch returns a patch that sets the caBundle of hooks to bundle; nil if all have it. The patch merges webhooks by name.
func bundlePatch(hooks []hook, bundle []byte) []byte {
	want := base64.StdEncoding.EncodeToString(bundle)
	var outdated []hook
	for _, h := range hooks {
		if h.ClientConfig.CABundle != want {
			outdated = append(outdated, hook{h.Name, clientConfig{want}})
		}
	}
	if len(outdated) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"webhooks": outdated})
	if err != nil {
		panic(err) // strings only
	}
	return patch
}

// Serve returns the current certificate, as GetCertificate of a TLS configuration.
func (k *Keeper) Serve(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready returns an error until there is a certificate.
func (k *Keeper) Ready(*http.Request) error {
	if k.serving.Load() == nil {
		return fmt.Errorf("there is no certificate in Secret %s/%s yet", k.Namespace, k.Secret)
	}
	return nil
}
