{{/* The names of schedulers that are served, as a JSON list. */}}
{{- define "muster.names" -}}
{{- $names := .Values.schedulerNames }}
{{- if .Values.profiles }}
  {{- if .Values.coschedulingArgs }}{{ fail "profiles and coschedulingArgs: write the arguments into the profiles" }}{{ end }}
  {{- if ne (toJson $names) (toJson (list "muster-scheduler")) }}{{ fail "profiles and schedulerNames: profiles name their schedulers themselves" }}{{ end }}
  {{- $names = list }}
  {{- range .Values.profiles }}
    {{- if has .schedulerName $names }}{{ fail (printf "profiles: schedulerName %s twice" .schedulerName) }}{{ end }}
    {{- $names = append $names .schedulerName }}
  {{- end }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* The file that --config names. What manifests/scheduler-config has is taken as it is. */}}
{{- define "muster.configFile" -}}
{{- $files := dict "muster-scheduler" "native.yaml" "muster-scheduler,koord-scheduler" "drop-in.yaml"
      "muster-scheduler,scheduler-plugins-scheduler" "scheduler-plugins.yaml" }}
{{- $own := or .Values.profiles .Values.coschedulingArgs .Values.config }}
{{- $names := join "," (fromJsonArray (include "muster.names" .)) }}
{{- ternary "custom.yaml" (get $files $names | default "custom.yaml") (not (not $own)) }}
{{- end }}

{{/* A configuration that is none of those: a profile of native.yaml for every name. */}}
{{- define "muster.configuration" -}}
{{- range list "apiVersion" "kind" "leaderElection" "profiles" }}
  {{- if hasKey $.Values.config . }}{{ fail (printf "config.%s: profiles have a value of their own, and the rest of these is the chart's" .) }}{{ end }}
{{- end }}
{{- $first := .Values.config.podInitialBackoffSeconds | default 1 | int }}
{{- $most := .Values.config.podMaxBackoffSeconds | default 10 | int }}
{{- if lt $most $first }}{{ fail (printf "config.podMaxBackoffSeconds: got %d, supported values: %d (podInitialBackoffSeconds) or more" $most $first) }}{{ end }}
{{- $native := .Files.Get "files/scheduler-config/native.yaml" | fromYaml }}
{{- $profiles := .Values.profiles }}
{{- if not $profiles }}
  {{- $profiles = list }}
  {{- range fromJsonArray (include "muster.names" .) }}
    {{- $profile := deepCopy (first $native.profiles) }}
    {{- $_ := set $profile "schedulerName" . }}
    {{- $_ := mergeOverwrite (first $profile.pluginConfig).args $.Values.coschedulingArgs }}
    {{- $profiles = append $profiles $profile }}
  {{- end }}
{{- end }}
{{- toYaml (set (mergeOverwrite $native .Values.config) "profiles" $profiles) }}
{{- end }}

{{- define "muster.name" -}}
{{- .Values.nameOverride | default "muster-scheduler" }}
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
{{- if hasPrefix "muster-scheduler" .name }}{{ $full }}{{ trimPrefix "muster-scheduler" .name }}
{{- else if and (hasPrefix "muster-" .name) (ne $full "muster-scheduler") }}{{ $full }}-{{ trimPrefix "muster-" .name }}
{{- else }}{{ .name }}
{{- end }}
{{- end }}

{{/* Objects of a file of manifests/, with this release's namespace, names and labels: {text, root}. */}}
{{- define "muster.objects" -}}
{{- $root := .root }}
{{- $namespace := $root.Release.Namespace }}
{{- $names := printf "['%s']" (include "muster.names" $root | fromJsonArray | join "', '") }}
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
    {{- if .resourceNames }}{{ $_ := set . "resourceNames" (list (include "muster.fullname" $root)) }}{{ end }}
  {{- end }}
  {{- with dig "spec" "policyName" "" $object }}
    {{- $_ := set $object.spec "policyName" (include "muster.rename" (dict "name" . "root" $root)) }}
  {{- end }}
  {{- range dig "spec" "matchConditions" list $object }}
    {{- if eq .name "scheduler" }}{{ $_ := set . "expression" (replace "['muster-scheduler']" $names .expression) }}{{ end }}
  {{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}

{{/* Requested memory: docs/admins/sizing.md, "How much memory to ask for". */}}
{{- define "muster.memory" -}}
{{- $kib := add (mul 200 1024) (mul 20 .Values.size.nodes) (div (mul 32 .Values.size.pods) 10) }}
{{- printf "%dMi" (mul 64 (div (add $kib 65535) 65536)) }}
{{- end }}

{{- define "muster.image" -}}
{{- with .Values.image }}
{{- if not .repository }}{{ fail "image.repository: no registry has an image of Muster yet: build one with \"make image IMAGE=REGISTRY/muster-scheduler:TAG\", push it, and set image.repository and image.tag" }}{{ end }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
