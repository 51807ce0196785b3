package scenarios_test

import (
	"testing"

	"github.com/muster-scheduler/muster/test/scenarios"
)

func TestPictures(t *testing.T) { scenarios.Run(t, "testdata") }
