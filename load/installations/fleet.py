"""The workers of a run and their supervisor: restarts what crashed, counts how each ended, who owns what."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from load import ROOT
from load.installations.worker_process import WorkerProcess
from sluice.stream.process import EXIT_FAULT, EXIT_FENCED

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation

WATCH_S = 0.05
RESTART_AFTER_S = 0.3
MAX_RESTARTS = 60
PATIENCE_S = 30.0
ASK_AGAIN_S = 1.0
KILLED = -signal.SIGKILL
RESTARTED = frozenset({EXIT_FAULT, EXIT_FENCED, KILLED})


class RunFailed(Exception):
    """A run could not be carried through; the message says what was seen."""


@dataclass(slots=True)
class Tally:
    """`exits`: by status. `in_flight`: workers killed or suspended with undecided or uncommitted work.

    `suspended`: by SIGSTOP. `moves`: times that a partition came to another process, by its
    number. `slow_to_stop`: killed
    because they did not stop when asked.
    """

    exits: Counter[int] = field(default_factory=Counter)
    in_flight: int = 0
    suspended: int = 0
    moves: Counter[int] = field(default_factory=Counter)
    slow_to_stop: int = 0

    @property
    def moved(self) -> int:
        """Moves of all partitions."""
        return self.moves.total()

    @property
    def killed(self) -> int:
        """Crashed by SIGKILL."""
        return self.exits[KILLED] - self.slow_to_stop


class Fleet:
    """Slots with one process each. `watch` must run beside; `check` raises what it saw. `trees`: the code of
    a slot's workers, where it is not this tree's."""

    def __init__(self, installation: TestInstallation, slow_s: float) -> None:
        self._installation = installation
        self._slow_s = slow_s
        self._lives = 0
        self._owners: dict[int, WorkerProcess] = {}
        self._failure: str | None = None
        self._trapped: set[str] = set()
        self.workers: dict[int, WorkerProcess] = {}
        self.trees: dict[int, Path] = {}
        self.tally = Tally()

    def spawn(self, slot: int) -> None:
        """Start a worker, to be kept running until `remove`."""
        self._lives += 1
        if self._lives > MAX_RESTARTS:
            self._failure = f"more than {MAX_RESTARTS} starts"
            return
        self.workers[slot] = WorkerProcess(
            self._installation, f"worker-{slot}-{self._lives}", self._slow_s, self.trees.get(slot, ROOT)
        )

    def kill(self, slot: int) -> None:
        """SIGKILL; the supervisor starts another."""
        self.workers[slot].send(signal.SIGKILL)

    def stop(self, slot: int) -> WorkerProcess:
        """SIGSTOP; returns the process to continue later."""
        worker = self.workers[slot]
        worker.send(signal.SIGSTOP)
        self.tally.suspended += 1
        self.tally.in_flight += worker.count_waiting() > 0
        return worker

    def set_trap(self, slot: int, number: signal.Signals) -> WorkerProcess:
        """Have the worker signal itself between produce and commit."""
        worker = self.workers[slot]
        worker.set_trap(number)
        self._trapped.add(worker.name)
        if number == signal.SIGSTOP:
            self.tally.suspended += 1
            self.tally.in_flight += 1
        return worker

    async def remove(self, slot: int) -> None:
        """Stop a worker in good order."""
        worker = self.workers.pop(slot)
        self._count_end(await asyncio.to_thread(worker.end, PATIENCE_S), worker)

    async def close(self) -> None:
        """Stop all."""
        await asyncio.gather(*(self.remove(slot) for slot in list(self.workers)))

    def where(self) -> str:
        """What each worker waits for, by its own account."""
        workers = list(self.workers.values())  # called beside `watch`, which may replace one
        for worker in workers:
            worker.ask()
        time.sleep(ASK_AGAIN_S)
        return "\n".join(f"{worker.name}: {worker.last_words()}" for worker in workers)

    def kill_all(self) -> None:
        """End every process now, whatever happened."""
        for worker in self.workers.values():
            worker.end_now()
        self.workers.clear()

    def list_owned(self) -> frozenset[int]:
        """Partitions that some running, not suspended worker decides for."""
        live = (w for w in self.workers.values() if w.exit_code is None and not w.is_stopped())
        return frozenset(number for worker in live for number in worker.partitions())

    def check(self) -> None:
        """Raise RunFailed when a worker ended as none should."""
        if self._failure is not None:
            raise RunFailed(self._failure)

    async def watch(self) -> None:
        """Supervise until cancelled."""
        while True:
            for slot, worker in list(self.workers.items()):
                if worker.exit_code is None:
                    self._see_partitions(worker)
                else:
                    await self._note_end(slot, worker, worker.exit_code)
            await asyncio.sleep(WATCH_S)

    def _see_partitions(self, worker: WorkerProcess) -> None:
        if worker.is_stopped():
            return
        for number in worker.partitions():
            owner = self._owners.get(number)
            self.tally.moves[number] += owner is not None and owner is not worker
            self._owners[number] = worker

    async def _note_end(self, slot: int, worker: WorkerProcess, code: int) -> None:
        self.tally.exits[code] += 1
        if code == KILLED:
            sprung = worker.name in self._trapped and not worker.is_in_trap()
            self.tally.in_flight += sprung or worker.count_waiting() > 0
        if code not in RESTARTED:
            self._failure = f"{worker.name} ended with status {code}:\n{worker.last_words()}"
            del self.workers[slot]
            return
        await asyncio.sleep(RESTART_AFTER_S)
        if self.workers.get(slot) is worker:
            self.spawn(slot)

    def _count_end(self, code: int, worker: WorkerProcess) -> None:
        self.tally.exits[code] += 1
        self.tally.slow_to_stop += code == KILLED
        if code not in {0, EXIT_FENCED, KILLED}:
            self._failure = f"{worker.name} was asked to stop and ended with {code}:\n{worker.last_words()}"
