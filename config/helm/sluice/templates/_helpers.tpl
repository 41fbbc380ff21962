{{- define "sluice.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "sluice.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* Of a role: dict "root" $ "role" "worker". */ -}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- /* A value of a TOML file: JSON's scalars and lists are TOML's too, tables are written in one line. */ -}}
{{- define "sluice.toml" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $name := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ $name | toJson }} = {{ include "sluice.toml" (get $ $name) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{- range $i, $one := . }}{{ if $i }}, {{ end }}{{ include "sluice.toml" $one }}{{ end -}}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}

{{- /* The settings file of a role: what all share, and its own over it. */ -}}
{{- define "sluice.settings" -}}
{{- $all := mustMergeOverwrite (deepCopy .root.Values.settings) (deepCopy .values.settings) -}}
{{- range $i, $group := keys $all | sortAlpha }}
{{- if $i }}

{{ end }}[{{ $group }}]
{{- range $name := keys (get $all $group) | sortAlpha }}
{{ $name }} = {{ include "sluice.toml" (get (get $all $group) $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* The account of a role; none: the namespace's default. The job of the topics runs before the chart's own is there. */ -}}
{{- define "sluice.account" -}}
{{- if not .root.Values.serviceAccount.create -}}
{{ .root.Values.serviceAccount.name }}
{{- else if ne .role "topics" -}}
{{ .root.Values.serviceAccount.name | default (include "sluice.name" .root) }}
{{- end -}}
{{- end }}

{{- /* Everything of a pod but its containers: dict "root" $ "role" "worker" "values" .Values.worker "config" NAME. */ -}}
{{- define "sluice.pod" -}}
{{- $values := .values -}}
{{- with include "sluice.account" . }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := .root.Values.podSecurityContext }}
  {{- if not (kindIs "invalid" $id) }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
volumes:
  - name: settings
    configMap: {name: {{ .config }}}
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 128Mi}
  - name: run
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
  {{- with $values.secretName }}
  - name: secrets
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
{{- if $values.secretName }}
# Mounted files are readable by a group, and a key that others can use is refused: the copies, in memory, are the user's.
initContainers:
  - name: secrets
    image: {{ include "sluice.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: ["sh", "-ec", "umask 077; mkdir -p /run/sluice/secrets; cp -fL /etc/sluice/secrets/* /run/sluice/secrets/"]
    securityContext:
      {{- include "sluice.containerSecurity" . | nindent 6 }}
    resources:
      requests: {cpu: 10m, memory: 16Mi}
      limits: {memory: 64Mi}
    volumeMounts:
      - {name: run, mountPath: /run/sluice}
      - {name: secrets, mountPath: /etc/sluice/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- /* Of a container: the image, and what each may touch. */ -}}
{{- define "sluice.container" -}}
image: {{ include "sluice.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  {{- include "sluice.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: settings, mountPath: /etc/sluice, readOnly: true}
  - {name: tmp, mountPath: /tmp}
  - {name: run, mountPath: /run/sluice}
{{- end }}

{{- define "sluice.environment" -}}
{{- $values := .values -}}
- {name: SLUICE_CONFIG, value: /etc/sluice/{{ .role }}.toml}
{{- range $name := keys $values.secretEnv | sortAlpha }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ required "secretEnv needs secretName" $values.secretName }}, key: {{ get $values.secretEnv $name }}}
{{- end }}
{{- range $values.extraEnv }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{- /* Pods of a role on different nodes where there are several. */ -}}
{{- define "sluice.spread" -}}
topologySpreadConstraints:
{{- range .root.Values.topologySpreadConstraints }}
  - {{ merge (dict) . (dict "labelSelector" (dict "matchLabels" (include "sluice.selector" $ | fromYaml))) | toJson }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "sluice.selector" $ | nindent 8 }}
{{- end }}
{{- end }}

{{- /* The listener of a process for metrics and health (docs/observability.md): dict "root" $ "group" "worker". */ -}}
{{- define "sluice.listener" -}}
- {name: SLUICE_{{ .group | upper }}__METRICS_ADDRESS, value: "0.0.0.0:{{ .root.Values.metrics.port }}"}
{{- end }}

{{- define "sluice.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 5
  failureThreshold: 24
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- /* A role of one process with a volume of its own: also "args", "group" (of its listener) and "volume". */ -}}
{{- define "sluice.single" -}}
{{- $name := printf "%s-%s" (include "sluice.name" .root) .role -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
spec:
  clusterIP: None
  selector:
    {{- include "sluice.selector" . | nindent 4 }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
spec:
  # A StatefulSet never runs two of it; a second one would end.
  replicas: 1
  serviceName: {{ $name }}
  updateStrategy: {type: RollingUpdate}
  selector:
    matchLabels:
      {{- include "sluice.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "sluice.labels" . | nindent 8 }}
        {{- with .root.Values.podLabels }}{{ toYaml . | nindent 8 }}{{ end }}
      annotations:
        checksum/settings: {{ include "sluice.settings" . | sha256sum }}
        {{- with .root.Values.podAnnotations }}{{ toYaml . | nindent 8 }}{{ end }}
    spec:
      {{- include "sluice.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
      containers:
        - name: {{ .role }}
          {{- include "sluice.container" . | nindent 10 }}
            {{- if .values.persistence.enabled }}
            - {name: {{ .volume }}, mountPath: /var/lib/sluice}
            {{- end }}
          args: {{ toJson .args }}
          ports:
            - {name: metrics, containerPort: {{ .root.Values.metrics.port }}}
          {{- include "sluice.probes" .root | nindent 10 }}
          env:
            {{- include "sluice.listener" (dict "root" .root "group" .group) | nindent 12 }}
            {{- include "sluice.environment" . | nindent 12 }}
          resources: {{ toJson .values.resources }}
  {{- with .values.persistence }}
  {{- if .enabled }}
  volumeClaimTemplates:
    - metadata: {name: {{ $.volume }}}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ .size }}}}
  {{- end }}
  {{- end }}
{{- end }}
