"""A head signer and a witness beside the workers of a run, and persons who are erased meanwhile: the archive
run kills them, and each other fault run has them beside its own faults where it is asked to (`--attended`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from load.erasures import introduce
from load.installations.command_process import start_command
from load.installations.fleet import RunFailed
from load.recomputation import figures
from load.recomputation.reruns import SEED, read_decision_settings
from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.kafka.kafka_ledger import verify_ledger
from sluice.adapters.kafka.kafka_read import open_reader
from sluice.adapters.ledger_reruns import rerun_sample
from sluice.cli.policy.key_files import make_private_key
from sluice.core.trust.tree_heads import open_head
from sluice.verifier.head_check import HeadSigners, HeadSources, Witnesses
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from load.erasures import Persons
    from load.inputs.publisher import Publisher
    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import TestInstallation
    from load.recomputation.figures import RunFigure
    from sluice.verifier.ledger_findings import Report

AGE_S = 0.3
WANDER_S = 0.8
LOOK_S = 0.001
STALL_S = 75.0
SIGNER_REFUSED, BROKER_AWAY = 1, 3
END_S = 60.0
WITNESS_S = 3.0
_POLL_S = 0.05
MOST_RERUNS = 20_000
"""Of more decisions a sample of so many is executed again, for what is erased."""


class Follower:
    """A command that follows the topics of a run, of which one may run at a time."""

    def __init__(
        self,
        installation: TestInstallation,
        words: Sequence[str],
        settings: Mapping[str, str],
        count: Callable[[], int],
        refused_status: int,
    ) -> None:
        """`count`: what it has written so far; `refused_status`: with which one of two ends."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        self.environment = {**own, **installation.settings, **settings}
        self.folder = installation.folder
        self._words = words
        self._count = count
        self._refused_status = refused_status
        self.killed = 0
        self.refused = 0

    def start(self, *more: str) -> ForkedProcess:
        """Start one."""
        log = self.folder / f"{'-'.join(self._words[:2])}.log"
        return start_command([*self._words, *more], self.environment, log)

    async def kill(self, rng: random.Random) -> None:
        """Kill one at a random moment after it wrote something."""
        await self.kill_after(self._count, rng.uniform(0, WANDER_S))

    async def kill_after(self, count: Callable[[], int], wait_s: float = 0) -> None:
        """Kill one so long after what `count` counts has become more."""
        process, before = self.start(), count()
        await self._wait_until(process, lambda: count() > before)
        await asyncio.sleep(wait_s)
        await self.end(process, signal.SIGKILL)
        self.killed += 1

    async def meet(self) -> None:
        """Start two at once: one of them must end, refused, and the other go on."""
        both = [self.start(), self.start()]
        until = time.monotonic() + STALL_S
        while all(process.poll() is None for process in both):
            if time.monotonic() > until:
                raise RunFailed(f"two of {self._words} wrote beside one another")
            await asyncio.sleep(0.05)
        statuses = [await self.end(process, signal.SIGTERM) for process in both]
        if sorted(statuses) != [0, self._refused_status]:
            raise RunFailed(f"two of {self._words} ended with {statuses}")
        self.refused += 1

    async def finish(self) -> None:
        """Take all that there is now."""
        status = await asyncio.to_thread(self.start("--once").wait, END_S)
        if status:
            raise RunFailed(f"the last of {self._words} ended with status {status}")

    async def _wait_until(self, process: ForkedProcess, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + STALL_S
        while not holds():
            if process.poll() is not None:
                raise RunFailed(f"one of {self._words} ended with status {process.poll()}")
            if time.monotonic() > until:
                await self.end(process, signal.SIGKILL)
                raise RunFailed(f"one of {self._words} wrote nothing")
            await asyncio.sleep(LOOK_S)

    async def end(self, process: ForkedProcess, how: signal.Signals) -> int:
        """Its exit status."""
        if process.poll() is None:
            process.send_signal(how)
        return await asyncio.to_thread(process.wait, END_S)


class Signers:
    """The head signers of a run, with a file of heads, and a witness of them."""

    def __init__(self, installation: TestInstallation) -> None:
        folder = installation.folder
        self.copy = folder / "heads.jsonl"
        self.key = make_private_key(folder / "heads.pem").public.text
        self.witness_key = make_private_key(folder / "witness.pem").public.text
        self.cosigned = folder / "cosigned.jsonl"
        settings = {
            "SLUICE_HEADS__SIGNING_KEY": str(folder / "heads.pem"),
            "SLUICE_HEADS__COPY_FILE": str(self.copy),
            "SLUICE_HEADS__INTERVAL_S": str(AGE_S),
        }
        self._installation = installation
        self.follower = Follower(installation, ["ledger", "sign-heads"], settings, self.count, SIGNER_REFUSED)

    def count(self) -> int:
        """Heads in the file."""
        return self.copy.read_bytes().count(b"\n") if self.copy.exists() else 0

    async def witness(self) -> None:
        """Let the witness co-sign the last head, by a proof from the one that it saw last."""
        last = self.count()
        envelopes = self.cosigned.read_bytes().splitlines() if self.cosigned.exists() else []
        first = read_number(envelopes[-1]) if envelopes else 1
        proof = str(self._installation.folder / f"growth-{last}.json")
        pem = str(self._installation.folder / "witness.pem")
        await self._run("ledger", "consistency", str(first), str(last), "--out", proof)
        await self._run("witness", proof, "--key", pem, "--seen", str(self.cosigned), "--head-key", self.key)

    async def _run(self, *words: str) -> None:
        log = self._installation.folder / "witness.log"
        process = start_command(words, self.follower.environment, log)
        until = time.monotonic() + END_S
        try:
            while process.poll() is None:
                if time.monotonic() > until:
                    raise RunFailed(f"{words[:2]} did not end within {END_S:.0f} s")
                await asyncio.sleep(_POLL_S)
        finally:
            status = await self.follower.end(process, signal.SIGKILL)
        if status:
            raise RunFailed(f"{words[:2]} ended with status {status}")

    async def verify(self) -> Report:
        """The ledger, held against the topic's heads, the file's and those that the witness co-signed."""
        signers = HeadSigners([self.key])
        witnesses = Witnesses([self.witness_key], 1)
        sources = HeadSources(signers, [self.copy], witnesses, [self.cosigned])
        return await verify_ledger(
            self._installation.bootstrap_servers, self._installation.prefix, None, sources
        )


def read_number(envelope: bytes) -> int:
    """The number of the head in it."""
    return open_head(envelope, 0)[1].number


async def check_heads(signers: Signers) -> list[RunFigure]:
    """The ledger against all heads, and how far they go."""
    report = await signers.verify()
    heads = report.heads
    signed = 0 if heads is None else heads.size
    return [
        figures.some("heads", 0 if heads is None else heads.count, "heads"),
        figures.exactly("heads_in_the_file", signers.count(), 0 if heads is None else heads.count, "heads"),
        figures.exactly("records_signed", signed, report.records, "records"),
        figures.none("head_findings", len(report.findings), "findings"),
        figures.exactly(
            "last_witnessed", 0 if heads is None else heads.witnessed or 0, signers.count(), "the last head"
        ),
    ]


@dataclass
class Attendants:
    """A signer that runs all the time, a witness that co-signs every few seconds, and erasures, beside a run
    that does something else. Made by `invite`. `broker_leaves`: the broker may be away for a while; a signer
    ends then, and is started again, as by a supervisor."""

    installation: TestInstallation
    signers: Signers
    persons: Persons
    rng: random.Random
    broker_leaves: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def attend(self, publisher: Publisher) -> None:
        """Until it is cancelled; `settled` is set once persons were erased. Raises RunFailed."""
        signing = asyncio.create_task(self._sign())
        living = asyncio.create_task(self.persons.live(publisher, self.rng, 1))
        try:
            await asyncio.wait([signing, living], return_when=asyncio.FIRST_COMPLETED)
            if living.done():
                living.result()
                self.settled.set()
            await signing
        finally:
            signing.cancel()
            living.cancel()
            await asyncio.gather(signing, living, return_exceptions=True)

    async def _sign(self) -> None:
        process = self.signers.follower.start()
        try:
            while True:
                await asyncio.sleep(WITNESS_S)
                if (status := process.poll()) is not None:
                    if not self.broker_leaves or status != BROKER_AWAY:
                        raise RunFailed(f"the head signer ended with status {status}")
                    process = self.signers.follower.start()
                if self.signers.count():
                    with suppress(*[RunFailed] if self.broker_leaves else []):
                        await self.signers.witness()
        finally:
            await self.signers.follower.end(process, signal.SIGTERM)

    async def finish(self) -> None:
        """After the workers: sign and co-sign what is left, and have what was erased compacted."""
        await self.signers.follower.finish()
        await self.signers.witness()
        await self.persons.finish()

    async def compare(self) -> list[RunFigure]:
        """The ledger against the heads, and what lies of the persons."""
        installation = self.installation
        names = [
            topic.real_name(installation.prefix, installation.app_id)
            for topic in CATALOG
            if topic.direction != "keys"
        ]
        async with open_reader(installation.cluster, names, "beginning") as reader:
            stored = [record async for batch in reader.to_end() for record in batch]
        evidence = KafkaEvidence(installation.cluster, installation.prefix)
        settings = read_decision_settings(installation)
        reruns = await rerun_sample(evidence, settings, MOST_RERUNS, SEED)
        return [*await check_heads(self.signers), *self.persons.compare(stored, reruns)]


async def invite(
    installation: TestInstallation, rng: random.Random, *, broker_leaves: bool = False
) -> Attendants:
    """Before the workers start."""
    persons = await introduce(installation)
    persons.waits, persons.broker_leaves = False, broker_leaves
    return Attendants(installation, Signers(installation), persons, rng, broker_leaves)


async def settle(attended: list[Attendants] | None) -> list[RunFigure]:
    """What those of the run did, once its workers have ended and while its broker is there."""
    run_figures: list[RunFigure] = []
    while attended:
        attendants = attended.pop()
        await attendants.finish()
        run_figures += await attendants.compare()
    return run_figures
