"""What proofs cost a worker: its CPU time for an action with a key and without, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report, require_at_most
from load.bench.workers.throughput import EVENTS, SESSIONS
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

GOAL = 1.1


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


async def _cost(round_: Round, count: int, seed: int, **settings: str) -> tuple[float, int]:
    """The worker's CPU time for an action, in us, and the bytes of a verdict's headers."""
    await round_.create_topics()
    with bench_env.worker(round_, **settings) as child:
        await bench_env.wait_until_ready(round_, child)
        spent = 0.0
        for turn in range(2):  # the first warms up
            before = bench_env.cpu_s(child.pid)
            messages = action_events.events(count, SESSIONS, 2 * seed + turn)
            await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), messages)
            await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), (turn + 1) * count)
            spent = bench_env.cpu_s(child.pid) - before
    verdicts = await bench_env.read_written(round_.bootstrap, round_.topic(VERDICTS))
    return spent / count * 1e6, bench_env.mean(verdicts.headers)
