"""The real worker with what the fault runs add: a slow port, an input that kills, a trap before the commit.

A stop can be made to last as long as a file is there.
`python -m load.installations.faulty_worker --gauge FILE --trap FILE --hold FILE --withhold FILE --slow-s
0.3`; all else is the worker's own settings.
"""
# ruff: noqa: E402 - what is imported stays: the collector need not go through it (app/sluice/cli/main.py)

from __future__ import annotations

import gc

gc.set_threshold(500_000)

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from load.installations.installation import POISON_MARK, SLOW_MARK
from load.installations.worker_process import Gauge, tell_when_asked
from sluice.bootstrap.parts import Additions
from sluice.cli.machine.worker import run
from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.foundation.requests import Request
from sluice.core.memory import analysis
from sluice.settings.reader import load_settings

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, Asking

PORT, HELD = "slow", "held"
BUDGET_MS = 60_000
LOOK_S = 0.05
ANALYSIS_KEY = "SLUICE_ANALYSIS__API_KEY"
"""Set for a run with a model's server of its own."""


class SlowProbe:
    """Asks the slow port about every action whose parameters say so."""

    name = "slow_probe"

    def evaluate(self, context: ActionContext) -> Asking:
        """Passes, at once or after the answer."""
        if SLOW_MARK not in context.action.parameters:
            return PASSED
        request = Request(PORT, {"action_id": context.action.action_id}, BUDGET_MS)
        answer = yield request
        return StageResult("pass", None, {"answer": answer.payload})


class Poison:
    """Kills the process: an input that no exception handler can catch."""

    name = "poison"

    def evaluate(self, context: ActionContext) -> StageResult:
        """Passes what does not carry the mark."""
        if POISON_MARK in context.action.parameters:
            os.kill(os.getpid(), signal.SIGKILL)
        return PASSED


class SlowPort:
    """Answers after `seconds`, and not while the file `withheld` is there; the gauge shows how many wait."""

    def __init__(self, seconds: float, withheld: Path, gauge: Gauge) -> None:
        self._seconds = seconds
        self._withheld = withheld
        self._gauge = gauge

    async def ask(self, payload: object) -> object:
        """The question itself."""
        self._gauge.add(1)
        try:
            await asyncio.sleep(self._seconds)
            while self._withheld.exists():  # noqa: ASYNC110 - another process removes it
                await asyncio.sleep(LOOK_S)
        finally:
            self._gauge.add(-1)
        return payload


class SlowAnalysis:
    """The model that is asked about memories in a run without a server of its own: never objects, and is slow
    where the text says so."""

    def __init__(self, slow: SlowPort) -> None:
        self._slow = slow

    async def ask(self, payload: object) -> object:
        """Kills the process over a poisonous text."""
        assert isinstance(payload, dict)  # noqa: S101 - the core's own request
        words = payload["question"]["head"].split()
        if POISON_MARK in words:
            os.kill(os.getpid(), signal.SIGKILL)
        if SLOW_MARK in words:
            await self._slow.ask(payload)
        return {"model": "load", "prompt_version": "1", "trust": 1.0, "categories": [], "explanation": ""}


class HeldStop:
    """A port that nothing asks and that does not close while a file is there: so long does a stop go on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def ask(self, payload: object) -> object:
        """The question itself."""
        return payload

    async def start(self) -> None:
        """Nothing to make ready."""

    async def close(self) -> None:
        """Called when all partitions are closed, before the worker leaves its group."""
        while self._path.exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(LOOK_S)


class Trap:
    """Sends the process the signal named in a file, once, when its records are produced and not committed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def spring(self, number: int) -> None:
        """Called before every commit, with the partition's number."""
        del number
        if self._path.exists():
            chosen = signal.Signals[self._path.read_text(encoding="ascii")]
            self._path.unlink()
            os.kill(os.getpid(), chosen)


def main() -> None:
    """Run the worker until it ends; its exit codes are those of `sluice worker`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gauge", type=Path, required=True)
    parser.add_argument("--trap", type=Path, required=True)
    parser.add_argument("--hold", type=Path, required=True)
    parser.add_argument("--withhold", type=Path, required=True)
    parser.add_argument("--slow-s", type=float, required=True)
    options = parser.parse_args()
    tell_when_asked()
    slow = SlowPort(options.slow_s, options.withhold, Gauge(options.gauge))
    own_analysis = {} if ANALYSIS_KEY in os.environ else {analysis.PORT: SlowAnalysis(slow)}
    additions = Additions(
        stages={SlowProbe.name: SlowProbe(), Poison.name: Poison()},
        ports={PORT: slow, HELD: HeldStop(options.hold), **own_analysis},
        before_commit=Trap(options.trap).spring,
    )
    try:
        run(load_settings(), additions)
    except typer.Exit as ended:
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    main()
