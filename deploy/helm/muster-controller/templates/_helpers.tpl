{{/* The values of --enable-source, as a JSON list: the components source-* of manifests/controller, by their folder. */}}
{{- define "muster-controller.sources" -}}
{{- $flags := dict "grove" "podgang" "grove-podcliqueset" "podcliqueset" }}
{{- $sources := list }}
{{- range $name, $enabled := .Values.sources }}
  {{- if $enabled }}{{ $sources = append $sources (get $flags $name | default $name) }}{{ end }}
{{- end }}
{{- if not $sources }}
  {{- fail (printf "sources: the controller has nothing to read: set one of these to true: %s" (keys .Values.sources | sortAlpha | join ", ")) }}
{{- end }}
{{- toJson $sources }}
{{- end }}

{{/* The folders of manifests/controller/components whose files this release has, as a JSON list. */}}
{{- define "muster-controller.components" -}}
{{- $components := list }}
{{- range $name, $enabled := .Values.sources }}
  {{- if $enabled }}{{ $components = append $components (print "source-" $name) }}{{ end }}
{{- end }}
{{- $folders := dict "muster" "backend-koordinator" "koordinator" "backend-koordinator" "podgang" "backend-podgang" "volcano" "backend-volcano"
      "workload" "backend-workload" }}
{{- $backends := list }}
{{- range .Values.backendConfig.backends }}{{ $backends = append $backends .name }}{{ end }}
{{- range $backends | default (keys $folders) }}{{ $components = append $components (get $folders .) }}{{ end }}
{{- if .Values.webhook.enabled }}{{ $components = append $components "webhook" }}{{ end }}
{{- if .Values.gatePods }}{{ $components = append $components "gates" }}{{ end }}
{{- if .Values.policies.podcliquesets }}{{ $components = append $components "policies" }}{{ end }}
{{- $components | uniq | sortAlpha | toJson }}
{{- end }}

{{/* Changes one object of manifests/ as this chart needs: the webhooks name the Service, the pods and the namespace of this release. */}}
{{- define "muster-controller.adjust" -}}
{{- if eq .object.kind "Service" }}{{ $_ := set .object.spec "selector" (include "muster.selector" .root | fromYaml) }}{{ end }}
{{- $service := dict "name" (include "muster.fullname" .root) "namespace" .root.Release.Namespace }}
{{- range .object.webhooks }}
  {{- $_ := mergeOverwrite .clientConfig.service $service }}
  {{- range dig "namespaceSelector" "matchExpressions" list . }}
    {{- $_ := set . "values" (list "kube-system" $service.namespace | uniq) }}
  {{- end }}
{{- end }}
{{- end }}
