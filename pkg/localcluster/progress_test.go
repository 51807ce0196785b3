package localcluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		terminal bool
		takes    time.Duration
		err      error
		want     []string
	}{
		"to a file": {
			takes: 65 * time.Second,
			want:  []string{"building: 30 s", "building: 60 s", "building: done after 65 s"},
		},
		"to a terminal": {
			terminal: true, takes: 2500 * time.Millisecond, err: errors.New("no"),
			want: []string{"building\r\033[Kbuilding: 1 s\r\033[Kbuilding: 2 s\r\033[Kbuilding: failed after 3 s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				err := reporter{&out, test.terminal}.during("building", func() error {
					time.Sleep(test.takes) // of the fake clock
					return test.err
				})
				require.Equal(t, test.err, err)
				want := strings.Join(test.want, "\n") + "\n"
				if !test.terminal {
					want = "building\n" + want
				}
				require.Equal(t, want, out.String())
			})
		})
	}
}
