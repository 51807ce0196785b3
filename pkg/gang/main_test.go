package gang_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more and longer histories than rapid's default, unless flags say otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	said := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { said[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "1000", "rapid.steps": "100"} {
		if !said[name] {
			_ = flag.Set(name, value)
		}
	}
	os.Exit(m.Run())
}
