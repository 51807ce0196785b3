{{/* The CRDs by what values call them. */}}
{{- define "crds.names" -}}
clusterNetworkTopologies: clusternetworktopologies.scheduling.koordinator.sh
podGroups: podgroups.scheduling.sigs.k8s.io
podGroupsX: podgroups.scheduling.x-k8s.io
{{- end }}

{{/* Somebody who has the CRD and is not this release, "" if there is none: {name, root}. */}}
{{- define "crds.owner" -}}
{{- $release := .root.Release }}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name }}
  {{- $has := .metadata.annotations | default dict }}
  {{- $by := get $has "meta.helm.sh/release-name" }}
  {{- $in := get $has "meta.helm.sh/release-namespace" }}
  {{- if not $by }}another manager
  {{- else if or (ne $by $release.Name) (ne $in $release.Namespace) }}release {{ $by }} in namespace {{ $in }}
  {{- end }}
{{- end }}
{{- end }}
