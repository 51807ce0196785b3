package preempt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A group waits for a finishing gang for five seconds, counted separately for each group. It may wait again after
// five seconds without a wait.
func TestGangWaitsForFinishAtMostFiveSeconds(t *testing.T) {
	var p endWaits
	may := func(ms int) bool { return p.mayWait(gangG, time.Unix(1000, 0).Add(time.Duration(ms)*time.Millisecond)) }
	require.True(t, may(0) && may(1000) && may(4999))
	require.False(t, may(5000))
	require.True(t, p.mayWait(gangH, time.Unix(1005, 0)))
	require.False(t, may(9998))
	require.True(t, may(10000))
	require.True(t, may(14999))
	require.False(t, may(15000))
}
