package admit_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/muster-scheduler/muster/pkg/kube/admit"
	_ "github.com/muster-scheduler/muster/test/seed"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	names = []string{"muster-controller.muster-system.svc", "127.0.0.1"}
)

func renew(t require.TestingT, now time.Time, held map[string][]byte) map[string][]byte {
	out, err := admit.Renew(now, held, names)
	require.NoError(t, err)
	return out
}

// trusts says whether a client that knows a bundle accepts the served certificate.
func trusts(t require.TestingT, now time.Time, bundle []byte, served map[string][]byte) error {
	pair, err := tls.X509KeyPair(served["tls.crt"], served["tls.key"])
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(bundle))
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	for _, name := range names {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: name}); err != nil {
			return err
		}
	}
	return nil
}

// TestRenew: a good certificate stays. An old or damaged certificate, or one for other names, is replaced.
func TestRenew(t *testing.T) {
	first := renew(t, start, nil)
	require.NoError(t, trusts(t, start, first["ca.crt"], first))
	require.Equal(t, first, renew(t, start.Add(24*time.Hour), first), "it is good")

	later := renew(t, start.Add(61*24*time.Hour), first)
	require.Equal(t, first["ca.crt"], later["ca.crt"])
	require.NotEqual(t, first["tls.crt"], later["tls.crt"], "a third of its life is left")

	other, err := admit.Renew(start, first, append([]string{"other"}, names...))
	require.NoError(t, err)
	require.NotEqual(t, first["tls.crt"], other["tls.crt"], "it has another name")
	_, err = admit.Renew(start, nil, nil)
	require.ErrorContains(t, err, "needs a name")

	for key := range first {
		for _, bad := range [][]byte{nil, []byte("x"), first["tls.key"][:20]} {
			damaged := maps.Clone(first)
			damaged[key] = bad
			mended := renew(t, start, damaged)
			require.NoError(t, trusts(t, start, mended["ca.crt"], mended), "%s is %q", key, bad)
		}
	}
	_, foreign := renew(t, start, nil), maps.Clone(first)
	foreign["ca.key"] = renew(t, start, nil)["ca.key"]
	mended := renew(t, start, foreign)
	require.NoError(t, trusts(t, start, first["ca.crt"], mended), "clients with the old authority keep trust")
}

// A client that read the authorities at the last check accepts the served certificate. Checks must be closer together
// than the lifetime of certificates.
func TestRenewalKeepsClientsTrust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		held := renew(t, now, nil)
		authorities := 1
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 29*24).Draw(t, "hours")) * time.Hour)
			told := held["ca.crt"] // the keeper tells first
			next := renew(t, now, held)
			require.NoError(t, trusts(t, now, told, next), "at %s", now)
			if string(next["ca.crt"]) != string(held["ca.crt"]) {
				authorities++
			}
			held = next
			count := 0
			for rest := held["ca.crt"]; ; count++ {
				var block *pem.Block
				if block, rest = pem.Decode(rest); block == nil {
					break
				}
			}
			require.LessOrEqual(t, count, 2, "old ones go")
		}
	})
}
