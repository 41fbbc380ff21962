"""A fault in a task that nobody awaits fails its test at once; without this the test would wait for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.stream.engine_settings import FAULTS

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """`fail` of engine_settings cancels the test; the fault is what it fails with."""
    FAULTS.clear()
    try:
        return (yield)
    except asyncio.CancelledError as ended:
        if FAULTS:
            raise FAULTS[0] from ended
        raise
