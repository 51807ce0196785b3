package plugin

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/muster-scheduler/muster/test/seed" // so that mutants can be shown to these tests
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
