"""Attack: real control topics deleted and put back with less, under an installation that has decided.

Whoever may delete topics leaves `tool/wipe@2` out: T4 would become T3, with every signature in order. A real
worker has to refuse to start, `sluice ledger verify` has to say what is missing, and only two people who sign
exactly this loss, for this installation, may let it start. `lost_policy` tries more losses, without a broker.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient

from load.attacks.attempt import Attempt
from load.installations.command_process import SLUICE
from load.installations.installation import prepare, records_of
from load.installations.worker_process import WorkerProcess
from sluice.adapters.kafka.kafka_topics import create
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.stream.process import EXIT_POLICY
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from load.attacks.attempt import Extent
    from load.installations.installation import TestInstallation
    from sluice.core.registry.keys import SigningKey
    from sluice_demo.throwaway_trust import ControlRecord

PATIENCE_S = 90.0
END_S = 60.0
POLL_S = 0.1
WIPE = b"tool/wipe@2"
MISSING = "tool/wipe revision 2"


def run_on(extent: Extent, servers: str) -> Iterator[Attempt]:
    """On a broker that runs. `short`: all false acceptances at once; `full`: a start after each."""
    with tempfile.TemporaryDirectory(prefix="sluice-lost-") as folder:
        installation = asyncio.run(prepare(servers, Path(folder), f"lost-{uuid.uuid4().hex[:8]}"))
        _publish(installation, installation.trust.sign_entries([_tool(1, "T3"), _tool(2, "T4")]))
        yield _start_worker(installation, "before", "a worker starts on the whole policy")
        lose(installation, WIPE)
        yield _expect_refusal(installation, "cut", "a worker starts on topics put back without tool/wipe@2")
        yield _verify(installation, "the ledger is called intact meanwhile", intact=False)
        loss, false = _loss(installation), 0
        for tried, record in _false_acceptances(installation, loss):
            _publish(installation, [record])
            false += 1
            if extent == "full":
                yield _expect_refusal(installation, f"false-{false}", tried)
        yield _expect_refusal(installation, "false", f"{false} false acceptances together: {_NAMES}")
        _publish(installation, [_sign_entry(loss, installation.trust.owner, installation.trust.reviewer)])
        yield _start_worker(installation, "accepted", "two people sign exactly this loss")
        yield _verify(installation, "and the ledger is intact", intact=True)


async def put_back(installation: TestInstallation, records: Sequence[ControlRecord]) -> None:
    """Delete both control topics and write them again with these records: what whoever has the rights can."""
    names = {installation.real(REGISTRY), installation.real(BUNDLES)}
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        await admin.delete_topics([*names])
        while names & {*await admin.list_topics()}:  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(POLL_S)
    finally:
        await admin.close()
    await create(
        installation.bootstrap_servers,
        TopicLayout(installation.prefix, installation.app_id, installation.partitions),
        1,
    )
    await publish_policy(installation.bootstrap_servers, installation.prefix, records)


def lose(installation: TestInstallation, *keys: bytes) -> None:
    """Put the control topics back without the records of these keys."""

    async def cut() -> None:
        there = [
            (topic, record.key or b"", record.value or b"")
            for topic in (REGISTRY, BUNDLES)
            for record in await records_of(installation, topic)
        ]
        await put_back(installation, [record for record in there if record[1] not in keys])

    asyncio.run(cut())


_NAMES = "one person's, one person's twice, a root key's, for staging, for another revision"


def _false_acceptances(
    installation: TestInstallation, loss: dict[str, Any]
) -> Iterator[tuple[str, ControlRecord]]:
    owner, both = installation.trust.owner, (installation.trust.owner, installation.trust.reviewer)
    yield "one person accepts the loss", _sign_entry(loss, owner)
    yield "one person accepts it with two signatures", _sign_entry(loss, owner, owner)
    yield "a root key accepts it with one person", _sign_entry(loss, owner, installation.trust.root)
    yield "two people accept it for staging", _sign_entry({**loss, "installations": ["staging"]}, *both)
    lost = [{**difference, "before": difference["before"] + 1} for difference in loss["spec"]["lost"]]
    other = {**loss, "id": "another-loss", "spec": {**loss["spec"], "lost": lost}}
    yield "two people accept the loss of another revision", _sign_entry(other, *both)


def _sign_entry(entry: dict[str, Any], *signers: SigningKey) -> ControlRecord:
    key = f"{entry['kind']}/{entry['id']}@{entry['revision']}".encode()
    return REGISTRY, key, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(entry).encode(), signers).encode()


def _tool(revision: int, tier: str) -> dict[str, Any]:
    spec = {"tier": tier, "action_type": "DATABASE_WRITE", "reversible": False}
    return {"kind": "tool", "id": "wipe", "revision": revision, "spec": spec}


def _publish(installation: TestInstallation, records: Sequence[ControlRecord]) -> None:
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, records))


def _sluice(installation: TestInstallation, *words: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment = {**ours, **installation.settings}
    return subprocess.run([*SLUICE, *words], env=environment, capture_output=True, text=True, check=False)


def _loss(installation: TestInstallation) -> dict[str, Any]:
    """What is missing, as `sluice registry accept-loss` drafts it."""
    draft = installation.folder / "loss.json"
    done = _sluice(installation, "registry", "accept-loss", str(draft), "--reason", "the signed file is lost")
    if done.returncode:
        raise RuntimeError(done.stderr)
    (entry,) = json.loads(draft.read_text("utf-8"))["entries"]
    return dict(entry)


def _verify(installation: TestInstallation, tried: str, *, intact: bool) -> Attempt:
    report = json.loads(_sluice(installation, "ledger", "verify", "--json").stdout)
    messages = [f"{finding['code']}: {finding['message']}" for finding in report["findings"]]
    named = all(message.startswith("policy_lost") and MISSING in message for message in messages)
    held = not messages if intact else len(messages) == installation.partitions and named
    return Attempt(tried, held, messages[0] if messages else "intact", harmless=intact)


def _start_worker(installation: TestInstallation, name: str, tried: str) -> Attempt:
    status, _ = _outcome(installation, name)
    return Attempt(tried, status is None, f"status {status}" if status else "it decides", harmless=True)


def _expect_refusal(installation: TestInstallation, name: str, tried: str) -> Attempt:
    status, output = _outcome(installation, name)
    is_named = f"policy lost: {MISSING} (now 1)" in output and "sluice registry accept-loss" in output
    answer = (
        "it decides" if status is None else f"status {status}, {MISSING} {'' if is_named else 'not '}named"
    )
    return Attempt(tried, status == EXIT_POLICY and is_named, answer)


def _outcome(installation: TestInstallation, name: str) -> tuple[int | None, str]:
    """The status with which a worker ended by itself, None if it took partitions over; and its last words."""
    worker = WorkerProcess(installation, name, 0.0)
    deadline = time.monotonic() + PATIENCE_S
    while worker.exit_code is None and not worker.partitions() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if worker.exit_code is not None:
        return worker.exit_code, worker.last_words()
    if not worker.partitions():
        raise RuntimeError(worker.last_words())
    worker.end(END_S)
    return None, worker.last_words()
