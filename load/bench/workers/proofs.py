"""What proofs cost: a worker's CPU time for an action with a key and without, one after the other, and the
head signer's for a record beside what the record's decision took."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load import ROOT
from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report, require_at_most
from load.bench.workers.throughput import EVENTS, SESSIONS
from sluice.cli.policy.key_files import make_private_key
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

GOAL = 1.1
HEAD_EVENTS = 20_000
HEADS_GOAL = 0.02


async def costs(bench: Bench) -> list[Measurement]:
    """The worker that signs each transaction, and the same that does not, in turn."""
    count = bench.extent.scale(EVENTS)
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    plain, signing = [], []
    for number in bench.rounds:
        plain.append(await _cost(bench.round("unproved"), count, number))
        key = {"SLUICE_VERDICTS__SIGNING_KEY": pem.decode()}
        signing.append(await _cost(bench.round("proved"), count, number, **key))
    larger = [float(b[1] - a[1]) for a, b in zip(plain, signing, strict=True)]
    return [
        report("worker, no proofs", [cost for cost, _ in plain], "CPU us/action", "yardstick"),
        report("worker, proofs", [cost for cost, _ in signing], "CPU us/action", "see the ratio"),
        require_at_most(
            "proofs / no proofs", [b[0] / a[0] for a, b in zip(plain, signing, strict=True)], GOAL
        ),
        report("bytes that a proof adds to a verdict", larger, "bytes"),
    ]


async def measure_heads(bench: Bench) -> list[Measurement]:
    """The head signer's CPU time for a record, fetched and signed, beside the worker's for a decision."""
    count = bench.extent.scale(HEAD_EVENTS)
    every = [await _measure_signer(bench.round("heads"), count, number) for number in bench.rounds]
    return [
        report("worker", [worker for worker, _ in every], "CPU us/action", "yardstick"),
        report("head signer, fetching included", [signer for _, signer in every], "CPU us/record"),
        require_at_most("signer / worker", [signer / worker for worker, signer in every], HEADS_GOAL),
    ]


async def _measure_signer(round_: Round, count: int, seed: int) -> tuple[float, float]:
    """CPU us of the worker for an action, and of a signer for a record: that of one over the whole ledger,
    less that of one over a tenth of it."""
    key = round_.work / f"{round_.name}.pem"
    make_private_key(key)
    settings = {"SLUICE_HEADS__SIGNING_KEY": str(key)}
    await round_.create_topics()
    signed = []
    with bench_env.worker(round_, **settings) as child:
        await bench_env.wait_until_ready(round_, child)
        for turn, so_many in enumerate((count // 10, count), start=1):
            before = bench_env.cpu_s(child.pid)
            messages = action_events.events(so_many, SESSIONS, 2 * seed + turn)
            await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), messages)
            written = so_many if turn == 1 else so_many + count // 10
            await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), written)
            spent = bench_env.cpu_s(child.pid) - before
            signed.append(await asyncio.to_thread(_sign, round_, settings))
    return spent / count * 1e6, (signed[1] - signed[0]) / count * 1e6


def _sign(round_: Round, settings: dict[str, str]) -> float:
    """CPU seconds of a signer that reads the whole ledger and signs a head."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sluice", "ledger", "sign-heads", "--once"]
    with (round_.work / f"{round_.name}-signer.log").open("ab") as log:
        environment = round_.environment(**settings)
        subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def _cost(round_: Round, count: int, seed: int, **settings: str) -> tuple[float, int]:
    """The worker's CPU time for an action, in us, and the bytes of a verdict's headers."""
    await round_.create_topics()
    lots = (action_events.events(count, SESSIONS, 2 * seed + lot) for lot in range(2))
    with bench_env.worker(round_, **settings) as child:
        await bench_env.wait_until_ready(round_, child)
        turns = (bench_env.Turn("", messages) for messages in lots)
        each = await bench_env.measure_turns_us(round_, child, turns)
    verdicts = await bench_env.read_written(round_.bootstrap, round_.topic(VERDICTS))
    return each[""], bench_env.mean(verdicts.headers)
