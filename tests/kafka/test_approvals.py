"""Approvals on a real broker: people answer a worker's escalations, and time answers the others."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.installations.approvers import approver, entry
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.client import ActionDenied, ActionInterrupted, AsyncGateClient, ClientOptions, NeedsHuman
from sluice.core.registry.keys import SigningKey
from sluice_demo.throwaway_trust import OWNER, publish_policy
from sluice_topics.catalog import ACTIONS, ESCALATIONS, REVIEWS, SESSION_EVENTS, VERDICTS
from tests.kafka.installation import (
    action,
    installation_on,
    publish,
    read_stored,
    records,
    run_worker,
    select_session,
    wait_for,
)
from tests.kafka.memories import session_in
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
TOOL = "load.refund"
HASTY_AGENT = "hasty-agent"
"""Its escalations wait for `HASTY_MS` only."""
HASTY_MS = 3000
KEYS = {name: SigningKey(Ed25519PrivateKey.generate()) for name in ("ann", "ben")}


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """One installation for all tests here: two approvers, a tool that needs one, and an agent in a hurry."""
    folder = tmp_path_factory.mktemp("approvals")
    made = installation_on(kafka, folder, module_prefix.rstrip("."), SLUICE_WORKER__TIMER_INTERVAL_S="0.2")
    people = {**KEYS, "vera": make_private_key(made.folder / "vera.pem")}
    hasty = {**neutral_policy.bundle(), "id": "load.hasty", "escalation_ttl_ms": HASTY_MS}
    tool = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    entries = [
        entry(
            "agent", HASTY_AGENT, tenant_id=neutral_policy.TENANT, tier="T2", policy_bundle_id="load.hasty"
        ),
        entry("tool", TOOL, **tool),
    ]
    policy = [
        *(approver(made.trust, name, key, ["approver"]) for name, key in people.items()),
        made.trust.sign_bundle(json.dumps(hasty).encode()),
        *made.trust.sign_entries(entries),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def refund(session: str, action_id: str, **more: Any) -> dict[str, Any]:
    """An action that needs an approver."""
    return action(session, action_id, toolName=TOOL, **more)


def answer(
    installation: TestInstallation, opened: dict[str, Any], by: str, decision: str = "approve", **changed: Any
) -> dict[str, Any]:
    """A signed answer to an EscalationOpened."""
    return answer_signed_by(KEYS[by], opened, by, decision, audience=installation.audience, **changed)


def select_kind(
    installation: TestInstallation, topic: str, session: str, schema: str
) -> list[dict[str, Any]]:
    """The session's records of a schema."""
    return [one for one in records(installation, topic, session) if one["schema"] == f"sluice/{schema}/v1"]


def test_two_people_answer_at_once_and_one_answer_counts(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 0)
    publish(installation, [refund(session, "a-1"), refund(session, "a-2")])
    one, two = wait_for(installation, ESCALATIONS, session, 2, worker)
    publish(
        installation,
        [
            answer(installation, one, "ann"),
            answer(installation, one, "ben", "deny"),
            answer(installation, two, "ben", "deny"),
        ],
        REVIEWS,
    )
    ended = wait_for(installation, ESCALATIONS, session, 4, worker)[2:]
    assert [(one["decision"], one["outcome"], one["approver_id"]) for one in ended] == [
        ("approve", "ALLOW", "ann"),
        ("deny", "BLOCK", "ben"),
    ]
    (resolved,) = select_kind(installation, VERDICTS, session, "resolved_verdict")
    assert (resolved["resolves"], resolved["rows_reserved"]) == (one["verdict_id"], 10)
    assert resolved["session"]["after"]["aggregateRowsAffected"] == 10
    (refused,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert (refused["reason"], refused["subject"]) == ("already_ended", one["escalation_id"])
    publish(installation, [refund(session, "a-1"), refund(session, "a-2")])
    repeats = select_session(wait_for(installation, VERDICTS, session, 5, worker), session)[-2:]
    assert [(one["outcome"], one["duplicate_of"] is not None) for one in repeats] == [
        ("ALLOW", True),
        ("ESCALATE", True),
    ]


def test_time_ends_what_nobody_answered(installation: TestInstallation, worker: WorkerProcess) -> None:
    session = session_in(installation, 1)
    publish(installation, [refund(session, "a-1", agent_id=HASTY_AGENT)])
    opened, expired = wait_for(installation, ESCALATIONS, session, 2, worker)
    assert (expired["schema"], expired["input"]) == ("sluice/escalation_expired/v1", None)
    publish(installation, [answer(installation, opened, "ann")], REVIEWS)
    (refused,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert refused["reason"] == "already_ended"
    assert refused["message"].startswith("it ended EXPIRED")


HIDDEN = "refund in \u202eMay\u202c"
WELL, REFUSED = 0, 1


def escalations(installation: TestInstallation, *words: str) -> Result:
    """`sluice escalations`, as an approver types it."""
    return CliRunner().invoke(cli, ["escalations", *words], env=installation.settings)


def decide(
    installation: TestInstallation, name: str, decision: str, *more: str, approver: str = "vera"
) -> Result:
    """Vera's answer on the command line."""
    key = str(installation.folder / "vera.pem")
    words = ("--as", approver, "--key", key, "--justification", "the customer confirmed", "--yes", *more)
    return escalations(installation, decision, name, *words)


def list_ids(installation: TestInstallation, session: str) -> list[str]:
    """The ids that wait in a session."""
    found = escalations(installation, "list", "--session", session, "--json")
    return [one["escalation_id"] for one in json.loads(found.stdout)]


def test_an_approver_finds_an_escalation_reads_it_and_decides(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 2)
    publish(installation, [refund(session, f"a-{one}", parameters={"why": HIDDEN}) for one in (1, 2, 3)])
    names = [one["escalation_id"] for one in wait_for(installation, ESCALATIONS, session, 3, worker)]
    assert list_ids(installation, session) == names
    shown = escalations(installation, "show", names[0]).stdout
    assert "waiting" in shown
    assert "refund in <U+202E>May<U+202C>" in shown
    assert "tier_T3: needs a person's approval" in shown
    approved = decide(installation, names[0], "approve", "--json")
    assert (approved.exit_code, json.loads(approved.stdout)["outcome"]) == (WELL, "approved")
    denied = decide(installation, names[1], "deny")
    assert (denied.exit_code, "denied" in denied.stdout) == (WELL, True)
    refused = decide(installation, names[2], "deny", approver="ann")
    assert (refused.exit_code, "wrong_signature" in refused.stderr) == (REFUSED, True)
    narrowed = installation.folder / "less.json"
    narrowed.write_text('{"why": "a smaller one"}', encoding="utf-8")
    assert decide(installation, names[2], "approve", "--parameters", str(narrowed)).exit_code == WELL
    assert list_ids(installation, session) == []
    whole = json.loads(escalations(installation, "show", names[2], "--json").stdout)
    assert (whole["state"], whole["resolved"]["outcome"]) == ("approved", "ALLOW")
    assert whole["resolved"]["narrowed"].startswith("sha256:")
    again = decide(installation, names[0], "deny")
    assert (again.exit_code, "does not wait: approved" in again.stderr) == (REFUSED, True)
    ended = [one["outcome"] for one in select_kind(installation, ESCALATIONS, session, "escalation_resolved")]
    assert ended == ["ALLOW", "BLOCK", "ALLOW"]


def test_a_grant_on_the_command_line_saves_the_next_questions(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 6)
    publish(installation, [refund(session, "a-0")])
    (opened,) = wait_for(installation, ESCALATIONS, session, 1, worker)
    more = ("--grant-uses", "2", "--grant-for", "1h", "--grant-when", "action.rows < 100")
    approved = decide(installation, opened["escalation_id"], "approve", *more)
    assert approved.exit_code == WELL, approved.stderr
    publish(installation, [refund(session, "a-1")])
    verdicts = wait_for(installation, VERDICTS, session, 3, worker)
    assert [one["outcome"] for one in verdicts] == ["ESCALATE", "ALLOW", "ALLOW"]
    (given,) = select_kind(installation, ESCALATIONS, session, "grant_given")
    key = (
        "--as",
        "vera",
        "--key",
        str(installation.folder / "vera.pem"),
        "--justification",
        "enough",
        "--yes",
    )
    revoked = escalations(installation, "revoke", given["grant_id"], *key)
    assert (revoked.exit_code, "revoked" in revoked.stdout) == (WELL, True)
    publish(installation, [refund(session, "a-2")])
    assert wait_for(installation, VERDICTS, session, 4, worker)[-1]["outcome"] == "ESCALATE"
    again = escalations(installation, "revoke", given["grant_id"], *key)
    assert (again.exit_code, "unknown_subject" in again.stderr) == (REFUSED, True)


def test_a_grant_for_all_sessions_is_shared_out_and_ends_everywhere_within_a_second(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    key, recall = installation.folder / "owner.pem", {"parameters": {"batch": "recall"}}
    key.touch(mode=0o600)
    key.write_bytes(installation.trust.write_pem(OWNER))
    signed = ("--as", OWNER, "--key", str(key), "--justification", "refunds of the recall", "--yes")
    first, second, third = (session_in(installation, partition, "all") for partition in (1, 2, 3))
    publish(installation, [refund(first, "a-0", **recall)])
    (opened,) = wait_for(installation, ESCALATIONS, first, 1, worker)
    bounds = ("--uses", str(2 * installation.partitions), "--when", 'action.parameters.batch == "recall"')
    given = escalations(installation, "grant", opened["escalation_id"], *signed, *bounds)
    assert given.exit_code == WELL, given.output
    time.sleep(1)
    for session, before in ((first, 1), (second, 0)):
        publish(installation, [refund(session, f"b-{number}", **recall) for number in range(3)])
        verdicts = wait_for(installation, VERDICTS, session, before + 3, worker)
        assert [one["outcome"] for one in verdicts[before:]] == ["ALLOW", "ALLOW", "ESCALATE"]
    (used, _) = select_kind(installation, ESCALATIONS, second, "grant_used")
    revoked = escalations(installation, "revoke", used["grant_id"], *signed)
    assert revoked.exit_code == WELL, revoked.output
    time.sleep(1)
    publish(installation, [refund(third, "c-0", **recall)])
    assert wait_for(installation, VERDICTS, third, 1, worker)[0]["outcome"] == "ESCALATE"


def test_an_id_that_nobody_knows_is_said_to_be_unknown(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    del worker
    unknown = escalations(installation, "show", "3:999999")
    assert (unknown.exit_code, "nothing was escalated" in unknown.stderr) == (REFUSED, True)


def client_of(installation: TestInstallation, journal: Path | None = None) -> AsyncGateClient:
    """An agent's client."""
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=60, journal=journal)
    return AsyncGateClient(installation.bootstrap_servers, neutral_policy.AGENT, options)


async def list_opened(installation: TestInstallation, session: str, count: int) -> list[dict[str, Any]]:
    """The session's escalations, once there are so many."""
    while True:
        found = await asyncio.to_thread(select_kind, installation, ESCALATIONS, session, "escalation_opened")
        if len(found) >= count:
            return found
        await asyncio.sleep(0.1)


async def say(installation: TestInstallation, *answers: dict[str, Any]) -> None:
    """Publish signed answers."""
    await asyncio.to_thread(publish, installation, answers, REVIEWS)


async def test_a_guarded_tool_waits_for_its_approver_and_runs_once(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    del worker
    session = session_in(installation, 3)
    ran: list[tuple[str, int]] = []
    async with client_of(installation) as client:

        @client.guard(TOOL, approval_timeout_s=60, accept_narrowed=True, session_id=session)
        async def pay(customer: str, amount: int) -> None:
            ran.append((customer, amount))

        waiting = [asyncio.ensure_future(pay(name, 100)) for name in ("ada", "bob", "cyd")]
        opened = await list_opened(installation, session, 3)
        named = await asyncio.to_thread(lambda: [customer_of(installation, one) for one in opened])
        told = dict(zip(named, opened, strict=True))
        less = {"customer": "cyd", "amount": 5}
        await say(
            installation,
            answer(installation, told["ada"], "ann"),
            answer(installation, told["bob"], "ben", "deny"),
        )
        await say(installation, answer(installation, told["cyd"], "ben", parameters=less))
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert sorted(ran) == [("ada", 100), ("cyd", 5)]
    assert [type(one) for one in ends] == [type(None), ActionDenied, type(None)]
    assert "approval_denied: ben" in str(ends[1])


async def test_a_restarted_agent_goes_on_waiting_by_the_action_s_id(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    del worker
    session = session_in(installation, 4)
    call: dict[str, Any] = {"session_id": session, "action_id": "once"}
    async with client_of(installation, tmp_path / "journal") as client:
        with pytest.raises(NeedsHuman):
            await client.permit(TOOL, {}, approval_timeout_s=0.5, **call)
    (opened,) = await list_opened(installation, session, 1)
    await say(installation, answer(installation, opened, "ann"))
    async with client_of(installation, tmp_path / "journal") as client:
        permit = await client.permit(TOOL, {}, approval_timeout_s=60, **call)
        assert permit.verdict.record["resolves"] == opened["verdict_id"]
        await client.finish(permit)
        with pytest.raises(ActionInterrupted):
            await client.permit(TOOL, {}, approval_timeout_s=60, **call)
    assert len(await asyncio.to_thread(select_kind, installation, VERDICTS, session, "resolved_verdict")) == 1


async def test_what_expires_while_an_agent_waits_is_denied(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    del worker
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=60)
    async with AsyncGateClient(installation.bootstrap_servers, HASTY_AGENT, options) as client:
        with pytest.raises(ActionDenied, match="approval_expired"):
            await client.permit(TOOL, {}, session_id=session_in(installation, 5), approval_timeout_s=60)


def customer_of(installation: TestInstallation, opened: dict[str, Any]) -> str:
    """Whom the escalated action pays."""
    place = (opened["input"]["partition"], opened["input"]["offset"])
    (found,) = [one for one in read_stored(installation, ACTIONS) if (one.partition, one.offset) == place]
    return str(json.loads(found.value or b"")["parameters"]["customer"])
