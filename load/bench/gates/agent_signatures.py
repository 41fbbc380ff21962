"""What the signature of an agent's input costs: the same actions signed and not, chunk by chunk in turn."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.bench import measurement
from load.bench.fixtures import bench_env, bench_policy
from load.bench.fixtures.action_events import AGENT, AT_MS, events
from load.bench.fixtures.pure import Pipeline
from load.bench.measurement import CpuClock, judge, report, require_at_most, run_in_fresh_process
from sluice.client.sender import InputSigner
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import SigningKey
from sluice_topics.agent_signature import read_signature
from sluice_topics.audience import UNNAMED, Audience, SignedInput
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.bench.measurement import Extent, Figures, Judge, Measurement

SIGNER = "bench-signer"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
EVENTS = 12_000
WORKER_EVENTS = 12_000
CHUNK = 256
SESSIONS = 2_000
GOAL = 1.25
PURE: dict[str, Judge] = {
    "unsigned, pure core": partial(report, unit="us/action"),
    "signed, pure core": partial(report, unit="us/action"),
    "Ed25519 verify alone": partial(report, unit="us/action", goal="yardstick"),
    "signed / unsigned, pure core": partial(require_at_most, goal=GOAL),
}
WORKER: dict[str, Judge] = {
    "unsigned, worker": partial(report, unit="CPU us/action"),
    "signed, worker": partial(report, unit="CPU us/action"),
    "signed / unsigned, worker": partial(require_at_most, goal=GOAL),
}


def entry() -> dict[str, object]:
    """The registry entry of the agent that signs."""
    keys = [{"public_key": SigningKey(KEY).public.text}]
    spec = {"tenant_id": bench_policy.TENANT, "tier": "T3", "autonomy_tier": "bounded", "keys": keys}
    return {"kind": "agent", "id": SIGNER, "revision": 1, "spec": spec}


def rename_agent(messages: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The same actions in the name of the agent that signs."""
    return ((key, value.replace(AGENT.encode(), SIGNER.encode(), 1)) for key, value in messages)


def header(
    key: bytes, value: bytes, at_ms: int | None = None, audience: Audience = UNNAMED
) -> tuple[str, bytes]:
    """The header of an action; `at_ms` None: now."""
    signer = InputSigner(PEM, audience)
    return signer.make_header(ACTIONS, key.decode(), value, at_ms or time.time_ns() // 1_000_000)


def measure(count: int, seed: int) -> Figures:
    """One round of the pure core, in a fresh process."""
    under = bench_policy.policy(more=[entry()])
    plain, signed = Pipeline(bench_policy.point_of(under)), Pipeline(bench_policy.point_of(under))
    unsigned = [
        InputRecord(ACTIONS, 0, n, AT_MS, *event) for n, event in enumerate(events(count, SESSIONS, seed))
    ]
    with_headers = [
        InputRecord(ACTIONS, 0, n, AT_MS, *event, signature_header=header(*event, AT_MS)[1])
        for n, event in enumerate(rename_agent(events(count, SESSIONS, seed)))
    ]
    clock = CpuClock()
    measurement.settle()
    for start in range(0, count, CHUNK):
        clock.take("unsigned", partial(plain.take, unsigned[start : start + CHUNK]))
        bodies = clock.take("signed", partial(signed.take, with_headers[start : start + CHUNK]))
        assert all("signature" in body for body in bodies if body["schema"] == "sluice/verdict/v1")  # noqa: S101
        clock.take("verify", partial(_verify, with_headers[start : start + CHUNK]))
    each = {what: seconds / count * 1e6 for what, seconds in clock.seconds.items()}
    rates = (each["unsigned"], each["signed"], each["verify"], each["signed"] / each["unsigned"])
    return dict(zip(PURE, rates, strict=True))


def _verify(input_records: list[InputRecord]) -> None:
    public = KEY.public_key()
    for record in input_records:
        signature = read_signature(record.signature_header or b"")
        if signature is not None:
            signed = SignedInput(ACTIONS, record.key or b"", *signature[:3], record.value or b"")
            public.verify(signature.signature, signed.message(UNNAMED))


def figures(extent: Extent) -> list[Measurement]:
    """What a signed action costs in the pure core."""
    rounds = [run_in_fresh_process(measure, extent.scale(EVENTS), seed) for seed in range(extent.rounds)]
    return judge(rounds, PURE)


def make_signer(round_: bench_env.Round) -> Callable[[bytes, bytes], list[tuple[str, bytes]]]:
    """The headers of an action of a round."""
    audience = round_.trust.make_audience(round_.layout.prefix)
    return lambda key, value: [header(key, value, audience=audience)]


async def measure_worker(round_: bench_env.Round, count: int, pairs: int = 3) -> Figures:
    """One round of a worker: unsigned and signed actions in turn, its CPU time for each."""
    await round_.create_topics(more=[entry()])
    signer = make_signer(round_)
    turns = [
        turn
        for number in range(pairs + 1)
        for turn in (
            bench_env.Turn("unsigned", events(count, SESSIONS, number)),
            bench_env.Turn("signed", rename_agent(events(count, SESSIONS, number)), signer),
        )
    ]
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        each = await bench_env.measure_turns_us(round_, child, turns)
    last = (await bench_env.read_committed(round_.bootstrap, round_.topic(VERDICTS)))[-1]
    assert "signature" in json.loads(last.value)  # noqa: S101
    rates = each["unsigned"], each["signed"], each["signed"] / each["unsigned"]
    return dict(zip(WORKER, rates, strict=True))
