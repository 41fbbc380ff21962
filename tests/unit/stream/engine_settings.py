"""An engine that waits for nothing and halts on nothing, and the fault that ends a test."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sluice.stream.engine.engine_settings import EngineSettings
from sluice_topics.catalog import CATALOG

_QUICK = EngineSettings(
    input_topics=(),
    real_names={topic.name: topic.name for topic in CATALOG},
    source="/test",
    partitions=8,
    max_batch=100,
    max_in_flight=100,
    offsets_interval_s=1.0,
    linger_low_s=0.0,
    linger_high_s=0.0,
    timer_interval_s=1.0,
    close_timeout_s=1.0,
    halt_on_offset_gap=False,
)


def engine_settings(*input_topics: str, **own: Any) -> EngineSettings:
    """Settings over these topics (base names); `own`: fields that a test is about."""
    return replace(_QUICK, input_topics=input_topics, **own)


FAULTS: list[BaseException] = []
"""Those of the test that runs, of tasks that nobody awaits: conftest.py has the test fail with them."""


def fail(fault: BaseException) -> None:
    """What a partition calls when it must stop: the test fails with it, whatever the test waits for."""
    with suppress(RuntimeError):  # no loop runs: the caller is the test
        running = asyncio.all_tasks()
        FAULTS.append(fault)
        for task in running:
            task.cancel()
    raise fault
