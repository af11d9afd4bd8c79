{{- define "operator.image" -}}
{{- $registry := ternary (printf "%s/" (trimSuffix "/" .Values.images.registry)) "" (ne .Values.images.registry "") -}}
{{- .Values.images.overrides.operatorImage | default (printf "%smuster:%s" $registry (.Values.images.tag | default .Chart.AppVersion)) -}}
{{- end }}
