{{- define "rowtide.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* 50 characters leave room for the suffixes of the objects' names. */ -}}
{{- define "rowtide.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "rowtide.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "rowtide.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "rowtide.selector" -}}
app.kubernetes.io/name: {{ include "rowtide.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rowtide.labels" -}}
{{ include "rowtide.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "rowtide.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "rowtide.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "rowtide.configMapName" -}}
{{- default (include "rowtide.fullname" .) .Values.pipeline.existingConfigMap -}}
{{- end -}}

{{- /* Takes a dict of image (values) and chart. */ -}}
{{- define "rowtide.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "rowtide.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "rowtide.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Shared by the service and the backfill, so that both are the same pipeline on the same servers. */ -}}
{{- define "rowtide.environment" -}}
- name: ROWTIDE_PIPELINE__NAME
  value: {{ default .Release.Name .Values.pipeline.name | quote }}
- name: ROWTIDE_SERVICE__LISTEN
  value: 0.0.0.0:8080
{{- range .Values.env }}
- name: {{ .name }}
  value: {{ .value | quote }}
{{- end }}
{{- range .Values.secretEnv }}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end -}}

{{- define "rowtide.mounts" -}}
- name: pipeline
  mountPath: /etc/rowtide
  readOnly: true
- name: cache
  mountPath: /var/cache/rowtide
- name: tmp
  mountPath: /tmp
{{- range .Values.secretFiles }}
- name: secret-{{ .mount }}
  mountPath: /etc/rowtide-secrets/{{ .mount }}
  readOnly: true
{{- end }}
{{- end -}}

{{- /* Takes a dict of root and scratch (values). */ -}}
{{- define "rowtide.volumes" -}}
- name: pipeline
  configMap:
    name: {{ include "rowtide.configMapName" .root }}
- name: cache
  emptyDir:
    sizeLimit: {{ .scratch.sizeLimit }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .scratch.sizeLimit }}
{{- range .root.Values.secretFiles }}
- name: secret-{{ .mount }}
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- /* Where the pod runs and under whose name. */ -}}
{{- define "rowtide.podPlacement" -}}
serviceAccountName: {{ include "rowtide.serviceAccountName" . }}
automountServiceAccountToken: false
{{- /* Kubernetes would add variables such as ROWTIDE_PORT for every Service, which read like settings of ours. */}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
