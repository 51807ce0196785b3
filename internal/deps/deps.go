//go:build deps

// Package deps pins modules until code uses them.
package deps

import (
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "go.uber.org/goleak"
	_ "golang.org/x/term"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	_ "k8s.io/cli-runtime/pkg/printers"
	_ "k8s.io/client-go/dynamic"
	_ "k8s.io/client-go/kubernetes/fake"
	_ "k8s.io/component-base/cli"
	_ "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
)
