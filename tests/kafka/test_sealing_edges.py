"""Client and gateway seal personal data before anything keeps it; tools and callers get it plain."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy, quality_policy
from sluice.bootstrap.followed_sealing import FollowedSealing, follow_sealing, look_for_unsealed
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.client.sealing import may_open_narrowed, seal_narrowed
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from sluice.settings.reader import load_settings
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ACTIONS, CATALOG, MEMORY_WRITES, OUTCOMES, RETRIEVALS, SERVED
from sluice_topics.sealing import get_key_ids, is_sealed
from tests.kafka.gateway_process import Gateway, action, run_gateway
from tests.kafka.installation import make_small_installation, read_stored, run_worker
from tests.kafka.mcp_place import Place
from tests.kafka.memories import write
from tests.kafka.retrievals import item

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
PLAIN = "Zebrawood"
"""Of the personal values alone: nothing else in the installation has it."""
MARKS = [
    {"kind": "action", "path": "/parameters/email", "subject": "/parameters/customer"},
    {"kind": "action", "path": "/reasoning", "subject": "/parameters/customer"},
    {"kind": "action", "path": "/parameters/text"},
    {"kind": "action", "path": "/parameters/owner"},
    {"kind": "action", "path": "/parameters/note", "subject": "/parameters/owner"},
    {"kind": "write", "path": "/content"},
    {"kind": "retrieval", "path": "/items/*/body"},
    {"kind": "outcome", "path": "/error"},
]
EMAIL = f"{PLAIN}@example.org"
PARAMETERS = {"table": "orders", "email": EMAIL, "customer": "c-1"}


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("edges")
    write_seal_keys(folder / "master.keys", (make_seal_key(),))
    settings = {"SLUICE_SEALING__MASTER_KEY_FILE": str(folder / "master.keys")}
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."), **settings)
    bundle = json.dumps(neutral_policy.bundle(2) | {"personal": MARKS}).encode()
    asyncio.run(publish_policy(kafka, made.prefix, [made.trust.sign_bundle(bundle)]))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    assert worker.exit_code is None
    folder = installation.folder / "kept"
    folder.mkdir()
    with run_gateway(
        installation, wait_s=50, longest_wait_s=60, idempotency_file=str(folder / "answers")
    ) as made:
        yield made


def find_plain(installation: TestInstallation) -> list[str]:
    """The topics on which a plain byte of a personal value lies."""
    stored = [record for topic in CATALOG for record in read_stored(installation, topic.name)]
    assert stored
    return [
        f"{record.topic}: {record.value!r}"
        for record in stored
        if any(
            PLAIN.encode() in (part or b"")
            for part in (record.key, record.value, *dict(record.headers).values())
        )
    ]


def read_values(installation: TestInstallation, topic: str, session: str) -> list[dict[str, Any]]:
    values = [json.loads(record.value or b"") for record in read_stored(installation, topic)]
    return [value for value in values if value["session_id"] == session]


def read_files(folder: Path) -> bytes:
    """All that its files hold."""
    files = list(folder.iterdir())
    assert files
    return b"".join(path.read_bytes() for path in files)


def make_options(installation: TestInstallation, **more: Any) -> ClientOptions:
    sealing = follow_sealing(load_settings(environment=installation.settings))
    return ClientOptions(topic_prefix=installation.prefix, deadline_s=30, sealing=sealing, **more)


async def act_as_client(installation: TestInstallation, journal: Path) -> None:
    options = make_options(installation, journal=journal)
    async with AsyncGateClient(installation.cluster, neutral_policy.AGENT, options) as gate:
        said: dict[str, Any] = {"reasoning": f"for {PLAIN}", "action_id": "a-1", "session_id": "s-client"}
        verdict = await gate.await_verdict(neutral_policy.READ_TOOL, PARAMETERS, **said)
        permit = await gate.permit(neutral_policy.READ_TOOL, PARAMETERS, **said)
        assert permit.parameters == PARAMETERS
        assert permit.verdict.verdict_id == verdict.verdict_id, "the same action again is the same bytes"
        await gate.finish(permit, error=f"{PLAIN}Error")
        fields = write("s-client", "w-1") | {"content": f"{PLAIN} lives in Oslo"}
        of_client = ("write_id", "agent_id", "session_id")
        await gate.remember(session_id="s-client", **{k: v for k, v in fields.items() if k not in of_client})
        served = await gate.retrieve([item("i-1", body=f"{PLAIN} in a body")], session_id="s-client")
        assert [each["body"] for each in served.items] == [f"{PLAIN} in a body"]


def test_a_client_publishes_and_keeps_nothing_plain_and_its_tool_gets_what_was_proposed(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    assert worker.exit_code is None
    asyncio.run(act_as_client(installation, tmp_path / "journal"))
    assert find_plain(installation) == []
    assert PLAIN.encode() not in read_files(tmp_path)

    (proposed,) = read_values(installation, ACTIONS, "s-client")
    assert is_sealed(proposed["parameters"]["email"])
    assert is_sealed(proposed["reasoning"])
    assert proposed["parameters"]["customer"] == "c-1"
    assert is_sealed(read_values(installation, OUTCOMES, "s-client")[0]["error"])
    assert is_sealed(read_values(installation, MEMORY_WRITES, "s-client")[0]["content"])
    for topic in (RETRIEVALS, SERVED):
        assert is_sealed(read_values(installation, topic, "s-client")[0]["items"][0]["body"])


async def act_without_keys(installation: TestInstallation) -> None:
    options = make_options(installation)
    async with AsyncGateClient(installation.cluster, neutral_policy.AGENT, options) as gate:
        sealing = gate._sender.sealing  # noqa: SLF001 - as if the topic of keys were away
        assert isinstance(sealing, FollowedSealing)
        await sealing.keys.close()
        with pytest.raises(ClientError, match="cannot be sealed"):
            await gate.propose(
                neutral_policy.READ_TOOL, {"email": PLAIN, "customer": "nobody yet"}, session_id="s-none"
            )
        answer = await gate.propose(neutral_policy.READ_TOOL, {"table": "orders"}, session_id="s-none")
        assert answer.allowed, "what is not personal needs no key"


async def narrow(installation: TestInstallation) -> None:
    """Seal and check what an approver narrows, as pages, terminal and gateway do."""
    make = follow_sealing(load_settings(environment=installation.settings))
    assert make is not None
    sealing, agent = make(), neutral_policy.AGENT
    escalation = {"agent_id": agent, "session_id": "s-narrow"}
    call = {"toolName": neutral_policy.READ_TOOL, "session_id": "s-narrow"}
    await sealing.start()
    try:
        action = await sealing.seal("action", agent, call | {"parameters": {"owner": "c-9", "note": PLAIN}})
        sealed, less = action["parameters"], {"note": "less"}
        for plain in (less, less | {"owner": sealed["owner"]}, less | {"owner": "c-9"}):
            narrowed = await seal_narrowed(sealing, escalation, action, plain)
            assert get_key_ids(narrowed["note"]) == get_key_ids(sealed["note"]), "it goes with the person"
            assert await may_open_narrowed(sealing, escalation, action, narrowed)
        seed = {"proposed_action": {"action": call["toolName"], "value": {}}}
        named = await seal_narrowed(sealing, escalation, seed, {"text": PLAIN})
        by_session = await sealing.seal("action", agent, call | {"parameters": {"text": PLAIN}})
        key_ids = [get_key_ids(each["text"]) for each in (named, by_session["parameters"])]
        assert key_ids[0] == key_ids[1], "the session is erased with its values"

        other = call | {"session_id": "s-other", "parameters": {"note": EMAIL, "owner": "c-8"}}
        copied = {"note": (await sealing.seal("action", agent, other))["parameters"]["note"]}
        assert not await may_open_narrowed(sealing, escalation, action, copied)
        assert await may_open_narrowed(sealing, escalation, action, copied, copied), "it was approved so"
        assert await may_open_narrowed(sealing, escalation, action, sealed)
    finally:
        await sealing.close()


def test_what_an_approver_narrows_is_sealed_for_the_person_and_takes_no_token_of_another_action(
    installation: TestInstallation,
) -> None:
    asyncio.run(narrow(installation))


def test_who_has_no_master_key_learns_what_must_be_sealed(installation: TestInstallation) -> None:
    without = {
        name: value for name, value in installation.settings.items() if not name.startswith("SLUICE_SEALING")
    }
    settings = load_settings(environment=without)
    for parameters, expected in (({"email": EMAIL}, ("parameters", "email")), ({"table": "orders"}, None)):
        document = {"toolName": neutral_policy.READ_TOOL, "parameters": parameters}
        asked = look_for_unsealed(settings, "action", neutral_policy.AGENT, document)
        assert asyncio.run(asked) == expected


async def open_for(installation: TestInstallation, agent_id: str, token: str) -> dict[str, Any]:
    make = follow_sealing(load_settings(environment=installation.settings))
    assert make is not None
    sealing = make()
    await sealing.start()
    try:
        return await sealing.open("action", agent_id, {"parameters": {"email": token}})
    finally:
        await sealing.close()


def test_no_tenant_gets_opened_what_is_sealed_for_another_one_and_nobody_what_was_not_theirs(
    installation: TestInstallation, gateway: Gateway
) -> None:
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", json=action("s-token", parameters=PARAMETERS, actionId="a-1"))
        assert answer.status_code == 200, answer.text
        (proposed,) = read_values(installation, ACTIONS, "s-token")
        token = proposed["parameters"]["email"]
        assert asyncio.run(open_for(installation, neutral_policy.AGENT, token)) == {
            "parameters": {"email": EMAIL}
        }
        with pytest.raises(ClientError, match="cannot be opened"):
            asyncio.run(open_for(installation, "a stranger", token))
        (body,) = {each["items"][0]["body"] for each in read_values(installation, SERVED, "s-client")}
        asked = {"sessionId": "s-token", "items": [item("i-1", body=body)]}
        served = client.post("/v1/retrievals/evaluate", json=asked)
        assert PLAIN not in served.text, "who sends in a token gets it back as it is"
        copied = PARAMETERS | {"email": token}
        refused = client.post("/v1/evaluate", json=action("s-copied", parameters=copied, actionId="a-1"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "sealed_invalid")
        hook = {
            "hook_event_name": "PreToolUse",
            "session_id": "s-copied",
            "tool_use_id": "t-1",
            "tool_name": neutral_policy.READ_TOOL,
            "tool_input": copied,
        }
        assert "sealed_invalid" in client.post("/v1/hooks/claude-code", json=hook).text
    assert read_values(installation, ACTIONS, "s-copied") == [], "an approver who narrows would open it"


def test_a_client_that_cannot_seal_publishes_nothing(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    assert worker.exit_code is None
    asyncio.run(act_without_keys(installation))
    assert find_plain(installation) == []


def test_a_gateway_publishes_and_keeps_nothing_plain_and_its_caller_gets_items_as_they_are(
    installation: TestInstallation, gateway: Gateway
) -> None:
    session, key = "s-http", {"Idempotency-Key": "k-1"}
    asked = action(session, parameters=PARAMETERS, reasoning=f"for {PLAIN}", actionId="a-1")
    with gateway.client() as client:
        first, again = (client.post("/v1/evaluate", json=asked, headers=key) for _ in range(2))
        assert (first.status_code, again.content) == (200, first.content), first.text
        other = asked | {"parameters": PARAMETERS | {"email": f"other-{EMAIL}"}}
        assert client.post("/v1/evaluate", json=other, headers=key).status_code == 422
        outcome = {"actionId": "a-1", "sessionId": session, "rowsAffected": 1, "error": f"{PLAIN}Error"}
        assert client.post("/v1/outcomes", json=outcome).status_code == 200
        fields = write(session, "w-1") | {"content": f"{PLAIN} lives in Oslo"}
        assert client.post("/v1/memory/evaluate", json=fields).status_code == 200
        body = {"sessionId": session, "items": [item("i-1", body=f"{PLAIN} in a body")]}
        for headers in ({}, {"Idempotency-Key": "k-2"}, {"Idempotency-Key": "k-2"}):
            served = client.post("/v1/retrievals/evaluate", json=body, headers=headers)
            assert served.status_code == 200, served.text
            assert [each["body"] for each in served.json()["items"]] == [f"{PLAIN} in a body"]
        hook = {
            "hook_event_name": "PreToolUse",
            "session_id": "s-hook",
            "tool_use_id": "t-1",
            "tool_name": neutral_policy.READ_TOOL,
            "tool_input": PARAMETERS,
        }
        for event in (hook, hook | {"hook_event_name": "PostToolUse", "tool_response": f"{PLAIN}"}):
            assert client.post("/v1/hooks/claude-code", json=event).status_code == 200
    assert find_plain(installation) == []
    assert PLAIN.encode() not in read_files(installation.folder / "kept")
    assert PLAIN not in gateway.read_log()
    assert {len(read_values(installation, ACTIONS, name)) for name in (session, "s-hook")} == {1}


async def test_a_proxy_publishes_and_keeps_nothing_plain_and_its_server_gets_what_the_agent_sent(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    assert worker.exit_code is None
    place = Place(installation, tmp_path, "s-mcp")
    options = tmp_path / "mcp.toml"
    options.write_text(
        f'journal = "{tmp_path}/journal"\n[results]\ncontent_class = "memo"\nconfidence_score = 0.9\n'
        f'provenance_uri = "{quality_policy.RECORDED_URI}"\n'
        f'provenance_hash = "{quality_policy.RECORDED_HASH}"\n'
    )
    async with place.agent("--config", options, "--results-as-retrievals") as client:
        result = await client.call_tool("read", {"text": f"for {PLAIN}"})
    assert [part.text for part in result.content] == [f"for {PLAIN}"]
    assert place.calls == [["read", {"text": f"for {PLAIN}"}]]
    (proposed,) = await asyncio.to_thread(read_values, installation, ACTIONS, "s-mcp")
    assert is_sealed(proposed["parameters"]["text"])
    assert await asyncio.to_thread(find_plain, installation) == []
    assert PLAIN.encode() not in (tmp_path / "journal").read_bytes()
