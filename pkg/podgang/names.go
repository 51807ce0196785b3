package podgang

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is the maximal length of an object's name that pods refer to in a label.
const MaxName = 63

// GroupName returns the name of the object of a gang's group, and the label value by which pods refer to it. A group's name that begins
// with the gang's stays; any other gets the gang's as a prefix. A name longer than 63 characters is cut, and ends in a hash of the whole.
//
//	demo-0    pleader            demo-0-pleader
//	demo-0    demo-0-pleader     demo-0-pleader
func GroupName(gang, group string) string {
	switch {
	case group == "" || group == gang:
		return Short(gang, MaxName)
	case strings.HasPrefix(group, gang+"-"):
		return Short(group, MaxName)
	}
	return Short(gang+"-"+group, MaxName)
}

// Short cuts a name to maxLength characters: a longer name ends in a hash of the whole.
func Short(name string, maxLength int) string {
	if len(name) <= maxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxLength-len(suffix)], "-.") + suffix
}
