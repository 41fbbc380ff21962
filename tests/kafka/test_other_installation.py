"""Mend 22.5: a real worker believes nothing that was signed for another installation, or for other topics."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import rfc8785

from load.installations import neutral_policy
from load.installations.approvers import entry
from sluice.client.sender import InputSigner, delegation_grant
from sluice_demo.throwaway_trust import AGENT, OWNER, ThrowawayTrust, publish_policy
from sluice_topics.audience import Audience, record_message
from sluice_topics.catalog import (
    ACTIONS,
    DEAD_LETTERS,
    ESCALATIONS,
    OUTCOMES,
    REVIEWS,
    SESSION_EVENTS,
    VERDICTS,
)
from tests.kafka.installation import action, make_small_installation, publish, run_worker, wait_for, write
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
REFUND, POINT = "load.refund", "door"
CHILD = ThrowawayTrust()


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("installations")
    made = make_small_installation(
        kafka, folder, module_prefix.rstrip("."), ("controls", "topology", "tier_auth")
    )
    given: dict[str, Any] = {"tenant_id": neutral_policy.TENANT, "tier": "T2"}
    keys = [[{"public_key": one.agent.public.text}] for one in (made.trust, CHILD)]
    policy = made.trust.sign_entries(
        [
            entry("agent", "parent", **given, keys=keys[0], delegates_to=["child"]),
            entry("agent", "child", **given, keys=keys[1], callers=["parent"]),
            entry("tool", REFUND, tier="T3", trusts_row_claims=True),
            entry(
                "enforcement_point",
                POINT,
                tenant_id=given["tenant_id"],
                public_key=made.trust.feed.public.text,
            ),
        ]
    )
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def elsewhere(installation: TestInstallation) -> tuple[Audience, Audience]:
    """Staging, with every key and the topics' names alike; and the same id over other topics."""
    return installation.audience._replace(installation="staging"), installation.audience._replace(
        topic_prefix="staging."
    )


def act(installation: TestInstallation, signer: InputSigner, fields: dict[str, Any]) -> None:
    value, now_ms = json.dumps(fields).encode(), time.time_ns() // 1_000_000
    publish(
        installation, [fields], ACTIONS, [signer.make_header(ACTIONS, fields["session_id"], value, now_ms)]
    )


def test_a_proposal_signed_for_another_installation_is_unsigned(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    for number, audience in enumerate((*elsewhere(installation), installation.audience)):
        signer = InputSigner(installation.trust.write_pem(AGENT), audience)
        act(installation, signer, action("proposals", f"a-{number}", agent_id="parent"))
    verdicts = wait_for(installation, VERDICTS, "proposals", 3, worker)
    assert [one["verdict"] for one in verdicts] == ["denied", "denied", "allowed"]
    assert "bad_signature" in verdicts[0]["blockReason"]


def test_a_grant_signed_for_another_installation_proves_nothing(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    until = datetime.now(UTC) + timedelta(minutes=10)
    for number, audience in enumerate((*elsewhere(installation), installation.audience)):
        parent = InputSigner(installation.trust.write_pem(AGENT), audience)
        grant = delegation_grant(parent, ("parent", "child"), "grants", until)
        told = action("grants", f"a-{number}", agent_id="child", governanceContext={"grants": [grant]})
        act(installation, InputSigner(CHILD.write_pem(AGENT), installation.audience), told)
    verdicts = wait_for(installation, VERDICTS, "grants", 3, worker)
    assert [one["verdict"] for one in verdicts] == ["denied", "denied", "allowed"]
    assert "bad_signature" in verdicts[0]["blockReason"]


def test_a_review_signed_for_another_installation_is_refused(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    publish(installation, [action("reviews", "a-1", toolName=REFUND)])
    (opened,) = wait_for(installation, ESCALATIONS, "reviews", 1, worker)
    for audience in (*elsewhere(installation), installation.audience):
        publish(
            installation,
            [answer_signed_by(installation.trust.owner, opened, OWNER, audience=audience)],
            REVIEWS,
        )
    ended = wait_for(installation, ESCALATIONS, "reviews", 2, worker)[1]
    assert (ended["decision"], ended["approver_id"]) == ("approve", OWNER)
    refused = wait_for(installation, SESSION_EVENTS, "reviews", 2, worker)
    assert [one["reason"] for one in refused] == ["wrong_signature", "wrong_signature"]


def test_an_outcome_signed_for_another_installation_lowers_no_total(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    publish(installation, [action("outcomes", "a-1", rows_affected=40)])
    (verdict,) = wait_for(installation, VERDICTS, "outcomes", 1, worker)
    said: dict[str, Any] = {
        "action_id": "a-1",
        "session_id": "outcomes",
        "rows_affected": 0,
        "reported_by": POINT,
    }
    said |= {"action_digest": verdict["input"]["digest"], "input": verdict["input"]}
    for audience in (*elsewhere(installation), installation.audience):
        signature = installation.trust.feed.sign(record_message(audience, rfc8785.dumps(said)))
        publish(installation, [{**said, "signature": base64.b64encode(signature).decode()}], OUTCOMES)
    settled = wait_for(installation, SESSION_EVENTS, "outcomes", 3, worker)
    totals = [one["aggregateRowsAffected"] for one in settled]
    assert totals[-1] == 0, "the one for this installation counts"
    assert all(total >= verdict["rows_reserved"] for total in totals[:-1]), "the others lower nothing"


def test_an_entry_for_another_installation_does_not_count(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    mighty = entry("agent", "mighty", tenant_id=neutral_policy.TENANT, tier="T2")
    for revision, where in ((1, "staging"), (2, installation.trust.installation)):
        named = {**mighty, "revision": revision, "installations": [where]}
        asyncio.run(
            publish_policy(
                installation.bootstrap_servers, installation.prefix, installation.trust.sign_entries([named])
            )
        )
        if where == "staging":
            (letter,) = write(installation, DEAD_LETTERS, 1, worker)
            publish(installation, [action("entries", "a-1", agent_id="mighty")])
    assert letter["code"] == "other_installation"
    found: list[dict[str, Any]] = wait_for(installation, VERDICTS, "entries", 1, worker)
    assert found[0]["blockReason"].startswith("unknown_agent")
    while found[-1]["verdict"] != "allowed":
        publish(installation, [action("entries", f"a-{len(found) + 1}", agent_id="mighty")])
        found = wait_for(installation, VERDICTS, "entries", len(found) + 1, worker)
