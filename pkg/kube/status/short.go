package status

import (
	"fmt"
	"strings"

	"github.com/muster-scheduler/muster/pkg/kube/place"
)

// shortages lists the resources of which members need more than is free, after a comma; "" if unknown.
func shortages(d place.Diagnosis) string {
	var b strings.Builder
	for _, s := range d.Short {
		if s.Waits != "" {
			b.WriteString(", " + s.Waits)
			continue
		}
		fmt.Fprintf(&b, ", needs %d × %s, %d free", s.Need, s.What, s.Free)
		if d.In != "" {
			fmt.Fprintf(&b, " in the best domain %s", d.In)
		}
	}
	return b.String()
}
