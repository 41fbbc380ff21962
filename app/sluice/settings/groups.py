"""Every setting, its unit and its default. `config/sluice.toml` says each default again with a sentence;
`tests/unit/test_settings.py` holds the two together."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AwareDatetime, Field, SecretStr, model_validator

from sluice.core.foundation.limits import SessionLimits
from sluice.core.policy.policy import DEFAULT_QUALITY
from sluice.settings.base import ListenAddress, Positive, Seconds, SettingGroup
from sluice.settings.kafka import KafkaSettings
from sluice.settings.keys import (
    PublicKey,
    RedisSettings,
    SealingSettings,
    ValuesSettings,
    VerdictSettings,
    read_key,
)
from sluice.settings.models import AnalysisSettings, EmbeddingSettings, GraderSettings
from sluice.settings.notifications import NotifySettings, SafeUrl, SlackSettings
from sluice_topics.audience import Audience

if TYPE_CHECKING:
    from sluice.core.registry.keys import Roots


HostPattern = Annotated[
    str, Field(pattern=r"^(\*\.)?[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$|^[0-9a-f:]{2,45}$")
]
"""A host in lower case (punycode where it is not ASCII), "*." and a host, or an address."""


class WorkerSettings(SettingGroup):
    """The policy decision point's process: group, batching, bounds and time-outs."""

    app_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=100)] = "sluice"
    session_timeout_s: Annotated[float, Field(ge=6, le=60)] = 6.0
    heartbeat_interval_s: Seconds = 1.0
    rebalance_timeout_s: Seconds = 10.0
    transaction_timeout_s: Annotated[float, Field(ge=5, le=900)] = 30.0
    request_timeout_s: Annotated[float, Field(ge=5)] = 30.0
    linger_min_ms: Annotated[float, Field(ge=0)] = 5.0
    linger_max_ms: Annotated[float, Field(ge=0)] = 100.0
    offsets_interval_s: Seconds = 0.5
    max_batch: Positive = 1024
    max_in_flight: Annotated[int, Field(ge=64, le=65536)] = 1024
    max_poll_records: Positive = 1000
    timer_interval_s: Seconds = 1.0
    close_timeout_s: Seconds = 20.0
    broker_wait_s: Annotated[float, Field(ge=0)] = 60.0
    halt_on_offset_gap: bool = False
    ready_file: Path | None = None
    group_instance_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=200)] | None = None
    max_memory_mib: Annotated[int, Field(ge=128)] | None = None
    metrics_address: ListenAddress = ""

    @model_validator(mode="after")
    def _check_order(self) -> WorkerSettings:
        if self.linger_min_ms > self.linger_max_ms:
            raise ValueError("linger_min_ms is above linger_max_ms")
        if self.heartbeat_interval_s * 3 > self.session_timeout_s:
            raise ValueError("heartbeat_interval_s must fit three times into session_timeout_s")
        if self.session_timeout_s > self.request_timeout_s:
            raise ValueError("session_timeout_s is above request_timeout_s")
        return self


class SessionSettings(SettingGroup):
    """How long and how much a session is remembered."""

    action_window_s: Seconds = 3600.0
    idle_timeout_s: Seconds = 86400.0
    max_recent_actions: Positive = 1024
    max_early_outcomes: Positive = 64
    max_recent_writes: Positive = 1024
    max_known_sources: Positive = 64
    max_recent_retrievals: Positive = 64
    max_recent_items: Positive = 2048
    max_state_bytes: Annotated[int, Field(ge=16_384, le=786_432)] = 524_288

    @model_validator(mode="after")
    def _check_idle(self) -> SessionSettings:
        if self.idle_timeout_s < self.action_window_s:
            raise ValueError(
                "idle_timeout_s must not be below action_window_s, or a repeat could count twice"
            )
        return self

    def build_limits(
        self, memory: MemorySettings, approvals: ApprovalSettings, partitions: int
    ) -> SessionLimits:
        """In ms, as the core takes them, with the bounds of a partition."""
        return self.fill(
            SessionLimits,
            action_window_ms=int(self.action_window_s * 1000),
            idle_timeout_ms=int(self.idle_timeout_s * 1000),
            max_quarantine=memory.max_quarantine_size,
            max_source_histories=memory.max_source_histories,
            max_escalations=approvals.max_escalations,
            partitions=partitions,
        )


class MemorySettings(SettingGroup):
    """The memory gate's quarantine (seed 003, maxQuarantineSize); thresholds and times are the bundle's."""

    max_quarantine_size: Positive = 1000
    max_source_histories: Positive = 100_000


class ApprovalSettings(SettingGroup):
    """How many escalations a partition keeps open; quorum, routes and the time to answer are the bundle's."""

    max_escalations: Positive = 10_000


class PolicySettings(SettingGroup):
    """What decides: whose signatures count, and the default bundles."""

    root_keys: tuple[PublicKey, ...] = ()
    retired_root_keys: dict[PublicKey, AwareDatetime] = {}  # noqa: RUF012 - pydantic copies it
    default_bundle: Annotated[str, Field(min_length=1, max_length=256)] = "sluice.default"
    default_quality_bundle: Annotated[str, Field(min_length=1, max_length=256)] = DEFAULT_QUALITY
    refresh_s: Seconds = 0.5
    max_lag_s: Seconds = 10.0
    environment: Annotated[str, Field(min_length=1, max_length=64)] = "development"
    installation: Annotated[str, Field(max_length=256)] = ""

    def read_roots(self) -> Roots:
        """The root keys, from which trust starts. Raises CoreError for a text that is not a key."""
        from sluice.core.registry.keys import Roots  # noqa: PLC0415 - most commands need no cryptography

        retired = {key: round(at.timestamp() * 1000) for key, at in self.retired_root_keys.items()}
        return Roots(self.root_keys, retired)

    @model_validator(mode="before")
    @classmethod
    def _require_signed_order(cls, fields: object) -> object:
        if isinstance(fields, dict) and "stages" in fields:
            raise ValueError("the signed bundle orders the gates (its `stages`): leave policy.stages out")
        return fields


class ProvenanceSettings(SettingGroup):
    """Which references of the web are resolved for the record, and how far a server is put up with. None is
    while no host is allowed. "*.example.com" allows the hosts one label below, as in certificates."""

    allowed_hosts: tuple[HostPattern, ...] = ()
    allowed_ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = (80, 443)
    max_bytes: Positive = 16_777_216
    timeout_ms: Annotated[int, Field(ge=1, le=600_000)] = 10_000
    max_redirects: Annotated[int, Field(ge=0, le=10)] = 3
    concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    per_host: Annotated[int, Field(ge=1, le=256)] = 2
    per_tenant: Annotated[int, Field(ge=1, le=256)] = 12
    max_waiting: Positive = 10_000
    max_waiting_per_host: Positive = 1000
    max_waiting_per_tenant: Positive = 4000
    min_interval_s: Seconds = 60.0
    max_recorded: Positive = 100_000
    max_recorded_bytes: Positive = 67_108_864
    allow_loopback: bool = False
    pinned: dict[str, str] = {}  # noqa: RUF012 - as above


class GatewaySettings(SettingGroup):
    """The HTTP gateway: where it listens, who may call, how long and how much."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8085
    api_keys: str = "~/.sluice/api_keys.json"
    signing_key: Path | None = None
    reviewers_key: Path | None = None
    people: str = "~/.sluice/people.json"
    pages_url: Annotated[str, Field(pattern=r"^https?://[^@\s/?#]+$")] | None = None
    login_idle_s: Annotated[float, Field(ge=60, le=86_400)] = 1800.0
    login_longest_s: Annotated[float, Field(ge=60, le=604_800)] = 36_000.0
    sso_header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = None
    sso_proxy: str | None = None
    wait_s: Annotated[float, Field(ge=1)] = 10.0
    longest_wait_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
    read_timeout_s: Seconds = 5.0
    max_reads: Annotated[int, Field(ge=1, le=1024)] = 16
    waiting_s: Seconds = 604_800.0
    session_records: Positive = 50_000
    max_body_bytes: Annotated[int, Field(ge=1024, le=1_000_000)] = 1_000_000
    request_timeout_s: Seconds = 10.0
    requests_per_s: Annotated[float, Field(gt=0)] = 100.0
    burst: Positive = 200
    allowed_origins: tuple[str, ...] = ()
    idempotency_file: Path | None = None
    idempotency_mb: Positive = 256
    redis_url: SecretStr | None = None
    metrics_address: ListenAddress = ""

    @model_validator(mode="after")
    def _check_default(self) -> GatewaySettings:
        if self.wait_s > self.longest_wait_s:
            raise ValueError("wait_s is above longest_wait_s")
        if (self.sso_header is None) != (self.sso_proxy is None):
            raise ValueError("sso_header and sso_proxy go together: a header counts from that address alone")
        return self


class ArchiveSettings(SettingGroup):
    """Where `sluice archive` keeps the topics' records, in what pieces, and who signs for them."""

    location: str = ""
    endpoint_url: Annotated[str, Field(pattern=r"^https?://[^@\s/?#]+$")] | None = None
    state: bool = True
    segment_mb: Annotated[int, Field(ge=1, le=256)] = 16
    segment_age_s: Seconds = 300.0
    held_mb: Annotated[int, Field(ge=16)] = 128
    store_wait_s: Seconds = 300.0
    signing_key: SecretStr | None = None
    public_keys: tuple[PublicKey, ...] = ()
    noted_file: Path | None = None
    metrics_address: ListenAddress = ""

    def read_pem(self) -> bytes | None:
        """The key that signs entries; None: there is none. Raises OSError."""
        return None if self.signing_key is None else read_key(self.signing_key)


class HeadSettings(SettingGroup):
    """Tree heads: who signs them and how often, whose count, and where they are kept besides."""

    signing_key: SecretStr | None = None
    public_keys: tuple[PublicKey, ...] = ()
    retired_keys: dict[PublicKey, AwareDatetime] = {}  # noqa: RUF012 - pydantic copies it
    interval_s: Seconds = 60.0
    max_events: Positive = 100_000
    copy_file: Path | None = None
    webhook_url: SafeUrl | None = None
    webhook_secret: Annotated[SecretStr, Field(min_length=24, max_length=512)] | None = None
    webhook_timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    timestamp_url: SafeUrl | None = None
    timestamp_file: Path | None = None
    timestamp_timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    second_settings: Path | None = None
    second_timeout_s: Annotated[float, Field(gt=0, le=60)] = 20.0
    metrics_address: ListenAddress = ""

    @model_validator(mode="after")
    def _check_pairs(self) -> HeadSettings:
        if (self.webhook_url is None) != (self.webhook_secret is None):
            raise ValueError("webhook_url and webhook_secret go together")
        if (self.timestamp_url is None) != (self.timestamp_file is None):
            raise ValueError("timestamp_url and timestamp_file go together")
        return self

    def read_pem(self) -> bytes | None:
        """The key that signs heads; None: there is none. Raises OSError."""
        return None if self.signing_key is None else read_key(self.signing_key)


class LoggingSettings(SettingGroup):
    """What worker, gateway and notifier write to standard error."""

    level: Annotated[str, Field(pattern="^(INFO|WARNING|ERROR)$")] = "INFO"
    format: Literal["lines", "json"] = "lines"


class TracesSettings(SettingGroup):
    """OpenTelemetry spans of worker and gateway: where they go, and of how much."""

    endpoint: Annotated[str, Field(pattern=r"^$|^https?://[^\s@]+$")] = ""
    share: Annotated[float, Field(ge=0, le=1)] = 0.01
    max_per_s: Annotated[float, Field(gt=0)] = 50.0


class CacheSettings(SettingGroup):
    """What is worked out once for all commands of this user."""

    folder: str = "~/.cache/sluice"


class Settings(SettingGroup):
    """All settings of every command. Frozen; built by `load_settings`."""

    kafka: KafkaSettings = KafkaSettings()
    worker: WorkerSettings = WorkerSettings()
    session: SessionSettings = SessionSettings()
    memory: MemorySettings = MemorySettings()
    approvals: ApprovalSettings = ApprovalSettings()
    policy: PolicySettings = PolicySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    grader: GraderSettings = GraderSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()
    gateway: GatewaySettings = GatewaySettings()
    redis: RedisSettings = RedisSettings()
    verdicts: VerdictSettings = VerdictSettings()
    values: ValuesSettings = ValuesSettings()
    sealing: SealingSettings = SealingSettings()
    notify: NotifySettings = NotifySettings()
    slack: SlackSettings = SlackSettings()
    archive: ArchiveSettings = ArchiveSettings()
    heads: HeadSettings = HeadSettings()
    logging: LoggingSettings = LoggingSettings()
    traces: TracesSettings = TracesSettings()
    cache: CacheSettings = CacheSettings()

    def build_audience(self) -> Audience:
        """What every signature in this installation must have been made for."""
        return Audience(self.policy.installation, self.kafka.topic_prefix)

    def build_limits(self) -> SessionLimits:
        """Of sessions and of a partition, as the core takes them."""
        return self.session.build_limits(self.memory, self.approvals, self.kafka.partitions)
