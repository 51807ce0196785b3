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

{{/* Requested memory: docs/admins/sizing.md, "How much memory to request". */}}
{{- define "muster.memory" -}}
{{- $kib := add (mul 200 1024) (mul 20 .Values.size.nodes) (div (mul 32 .Values.size.pods) 10) }}
{{- printf "%dMi" (mul 64 (div (add $kib 65535) 65536)) }}
{{- end }}

{{/* Changes one object of manifests/ as this chart needs: policies that look at pods name the schedulers of this release. */}}
{{- define "muster.adjust" -}}
{{- $names := printf "['%s']" (include "muster.names" .root | fromJsonArray | join "', '") }}
{{- range dig "spec" "matchConditions" list .object }}
  {{- if eq .name "scheduler" }}{{ $_ := set . "expression" (replace "['muster-scheduler']" $names .expression) }}{{ end }}
{{- end }}
{{- end }}
