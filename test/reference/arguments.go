package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-scheduler/muster/pkg/apis/config"
)

// arguments writes CoschedulingArgs: what its fields' comments mean, what its decoder calls
// legal, and what it makes of nothing.
func arguments(out *strings.Builder, root string) error {
	comments, err := fieldComments(filepath.Join(root, "pkg/apis/config/args.go"), "Args")
	if err != nil {
		return err
	}
	defaults, err := config.Decode(nil)
	if err != nil {
		return err
	}
	out.WriteString("\n## CoschedulingArgs\n\nArguments of the plugin `" + config.PluginName + "` in a KubeSchedulerConfiguration. Muster does not start with invalid arguments; the error names them.\n" +
		"While Muster runs, it reads the file again when the file changes. Arguments with `while it runs` in the column changes take effect at once.\n" +
		"For the others, an event on the Lease says that Muster needs a restart. An invalid file changes nothing (event, `muster_configuration_current`).\n")
	var rows [][]string
	example := ""
	of := reflect.TypeFor[config.Args]()
	for i := range of.NumField() {
		name := jsonName(of.Field(i).Name)
		standard := written(reflect.ValueOf(defaults).Field(i).Interface())
		legal, err := decoderSays(name)
		if err != nil {
			return err
		}
		rows = append(rows, []string{
			code(name), meaning(comments[of.Field(i).Name], of.Field(i).Name), legal,
			map[bool]string{true: "while it runs", false: "restart"}[config.IsLive(name)], code(standard), code(name + ": " + standard),
		})
		example += "    " + name + ": " + standard + "\n"
	}
	table(out, []string{"argument", "meaning", "supported values", "changes", "default", "example"}, rows)
	out.WriteString("\nAll of them, with their defaults:\n\n```yaml\n" + argsHead + example + "```\n")
	return nil
}

const argsHead = `pluginConfig:
- name: Coscheduling
  args:
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: CoschedulingArgs
`

// decode is what the scheduler does with the arguments that a user has written.
func decode(args map[string]any) (config.Args, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return config.Args{}, err
	}
	return config.Decode(&runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON})
}

// decoderSays is what the decoder calls legal where it finds something that never is.
func decoderSays(name string) (string, error) {
	_, err := decode(map[string]any{name: []any{}})
	if err == nil {
		_, err = decode(map[string]any{name: map[string]any{}})
	}
	if err == nil {
		return "", errors.New("CoschedulingArgs." + name + " takes a list and an object")
	}
	_, legal, ok := strings.Cut(err.Error(), "is invalid; supported values: ")
	if !ok {
		return "", fmt.Errorf("CoschedulingArgs does not say what is supported values: %w", err)
	}
	return legal, nil
}

// written is a default as users write it.
func written(value any) string {
	if d, ok := value.(time.Duration); ok {
		return strings.TrimSuffix(d.String(), "0s")
	}
	return fmt.Sprint(value)
}

func jsonName(field string) string {
	return string(unicode.ToLower(rune(field[0]))) + field[1:]
}

// meaning is a comment without the name that it begins with.
func meaning(comment, name string) string {
	text := strings.TrimPrefix(comment, name)
	return strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, ":"), " is ")), ".")
}

// fieldComments are the comments of a struct's fields.
func fieldComments(file, name string) (map[string]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			out[field.Names[0].Name] = field.Doc.Text()
		}
		return false
	})
	return out, nil
}
