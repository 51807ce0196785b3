package podgang

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// MaxName is how long the name of an object may be that pods name in a label.
const MaxName = 63

// GroupName names the object of one group of a gang, and is the label's value by which pods name it: PreparePod and
// Objects have it from here. A group whose name begins with the gang's keeps its name, another one gets the gang's in
// front; what is longer than 63 characters is cut, and ends in a hash of the whole.
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

// Short cuts a name to at most so many characters: what is longer ends in a hash of the whole.
func Short(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:most-len(end)], "-.") + end
}
