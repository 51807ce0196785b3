package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readmes are the introductions of the charts' README files.
var readmes = map[string]string{
	"muster": `# Chart muster

Muster, a Kubernetes scheduler for jobs whose pods start together and sit close together on the network. Install chart muster-crds first:

    helm install muster-crds deploy/helm/muster-crds
    helm install muster deploy/helm/muster --namespace muster-system --create-namespace \
      --set image.repository=REGISTRY/muster-scheduler,image.tag=TAG,topology.preset=topograph-v1
    helm test muster --namespace muster-system

Two schedulers must not serve one name. A second release, under another release name and with other schedulerNames, runs beside the first.
`,
	"muster-controller": `# Chart muster-controller

muster-controller reads gangs of one API and writes them in the API of another scheduler. Read first
[when you need it](../../../docs/admins/controller.md).
Install chart muster-crds first, and name what it reads:

    helm install muster-crds deploy/helm/muster-crds
    helm install muster-controller deploy/helm/muster-controller --namespace muster-system --create-namespace \
      --set image.repository=REGISTRY/muster-scheduler,image.tag=TAG,sources.grove=true
    helm test muster-controller --namespace muster-system

A second release, under another release name and with other sources, runs beside the first.
`,
	"muster-crds": `# Chart muster-crds

The CustomResourceDefinitions that Muster reads. They stay when the chart is removed.

    helm install muster-crds deploy/helm/muster-crds
`,
}

// readme returns a chart's README.md: the introduction, and each value of values.yaml with its default and its comment.
func readme(folder string) (string, error) {
	data, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return "", err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return "", err
	}
	rows, err := values("", doc.Content[0])
	if err != nil {
		return "", fmt.Errorf("%s: %w", folder, err)
	}
	return readmes[filepath.Base(folder)] + `
## Values

| value | default | description |
|---|---|---|
` + strings.Join(rows, ""), nil
}

// values returns a row for each field below a mapping. A mapping whose fields have comments has a row for each of them, and another one
// is a value of its own.
func values(path string, mapping *yaml.Node) (rows []string, err error) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := strings.TrimPrefix(path+"."+key.Value, ".")
		description := comment(key)
		if described(value) {
			if description != "" {
				rows = append(rows, fmt.Sprintf("| `%s` | | %s |\n", name, description))
			}
			below, err := values(name, value)
			if err != nil {
				return nil, err
			}
			rows = append(rows, below...)
			continue
		}
		if description == "" {
			return nil, fmt.Errorf("values.yaml: %s has no comment", name)
		}
		var v any
		if err := value.Decode(&v); err != nil {
			return nil, err
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", name, text, description))
	}
	return rows, nil
}

// described returns whether a field below a mapping has a comment.
func described(value *yaml.Node) bool {
	if value.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(value.Content); i += 2 {
		if value.Content[i].HeadComment != "" {
			return true
		}
	}
	return false
}

// comment returns the comment above a key as one line, without what stands before an empty line.
func comment(key *yaml.Node) string {
	blocks := strings.Split(key.HeadComment, "\n\n")
	var words []string
	for _, line := range strings.Split(blocks[len(blocks)-1], "\n") {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}
