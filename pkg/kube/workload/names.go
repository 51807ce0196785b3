package workload

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"hash/fnv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	hashutil "k8s.io/kubernetes/pkg/util/hash"
)

// An API server cuts the prefix of a generated name to 58 bytes and adds five letters.
const (
	maxPrefix    = 58
	letters      = "bcdfghjklmnpqrstvwxz2456789" // Kubernetes' own alphabet, which spells no words
	suffixLength = 5
)

// namer has the names of one namespace that complete has returned. Equal prefixes in equal order get equal names.
type namer map[string]bool

// complete returns prefix with five letters from a hash, where an API server would append random letters.
func (n namer) complete(prefix string) string {
	prefix = prefix[:min(len(prefix), maxPrefix)]
	for attempt := 0; ; attempt++ {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d", prefix, len(n)+attempt)
		name := prefix + suffix(h.Sum64())
		if !n[name] {
			n[name] = true
			return name
		}
	}
}

// suffix returns five letters that depend on hash.
func suffix(hash uint64) string {
	out := make([]byte, suffixLength)
	for i := range out {
		out[i] = letters[hash%uint64(len(letters))]
		hash /= uint64(len(letters))
	}
	return string(out)
}

// templateHash returns the hash of the Deployment controller.
func templateHash(template *v1.PodTemplateSpec) string {
	h := fnv.New32a()
	hashutil.DeepHashObject(h, *template)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}

// sha1Hash returns the hash from which LeaderWorkerSet and JobSet make keys.
func sha1Hash(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
