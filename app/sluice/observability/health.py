"""Whether a process lives and does its work, as /healthz and /readyz say. Read from the listener's thread."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.stream.engine.observer import Commit, EngineState, StagedRecord

BEAT_S = 1.0
STALLED_S = 15.0
"""A loop that has not turned for so long will not turn again by itself."""


class LoopBeat:
    """Notes that a process's loop turns, and touches `file` each time, for who watches from outside."""

    def __init__(self, file: Path | None = None) -> None:
        self._beat_at: float | None = None
        self._file = file

    def start(self) -> None:
        """Begin in the running loop; only the first call has an effect."""
        if self._beat_at is None:
            self._beat(asyncio.get_running_loop())

    def find_fault(self) -> str | None:
        """Why the process does nothing any more; None: it lives, or has not begun."""
        beat_at = self._beat_at
        silent_s = 0.0 if beat_at is None else time.monotonic() - beat_at
        return f"the process has done nothing for {silent_s:.0f} s" if silent_s > STALLED_S else None

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_at = time.monotonic()
        if self._file is not None:
            with suppress(OSError):  # the folder goes when its supervisor ends
                self._file.touch()
        loop.call_later(BEAT_S, self._beat, loop)


class WorkerHealth:
    """An observer of the engine that knows what its worker waits for. `beat_file`: see LoopBeat."""

    def __init__(self, beat_file: Path | None = None) -> None:
        self.beat = LoopBeat(beat_file)
        self._has_policy = False
        self._recovering = 0
        self._is_open = False

    def list_waits(self) -> list[str]:
        """What the worker waits for before it decides, in words; nothing: it decides."""
        if self._is_open:
            return []
        waits = [] if self._has_policy else ["policy: the control topics are not read yet"]
        if self._recovering:
            waits.append(f"recovery: the state of {self._recovering} partitions is read")
        else:
            waits.append("partitions: none is assigned")
        return waits

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """Nothing."""

    def note_commit(self, commit: Commit) -> None:
        """Nothing: decisions say no more than that partitions are open."""

    def note_state(self, state: EngineState) -> None:
        """Note whether partitions are open."""
        self._is_open = state.partitions > 0
        if self._is_open:
            self._recovering = 0

    def note_fenced(self, partitions: int) -> None:
        """Note that so many partitions are recovered now."""
        self.beat.start()
        self._recovering = partitions

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """Note that there is a policy."""
        del contents, refused
        self._has_policy = True

    def note_at_hand(self, port: str) -> None:
        """Nothing."""

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """Nothing."""


class GatewayHealth:
    """What a gateway waits for. `is_serving`: it is connected and takes requests; `is_fresh`: whether it has
    read the registry lately, None before it is built."""

    def __init__(self) -> None:
        self.beat = LoopBeat()
        self.is_fresh: Callable[[], bool] | None = None
        self._is_serving = False

    def note_serving(self, is_serving: bool) -> None:
        """Note that it is connected, or stops."""
        self._is_serving = is_serving
        self.beat.start()

    def list_waits(self) -> list[str]:
        """In words; nothing: it answers."""
        if not self._is_serving:
            return ["broker: the gateway is not connected"]
        if self.is_fresh is not None and not self.is_fresh():
            return ["policy: the registry was not read lately"]
        return []


class NotifierHealth:
    """What a notifier waits for, by destination."""

    def __init__(self) -> None:
        self.beat = LoopBeat()
        self._caught_up: dict[str, bool] = {}

    def expect(self, destination: str) -> None:
        """There is such a destination."""
        self._caught_up.setdefault(destination, False)

    def note_backlog(self, destination: str, *, caught_up: bool) -> None:
        """A destination's topics were read; once it has caught up, what comes later is its daily work."""
        self.beat.start()
        self._caught_up[destination] = caught_up or self._caught_up.get(destination, False)

    def list_waits(self) -> list[str]:
        """In words; nothing: every destination is told of what comes."""
        late = [name for name, caught_up in list(self._caught_up.items()) if not caught_up]
        if not self._caught_up:
            return ["broker: the notifier is not connected"]
        return [f"{name}: the ledger's topics are not read to their end yet" for name in sorted(late)]


class FollowerHealth:
    """What a process waits for that follows the topics: a head signer, an archiver. `waits_for`: until it has
    read what lay there at its start, in words."""

    def __init__(self, waits_for: str) -> None:
        self.beat = LoopBeat()
        self._waits_for = waits_for
        self._is_whole: bool | None = None

    def note_progress(self, *, is_whole: bool) -> None:
        """Note that it reads, and whether it has read what lay there; once it has, what comes is its work."""
        self.beat.start()
        self._is_whole = is_whole or bool(self._is_whole)

    def list_waits(self) -> list[str]:
        """In words; nothing: it follows."""
        if self._is_whole is None:
            return ["broker: it is not connected"]
        return [] if self._is_whole else [self._waits_for]
