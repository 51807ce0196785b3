package preempt_test

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/muster-scheduler/muster/test/seed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
