package admit

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Keys of the Secret with the certificate.
const (
	authorityKey  = "ca.key"
	authorityCert = "ca.crt" // the signing authority, then older authorities that clients may still trust
	serverKey     = "tls.key"
	serverCert    = "tls.crt"
)

// Lifetimes. A certificate is renewed when a third of its life remains, so an authority outlives every certificate that it signed.
const (
	authorityLife = 3 * 365 * 24 * time.Hour
	serverLife    = 90 * 24 * time.Hour
	clockSkew     = time.Hour // clocks differ
)

// Renew returns the new content of the Secret, given the stored content: unchanged if it is valid for names. A new authority first
// appears in ca.crt, which the keeper publishes to clients; it signs only at a later call. So clients trust each served certificate.
//
//	ca.crt  A      A          B A        B A        B
//	signs   A      A          A          B          B
//	        |------|----------|----------|----------|---->
//	             A is old   published          A has expired
func Renew(now time.Time, stored map[string][]byte, names []string) (map[string][]byte, error) {
	authorities := parse(stored[authorityCert])
	authorities = slices.DeleteFunc(authorities, func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	key, err := parseKey(stored[authorityKey])
	if err != nil || len(authorities) == 0 || !matchesKey(key, authorities[0]) || isOld(now, authorities[0]) {
		cert, fresh, err := newAuthority(now)
		if err != nil {
			return nil, err
		}
		authorities, key = append([]*x509.Certificate{cert}, authorities...), fresh
	}
	out := map[string][]byte{authorityCert: encode(authorities), serverCert: stored[serverCert], serverKey: stored[serverKey]}
	if out[authorityKey], err = encodeKey(key); err != nil {
		return nil, err
	}
	published := bytes.Equal(out[authorityCert], stored[authorityCert])
	if serverCertValid(now, stored, authorities, names) && (!published || signedBy(stored[serverCert], authorities[0])) {
		return out, nil
	}
	out[serverCert], out[serverKey], err = newServer(now, authorities[0], key, names)
	return out, err
}

// serverCertValid says whether the stored server certificate is valid: key, time, names, and signed by one of authorities.
func serverCertValid(now time.Time, stored map[string][]byte, authorities []*x509.Certificate, names []string) bool {
	if _, err := tls.X509KeyPair(stored[serverCert], stored[serverKey]); err != nil {
		return false
	}
	cert := parse(stored[serverCert])[0]
	if isOld(now, cert) || now.Before(cert.NotBefore) {
		return false
	}
	for _, name := range names {
		if cert.VerifyHostname(name) != nil {
			return false
		}
	}
	return slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return cert.CheckSignatureFrom(a) == nil })
}

// signedBy says whether authority signed the certificate in PEM text server.
func signedBy(server []byte, authority *x509.Certificate) bool {
	certs := parse(server)
	return len(certs) > 0 && certs[0].CheckSignatureFrom(authority) == nil
}

// isOld says whether less than a third of the certificate's life remains.
func isOld(now time.Time, c *x509.Certificate) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3
}

func matchesKey(key *ecdsa.PrivateKey, c *x509.Certificate) bool {
	public, ok := c.PublicKey.(*ecdsa.PublicKey)
	return ok && key.PublicKey.Equal(public)
}

// newAuthority returns a self-signed certificate of a signing authority, and its key.
func newAuthority(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		// The time in the name: with two authorities of one name and different keys, a client may try the wrong one.
		Subject:   pkix.Name{CommonName: fmt.Sprintf("muster-controller-ca@%d", now.Unix())},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := sign(template, template, key, key)
	return cert, key, err
}

// newServer returns a server certificate for names, signed by authority, and its key, both as PEM text.
func newServer(now time.Time, authority *x509.Certificate, signer *ecdsa.PrivateKey, names []string) (cert, key []byte, err error) {
	if len(names) == 0 {
		return nil, nil, errors.New("a certificate needs a name")
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: names[0]},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	signed, err := sign(template, authority, private, signer)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(private)
	return encode([]*x509.Certificate{signed}), key, err
}

// sign returns the certificate template for the public part of key, signed by parent's key signer.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// parse returns the certificates in PEM text, without invalid ones.
func parse(text []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}

func encode(all []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range all {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}) // a buffer accepts all writes
	}
	return out.Bytes()
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no key")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), err
}
