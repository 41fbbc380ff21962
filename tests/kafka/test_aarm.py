"""The 21 tests of AARM v1.0 (aarm-dev/docs, conformance/testing.mdx) on our parts. Results: docs/aarm.md.

A test's name begins with the requirement and the number of the test among those of the requirement. What is
about the running system asks one worker on a broker; what is about a decision asks the core that the worker
runs. A test that cannot pass is marked with the reason, and fails the suite once it passes.
"""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key, read_private_key
from sluice.client import ActionDenied, ActionNotDecided, AsyncGateClient, BrokerUnreachable, ClientOptions
from sluice.client.record_proofs import RecordProofs
from sluice.offline.ocsf_events import build_event
from sluice.verifier.__main__ import main as verify_export
from sluice_topics.catalog import VERDICTS
from sluice_topics.records.base import Outcome
from tests.kafka.installation import make_small_installation, read_stored, run_worker
from tests.unit.core.actions.escalation_scene import TTL_MS, Office
from tests.unit.core.actions.sequence_scene import SECRET_OUT, session
from tests.unit.core.rules.rule_scene import make_ruled
from tests.unit.core.scene import START, Session, entry, kinds, only, point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.adapters.kafka.kafka_read import StoredRecord

pytestmark = pytest.mark.kafka
AGENT, PURGE, READ = neutral_policy.AGENT, neutral_policy.PURGE_TOOL, neutral_policy.READ_TOOL
UNKNOWN = {"id": "r", "type": "forbidden", "reason": "no", "condition": "action.parameters.absent == 1"}
"""A rule over a field that the action has not: the policy cannot reach a decision."""
NO_DEFER = "there is no DEFER: what policy cannot decide waits for a person, as STEP_UP"


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("aarm")
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."))
    make_private_key(folder / "verdicts.pem")
    made.settings["SLUICE_VERDICTS__SIGNING_KEY"] = str(folder / "verdicts.pem")
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def client_of(installation: TestInstallation, **more: Any) -> AsyncGateClient:
    options = ClientOptions(topic_prefix=installation.prefix, **{"deadline_s": 60.0, **more})
    return AsyncGateClient(installation.bootstrap_servers, AGENT, options)


async def purge(gate: AsyncGateClient, session_id: str) -> list[str]:
    """The tables that a tool emptied whose call has more rows than policy lets pass."""
    emptied: list[str] = []

    @gate.guard(PURGE, session_id=session_id, rows_affected=neutral_policy.PURGE_LIMIT + 1)
    async def empty(table: str) -> None:
        emptied.append(table)

    with pytest.raises(ActionDenied):
        await empty("orders")
    return emptied


def list_verdicts(installation: TestInstallation, session_id: str) -> list[StoredRecord]:
    return [
        record
        for record in read_stored(installation, VERDICTS)
        if json.loads(record.value or b"")["session_id"] == session_id
    ]


@pytest.mark.usefixtures("worker")
async def test_r1_1_what_policy_denies_does_not_run_and_the_denial_is_recorded(
    installation: TestInstallation,
) -> None:
    async with client_of(installation) as gate:
        assert await purge(gate, "r1") == []
    (record,) = await asyncio.to_thread(list_verdicts, installation, "r1")
    verdict = json.loads(record.value or b"")
    assert (verdict["verdict"], verdict["outcome"]) == ("denied", "BLOCK")
    assert verdict["blockReason"].startswith("irreversible_rows")


def test_r1_2_what_policy_cannot_decide_is_suspended_without_effects_and_recorded() -> None:
    decided = make_ruled([UNKNOWN]).propose()
    verdict, opened = only(decided, "Verdict"), only(decided, "EscalationOpened")
    assert (verdict["verdict"], verdict["rows_reserved"]) == ("needs_human", 0)
    assert verdict["session"]["after"] == verdict["session"]["before"]
    assert opened["reason"].startswith("inconclusive: rule r")


async def test_r1_3_nothing_runs_while_the_gate_does_not_answer(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    started: list[str] = []
    async with client_of(installation, deadline_s=1.0) as gate:

        @gate.guard(READ, session_id="r1-away", rows_affected=1)
        async def read() -> None:
            started.append("read")

        worker.send(signal.SIGSTOP)
        try:
            with pytest.raises(ActionNotDecided):
                await read()
        finally:
            worker.send(signal.SIGCONT)
    with pytest.raises(BrokerUnreachable):
        await AsyncGateClient("127.0.0.1:1", AGENT, ClientOptions(connect_timeout_s=0.5)).start()
    assert not started


def test_r2_1_policy_receives_the_session_s_earlier_actions_and_what_was_read() -> None:
    earlier = session(SECRET_OUT)
    for number in range(3):
        earlier.propose(action_id=f"a-{number}", toolName="read_secret", rows_affected=10)
    last = earlier.verdict(action_id="a-3", toolName="send", rows_affected=1)
    before = last["session"]["before"]
    assert (before["aggregateActionCount"], before["aggregateRowsAffected"]) == (3, 30)
    assert (last["outcome"], last["blockReason"].partition(":")[0]) == ("BLOCK", "forbidden_sequence")
    web = entry("tool", "web", tier="T1", action_type="API_CALL", reversible=True, returns_untrusted=True)
    rule = {
        "id": "r",
        "type": "forbidden",
        "reason": "no",
        "condition": "session.read_external > 0 && action.tool == 'change'",
    }
    reading = make_ruled([rule], web)
    assert reading.verdict(action_id="b-0", toolName="change")["outcome"] == "ALLOW"
    reading.propose(action_id="b-1", toolName="web")
    assert reading.verdict(action_id="b-2", toolName="change")["outcome"] == "BLOCK"


@pytest.mark.usefixtures("worker")
async def test_r2_2_a_context_entry_that_was_altered_is_detected(
    installation: TestInstallation, tmp_path: Path
) -> None:
    async with client_of(installation) as gate:
        await purge(gate, "r2")
    export = tmp_path / "ledger.jsonl"
    ran = await asyncio.to_thread(
        CliRunner().invoke, cli, ["ledger", "export", str(export)], env=installation.settings
    )
    assert (ran.exit_code, verify_export([str(export)])) == (0, 0), ran.output
    text = export.read_text()
    assert text.count("irreversible_rows") > 1
    export.write_text(text.replace("irreversible_rows", "irreversible-rows", 1))
    assert verify_export([str(export)]) == 1


def test_r3_1_what_is_forbidden_is_denied_at_once_whatever_the_context() -> None:
    office = Office()
    office.answer(office.open_escalation(), "ann")
    verdict = only(
        office.propose("a-2", toolName="anything", parameters={"command": "rm -rf /"}, agent_id="chief"),
        "Verdict",
    )
    assert verdict["outcome"] == "BLOCK"
    assert verdict["gateResults"][-1]["gate"] == "fast_reject"


def test_r3_2_what_policy_allows_is_denied_after_sensitive_data_was_read() -> None:
    assert session(SECRET_OUT).verdict(toolName="send")["outcome"] == "ALLOW"
    after = session(SECRET_OUT)
    after.propose(action_id="a-1", toolName="read_secret")
    assert after.verdict(action_id="a-2", toolName="send")["outcome"] == "BLOCK"


def test_r3_3_what_policy_denies_is_asked_about_in_a_context_that_confirms_it() -> None:
    rule = {
        "id": "look-first",
        "type": "forbidden",
        "reason": "nothing was looked up in this session",
        "condition": "action.tool == 'erase' && session.aggregateActionCount < 2",
    }
    ruled = make_ruled([rule])
    assert ruled.verdict(action_id="a-1", toolName="erase")["outcome"] == "BLOCK"
    assert ruled.verdict(action_id="a-2", toolName="find")["outcome"] == "ALLOW"
    assert ruled.verdict(action_id="a-3", toolName="erase")["outcome"] == "ESCALATE"


@pytest.mark.xfail(reason=NO_DEFER, strict=True)
def test_r3_4_what_the_context_leaves_open_is_deferred() -> None:
    assert make_ruled([UNKNOWN]).verdict()["outcome"] == "DEFER"


@pytest.mark.xfail(reason=f"{NO_DEFER}; and no gate rewrites an action (MODIFY)", strict=True)
def test_r4_1_each_of_the_five_decisions_is_enforced() -> None:
    reached = {
        Session(point()).verdict()["outcome"],
        Session(point()).verdict(toolName="anything", parameters={"command": "rm -rf /"})["outcome"],
        Session(point()).verdict(toolName="erase")["outcome"],
    }
    assert reached == {"ALLOW", "BLOCK", "ESCALATE"} == set(get_args(Outcome))
    assert {"MODIFY", "DEFER"} <= reached


def test_r4_2_what_nobody_answers_in_time_is_denied() -> None:
    office = Office()
    opened = office.open_escalation()
    office.now += TTL_MS + 1
    late = office.answer(opened, "ann")
    assert kinds(late) == ["EscalationExpired", "InputRefused"]
    assert only(office.propose(), "Verdict")["verdict"] != "allowed"
    assert office.rows() == 0


def test_r4_3_what_policy_could_not_decide_is_denied_if_nothing_resolves_it_in_time() -> None:
    office = Office(policy={"rules": [UNKNOWN]})
    opened = office.open_escalation(toolName="find")
    assert opened["reason"].startswith("inconclusive: rule r")
    office.now += TTL_MS + 1
    assert kinds(office.answer(opened, "ann")) == ["EscalationExpired", "InputRefused"]
    assert only(office.propose(toolName="find"), "Verdict")["verdict"] != "allowed"


@pytest.mark.xfail(
    reason="MODIFY and DEFER do not exist; the chain of delegations is in the input alone, whose digest the "
    "verdict has",
    strict=True,
)
def test_r5_1_receipts_of_all_decisions_name_requester_chain_and_policy() -> None:
    chain = {"rootAgentId": "chief", "parentAgentId": "chief", "chainDepth": 1}
    links = (
        entry("agent", "chief", 2, tenant_id="acme", tier="T4", delegates_to=["operator"]),
        entry("agent", "operator", 2, tenant_id="acme", tier="T3", callers=["chief"]),
    )
    for more in ({}, {"toolName": "erase"}, {"toolName": "anything", "parameters": {"command": "rm -rf /"}}):
        verdict = Session(point(*links)).verdict(**{"governanceContext": chain, **more})
        assert (verdict["agent_id"], verdict["session_id"], verdict["tenant_id"]) == (
            "operator",
            "s-1",
            "acme",
        )
        assert verdict["tier"]
        assert verdict["bundle_hash"].startswith("sha256:")
        assert verdict["registry_hashes"]["agent/operator@2"].startswith("sha256:")
        assert verdict["input"]["digest"].startswith("sha256:")
        assert "chief" in json.dumps(verdict)


@pytest.mark.usefixtures("worker")
async def test_r5_2_the_signature_of_a_receipt_verifies_offline(installation: TestInstallation) -> None:
    proofs = await make_receipts(installation, "r5-2")
    for record in await asyncio.to_thread(list_verdicts, installation, "r5-2"):
        assert proofs.find_objection(VERDICTS, record) is None


@pytest.mark.usefixtures("worker")
async def test_r5_3_a_receipt_with_another_requester_or_policy_does_not_verify(
    installation: TestInstallation,
) -> None:
    proofs = await make_receipts(installation, "r5-3")
    (record,) = await asyncio.to_thread(list_verdicts, installation, "r5-3")
    verdict = json.loads(record.value or b"")
    for name, other in (("agent_id", "another"), ("bundle_hash", "sha256:" + "0" * 64)):
        altered = json.dumps({**verdict, name: other}, separators=(",", ":")).encode()
        assert proofs.find_objection(VERDICTS, replace(record, value=altered)) is not None


async def make_receipts(installation: TestInstallation, session_id: str) -> RecordProofs:
    """A denial in a session, and what checks its proof with the public key alone."""
    async with client_of(installation) as gate:
        await purge(gate, session_id)
    key = read_private_key(Path(installation.settings["SLUICE_VERDICTS__SIGNING_KEY"])).public.text
    return RecordProofs([key], installation.trust.make_audience(installation.prefix))


def test_r5_4_the_receipt_of_what_was_suspended_says_why_how_it_ended_and_when() -> None:
    office = Office(policy={"rules": [UNKNOWN]})
    opened = office.open_escalation(toolName="find")
    ended = office.answer(opened, "ann")
    resolved, verdict = only(ended, "EscalationResolved"), only(ended, "ResolvedVerdict")
    assert opened["reason"].startswith("inconclusive: rule r")
    assert (resolved["decision"], resolved["approver_id"]) == ("approve", "ann")
    assert (resolved["resolved_at"], verdict["resolves"]) == (
        "2025-11-21T13:00:02.000Z",
        opened["verdict_id"],
    )


def test_r6_1_receipts_attribute_each_action_to_its_agent_session_and_authority() -> None:
    seen = set()
    for agent, session_id in (("operator", "s-1"), ("operator", "s-2"), ("chief", "s-1"), ("other", "s-1")):
        verdict = Session(point()).verdict(agent_id=agent, session_id=session_id)
        held = next(name for name in verdict["registry_hashes"] if name.startswith("agent/"))
        seen.add((verdict["agent_id"], verdict["session_id"], verdict["tenant_id"], held))
    assert seen == {
        ("operator", "s-1", "acme", "agent/operator@1"),
        ("operator", "s-2", "acme", "agent/operator@1"),
        ("chief", "s-1", "acme", "agent/chief@1"),
        ("other", "s-1", "globex", "agent/other@1"),
    }


def test_r6_2_what_was_suspended_keeps_its_identity_when_it_is_resolved() -> None:
    office = Office(policy={"rules": [UNKNOWN]})
    first = only(proposed := office.propose(toolName="find"), "Verdict")
    resolved = only(office.answer(only(proposed, "EscalationOpened"), "ann"), "ResolvedVerdict")
    for name in ("action_id", "agent_id", "session_id", "tenant_id", "tier"):
        assert resolved[name] == first[name]
    held = {name: value for name, value in first["registry_hashes"].items() if name.startswith("agent/")}
    assert held
    assert held.items() <= resolved["registry_hashes"].items()


@pytest.mark.xfail(
    reason="no distance between the first request and the actions is computed or summed up: a signed mandate "
    "says what an agent is asked to do, and conditions hold its actions against it",
    strict=True,
)
def test_r7_1_actions_that_diverge_from_the_request_raise_something() -> None:
    drifting = Session(point())
    asked = ["read the open orders", "read the price list", "read the salaries", "read the board's letters"]
    verdicts = [
        drifting.verdict(action_id=f"a-{number}", parameters={"q": text}, reasoning=f"asked to {asked[0]}")
        for number, text in enumerate(asked)
    ]
    assert [verdict["outcome"] for verdict in verdicts] == ["ALLOW"] * 4
    assert any("drift" in json.dumps(verdict["advisories"]) for verdict in verdicts)


def test_r8_1_decisions_are_events_of_a_standard_schema_for_a_siem() -> None:
    words = {}
    for more in ({}, {"toolName": "erase"}, {"toolName": "anything", "parameters": {"command": "rm -rf /"}}):
        verdict = Session(point()).verdict(**more)
        body = {**verdict, "decided_at": "2025-11-21T13:00:00.000Z", "schema": "sluice/verdict/v1"}
        event = build_event(VERDICTS, body, START)
        assert (event["class_uid"], event["metadata"]["version"]) == (6003, "1.6.0")
        words[verdict["outcome"]] = event["disposition"]
    assert len(set(words.values())) == len(words) == 3


@pytest.mark.skip(reason="not applicable: Sluice decides on actions and issues no credentials to tools")
def test_r9_1_a_credential_for_a_read_writes_nothing() -> None:
    """Nothing of ours could be asked."""
