"""The only reader of the environment and of config/: every setting, its unit and its default.

Source, last wins: the defaults below, `config/sluice.toml`, the file named by `SLUICE_CONFIG`, environment
variables (`SLUICE_KAFKA__TOPIC_PREFIX=…`). `config/sluice.toml` says each default again with a sentence;
`tests/unit/test_settings.py` holds the two together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from app.core.limits import SessionLimits
from app.core.policy import DEFAULT_QUALITY

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FILE = ROOT / "config" / "sluice.toml"

STAGES = ("controls", "fast_reject", "rules", "consequence", "topology", "tier_auth")

STAND_INS = (
    ("KAFKA_BOOTSTRAP_SERVERS", "SLUICE_KAFKA__BOOTSTRAP_SERVERS", "kafka", "bootstrap_servers"),
    ("ANTHROPIC_API_KEY", "SLUICE_ANALYSIS__API_KEY", "analysis", "api_key"),
)
"""Environment variables by their usual names, and which of ours each stands for."""

PublicKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=$")]
"""The 32 raw bytes of an Ed25519 key, base64."""
HostPattern = Annotated[
    str, Field(pattern=r"^(\*\.)?[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$|^[0-9a-f:]{2,45}$")
]
"""A host in lower case (punycode where it is not ASCII), "*." and a host, or an address."""
Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class SettingsError(Exception):
    """A setting is wrong; the message names it and says why. Nothing was started."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(_Group):
    """Where the broker is and how the topics are laid out on it."""

    bootstrap_servers: str = "127.0.0.1:29092"
    topic_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]*$", max_length=100)] = ""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 8
    replication_factor: Annotated[int, Field(ge=1, le=32767)] = 1


class WorkerSettings(_Group):
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

    @model_validator(mode="after")
    def _ordered(self) -> WorkerSettings:
        if self.linger_min_ms > self.linger_max_ms:
            raise ValueError("linger_min_ms is above linger_max_ms")
        if self.heartbeat_interval_s * 3 > self.session_timeout_s:
            raise ValueError("heartbeat_interval_s must fit three times into session_timeout_s")
        return self


class SessionSettings(_Group):
    """How long and how much a session is remembered."""

    action_window_s: Seconds = 3600.0
    idle_timeout_s: Seconds = 86400.0
    max_recent_actions: Positive = 1024
    max_early_outcomes: Positive = 64
    max_tenants: Positive = 8
    max_recent_writes: Positive = 1024
    max_known_sources: Positive = 64
    max_recent_retrievals: Positive = 64
    max_recent_items: Positive = 2048

    @model_validator(mode="after")
    def _idle_covers_window(self) -> SessionSettings:
        if self.idle_timeout_s < self.action_window_s:
            raise ValueError(
                "idle_timeout_s must not be below action_window_s, or a repeat could count twice"
            )
        return self

    def limits(self, memory: MemorySettings) -> SessionLimits:
        """In ms, as the core takes them, with the bounds of a partition."""
        return SessionLimits(
            action_window_ms=int(self.action_window_s * 1000),
            idle_timeout_ms=int(self.idle_timeout_s * 1000),
            max_recent_actions=self.max_recent_actions,
            max_early_outcomes=self.max_early_outcomes,
            max_tenants=self.max_tenants,
            max_recent_writes=self.max_recent_writes,
            max_known_sources=self.max_known_sources,
            max_recent_retrievals=self.max_recent_retrievals,
            max_recent_items=self.max_recent_items,
            max_quarantine=memory.max_quarantine_size,
            max_source_histories=memory.max_source_histories,
        )


class MemorySettings(_Group):
    """The memory gate's quarantine (seed 003, maxQuarantineSize); thresholds and times are the bundle's."""

    max_quarantine_size: Positive = 1000
    max_source_histories: Positive = 100_000


class PolicySettings(_Group):
    """What decides: whose signatures count, the default bundles, the order of stages."""

    root_keys: tuple[PublicKey, ...] = ()
    default_bundle: Annotated[str, Field(min_length=1, max_length=256)] = "sluice.default"
    default_quality_bundle: Annotated[str, Field(min_length=1, max_length=256)] = DEFAULT_QUALITY
    stages: tuple[str, ...] = STAGES
    refresh_s: Seconds = 0.5
    environment: Annotated[str, Field(min_length=1, max_length=64)] = "development"


class EmbeddingSettings(_Group):
    """The sentence encoder beside the rules; a bundle says whether it is asked."""

    encoder: Literal["off", "all-minilm-l6-v2"] = "off"
    threads: Annotated[int, Field(ge=1, le=64)] = 1


class AnalysisSettings(_Group):
    """The hosted model that may lower a memory's trust; a bundle says whether it is asked.

    It is off without a key.
    """

    model: Annotated[str, Field(max_length=128)] = "claude-haiku-5-5"
    base_url: Annotated[str, Field(pattern=r"^https?://[^@\s/?#]+(?:/[^@\s?#]*)?$")] = (
        "https://api.anthropic.com"
    )
    api_key: SecretStr | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=600_000)] = 20_000
    max_tokens: Annotated[int, Field(ge=256, le=64_000)] = 2048
    max_retries: Annotated[int, Field(ge=0, le=8)] = 1
    max_connections: Annotated[int, Field(ge=1, le=1024)] = 8
    effort: Literal["none", "low", "medium", "high"] = "none"


class ProvenanceSettings(_Group):
    """Which references of the web are resolved for the record, and how far a server is put up with.

    None is while no host is allowed. "*.example.com" allows the hosts one label below, as in certificates.
    """

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
    pinned: dict[str, str] = {}


class LoggingSettings(_Group):
    """What the worker prints on standard error."""

    level: Annotated[str, Field(pattern="^(INFO|WARNING|ERROR)$")] = "INFO"


class Settings(BaseSettings):
    """All settings of every command. Frozen; built by `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    kafka: KafkaSettings = KafkaSettings()
    worker: WorkerSettings = WorkerSettings()
    session: SessionSettings = SessionSettings()
    memory: MemorySettings = MemorySettings()
    policy: PolicySettings = PolicySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()
    logging: LoggingSettings = LoggingSettings()

    def limits(self) -> SessionLimits:
        """Of sessions and of a partition, as the core takes them."""
        return self.session.limits(self.memory)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        files = [
            DEFAULT_FILE,
            *([Path(os.environ["SLUICE_CONFIG"])] if "SLUICE_CONFIG" in os.environ else []),
        ]
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls, files, deep_merge=True))


def load_settings() -> Settings:
    """The settings in force. Raises SettingsError with a line per wrong setting.

    The field's usual names stand in for two of ours: see STAND_INS.
    """
    given: dict[str, Any] = {}
    for usual, own, group, name in STAND_INS:
        if (value := os.environ.get(usual)) and own not in os.environ:
            given[group] = {name: value}
    named = os.environ.get("SLUICE_CONFIG")
    if named and not Path(named).is_file():
        raise SettingsError(f"SLUICE_CONFIG: no such file: {named}")
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError("\n".join(_line(part) for part in error.errors())) from None


def _line(error: object) -> str:
    assert isinstance(error, dict)  # noqa: S101 - narrows pydantic's TypedDict
    return f"{'.'.join(map(str, error['loc'])) or 'settings'}: {error['msg']}"
