package ordinary

import "github.com/muster-scheduler/muster/pkg/kube/departure"

// Comparing compares nodes by victims that no gang has.
func Comparing() *PodPreemption { return &PodPreemption{evictor: &departure.Evictor{}} }
