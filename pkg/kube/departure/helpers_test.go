package departure_test

import "github.com/muster-scheduler/muster/test/testcluster"

var a = testcluster.A
