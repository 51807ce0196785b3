package podgang

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is the maximal length of an object's name that pods refer to in a label.
const MaxName = 63

// GroupName returns the name of the object of a gang's group, also the label value by which pods refer to it: gang for a group "" or gang,
// group if it begins with gang and "-", else both joined. More than 63 characters are cut, and end in a hash of the whole.
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

// Short returns name if it has at most maxLength characters. A longer name is cut and ends in a hash of the whole name.
func Short(name string, maxLength int) string {
	if len(name) <= maxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:maxLength-len(suffix)], "-.") + suffix
}
