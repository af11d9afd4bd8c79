{{- define "operator.image" -}}
{{- $registry := ternary (printf "%s/" (trimSuffix "/" .Values.images.registry)) "" (ne .Values.images.registry "") -}}
{{- .Values.images.overrides.operatorImage | default (printf "%smuster:%s" $registry (.Values.images.tag | default .Chart.AppVersion)) -}}
{{- end }}

{{- define "klusterlet.hosted" -}}
{{- if has .Values.klusterlet.mode (list "Hosted" "SingletonHosted") }}hosted{{ end -}}
{{- end }}

{{- define "klusterlet.clusterName" -}}
{{- required "klusterlet.clusterName is not set: give the name that the hub calls this cluster, --set klusterlet.clusterName=cluster1" .Values.klusterlet.clusterName -}}
{{- end }}

{{- define "klusterlet.name" -}}
{{- if include "klusterlet.hosted" . }}klusterlet-{{ include "klusterlet.clusterName" . }}{{ else }}{{ .Values.klusterlet.name }}{{ end -}}
{{- end }}

{{- define "klusterlet.namespace" -}}
{{- $hosted := printf "open-cluster-management-%s" (include "klusterlet.clusterName" .) -}}
{{- .Values.klusterlet.namespace | default (ternary $hosted "open-cluster-management-agent" (eq (include "klusterlet.hosted" .) "hosted")) -}}
{{- end }}

{{- define "klusterlet.agentNamespace" -}}
{{- if include "klusterlet.hosted" . }}{{ include "klusterlet.name" . }}{{ else }}{{ include "klusterlet.namespace" . }}{{ end -}}
{{- end }}
