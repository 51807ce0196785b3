{{/* What the charts have in common; "make generate" copies it. Each chart defines CHART.adjust. */}}

{{/* The program of the chart. In an umbrella chart, both charts share these definitions. */}}
{{- define "muster.program" -}}
{{- ternary "muster-scheduler" .Chart.Name (eq .Chart.Name "muster") }}
{{- end }}

{{- define "muster.name" -}}
{{- .Values.nameOverride | default (include "muster.program" .) }}
{{- end }}

{{/* What all objects are called, or begin with. A second release needs another name: cluster-scoped objects are shared. */}}
{{- define "muster.fullname" -}}
{{- $name := include "muster.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- if eq .Release.Name "muster" }}{{ $full = $name }}{{ end }}
{{- .Values.fullnameOverride | default $full | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "muster.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "muster.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ include "muster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.labels" -}}
{{- $standard := dict "app.kubernetes.io/version" (.Chart.AppVersion | toString | trunc 63) "app.kubernetes.io/managed-by" .Release.Service
      "app.kubernetes.io/part-of" "muster" "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63) }}
{{- toYaml (merge (include "muster.selector" . | fromYaml) $standard .Values.labels) }}
{{- end }}

{{/* A name in a file of manifests/, as this release has it. */}}
{{- define "muster.rename" -}}
{{- $full := include "muster.fullname" .root }}
{{- $program := include "muster.program" .root }}
{{- if hasPrefix $program .name }}{{ $full }}{{ trimPrefix $program .name }}
{{- else if and (hasPrefix "muster-" .name) (ne $full $program) }}{{ $full }}-{{ trimPrefix "muster-" .name }}
{{- else }}{{ .name }}
{{- end }}
{{- end }}

{{/* Objects of a file of manifests/, with this release's namespace, names and labels: {text, root}. */}}
{{- define "muster.objects" -}}
{{- $root := .root }}
{{- $namespace := $root.Release.Namespace }}
{{- range regexSplit "(?m)^---$" .text -1 }}
{{- $object := fromYaml . }}
{{- with $object.metadata }}
  {{- $_ := set . "name" (include "muster.rename" (dict "name" .name "root" $root)) }}
  {{- if eq $object.kind "ServiceAccount" }}{{ $_ := set . "name" (include "muster.serviceAccountName" $root) }}{{ end }}
  {{- if eq (.namespace | default "") "muster-system" }}{{ $_ := set . "namespace" $namespace }}{{ end }}
  {{- $_ := set . "labels" (merge (.labels | default dict) (include "muster.labels" $root | fromYaml)) }}
  {{- range $object.subjects }}
    {{- $_ := set . "namespace" $namespace }}
    {{- $_ := set . "name" (include "muster.serviceAccountName" $root) }}
  {{- end }}
  {{- with $object.roleRef }}{{ $_ := set . "name" (include "muster.rename" (dict "name" .name "root" $root)) }}{{ end }}
  {{- range $object.rules }}
    {{- $names := list }}
    {{- range .resourceNames }}{{ $names = append $names (include "muster.rename" (dict "name" . "root" $root)) }}{{ end }}
    {{- if $names }}{{ $_ := set . "resourceNames" $names }}{{ end }}
  {{- end }}
  {{- with dig "spec" "policyName" "" $object }}
    {{- $_ := set $object.spec "policyName" (include "muster.rename" (dict "name" . "root" $root)) }}
  {{- end }}
  {{- include (printf "%s.adjust" $root.Chart.Name) (dict "object" $object "root" $root) }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}

{{- define "muster.image" -}}
{{- with .Values.image }}
{{- if not .repository }}{{ fail "image.repository: no registry has an image of Muster yet: build one with \"make image IMAGE=REGISTRY/muster-scheduler:TAG\", push it, and set image.repository and image.tag" }}{{ end }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
