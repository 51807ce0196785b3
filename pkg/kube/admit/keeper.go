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

// Keeper keeps the certificate by which the API server knows the webhooks: in a Secret that all replicas share, and in
// the configurations of the webhooks. Every replica may renew it; of two that do at once the second takes the first's.
type Keeper struct {
	Client kubernetes.Interface
	// Namespace and Secret are where the certificate is.
	Namespace, Secret string
	// Configuration is the name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.
	Configuration string
	// Names are those by which the API server calls.
	Names []string
	Clock clock.WithTicker

	serving atomic.Pointer[tls.Certificate]
}

// How often the keeper looks, and how often after it has failed: a configuration that is made again knows no authority, and
// a Secret that is makes all but one replica serve what nobody trusts, until then.
const (
	every = time.Minute
	again = 5 * time.Second
)

// manager is the field manager of what the keeper writes.
const manager = "muster-controller-webhook"

// NeedLeaderElection: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := every
		if err := k.Look(ctx); err != nil {
			log.FromContext(ctx).Error(err, "certificate of the webhooks")
			wait = again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Clock.After(wait):
		}
	}
}

// Look has the certificate be good, and known to those who need it.
func (k *Keeper) Look(ctx context.Context) error {
	secret, err := k.Client.CoreV1().Secrets(k.Namespace).Get(ctx, k.Secret, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		secret = nil
	case err != nil:
		return err
	default:
		// First they are told: what is signed from now on is signed by an authority that they know.
		if err := k.tell(ctx, secret.Data[authorityCert]); err != nil {
			return err
		}
	}
	if secret, err = k.renew(ctx, secret); err != nil {
		return err
	}
	if err := k.tell(ctx, secret.Data[authorityCert]); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(secret.Data[serverCert], secret.Data[serverKey])
	if err != nil {
		return err
	}
	k.serving.Store(&pair)
	return nil
}

// renew writes the Secret if it has to be another one. A conflict is an error: the next look reads what somebody else
// has written.
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
	maps.Copy(all, data) // what others keep there stays
	if maps.EqualFunc(all, held.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
		return held, nil
	}
	held.Data = all
	if secret == nil {
		return k.Client.CoreV1().Secrets(k.Namespace).Create(ctx, held, metav1.CreateOptions{FieldManager: manager})
	}
	return k.Client.CoreV1().Secrets(k.Namespace).Update(ctx, held, metav1.UpdateOptions{FieldManager: manager})
}

// hook is what both kinds of webhooks have in common.
type hook struct {
	Name         string       `json:"name"`
	ClientConfig clientConfig `json:"clientConfig"`
}

type clientConfig struct {
	CABundle string `json:"caBundle,omitempty"`
}

// tell writes the authorities into the configurations that are there.
func (k *Keeper) tell(ctx context.Context, bundle []byte) error {
	api := k.Client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().Get(ctx, k.Configuration, metav1.GetOptions{})
	if err == nil {
		var hooks []hook
		for _, h := range mutating.Webhooks {
			hooks = append(hooks, hook{h.Name, clientConfig{base64.StdEncoding.EncodeToString(h.ClientConfig.CABundle)}})
		}
		if patch := bundlePatch(hooks, bundle); patch != nil {
			_, err = api.MutatingWebhookConfigurations().Patch(ctx, k.Configuration, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		}
	}
	validating, also := api.ValidatingWebhookConfigurations().Get(ctx, k.Configuration, metav1.GetOptions{})
	if also == nil {
		var hooks []hook
		for _, h := range validating.Webhooks {
			hooks = append(hooks, hook{h.Name, clientConfig{base64.StdEncoding.EncodeToString(h.ClientConfig.CABundle)}})
		}
		if patch := bundlePatch(hooks, bundle); patch != nil {
			_, also = api.ValidatingWebhookConfigurations().Patch(ctx, k.Configuration, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		}
	}
	return errors.Join(ignoreMissing(err), ignoreMissing(also))
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// bundlePatch has webhooks trust a bundle; nil if all of them do. Webhooks are merged by name: those that come
// meanwhile stay.
func bundlePatch(hooks []hook, bundle []byte) []byte {
	want := base64.StdEncoding.EncodeToString(bundle)
	var wrong []hook
	for _, h := range hooks {
		if h.ClientConfig.CABundle != want {
			wrong = append(wrong, hook{h.Name, clientConfig{want}})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"webhooks": wrong})
	if err != nil {
		panic(err) // strings
	}
	return patch
}

// Serve is what a TLS configuration asks for a certificate.
func (k *Keeper) Serve(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if c := k.serving.Load(); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready says whether there is a certificate.
func (k *Keeper) Ready(*http.Request) error {
	if k.serving.Load() == nil {
		return fmt.Errorf("there is no certificate in Secret %s/%s yet", k.Namespace, k.Secret)
	}
	return nil
}
