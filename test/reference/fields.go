package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// object is a kind that the page lists: the place of its schema, and an object that has all fields.
type object struct{ schema, example, also string }

var objects = []object{
	{
		"manifests/crd/scheduling.sigs.k8s.io_podgroups.yaml", "pkg/apis/scheduling/testdata/podgroup/legal-full.yaml",
		"A PodGroup of `scheduling.x-k8s.io/v1alpha1` has the same fields; there a `spec.scheduleTimeoutSeconds` of 0, which MPI Operator writes, is the default. It is another gang, also if it has the same name.",
	},
	{
		"manifests/crd/scheduling.koordinator.sh_clusternetworktopologies.yaml",
		"pkg/apis/scheduling/testdata/clusternetworktopology/legal-three-layers.yaml",
		"Only the one with the name `default` is read.",
	},
}

// fields writes what the schemas say, which are made from the Go types.
func fields(out *strings.Builder, root string) error {
	out.WriteString("\n## Fields\n")
	for _, o := range objects {
		var crd apiextensions.CustomResourceDefinition
		if err := readYAML(filepath.Join(root, o.schema), &crd); err != nil {
			return err
		}
		var example any
		if err := readYAML(filepath.Join(root, o.example), &example); err != nil {
			return err
		}
		version := crd.Spec.Versions[0]
		fmt.Fprintf(out, "\n### %s (`%s/%s`)\n\n%s\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, o.also)
		all := version.Schema.OpenAPIV3Schema.Properties
		rows, err := specRows("spec", all["spec"], false, value(example, "spec"))
		if err != nil {
			return err
		}
		table(out, []string{"field", "meaning", "supported values", "default", "example"}, rows)
		out.WriteString("\nMuster writes:\n")
		table(out, []string{"field", "meaning"}, statusRows("status", all["status"]))
	}
	return nil
}

func readYAML(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// specRows are the fields below one, with what users may write there.
func specRows(path string, of apiextensions.JSONSchemaProps, required bool, example any) (rows [][]string, err error) {
	if path != "spec" {
		does, standard := describe(path, of.Description)
		if required {
			standard = "none: it is required"
		}
		sample, err := json.Marshal(example)
		if err != nil {
			return nil, err
		}
		if does == "" || standard == "" || example == nil {
			return nil, fmt.Errorf("%s: its comment must say what it means and end in Default: …, and its example must have it", path)
		}
		rows = append(rows, []string{code(path), does, legal(of), standard, code(string(sample))})
	}
	if of.Items != nil {
		path, of, example = path+"[]", *of.Items.Schema, any(example)
	}
	for _, name := range order(of) {
		more, err := specRows(path+"."+name, of.Properties[name], slices.Contains(of.Required, name), value(example, name))
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// statusRows are the fields below one of which users need know the meaning.
func statusRows(path string, of apiextensions.JSONSchemaProps) (rows [][]string) {
	if path != "status" {
		does, _ := describe(path, of.Description)
		rows = append(rows, []string{code(path), does})
	}
	if strings.HasSuffix(path, ".conditions") {
		return rows // as in all of Kubernetes
	}
	if of.Items != nil {
		path, of = path+"[]", *of.Items.Schema
	}
	for _, name := range order(of) {
		rows = append(rows, statusRows(path+"."+name, of.Properties[name])...)
	}
	return rows
}

// order is that in which fields are listed: required ones first.
func order(of apiextensions.JSONSchemaProps) []string {
	names := slices.Sorted(maps.Keys(of.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(fmt.Sprint(!slices.Contains(of.Required, a)), fmt.Sprint(!slices.Contains(of.Required, b)))
	})
	return names
}

// value is what an example has in a field; in that of a list, the first entry that has it.
func value(example any, name string) any {
	switch e := example.(type) {
	case map[string]any:
		return e[name]
	case []any:
		for _, entry := range e {
			if v := value(entry, name); v != nil {
				return v
			}
		}
	}
	return nil
}

// describe takes the default out of a field's comment.
func describe(path, comment string) (does, standard string) {
	does, standard, _ = strings.Cut(comment, "Default: ")
	does, _, _ = strings.Cut(does, "\n---") // what follows is for developers
	return meaning(does, path[strings.LastIndex(path, ".")+1:]), strings.TrimSuffix(strings.TrimSpace(standard), ".")
}

// says are the legal values as the messages of a schema's rules say them.
var says = regexp.MustCompile(`supported values: ([^'"]+)`)

// legal is what a schema permits.
func legal(of apiextensions.JSONSchemaProps) string {
	kind := map[string]string{"integer": "an integer", "string": "a string", "array": "a list", "object": "an object"}[of.Type]
	switch {
	case of.Minimum != nil:
		kind += fmt.Sprintf(" ≥ %v", *of.Minimum)
	case of.MaxItems != nil:
		kind += between(" of", of.MinItems, of.MaxItems, " entries")
	case of.MaxLength != nil:
		kind += between(" of", of.MinLength, of.MaxLength, " characters")
	case of.MaxProperties != nil:
		kind += between(" of", of.MinProperties, of.MaxProperties, " entries")
	}
	rules := slices.Clone(of.XValidations)
	if of.Items != nil {
		rules = append(rules, of.Items.Schema.XValidations...)
	}
	for _, rule := range rules {
		m := says.FindStringSubmatch(rule.Message + rule.MessageExpression)
		if m == nil {
			continue
		}
		kind += "; " + m[1]
		if wrong, _, plain := strings.Cut(rule.Message, "; supported values: "); plain {
			kind += " (if not: " + wrong + ")"
		}
	}
	return kind
}

func between(of string, least, most *int64, what string) string {
	if least == nil {
		return fmt.Sprintf("%s at most %d%s", of, *most, what)
	}
	return fmt.Sprintf("%s %d to %d%s", of, *least, *most, what)
}
