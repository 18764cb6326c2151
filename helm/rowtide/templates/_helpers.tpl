{{- /* Names are quoted wherever they stand: 123, 1e5, true, on and y are names, and YAML reads them otherwise. */ -}}
{{- define "rowtide.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The name of the release's objects: a DNS label that begins with a letter, as a Service's must. 50 characters
leave room for what Kubernetes puts after it. */ -}}
{{- define "rowtide.base" -}}
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

{{- /* The name of the objects of one pipeline. A key of 30 characters leaves 19 for the release. */ -}}
{{- define "rowtide.fullname" -}}
{{- $base := include "rowtide.base" . -}}
{{- if .Key -}}
{{- printf "%s-%s" ($base | trunc (int (sub 49 (len .Key))) | regexFind ".*[a-z0-9]") .Key -}}
{{- else -}}
{{- $base -}}
{{- end -}}
{{- end -}}

{{- /* Fill a dict with what the templates of a pipeline take for the root: the root itself, or one for each of pipelines, with its
values over those of the release. Takes a dict of root and into. */ -}}
{{- define "rowtide.pipelines" -}}
{{- $root := .root -}}
{{- $into := .into -}}
{{- if $root.Values.pipelines -}}
{{- range $name := list "name" "sql" "existingConfigMap" -}}
{{- if index $root.Values.pipeline $name -}}
{{- fail (printf "pipeline.%s: with pipelines, each has its own: give it as pipelines.KEY.pipeline.%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- include "rowtide.checkFiles" (dict "at" "" "pipeline" $root.Values.pipeline) -}}
{{- end -}}
{{- range $key, $own := $root.Values.pipelines -}}
{{- include "rowtide.checkFiles" (dict "at" (printf "pipelines.%s." $key) "pipeline" $own.pipeline) -}}
{{- if regexMatch "(^|-)(dashboard|plan|tokens)$" $key -}}
{{- fail (printf "pipelines: key %q: names of other objects of the chart end so" $key) -}}
{{- end -}}
{{- $values := deepCopy $root.Values -}}
{{- $_ := unset $values "pipelines" -}}
{{- include "rowtide.over" (dict "to" $values "from" $own) -}}
{{- $one := dict "Key" $key "Values" $values "Release" $root.Release "Chart" $root.Chart -}}
{{- $_ := set $into $key $one -}}
{{- end -}}
{{- if not $root.Values.pipelines -}}
{{- $_ := set $into "" $root -}}
{{- end -}}
{{- $names := dict -}}
{{- range $key, $one := $into -}}
{{- $name := include "rowtide.pipelineName" $one -}}
{{- if hasKey $names $name -}}
{{- fail (printf "pipelines: %s and %s are both named %q, and positions are stored by this name: set pipeline.name" (get $names $name) $key $name) -}}
{{- end -}}
{{- $_ := set $names $name $key -}}
{{- end -}}
{{- end -}}

{{- /* Put values over others: maps are merged, everything else is replaced, also by false, 0 and empty lists. Takes a dict of to and from. */ -}}
{{- define "rowtide.over" -}}
{{- range $name, $value := .from -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $.to $name)) -}}
{{- include "rowtide.over" (dict "to" (get $.to $name) "from" $value) -}}
{{- else -}}
{{- $_ := set $.to $name $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The name under which positions are stored. */ -}}
{{- define "rowtide.pipelineName" -}}
{{- default (default .Release.Name .Key) .Values.pipeline.name -}}
{{- end -}}

{{- /* A job cannot be changed, so other values are another job. With its suffix it has 63 characters at most, the
length of a label; what is cut off is in the hash. Takes a dict of root and job, the word for it. */ -}}
{{- define "rowtide.jobName" -}}
{{- $full := include "rowtide.fullname" .root -}}
{{- $hash := printf "%s %s %s" .root.Chart.AppVersion $full (toJson .root.Values) | sha256sum | trunc 8 -}}
{{- printf "%s-%s-%s" ($full | trunc 45 | regexFind ".*[a-z0-9]") .job $hash -}}
{{- end -}}

{{- define "rowtide.selector" -}}
app.kubernetes.io/name: {{ include "rowtide.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- with .Key }}
rowtide/pipeline: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "rowtide.labels" -}}
{{ include "rowtide.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- /* Refuse files of a pipeline that its ConfigMap has already, or must have. Takes a dict of at (where the pipeline is in the values)
and pipeline. */ -}}
{{- define "rowtide.checkFiles" -}}
{{- if and .pipeline.files .pipeline.existingConfigMap -}}
{{- fail (printf "%spipeline.files: with pipeline.existingConfigMap, put the files into that ConfigMap" .at) -}}
{{- end -}}
{{- $own := dict "pipeline.sql" "pipeline.sql" "was.sql" "apply.was" "config.toml" "config" -}}
{{- range $name, $_ := .pipeline.files -}}
{{- if hasKey $own $name -}}
{{- fail (printf "%spipeline.files: %q is a file of the chart: give it as %s%s" $.at $name $.at (get $own $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Refuse what the schema cannot, or cannot say in words: a name given twice, a secret in the clear, a label of the chart's own, more
asked for than allowed. Called by the Deployment, which every release has. */ -}}
{{- define "rowtide.check" -}}
{{- $at := "" -}}
{{- with .Key -}}
{{- $at = printf "pipelines.%s." . -}}
{{- end -}}
{{- if and .Values.pipeline.sql .Values.pipeline.existingConfigMap -}}
{{- fail (printf "%spipeline: sql and existingConfigMap are both given: give one of them" $at) -}}
{{- end -}}
{{- if not (or .Values.pipeline.sql .Values.pipeline.existingConfigMap) -}}
{{- fail (printf "%spipeline: no pipeline is given: add --set-file %spipeline.sql=pipeline.sql, or set %spipeline.existingConfigMap" $at $at $at) -}}
{{- end -}}
{{- $seen := dict "ROWTIDE_PIPELINE__NAME" "the chart (set pipeline.name)" "ROWTIDE_SERVICE__LISTEN" "the chart" "ROWTIDE_SERVICE__MONITORING_LISTEN" "the chart" -}}
{{- $_ := set $seen "ROWTIDE_SERVICE__TOKENS_FILE" "the chart (set auth.existingSecret)" -}}
{{- $_ := set $seen "ROWTIDE_TOKEN_FILE" "the chart (set auth.existingSecret)" -}}
{{- range $list := list "env" "secretEnv" "extraEnv" -}}
{{- range $each := index $.Values $list -}}
{{- if hasKey $seen $each.name -}}
{{- fail (printf "%s%s: %q is given already, by %s" $at $list $each.name (get $seen $each.name)) -}}
{{- end -}}
{{- $_ := set $seen $each.name $list -}}
{{- end -}}
{{- end -}}
{{- range .Values.env -}}
{{- if regexMatch "(?i)passw|secret|token" .name -}}
{{- fail (printf "%senv: %q looks like a secret, which everyone who reads the release would see: put it into a Secret, and name that in secretEnv" $at .name) -}}
{{- end -}}
{{- end -}}
{{- $mounts := dict -}}
{{- range .Values.secretFiles -}}
{{- if hasKey $mounts .mount -}}
{{- fail (printf "%ssecretFiles: mount %q is given twice" $at .mount) -}}
{{- end -}}
{{- $_ := set $mounts .mount true -}}
{{- end -}}
{{- $volumes := dict "pipeline" "" "cache" "" "tmp" "" "tokens" "" -}}
{{- range .Values.secretFiles -}}
{{- $_ := set $volumes (printf "secret-%s" .mount) "" -}}
{{- end -}}
{{- range .Values.extraVolumes -}}
{{- if hasKey $volumes .name -}}
{{- fail (printf "%sextraVolumes: %q is given already" $at .name) -}}
{{- end -}}
{{- $_ := set $volumes .name "" -}}
{{- end -}}
{{- $paths := dict "/etc/rowtide" "" "/var/cache/rowtide" "" "/tmp" "" "/etc/rowtide-tokens" "" -}}
{{- range .Values.secretFiles -}}
{{- $_ := set $paths (printf "/etc/rowtide-secrets/%s" .mount) "" -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (hasKey $volumes .name) -}}
{{- fail (printf "%sextraVolumeMounts: volume %q is not in extraVolumes" $at .name) -}}
{{- end -}}
{{- if hasKey $paths .mountPath -}}
{{- fail (printf "%sextraVolumeMounts: %q is mounted already" $at .mountPath) -}}
{{- end -}}
{{- $_ := set $paths .mountPath "" -}}
{{- end -}}
{{- $containers := dict "rowtide" "" "apply" "" "backfill" "" "plan" "" -}}
{{- range .Values.initContainers -}}
{{- if hasKey $containers .name -}}
{{- fail (printf "%sinitContainers: %q is given already: take another name" $at .name) -}}
{{- end -}}
{{- $_ := set $containers .name "" -}}
{{- end -}}
{{- if eq (int .Values.service.port) (int .Values.service.monitoringPort) -}}
{{- fail (printf "%sservice: port and monitoringPort are both %d" $at (int .Values.service.port)) -}}
{{- end -}}
{{- $own := dict "app.kubernetes.io/component" "" "checksum/config" "" "checksum/secrets" "" | merge (include "rowtide.labels" . | fromYaml) -}}
{{- range $where, $given := dict "podLabels" .Values.podLabels "podAnnotations" .Values.podAnnotations "serviceMonitor.labels" .Values.serviceMonitor.labels "prometheusRule.labels" .Values.prometheusRule.labels "dashboard.labels" .Values.dashboard.labels -}}
{{- range $name, $_ := default dict $given -}}
{{- if hasKey $own $name -}}
{{- fail (printf "%s%s: %q is the chart's own: its objects find each other by it" $at $where $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range .Values.tolerations -}}
{{- if not (or .key (eq (default "" .operator) "Exists")) -}}
{{- fail (printf "%stolerations: one has no key: name the key of the taint, or write operator: Exists for any" $at) -}}
{{- end -}}
{{- end -}}
{{- with .Values.backfill.until -}}
{{- if not (regexMatch "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,3})?$" .) -}}
{{- fail (printf "%sbackfill.until: %q is not a time: write it in UTC, as \"2024-01-02 00:00:00\"" $at .) -}}
{{- end -}}
{{- end -}}
{{- if not (regexMatch "^local(\\[([*]|[1-9][0-9]*)(,[1-9][0-9]*)?\\])?$" .Values.backfill.master) -}}
{{- fail (printf "%sbackfill.master: %q is not local, and workers in other pods would need a folder that all of them share: write local[*]" $at .Values.backfill.master) -}}
{{- end -}}
{{- if and .Values.backfill.enabled (not .Values.backfill.until) -}}
{{- fail (printf "%sbackfill.until: a backfill needs a cut, such as 2024-01-02 00:00:00" $at) -}}
{{- end -}}
{{- if and .Values.apply.enabled .Values.backfill.enabled -}}
{{- fail (printf "%sapply.enabled and backfill.enabled: a backfill begins a pipeline, and apply changes one that has committed rows" $at) -}}
{{- end -}}
{{- if and .Values.apply.enabled (not .Values.pipeline.existingConfigMap) (not .Values.apply.was) -}}
{{- fail (printf "%sapply.was: give the pipeline file that runs now, such as --set-file %sapply.was=pipeline-as-it-runs.sql" $at $at) -}}
{{- end -}}
{{- if and .Values.apply.was .Values.pipeline.existingConfigMap -}}
{{- fail (printf "%sapply.was: with pipeline.existingConfigMap, put the file that runs now into that ConfigMap, as was.sql" $at) -}}
{{- end -}}
{{- $size := add (len .Values.pipeline.sql) (len .Values.apply.was) (len .Values.config) -}}
{{- range $name, $text := .Values.pipeline.files -}}
{{- $size = add $size (len $name) (len $text) -}}
{{- end -}}
{{- if gt (int $size) 1000000 -}}
{{- fail (printf "%spipeline: sql, apply.was, config and files have %d bytes, and a ConfigMap can have 1000000; mount large files with extraVolumes" $at $size) -}}
{{- end -}}
{{- include "rowtide.checkResources" (dict "where" (printf "%sresources" $at) "resources" .Values.resources) -}}
{{- include "rowtide.checkResources" (dict "where" (printf "%sbackfill.resources" $at) "resources" .Values.backfill.resources) -}}
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
{{- default (include "rowtide.base" .) .Values.serviceAccount.name -}}
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
{{- with .Values.apply.was }}
was.sql: {{ . | quote }}
{{- end }}
config.toml: {{ .Values.config | quote }}
{{- range $name, $text := .Values.pipeline.files }}
{{ $name | quote }}: {{ $text | quote }}
{{- end }}
{{- end -}}

{{- define "rowtide.tokensSecret" -}}
{{- default (printf "%s-tokens" (include "rowtide.base" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- /* What the Secrets of secretEnv and secretFiles hold now, and an existing ConfigMap; nothing without a cluster. */ -}}
{{- define "rowtide.held" -}}
{{- range concat .Values.secretEnv .Values.secretFiles -}}
{{- $held := lookup "v1" "Secret" $.Release.Namespace .existingSecret -}}
{{- list .existingSecret (get (default dict $held) "data") | toJson -}}
{{- end -}}
{{- with .Values.pipeline.existingConfigMap -}}
{{- $held := lookup "v1" "ConfigMap" $.Release.Namespace . -}}
{{- list . (get (default dict $held) "data") | toJson -}}
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
  value: {{ include "rowtide.pipelineName" . | quote }}
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

{{- /* The pod of a job. Takes a dict of root, job (the word for it), image, args (a list), resources, scratch and, if it is another
one, configMap. */ -}}
{{- define "rowtide.jobPod" -}}
metadata:
  labels:
    {{- include "rowtide.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .job }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: Never
  {{- include "rowtide.podPlacement" .root | nindent 2 }}
  securityContext:
    {{- include "rowtide.podSecurityContext" .root | nindent 4 }}
  containers:
    - name: {{ .job }}
      image: {{ include "rowtide.image" (dict "image" .image "chart" .root.Chart) | quote }}
      imagePullPolicy: {{ .image.pullPolicy | quote }}
      args:
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
      env:
        {{- include "rowtide.environment" .root | nindent 8 }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        {{- include "rowtide.containerSecurityContext" .root | nindent 8 }}
      volumeMounts:
        {{- include "rowtide.mounts" .root | nindent 8 }}
  volumes:
    {{- include "rowtide.volumes" (dict "root" .root "scratch" .scratch "configMap" .configMap) | nindent 4 }}
{{- end -}}

{{- /* What a job does that fails: exit code 2 is a refusal, and trying again would not help. Takes the word for the job. */ -}}
{{- define "rowtide.jobFailure" -}}
podFailurePolicy:
  rules:
    - action: FailJob
      onExitCodes:
        containerName: {{ . }}
        operator: In
        values: [2]
{{- end -}}

{{- define "rowtide.applyArgs" -}}
{{- $args := list "apply" "/etc/rowtide/pipeline.sql" "--was" "/etc/rowtide/was.sql" "--config" "/etc/rowtide/config.toml" -}}
{{- if .Values.apply.lose -}}
{{- $args = append $args "--lose" -}}
{{- end -}}
{{- toJson $args -}}
{{- end -}}
