"""Forged proofs: the attacker knows everything of the victim's input, and answers it before the worker does.

All that such a record lacks is a proof by the worker's key: the victim is told the key. Without it (the
attempt that is a known limit) only the right to write to the answering topics protects a client.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer

from load.attacks.attempt import Attempt
from load.attacks.forger_scene import HELD, PATIENCE_S, RAN, READ, read_asked
from load.installations.installation import records_of
from sluice_topics.catalog import ACTIONS, VERDICTS
from sluice_topics.record_proof import HEADER, find_proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.attacks.forger_scene import Fields, ForgerScene

Proof = tuple[str, bytes]


async def attempts(scene: ForgerScene) -> list[Attempt]:
    """Each with a verdict that allows the very input."""
    others = await _proof_of_another(scene)
    proofs: dict[str, Callable[[str, Fields], list[Proof]]] = {
        "unsigned": lambda _session, _forged: [],
        "with the proof of another record": lambda _session, _forged: [others],
        "with a proof by a retired key": lambda session, forged: [
            scene.sign_record(scene.retired, session, forged)
        ],
        "with a proof of the same record in another partition": lambda session, forged: [
            scene.sign_record(scene.signer, _elsewhere(scene, session), forged)
        ],
        "with a proof of the record before it was changed": lambda session, forged: [
            scene.sign_record(scene.signer, session, {**forged, "verdict": "denied"})
        ],
        "with a proof that cannot be read": lambda _session, _forged: [(HEADER, b"v1 trust me")],
    }
    return [
        *[await _try_known(scene, f"{tried}, all else right", proof) for tried, proof in proofs.items()],
        await _untold(scene),
        await _try_fenced(scene),
        await _true_answer(scene),
    ]


async def _proof_of_another(scene: ForgerScene) -> Proof:
    """The true proof of the true verdict on another session's action."""
    (record,) = [
        stored_record
        for stored_record in await records_of(scene.installation, VERDICTS)
        if stored_record.key == b"another"
    ]
    return HEADER, find_proof(record.headers) or b""


def _elsewhere(scene: ForgerScene, session: str) -> str:
    names = (f"{session} {number}" for number in range(1000))
    return next(name for name in names if scene.partition(name) != scene.partition(session))


async def _try_known(scene: ForgerScene, tried: str, proof: Callable[[str, Fields], list[Proof]]) -> Attempt:
    ended = await _await_answer(scene, tried, proof, has_key=True)
    return Attempt(tried, ended == HELD, ended)


async def _untold(scene: ForgerScene) -> Attempt:
    """Who was told no key cannot tell such a record from the worker's."""
    ended = await _await_answer(scene, "no key told", lambda _session, _forged: [], has_key=False)
    return Attempt(
        "unsigned, all else right, to a client that was told no key", ended == HELD, ended, known_limit=True
    )


async def _await_answer(
    scene: ForgerScene, session: str, proof: Callable[[str, Fields], list[Proof]], *, has_key: bool
) -> str:
    before = len(scene.passed_over.lines)
    with scene.hold_worker():
        call = asyncio.create_task(scene.call(session, gate=scene.wary if has_key else scene.gate))
        asked = read_asked(await scene.fetch_record(ACTIONS, session), ACTIONS)
        forged = asked.make_allowed(scene.true)
        await scene.write(VERDICTS, session, asked.verdict_id, forged, *proof(session, forged))
        await scene.read(call, before)
    return await call


async def _try_fenced(scene: ForgerScene) -> Attempt:
    """A worker that was fenced signs with the right key, and its transaction is aborted: nobody reads it."""
    session, name = "fenced", f"{scene.installation.prefix}zombie"
    servers = scene.installation.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name) as zombie,
        asyncio.timeout(PATIENCE_S),
    ):
        with scene.hold_worker():
            call = asyncio.create_task(scene.call(session, gate=scene.wary))
            asked = read_asked(await scene.fetch_record(ACTIONS, session), ACTIONS)
            forged = asked.make_allowed(scene.true)
            await zombie.begin_transaction()
            await zombie.send_and_wait(
                scene.installation.real(VERDICTS),
                json.dumps(forged).encode(),
                key=session.encode(),
                partition=scene.partition(session),
                headers=[
                    ("ce_id", asked.verdict_id.encode()),
                    scene.sign_record(scene.signer, session, forged),
                ],
            )
            await zombie.abort_transaction()
        ended = await call
    return Attempt("signed by a fenced worker, and aborted", ended == HELD, ended)


async def _true_answer(scene: ForgerScene) -> Attempt:
    """The control: what the worker signed counts for the client that was told its key."""
    ended = await scene.call("signed", READ, gate=scene.wary)
    return Attempt(
        "an action that the gate allows, for a client that was told the key",
        ended == RAN,
        ended,
        harmless=True,
    )
