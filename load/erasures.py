"""Persons whose data an agent handles under a policy that has it sealed, and the erasure of some of them
while workers decide. Afterwards no plain byte lies anywhere, their decisions are erased and nobody else's
are."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from load.installations.approvers import entry
from load.installations.command_process import start_command
from load.installations.fleet import RunFailed
from load.installations.installation import TrafficRecord
from load.installations.neutral_policy import LETTERS, READ_TOOL, TENANT, bundle
from load.recomputation import figures
from sluice.adapters.kafka.kafka_read import open_admin
from sluice.bootstrap.sealing import build_subject_keys
from sluice.client.subject_keys import KeyUnavailable
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from sluice.settings.reader import load_settings
from sluice_demo.throwaway_trust import OWNER, publish_policy
from sluice_topics.catalog import ACTIONS, BY_NAME, DEAD_LETTERS, SUBJECT_KEYS, VERDICTS
from sluice_topics.sealing import PersonalField, Subject, get_key_ids, seal_document

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

    from load.inputs.publisher import Publisher
    from load.installations.installation import TestInstallation
    from load.recomputation.figures import RunFigure
    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.client.subject_keys import SubjectKeys
    from sluice.core.rerun.rerun_result import Rerun

SECRETARY, BUNDLE = "load-secretary", "load.personal"
PERSONS, SESSIONS, ERASED = 24, 6, 4
PAUSE_S = 0.05
SEGMENT_MS, COMPACTION_MS = "500", "1000"
COMMAND_S = 180.0
NOT_YET, IMPOSSIBLE = 1, 2
_CUSTOMER, _LETTER = ("parameters", "customer"), ("parameters", "letter")
FIELDS = (
    PersonalField("action", _CUSTOMER, _CUSTOMER),
    PersonalField("action", _LETTER, _CUSTOMER),
)


@dataclass
class Persons:
    """Made by `introduce`. `proposed`: the keys under which an action's values are sealed, by its id;
    `erased`: the keys that the command destroyed; `waits`: for the broker to compact them, each time. Workers
    that start meanwhile refuse a topic of keys whose compaction was shortened. `broker_leaves`: the broker
    may be away for a while, so what did not come through is tried again."""

    installation: TestInstallation
    keys: SubjectKeys
    names: tuple[str, ...]
    proposed: dict[str, frozenset[str]] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    waits: bool = True
    broker_leaves: bool = False
    _more: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def live(self, publisher: Publisher, rng: random.Random, times: int) -> None:
        """Propose actions about persons drawn from `rng`, and erase `ERASED` persons so many times meanwhile;
        return when those are erased. Raises RunFailed where the command does not say that they are."""
        if self.waits:
            await shorten_compaction(self.installation)
        await self.keys.start()
        tasks = [asyncio.create_task(self._act(publisher, rng)), asyncio.create_task(self._erase_some(times))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.keys.close()

    async def _act(self, publisher: Publisher, rng: random.Random) -> None:
        while True:
            try:
                await self._propose(publisher, rng)
            except (KafkaError, KeyUnavailable):
                if not self.broker_leaves:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def _propose(self, publisher: Publisher, rng: random.Random) -> None:
        name = rng.choice(self.names)
        action_id = f"{self.installation.app_id}-letter-{len(self.proposed)}"
        session = f"{self.installation.app_id}{LETTERS}{rng.randrange(SESSIONS)}"
        action: dict[str, Any] = {
            "action_id": action_id,
            "session_id": session,
            "agent_id": SECRETARY,
            "toolName": READ_TOOL,
            "parameters": {"customer": name, "letter": write_letter(name)},
            "mode": "high_stakes",
        }
        key = await self.keys.choose(TENANT, Subject("subject", name))
        sealed = seal_document(action, "action", FIELDS, lambda _: key)
        self.proposed[action_id] = frozenset(
            chain.from_iterable(map(get_key_ids, sealed["parameters"].values()))
        )
        self._more.set()
        self._more.clear()
        await publisher.insert(
            TrafficRecord(ACTIONS, session.encode(), json.dumps(sealed).encode(), "sealed")
        )

    async def _erase_some(self, times: int) -> None:
        """Each time once there are actions about them. They stay customers: what is proposed from then on is
        sealed with another key."""
        for first in range(0, times * ERASED, ERASED):
            count = len(self.proposed) + PERSONS
            while len(self.proposed) < count:
                await self._more.wait()
            await self._erase(*self.names[first : first + ERASED])

    async def finish(self) -> None:
        """Go on with what was not waited for, after the workers."""
        self.waits = True
        await shorten_compaction(self.installation)
        await self._erase()

    async def _erase(self, *names: str) -> None:
        folder = self.installation.folder
        log = folder / f"erase-{len(self.erased)}.log"
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        words = ["erase", *names, *(["--tenant", TENANT] if names else [])]
        words += ["--key", str(folder / f"{OWNER}.pem"), "--json", *([] if self.waits else ["--wait", "0"])]
        until = time.monotonic() + COMMAND_S
        while True:
            log.unlink(missing_ok=True)
            process = start_command(words, {**own, **self.installation.settings}, log)
            status = await asyncio.to_thread(process.wait, COMMAND_S)
            if not self.broker_leaves or status != IMPOSSIBLE or time.monotonic() > until:
                break
            await asyncio.sleep(PAUSE_S)
        output = log.read_text(encoding="utf-8")
        if status and (self.waits or status != NOT_YET):
            raise RunFailed(f"{words[:2]} ended with status {status}: {output[-500:]}")
        outcome = json.loads(output[output.index("{") : output.rindex("}") + 1])
        self.erased.update(outcome["key_ids"])

    def compare(self, records: Iterable[StoredRecord], reruns: Iterable[Rerun]) -> list[RunFigure]:
        """What lies on the broker, or in an archive, and what its reruns say."""
        stored = list(records)
        erased = [rerun for rerun in reruns if rerun.status == "erased"]
        answers = _find_answers(stored, self.installation)
        verdicts = {action_id for action_id, kind in answers if kind == "verdict"}
        of_erased = {action_id for action_id in verdicts if self.proposed[action_id] & self.erased}
        refused = {action_id for action_id, kind in answers if kind != "verdict"}
        unanswered = self.proposed.keys() ^ {*verdicts, *refused}
        wrongly = [action_id for action_id in refused if not self.proposed[action_id] & self.erased]
        plain = [write_letter(name).encode() for name in self.names] + [name.encode() for name in self.names]
        forms = [form for value in plain for form in (value, base64.b64encode(value)[:-4])]
        return [
            figures.some("sealed_actions", len(self.proposed), "actions"),
            figures.none("sealed_unanswered", len(unanswered), "actions"),
            figures.none("sealed_doubled", len(answers) - len(verdicts | refused), "actions"),
            figures.none("sealed_refused_wrongly", len(wrongly), "actions"),
            figures.some("keys_destroyed", len(self.erased), "keys"),
            figures.exactly("reruns_erased", len(erased), len(of_erased), "decisions"),
            figures.none(
                "reruns_erased_wrongly",
                sum(not set(rerun.erased) <= self.erased for rerun in erased),
                "decisions",
            ),
            figures.none("plain_bytes", sum(_holds(record, forms) for record in stored), "records"),
        ]


async def introduce(installation: TestInstallation) -> Persons:
    """Publish the policy by which a secretary's letters are sealed, and make the master key. Before the
    workers start."""
    folder = installation.folder
    path = folder / "sealing.keys"
    write_seal_keys(path, (make_seal_key(),))
    installation.settings["SLUICE_SEALING__MASTER_KEY_FILE"] = str(path)
    installation.trust.write(folder)
    marks = [
        {"kind": "action", "path": "/" + "/".join(each.path), "subject": "/" + "/".join(_CUSTOMER)}
        for each in FIELDS
    ]
    policy = {**bundle(), "id": BUNDLE, "personal": marks}
    agent = entry("agent", SECRETARY, tenant_id=TENANT, tier="T2", policy_bundle_id=BUNDLE)
    trust = installation.trust
    signed = [trust.sign_bundle(json.dumps(policy).encode()), *trust.sign_entries([agent])]
    await publish_policy(installation.cluster, installation.prefix, signed)
    keys = build_subject_keys(load_settings(environment=installation.settings))
    assert keys is not None  # noqa: S101 - the settings name a master key
    names = tuple(f"person-{number}@{installation.app_id}.example" for number in range(PERSONS))
    return Persons(installation, keys, names)


def write_letter(name: str) -> str:
    """What nobody may find anywhere."""
    return f"Dear {name}, the diagnosis is sealed-{name[::-1]}"


async def shorten_compaction(installation: TestInstallation) -> None:
    """Let the broker compact the topic of keys within seconds, once workers have started: they refuse a topic
    whose settings are not the catalog's."""
    bounds = {"segment.ms": SEGMENT_MS, "max.compaction.lag.ms": COMPACTION_MS}
    config = BY_NAME[SUBJECT_KEYS].config() | bounds
    resource = ConfigResource(ConfigResourceType.TOPIC, installation.real(SUBJECT_KEYS), config)
    async with open_admin(installation.cluster) as admin:
        await admin.alter_configs([resource])


def _find_answers(records: Iterable[StoredRecord], installation: TestInstallation) -> list[tuple[str, str]]:
    """The id of each sealed action that was answered, and by what."""
    answers = []
    for record in records:
        if record.topic == installation.real(VERDICTS):
            body = json.loads(record.value or b"null")
            if body.get("agent_id") == SECRETARY and "verdict_id" in body:
                answers.append((body["action_id"], "verdict"))
        elif record.topic == installation.real(DEAD_LETTERS):
            body = json.loads(record.value or b"null")
            if body["code"] == "sealed_key_erased":
                action = json.loads(base64.b64decode(body["value_base64"]))
                answers.append((action["action_id"], "dead_letter"))
    return answers


def _holds(record: StoredRecord, forms: Sequence[bytes]) -> bool:
    headers = b"".join(value or b"" for _, value in record.headers)
    data = (record.key or b"") + (record.value or b"") + headers
    return any(form in data for form in forms)
