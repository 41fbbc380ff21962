"""`sluice` in a process that is killed at a step of an erasure, which the environment names,
or that waits there for another one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_key_erasure import KeyRemains, KeyTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sluice_topics.records.subject_keys import WrappedKey

KILLED_AT = "KILLED_AT"
MEETS_IN = "MEETS_IN"
"""A folder in which two processes wait for one another, when each has found the keys."""
BOTH, MET_WITHIN_S = 2, 60
STEPS = ("found", "ordered", "half_deleted", "deleted", "compacted")
"""The keys are found; the entry is published; one of two tombstones is written; both are; the broker has
compacted them, and nobody has said so."""


def _die(step: str) -> None:
    if os.environ[KILLED_AT] == step:
        os.kill(os.getpid(), signal.SIGKILL)


def _meet() -> None:
    """Wait for the other process that works in this folder."""
    if not os.environ[MEETS_IN]:
        return
    folder, ends_s = Path(os.environ[MEETS_IN]), time.monotonic() + MET_WITHIN_S
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < BOTH and time.monotonic() < ends_s:
        time.sleep(0.02)


class KilledTopic(KeyTopic):
    """The topic of keys as a process sees it that does not live long."""

    async def find(self, names: Collection[bytes]) -> dict[str, bytes]:
        """What is there, and the end."""
        found = await super().find(names)
        _die("found")
        _meet()
        return found

    async def read_keys(self, key_ids: Collection[str] | None = None) -> dict[str, WrappedKey]:
        """Of named keys it is asked once their erasure is ordered."""
        if key_ids is not None:
            _die("ordered")
        return await super().read_keys(key_ids)

    async def erase(self, key_ids: Sequence[str]) -> float:
        """The first tombstone alone, then the others."""
        await super().erase(key_ids[:1])
        _die("half_deleted")
        return await super().erase(key_ids)

    async def await_destruction(
        self,
        key_ids: Collection[str],
        erased_s: float,
        wait_s: float,
        report: Callable[[KeyRemains], None] = lambda _: None,
    ) -> KeyRemains:
        """Before it waits, or when it has waited."""
        _die("deleted")
        remains = await super().await_destruction(key_ids, erased_s, wait_s, report)
        _die("compacted")
        return remains


def main() -> None:
    """The command. A test that names this module keeps its own topic."""
    from sluice.cli.main import main as run  # noqa: PLC0415 - only the process needs it
    from sluice.cli.policy import erase  # noqa: PLC0415 - as above

    vars(erase)["KeyTopic"] = KilledTopic
    run()
