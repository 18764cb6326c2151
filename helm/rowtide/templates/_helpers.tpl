{{- /* Names are quoted wherever they stand: 123, 1e5, true, on and y are names, and YAML reads them otherwise. */ -}}
{{- define "rowtide.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The name of the release's objects: a DNS label that begins with a letter, as a Service's must. 50 characters
leave room for what Kubernetes puts after it. */ -}}
{{- define "rowtide.fullname" -}}
{{- $full := "" -}}
{{- if .Values.fullnameOverride -}}
{{- $full = .Values.fullnameOverride -}}
{{- else if contains (include "rowtide.name" .) .Release.Name -}}
{{- $full = .Release.Name -}}
{{- else -}}
{{- $full = printf "%s-%s" .Release.Name (include "rowtide.name" .) -}}
{{- end -}}
{{- $full = replace "." "-" $full -}}
{{- if regexMatch "^[0-9]" $full -}}
{{- $full = printf "r%s" $full -}}
{{- end -}}
{{- $full | trunc 50 | regexFind ".*[a-z0-9]" -}}
{{- end -}}

{{- /* A job cannot be changed, so other values are another job. With its suffix it has 63 characters at most, the
length of a label; what is cut off is in the hash. */ -}}
{{- define "rowtide.backfillName" -}}
{{- $full := include "rowtide.fullname" . -}}
{{- $hash := printf "%s %s %s" .Chart.AppVersion $full (toJson .Values) | sha256sum | trunc 8 -}}
{{- printf "%s-backfill-%s" ($full | trunc 45 | regexFind ".*[a-z0-9]") $hash -}}
{{- end -}}

{{- define "rowtide.selector" -}}
app.kubernetes.io/name: {{ include "rowtide.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "rowtide.labels" -}}
{{ include "rowtide.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- /* Refuse what the schema cannot: a name given twice, a label of the chart's own, more asked for than allowed. Called by the Deployment,
which every release has. */ -}}
{{- define "rowtide.check" -}}
{{- $seen := dict "ROWTIDE_PIPELINE__NAME" "the chart (set pipeline.name)" "ROWTIDE_SERVICE__LISTEN" "the chart" "ROWTIDE_SERVICE__MONITORING_LISTEN" "the chart" -}}
{{- $_ := set $seen "ROWTIDE_SERVICE__TOKENS_FILE" "the chart (set auth.existingSecret)" -}}
{{- $_ := set $seen "ROWTIDE_TOKEN_FILE" "the chart (set auth.existingSecret)" -}}
{{- range $list := list "env" "secretEnv" "extraEnv" -}}
{{- range $each := index $.Values $list -}}
{{- if hasKey $seen $each.name -}}
{{- fail (printf "%s: %q is given already, by %s" $list $each.name (get $seen $each.name)) -}}
{{- end -}}
{{- $_ := set $seen $each.name $list -}}
{{- end -}}
{{- end -}}
{{- $mounts := dict -}}
{{- range .Values.secretFiles -}}
{{- if hasKey $mounts .mount -}}
{{- fail (printf "secretFiles: mount %q is given twice" .mount) -}}
{{- end -}}
{{- $_ := set $mounts .mount true -}}
{{- end -}}
{{- $volumes := dict "pipeline" "" "cache" "" "tmp" "" "tokens" "" -}}
{{- range .Values.secretFiles -}}
{{- $_ := set $volumes (printf "secret-%s" .mount) "" -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- if hasKey $volumes .name -}}
{{- fail (printf "extraVolumes: %q is given already" .name) -}}
{{- end -}}
{{- $_ := set $volumes .name "" -}}
{{- end -}}
{{- $paths := dict "/etc/rowtide" "" "/var/cache/rowtide" "" "/tmp" "" "/etc/rowtide-tokens" "" -}}
{{- range .Values.secretFiles -}}
{{- $_ := set $paths (printf "/etc/rowtide-secrets/%s" .mount) "" -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (hasKey $volumes .name) -}}
{{- fail (printf "extraVolumeMounts: volume %q is not in extraVolumes" .name) -}}
{{- end -}}
{{- if hasKey $paths .mountPath -}}
{{- fail (printf "extraVolumeMounts: %q is mounted already" .mountPath) -}}
{{- end -}}
{{- $_ := set $paths .mountPath "" -}}
{{- end -}}
{{- $containers := dict -}}
{{- range .Values.initContainers -}}
{{- if hasKey $containers .name -}}
{{- fail (printf "initContainers: %q is given already" .name) -}}
{{- end -}}
{{- $_ := set $containers .name "" -}}
{{- end -}}
{{- if eq (int .Values.service.port) (int .Values.service.monitoringPort) -}}
{{- fail (printf "service: port and monitoringPort are both %d" (int .Values.service.port)) -}}
{{- end -}}
{{- $own := dict "app.kubernetes.io/component" "" "checksum/config" "" "checksum/secrets" "" | merge (include "rowtide.labels" . | fromYaml) -}}
{{- range $where, $given := dict "podLabels" .Values.podLabels "podAnnotations" .Values.podAnnotations "serviceMonitor.labels" .Values.serviceMonitor.labels "prometheusRule.labels" .Values.prometheusRule.labels -}}
{{- range $name, $_ := default dict $given -}}
{{- if hasKey $own $name -}}
{{- fail (printf "%s: %q is the chart's own: its objects find each other by it" $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $size := add (len .Values.pipeline.sql) (len .Values.config) -}}
{{- range $name, $text := .Values.pipeline.files -}}
{{- $size = add $size (len $name) (len $text) -}}
{{- end -}}
{{- if gt (int $size) 1000000 -}}
{{- fail (printf "pipeline: sql, config and files have %d bytes, and a ConfigMap can have 1000000; mount large files with extraVolumes" $size) -}}
{{- end -}}
{{- include "rowtide.checkResources" (dict "where" "resources" "resources" .Values.resources) -}}
{{- include "rowtide.checkResources" (dict "where" "backfill.resources" "resources" .Values.backfill.resources) -}}
{{- end -}}

{{- define "rowtide.checkResources" -}}
{{- $limits := default dict .resources.limits -}}
{{- range $name, $asked := default dict .resources.requests -}}
{{- if hasKey $limits $name -}}
{{- $limit := get $limits $name -}}
{{- if gt (float64 (include "rowtide.amount" $asked)) (float64 (include "rowtide.amount" $limit)) -}}
{{- fail (printf "%s: requests.%s (%v) is above limits.%s (%v)" $.where $name $asked $name $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* A quantity as a plain number. */ -}}
{{- define "rowtide.amount" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9.]+(e[+]?[0-9]+)?" $text -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $binary := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- $units = merge $units $binary (dict "Ei" 1152921504606846976) -}}
{{- mulf (float64 $number) (float64 (get $units (trimPrefix $number $text))) -}}
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

{{- /* The data of a ConfigMap of the pipeline. */ -}}
{{- define "rowtide.files" -}}
pipeline.sql: {{ .Values.pipeline.sql | quote }}
config.toml: {{ .Values.config | quote }}
{{- range $name, $text := .Values.pipeline.files }}
{{ $name | quote }}: {{ $text | quote }}
{{- end }}
{{- end -}}

{{- define "rowtide.tokensSecret" -}}
{{- default (printf "%s-tokens" (include "rowtide.fullname" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- /* What the Secrets of secretEnv and secretFiles hold now; nothing without a cluster. */ -}}
{{- define "rowtide.secrets" -}}
{{- range concat .Values.secretEnv .Values.secretFiles -}}
{{- $held := lookup "v1" "Secret" $.Release.Namespace .existingSecret -}}
{{- list .existingSecret (get (default dict $held) "data") | toJson -}}
{{- end -}}
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
- name: ROWTIDE_SERVICE__MONITORING_LISTEN
  value: 0.0.0.0:8081
- name: ROWTIDE_SERVICE__TOKENS_FILE
  value: /etc/rowtide-tokens/tokens
- name: ROWTIDE_TOKEN_FILE
  value: /etc/rowtide-tokens/token
{{- range .Values.env }}
- name: {{ .name | quote }}
  value: {{ .value | quote }}
{{- end }}
{{- range .Values.secretEnv }}
- name: {{ .name | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret | quote }}
      key: {{ .key | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
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
- name: tokens
  mountPath: /etc/rowtide-tokens
  readOnly: true
{{- range .Values.secretFiles }}
- name: {{ printf "secret-%s" .mount | quote }}
  mountPath: {{ printf "/etc/rowtide-secrets/%s" .mount | quote }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Takes a dict of root, scratch (values) and, if it is another one, configMap. */ -}}
{{- define "rowtide.volumes" -}}
- name: pipeline
  configMap:
    name: {{ default (include "rowtide.configMapName" .root) .configMap | quote }}
- name: cache
  emptyDir:
    sizeLimit: {{ .scratch.sizeLimit | quote }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .scratch.sizeLimit | quote }}
- name: tokens
  secret:
    secretName: {{ include "rowtide.tokensSecret" .root | quote }}
    defaultMode: 0440
{{- range .root.Values.secretFiles }}
- name: {{ printf "secret-%s" .mount | quote }}
  secret:
    secretName: {{ .existingSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Where the pod runs and under whose name, and what runs in it before. */ -}}
{{- define "rowtide.podPlacement" -}}
serviceAccountName: {{ include "rowtide.serviceAccountName" . | quote }}
automountServiceAccountToken: false
{{- /* Kubernetes would add variables such as ROWTIDE_PORT for every Service, which read like settings of ours. */}}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
