package command

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is a Lease without an API server.
type lease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
}

func (l *lease) Identity() string { return "me" }

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record := l.record
	return &record, nil, l.err
}

func (l *lease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.err == nil {
		l.record = record
	}
	return l.err
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// TestDeposedLeaderEnds: a process that was stopped for longer than the lease would go on beside the new
// leader.
func TestDeposedLeaderEnds(t *testing.T) {
	of := func(holder string) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: holder}
	}
	for name, c := range map[string]struct {
		made, writes []string // the holders that this process writes
		is           string
		fails        bool
		want         string
	}{
		"it has made the Lease":     {made: []string{"me"}, is: "other", want: "other"},
		"it has got the Lease":      {writes: []string{"me", "me"}, is: "other", want: "other"},
		"it has it":                 {writes: []string{"me"}, is: "me"},
		"it has no holder":          {writes: []string{"me"}, is: ""},
		"it never had it":           {is: "other"},
		"it has given it up":        {writes: []string{"me", ""}, is: "other"},
		"the holder cannot be read": {writes: []string{"me"}, is: "other", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, is := "", &lease{}
			l := &lock{Interface: is, deposed: func(by string) { got = by }}
			for _, holder := range c.made {
				require.NoError(t, l.Create(t.Context(), of(holder)))
			}
			for _, holder := range c.writes {
				require.NoError(t, l.Update(t.Context(), of(holder)))
			}
			if is.record = of(c.is); c.fails {
				is.err = errors.New("no answer")
			}
			_, _, err := l.Get(t.Context())
			require.Equal(t, c.fails, err != nil)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("it did not get it", func(t *testing.T) {
		is := &lease{err: errors.New("conflict")}
		l := &lock{Interface: is, deposed: func(string) { t.Error("it never had it") }}
		require.Error(t, l.Update(t.Context(), of("me")))
		is.err, is.record = nil, of("other")
		_, _, err := l.Get(t.Context())
		require.NoError(t, err)
	})
}
