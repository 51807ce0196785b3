package admit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-scheduler/muster/pkg/kube/admit"
)

func keeper(client kubernetes.Interface, clock *clocktesting.FakeClock) *admit.Keeper {
	return &admit.Keeper{
		Client: client, Namespace: "muster-system", Secret: "certs", Configuration: "muster-controller", Names: names, Clock: clock,
	}
}

func bundles(t *testing.T, client kubernetes.Interface) (all []string) {
	api := client.AdmissionregistrationV1()
	m, err := api.MutatingWebhookConfigurations().Get(t.Context(), "muster-controller", metav1.GetOptions{})
	require.NoError(t, err)
	v, err := api.ValidatingWebhookConfigurations().Get(t.Context(), "muster-controller", metav1.GetOptions{})
	require.NoError(t, err)
	for _, h := range m.Webhooks {
		all = append(all, string(h.ClientConfig.CABundle))
	}
	for _, h := range v.Webhooks {
		all = append(all, string(h.ClientConfig.CABundle))
	}
	return all
}

func secret(t *testing.T, client kubernetes.Interface) *corev1.Secret {
	s, err := client.CoreV1().Secrets("muster-system").Get(context.Background(), "certs", metav1.GetOptions{})
	require.NoError(t, err)
	return s
}

// Two replicas share one certificate, the webhook configurations trust it, and correct objects are not written
// again.
func TestKeeper(t *testing.T) {
	url := "https://127.0.0.1/x"
	client := fake.NewClientset(
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
			Name: "muster-controller",
		}, Webhooks: []admissionv1.MutatingWebhook{
			{
				Name: "a", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			}, {Name: "b", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
		}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{
			Name: "muster-controller",
		}, Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "c", ClientConfig: admissionv1.WebhookClientConfig{URL: &url}},
		}},
	)
	clock := clocktesting.NewFakeClock(start)
	one, two := keeper(client, clock), keeper(client, clock)
	require.Error(t, one.Ready(nil))
	require.NoError(t, one.Check(t.Context()))
	require.NoError(t, two.Check(t.Context()))
	require.NoError(t, one.Ready(nil))
	a, err := one.Serve(nil)
	require.NoError(t, err)
	b, err := two.Serve(nil)
	require.NoError(t, err)
	require.Equal(t, a.Certificate, b.Certificate)
	for _, bundle := range bundles(t, client) {
		require.Equal(t, string(secret(t, client).Data["ca.crt"]), bundle)
	}

	client.ClearActions()
	require.NoError(t, one.Check(t.Context()))
	for _, action := range client.Actions() {
		require.Equal(t, "get", action.GetVerb())
	}

	// The authority grows old: first the new one is published, and at the next look it signs.
	clock.SetTime(start.Add(2*365*24*time.Hour + 24*time.Hour))
	before := string(secret(t, client).Data["tls.crt"])
	require.NoError(t, one.Check(t.Context()))
	held := secret(t, client).Data
	require.NotEqual(t, before, string(held["tls.crt"]), "it had ended")
	for _, bundle := range bundles(t, client) {
		require.Equal(t, string(held["ca.crt"]), bundle)
		require.NoError(t, trusts(t, clock.Now(), []byte(bundle), held))
	}
}

// The keeper works without webhook configurations, and with an invalid Secret.
func TestKeeperAlone(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "muster-system", Name: "certs"},
		Data:       map[string][]byte{"tls.crt": []byte("rubbish"), "theirs": []byte("stays")},
	})
	k := keeper(client, clocktesting.NewFakeClock(start))
	require.NoError(t, k.Check(t.Context()))
	require.NoError(t, k.Ready(nil))
	require.Equal(t, "stays", string(secret(t, client).Data["theirs"]))
	client.ClearActions()
	require.NoError(t, k.Check(t.Context()))
	for _, action := range client.Actions() {
		require.Equal(t, "get", action.GetVerb(), "what others keep there is no reason to write")
	}
}
