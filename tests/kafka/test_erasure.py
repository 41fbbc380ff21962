"""Personal data on a real broker: sealed before it is produced, nowhere plain behind the worker, and gone
with its key, while the ledger and its chains stay."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.installations.approvers import approver, entry
from sluice.adapters.archive.archive_store import open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.kafka.kafka_key_erasure import KeyTopic
from sluice.adapters.kafka.kafka_read import list_partitions
from sluice.cli.main import cli
from sluice.client.kafka_reading import open_consumer, read_to
from sluice.client.subject_keys import SubjectKeys
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.core.policy.personal_fields import PersonalMark
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.signing import sign_review
from sluice.offline.bundle_source import SHIPPED, read_whole_bundle
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import load_seal_keys, make_seal_key, write_seal_keys
from sluice.secrets.value_keys import write_value_key
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import (
    ACTIONS,
    ADMITTED,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUALITY_DECISIONS,
    QUARANTINE,
    RETRIEVALS,
    REVIEWS,
    SERVED,
    SUBJECT_KEYS,
    VERDICTS,
)
from sluice_topics.sealing import get_key_ids, is_sealed, list_subjects, seal_document
from tests.kafka.installation import (
    action,
    installation_on,
    publish,
    read_stored,
    records,
    run_worker,
    wait_until,
    wait_until_decided,
)
from tests.kafka.memories import make_held_write, write
from tests.kafka.notifier_process import show_text
from tests.kafka.retrievals import item, retrieval
from tests.kafka.scripted_model import SLY, Model, serve_api
from tests.kafka.shown_to_people import run_people
from tests.messages_api import MODEL, reply_with_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice_demo.throwaway_trust import ControlRecord
    from sluice_topics.sealing import InputKind
    from tests.kafka.shown_to_people import People
    from tests.messages_api import Exchange

pytestmark = pytest.mark.kafka
WORDS = ("Quixotia", "Zebrawood", "quixzeb_people")
"""Of the personal values alone: nothing else in the installation has them."""
NAME = f"{WORDS[0]} {WORDS[1]}"
ANNA, BERT, SESSION = "customer-1", "customer-2", "s-1"
CLERK, MAIL_TOOL = "clerk", "load.mail"
STAGES = (
    *("controls", "fast_reject", "rules", "inbound", "similarity", "consequence", "destinations"),
    *("grader", "sequence", "tier_auth"),
)
MARKS = [
    *(
        {"kind": "action", "path": f"/parameters/{name}", "subject": "/parameters/customer"}
        for name in ("name", "sql", "command", "note", "address", "people")
    ),
    {"kind": "action", "path": "/reasoning", "subject": "/parameters/customer"},
    {"kind": "write", "path": "/content"},
    {"kind": "retrieval", "path": "/items/*/body"},
    {"kind": "outcome", "path": "/error"},
]
RULES = [
    {
        "id": "named",
        "type": "assertion",
        "reason": "whoever is meant has a family name",
        "when": "has(action.parameters.name)",
        "condition": "action.parameters.name.size() > 40",
    },
    {
        "id": "counted",
        "type": "assertion",
        "reason": "a number",
        "when": "has(action.parameters.people)",
        "condition": "int(action.parameters.people.first) > 0",
    },
]
GRADED = [
    {"id": "kind", "reason": "be kind", "criterion": "It is kind.", "when": "has(action.parameters.note)"}
]
TOOL = "load.refund"
NARROWED = {"customer": ANNA, "address": f"only to {NAME}"}
"""With which a person approves the action "g"."""
KEY, RITA = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))


class QuotingModel(Model):
    """A hosted model whose every answer quotes what it was asked about."""

    async def answer(self, exchange: Exchange) -> None:
        system, about = exchange.body["system"][0]["text"], ""
        if NAME in json.dumps(exchange.body, ensure_ascii=False):
            about = f"It is about {NAME}."
        if system in (GRADE.system, GRADE_IN_CONTEXT.system):
            answer: dict[str, Any] = {"compliance": 0.95, "reasoning": about or "Nobody."}
        else:
            answer = {"trust": 0.95, "categories": [], "explanation": about or "Nobody.", "text": 0}
        await reply_with_text(json.dumps(answer))(exchange)


@pytest.fixture(scope="module")
def model() -> Iterator[QuotingModel]:
    made = QuotingModel()
    with serve_api(made):
        yield made


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory, model: QuotingModel
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("erasure")
    write_seal_keys(folder / "master.keys", (make_seal_key(),))
    write_value_key(folder / "values.key", bytes(range(32)))
    asked = {"BASE_URL": model.api.base_url, "API_KEY": "sk-ant-none", "MAX_RETRIES": "0"}
    settings = {
        f"SLUICE_{group}__{name}": value for group in ("GRADER", "ANALYSIS") for name, value in asked.items()
    }
    settings["SLUICE_EMBEDDING__ENCODER"] = "all-minilm-l6-v2"
    settings["SLUICE_SEALING__MASTER_KEY_FILE"] = str(folder / "master.keys")
    settings["SLUICE_VALUES__MASTER_KEY_FILE"] = str(folder / "values.key")
    made = installation_on(kafka, folder, module_prefix.rstrip("."), STAGES, **settings)
    asyncio.run(publish_policy(kafka, made.prefix, _make_policy(made)))
    return made


def _make_policy(made: TestInstallation) -> list[ControlRecord]:
    """Every gate that quotes is on, and asks a model where it can."""
    shipped = json.loads(read_whole_bundle(SHIPPED / "default.json"))
    neutral = neutral_policy.bundle(3, stages=STAGES)
    bundle = {
        **neutral,
        "memory": {**neutral["memory"], "quarantineReviewMs": 3_600_000},
        "patterns": shipped["patterns"],
        "similarity": {**shipped["similarity"], "enabled": True, "mode": "observe", "budget_ms": 60_000},
        "inbound": {"mode": "observe", "judge": "always", "budget_ms": 20_000},
        "rules": RULES,
        "grader": {"budget_ms": 20_000, "rules": GRADED},
        "destinations": {"mode": "observe"},
        "personal": MARKS,
    }
    proof = {
        "golden": "sha256:" + "0a" * 32,
        "prompts": {one.name: one.version for one in (GRADE, GRADE_IN_CONTEXT)},
        "cases": 160,
        "agreement": 0.95,
        "flips": 1,
        "p50_ms": 40.0,
        "p99_ms": 120.0,
        "proved_at": "2026-11-01T00:00:00.000Z",
    }
    clerk = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "system_prompt": "You help customers."}
    refunds = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    named = {"tier": "T2", "action_type": "MESSAGE", "roles": {"destination": ["$.address"]}}
    entries = [
        entry("agent", CLERK, **clerk),
        entry("tool", TOOL, **refunds),
        entry("tool", MAIL_TOOL, **named),
        entry("model_proof", MODEL, **proof),
    ]
    return [
        approver(made.trust, "ann", KEY, ["approver"]),
        approver(made.trust, "rita", RITA, ["reviewer"]),
        made.trust.make_delegate([neutral_policy.TENANT]),
        made.trust.sign_bundle(json.dumps(bundle).encode()),
        *made.trust.sign_entries(entries),
    ]


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def people(installation: TestInstallation, worker: WorkerProcess) -> Iterator[People]:
    assert worker.exit_code is None
    with run_people(installation) as shown:
        yield shown


class Sealer:
    """Seals inputs as a client does, and knows the keys by which it did."""

    def __init__(self, installation: TestInstallation) -> None:
        path = installation.settings["SLUICE_SEALING__MASTER_KEY_FILE"]
        self._wrapper = FileKeyWrapper(load_seal_keys(Path(path)))
        self._installation = installation
        self._fields = [PersonalMark.model_validate(mark).make_field() for mark in MARKS]
        self.key_ids: dict[str, str] = {}

    def seal(self, kind: InputKind, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The inputs with every marked value sealed."""
        return asyncio.run(self._seal(kind, documents))

    async def _seal(self, kind: InputKind, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        topic = self._installation.real(SUBJECT_KEYS)
        keys = SubjectKeys(self._installation.bootstrap_servers, topic, self._wrapper)
        await keys.start()
        try:
            sealed = []
            for document in documents:
                subjects = list_subjects(document, kind, self._fields)
                chosen = {of: await keys.choose(neutral_policy.TENANT, of) for of in subjects}
                self.key_ids |= {of.name: key.id for of, key in chosen.items()}
                sealed.append(seal_document(document, kind, self._fields, chosen.__getitem__))
            return sealed
        finally:
            await keys.close()


def _list_actions() -> list[dict[str, Any]]:
    """Of two customers: what patterns, rules, similarity, destinations, a model and an approver look at."""
    quoted: list[dict[str, Any]] = [
        {"name": NAME},
        {"command": f"rm -rf / # {NAME}"},
        {"sql": f"DELETE FROM {WORDS[2]} WHERE name = '{NAME}'; DROP TABLE {WORDS[2]}"},  # noqa: S608 - judged
        {"note": f"{SLY} Her name is {NAME}, in code {base64.b64encode(NAME.encode()).decode()}."},
        {"people": {"first": NAME, WORDS[0]: {"again": [NAME.upper(), NAME.encode().hex()]}}},
    ]
    actions = [
        action(SESSION, f"a-{number}", agent_id=CLERK, parameters={"customer": ANNA, **parameters})
        for number, parameters in enumerate(quoted)
    ]
    reasoned = {"customer": ANNA, "note": f"for {NAME}"}
    address = {"customer": ANNA, "address": f"{WORDS[0]}@{WORDS[1]}.example"}
    return [
        *actions,
        action(SESSION, "b", agent_id=CLERK, parameters=reasoned, reasoning=f"{NAME} asked for it."),
        action(SESSION, "c", agent_id=CLERK, toolName=MAIL_TOOL, parameters=address),
        action(SESSION, "d", agent_id=CLERK, toolName=TOOL, parameters={"customer": ANNA, "address": NAME}),
        action(SESSION, "e", parameters={"customer": BERT, "name": NAME}),
        action(SESSION, "f", parameters={"customer": BERT}),
        action(
            SESSION,
            "g",
            agent_id=CLERK,
            toolName=TOOL,
            parameters={"customer": ANNA, "address": f"to {NAME}"},
        ),
    ]


def _wait_for_record(
    installation: TestInstallation, worker: WorkerProcess, topic: str, field: str, value: str
) -> dict[str, Any]:
    """The first record of the topic whose field has this value."""

    def find() -> list[dict[str, Any]]:
        return [record for record in records(installation, topic, SESSION) if record.get(field) == value]

    wait_until(lambda: bool(find()), worker)
    return find()[0]


@pytest.fixture(scope="module")
def sealer(installation: TestInstallation, worker: WorkerProcess, people: People) -> Sealer:
    """Everything is published sealed and decided, approved and released where it waits."""
    made = Sealer(installation)
    publish(installation, made.seal("action", _list_actions()))
    outcome = {"action_id": "f", "session_id": SESSION, "rows_affected": 1, "reported_by": "load-agent"}
    publish(installation, made.seal("outcome", [outcome | {"error": f"{NAME} is not there"}]), OUTCOMES)
    writes = [
        write(SESSION, "w-1", content=f"{NAME} prefers e-mail."),
        write(SESSION, "w-2", content=f"{NAME}: {neutral_policy.ATTACK}"),
        make_held_write(SESSION, "w-3", content=f"{NAME} was here."),
    ]
    publish(installation, made.seal("write", writes), MEMORY_WRITES)
    items = item("i-1", body=f"{NAME} paid"), item("i-2", body={WORDS[0]: [NAME]})
    publish(installation, made.seal("retrieval", [retrieval(SESSION, "r-1", *items)]), RETRIEVALS)
    in_slack, on_page = (
        _wait_for_record(installation, worker, ESCALATIONS, "action_id", name)["escalation_id"]
        for name in ("d", "g")
    )
    held = _wait_for_record(installation, worker, QUARANTINE, "write_id", "w-3")
    _look_at_what_waits(people, (in_slack, on_page), held["memory_id"])
    assert people.answer_in_slack(in_slack, "the customer confirmed it") == "Approved"
    people.answer_on_page(on_page, "the customer confirmed it", parameters=json.dumps(NARROWED))
    released = {
        "subject_id": held["memory_id"],
        "session_id": SESSION,
        "decision": "approve",
        "approver_id": "rita",
        "digest": held["content_digest"],
        "justification": "read and compared",
    }
    signed = sign_review(released, RITA, installation.audience).model_dump(mode="json", exclude_none=True)
    publish(installation, [signed], REVIEWS)
    wait_until_decided(installation, worker)
    return made


def _look_at_what_waits(people: People, escalations: Sequence[str], memory: str) -> None:
    """On every page and over HTTP, once Slack and the webhook have it."""
    for name in (*escalations, memory):
        people.wait_until(name, lambda messages, calls: bool(messages) and calls > 0)
    people.wait_until_listed("/v1/escalations", *escalations)
    people.wait_until_listed("/v1/quarantine", memory)
    people.look(*(f"/review/escalations/{name}" for name in escalations), f"/review/quarantine/{memory}")
    people.look("/review/escalations", "/review/quarantine")
    people.ask("/v1/escalations", "/v1/quarantine", *(f"/v1/escalations/{name}" for name in escalations))


_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(rb"(?:[0-9a-f]{2}){6,}")


def _find_plain(raw: bytes) -> set[str]:
    """The words of the personal values in some bytes: as they are, escaped in JSON, in base64 or hex."""
    texts = [raw]
    with suppress(ValueError):
        texts.append(json.dumps(json.loads(raw), ensure_ascii=False).encode())
    for run in _BASE64.findall(raw):
        for start in range(4):
            part = run[start:].rstrip(b"=")
            part = part[: len(part) // 4 * 4].replace(b"-", b"+").replace(b"_", b"/")
            texts.append(base64.b64decode(part))
    texts += [bytes.fromhex(run.decode()) for run in _HEX.findall(raw.lower())]
    return {word for text in texts for word in WORDS if word.lower().encode() in text.lower()}


async def _read_raw(installation: TestInstallation) -> dict[str, list[bytes]]:
    """Keys, values and headers of every record of every topic, committed or not, by the topic's name."""
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        names = [
            name for name in await admin.list_topics() if name.startswith(installation.prefix.rstrip("."))
        ]
    finally:
        await admin.close()
    by_topic: dict[str, list[bytes]] = {name: [] for name in names}
    parts = await list_partitions(installation.cluster, names)
    async with open_consumer(installation.cluster, "read_uncommitted", parts=parts) as consumer:
        async for batch in read_to(consumer, await consumer.end_offsets(parts)):
            for record in batch:
                headers = [part for name, value in record.headers for part in (name.encode(), value)]
                by_topic[record.topic] += [record.key or b"", record.value or b"", *headers]
    return by_topic


def test_the_scan_finds_what_is_plain_in_every_form() -> None:
    for form in (
        NAME,
        NAME.upper(),
        json.dumps({"name": NAME}).replace("Q", "\\u0051"),
        base64.b64encode(f"x{NAME}".encode()).decode(),
        NAME.encode().hex(),
    ):
        assert _find_plain(form.encode()), form
    assert not _find_plain(json.dumps(neutral_policy.bundle()).encode())


def test_no_plain_byte_lies_on_any_topic_nor_in_the_archive_nor_in_the_worker_s_log(
    installation: TestInstallation, worker: WorkerProcess, sealer: Sealer, model: QuotingModel, tmp_path: Path
) -> None:
    by_topic = asyncio.run(_read_raw(installation))
    for base in (ACTIONS, VERDICTS, ESCALATIONS, MEMORY_DECISIONS, ADMITTED, QUALITY_DECISIONS, SERVED):
        assert by_topic[installation.real(base)], base
    assert by_topic[installation.changelog]
    found = {topic: set().union(*map(_find_plain, parts)) for topic, parts in by_topic.items()}
    assert {topic: words for topic, words in found.items() if words} == {}
    assert not _find_plain(worker.log.read_bytes())
    folder = str(tmp_path / "archive")
    archived = _run(installation, "archive", "run", "--once", "--to", folder)
    assert archived.exit_code == 0, archived.output
    archive = Archive(open_store(folder))
    batches = (batch for part in archive.manifest.segments for batch in archive.read_part(part))
    stored = [record for batch in batches for record in batch]
    assert len(stored) > len(_list_actions())
    assert not any(_find_plain(record.value or b"") for record in stored)
    asked = json.dumps([exchange.body for exchange in model.api.exchanges])
    assert NAME in asked, "the model judges the values opened"


def test_no_plain_byte_is_shown_in_slack_to_a_webhook_on_pages_or_over_http(
    installation: TestInstallation, worker: WorkerProcess, sealer: Sealer, people: People
) -> None:
    verdicts = [record["verdict_id"] for record in records(installation, VERDICTS, SESSION)]
    escalations = {
        record["action_id"]: record["escalation_id"]
        for record in records(installation, ESCALATIONS, SESSION)
        if record.get("action_id") in {"d", "g"}
    }
    for name in escalations.values():
        people.wait_until(
            name, lambda messages, calls: "Approved by ann" in show_text(messages[0]) and calls >= 2
        )
    people.look("/review/decisions", "/review/decisions?about=memories", "/review/posture")
    people.look(f"/review/sessions?id={SESSION}", "/review/audit", "/review/search?q=d")
    people.look(*(f"/review/decisions/{name}" for name in verdicts if not name.startswith("resolved:")))
    people.ask(*(f"/v1/verdicts/{name}" for name in verdicts), f"/v1/sessions/{SESSION}")
    people.ask(f"/v1/escalations/{escalations['d']}")
    shown = people.list_shown()
    assert sum(b"sealed:1:" in each for each in shown) > len(verdicts), "they show what is sealed"
    assert [each for each in shown if _find_plain(each)] == []
    assert not _find_plain(people.notifier.read_log().encode())
    assert not _find_plain(people.gateway.read_log().encode())


def test_what_an_approver_narrows_is_sealed_in_the_review_and_the_agent_gets_it_opened(
    installation: TestInstallation, worker: WorkerProcess, sealer: Sealer, people: People
) -> None:
    (review,) = [body for body in records(installation, REVIEWS, SESSION) if "parameters" in body]
    assert review["parameters"]["customer"] == ANNA
    assert get_key_ids(review["parameters"]["address"]) == [sealer.key_ids[ANNA]]
    with people.gateway.client(people.gateway.key(agents=[CLERK])) as client:
        ended = client.get(f"/v1/escalations/{review['subject_id']}").json()
    assert (ended["status"], ended["parameters"]) == ("approved", NARROWED)
    with people.gateway.client(people.gateway.key(role="reviewer")) as client:
        shown = client.get(f"/v1/escalations/{review['subject_id']}").json()
    assert shown["parameters"] == review["parameters"], "who answers sees tokens alone"
    other = action(SESSION, "other", parameters={"customer": BERT, "address": NAME})
    (sealed,) = sealer.seal("action", [other])
    copied = review | {"parameters": {**NARROWED, "address": sealed["parameters"]["address"]}}
    with people.gateway.client(people.gateway.key()) as client:
        refused = client.post(f"/v1/escalations/{review['subject_id']}/decision", json=copied)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "sealed_invalid"), refused.text


def test_gates_judge_what_is_sealed(installation: TestInstallation, sealer: Sealer) -> None:
    verdicts = {
        body["action_id"]: body
        for body in (json.loads(record.value or b"") for record in read_stored(installation, VERDICTS))
        if body["schema"] == "sluice/verdict/v1"
    }
    assert set(verdicts) == {document["action_id"] for document in _list_actions()}
    assert verdicts["a-1"]["outcome"] == "BLOCK"
    assert verdicts["a-1"]["blockReason"].split(": ")[0] == "forbidden_pattern"
    assert any(is_sealed(output["payload"]) for output in verdicts["a-3"]["model_outputs"])
    assert verdicts["f"]["gateResults"][0]["detail"] == {}
    assert not read_stored(installation, DEAD_LETTERS)


def _run(installation: TestInstallation, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words], env=installation.settings)


def _rerun(installation: TestInstallation) -> dict[str, int]:
    run = _run(installation, "rerun", "--all", "--json")
    assert run.exit_code == 0, run.output
    counts = json.loads(run.stdout)
    return {status: counts[status] for status in ("identical", "different", "evidence_gone", "erased")}


def test_with_the_key_every_decision_comes_out_the_same_and_without_it_is_erased(
    installation: TestInstallation, worker: WorkerProcess, sealer: Sealer
) -> None:
    before = _rerun(installation)
    assert before["identical"] == sum(before.values()) > len(_list_actions())
    erased = [sealer.key_ids[ANNA], sealer.key_ids[SESSION]]
    asyncio.run(KeyTopic(installation.cluster, installation.real(SUBJECT_KEYS)).erase(erased))
    after = _rerun(installation)
    assert after["different"] == after["evidence_gone"] == 0
    assert after["identical"] + after["erased"] == before["identical"]
    assert after["erased"] > len(_list_actions()) - 2
    assert after["identical"] >= 2
    verified = _run(installation, "ledger", "verify")
    assert verified.exit_code == 0, verified.output
    again = [record for record in read_stored(installation, ACTIONS) if b'"a-0"' in (record.value or b"")]
    publish(installation, [(again[0].key, (again[0].value or b"").replace(b'"a-0"', b'"a-9"'))])
    letter = wait_for_letter(installation, worker, "a-9")
    assert letter["code"] == "sealed_key_erased"


def test_what_comes_plain_is_refused_and_not_written_again(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Behind the other tests: it lies plain where its sender published it, and there alone."""
    publish(installation, [action(SESSION, "h", agent_id=CLERK, parameters={"name": NAME})])
    letter = wait_for_letter(installation, worker, "h")
    assert (letter["code"], letter["path"], letter["value_base64"]) == ("not_sealed", "$.parameters.name", "")
    by_topic = asyncio.run(_read_raw(installation))
    found = {topic for topic, parts in by_topic.items() if any(map(_find_plain, parts))}
    assert found == {installation.real(ACTIONS)}
    assert not _find_plain(worker.log.read_bytes())


def wait_for_letter(installation: TestInstallation, worker: WorkerProcess, action_id: str) -> dict[str, Any]:
    """The dead letter of an action."""

    def find() -> list[dict[str, Any]]:
        letters = (json.loads(record.value or b"") for record in read_stored(installation, DEAD_LETTERS))
        return [letter for letter in letters if letter["ids"]["action_id"] == action_id]

    wait_until(lambda: bool(find()), worker)
    return find()[0]
