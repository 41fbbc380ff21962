"""The engine's bounds and times, which the settings give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.stream.engine.observer import EngineObserver, Unobserved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.stream.engine.record_signer import RecordSigner


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Bounds and times of the engine. `real_names`: topic name on the broker by base name. `decider_version`:
    what the ledger's records say of the code that decided. `signer`: signs each transaction's records; None:
    they are not signed. `observer`: sees what is decided and committed."""

    input_topics: tuple[str, ...]
    real_names: Mapping[str, str]
    source: str
    partitions: int
    max_batch: int
    max_in_flight: int
    offsets_interval_s: float
    linger_low_s: float
    linger_high_s: float
    timer_interval_s: float
    close_timeout_s: float
    halt_on_offset_gap: bool
    decider_version: str | None = None
    signer: RecordSigner | None = None
    observer: EngineObserver = field(default_factory=Unobserved)
    crash_window: int = 8192
    max_hot_sessions: int = 256
    crash_group: int = 64
    timer_batch: int = 500
    timer_retry_s: float = 60.0
    report_s: float = 1.0
    port_patience_s: float = 60.0
    slice_s: float = 0.004
    chunk: int = 32
