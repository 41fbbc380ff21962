"""Answers that a gateway's key signed for people, on a real broker: what counts, and what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.approvers import entry
from sluice.cli.main import cli
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import GATEWAY, OWNER, REVIEWER, publish_policy
from sluice_topics.catalog import ESCALATIONS, MEMORY_WRITES, QUARANTINE, REVIEWS, SESSION_EVENTS, VERDICTS
from tests.kafka import memories
from tests.kafka.installation import action, installation_on, publish, run_worker, wait_for
from tests.kafka.memories import session_in
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
REFUND, WIRE = "load.refund", "load.wire"
STAGES = ("controls", "fast_reject", "tier_auth")
STRICT_AGENT = "strict-agent"
"""Its bundle demands the approver's own key for T4."""


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """Four delegates with the gateway's key: one in order, one abroad, one for less, one revoked."""
    folder = tmp_path_factory.mktemp("delegated")
    made = installation_on(
        kafka, folder, module_prefix.rstrip("."), STAGES, SLUICE_WORKER__TIMER_INTERVAL_S="0.2"
    )
    strict = {
        **neutral_policy.bundle(stages=STAGES),
        "id": "load.strict",
        "approvals": {"own_key_tiers": ["T4"]},
    }
    here = [neutral_policy.TENANT]
    tools = [
        entry("tool", name, tier=tier, action_type="PAYMENT", reversible=False, trusts_row_claims=True)
        for name, tier in ((REFUND, "T3"), (WIRE, "T4"))
    ]
    agent = entry(
        "agent", STRICT_AGENT, tenant_id=here[0], tier="T4", policy_bundle_id="load.strict", owner="nobody"
    )
    key = {"public_key": made.trust.gateway.public.text, "revoked_at": "2026-01-01T00:00:00.000Z"}
    policy = [
        made.trust.sign_bundle(json.dumps(strict).encode()),
        made.trust.make_delegate(here),
        made.trust.make_delegate(["elsewhere"], "abroad"),
        made.trust.make_delegate(here, "lesser", roles=["approver"]),
        made.trust.make_delegate(here, "revoked", keys=[key]),
        *made.trust.sign_entries([*tools, agent]),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def open_escalation(
    installation: TestInstallation, worker: WorkerProcess, session: str, tool: str, **more: Any
) -> dict[str, Any]:
    """The EscalationOpened of an action."""
    publish(installation, [action(session, "a-1", toolName=tool, **more)])
    return wait_for(installation, ESCALATIONS, session, 1, worker)[0]


def sign(
    installation: TestInstallation, waits: dict[str, Any], by: str = OWNER, **changed: Any
) -> dict[str, Any]:
    """A person's approval as the gateway signs it, through the delegate `through`."""
    said = {
        "id": changed.pop("through", GATEWAY),
        "channel": "browser",
        "key_id": installation.trust.gateway.keyid,
    }
    return answer_signed_by(
        installation.trust.gateway, waits, by, audience=installation.audience, **{"delegate": said, **changed}
    )


def test_an_answer_within_both_bounds_counts_and_is_decided_again_alike(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 0)
    waits = open_escalation(installation, worker, session, REFUND)
    publish(installation, [sign(installation, waits)], REVIEWS)
    ended = wait_for(installation, ESCALATIONS, session, 2, worker)[1]
    assert (ended["approver_id"], ended["outcome"]) == (OWNER, "ALLOW")
    assert (ended["delegate"]["id"], ended["delegate"]["channel"]) == (GATEWAY, "browser")
    resolved = wait_for(installation, VERDICTS, session, 2, worker)[1]
    assert f"delegate/{GATEWAY}@1" in resolved["registry_hashes"]
    again = CliRunner().invoke(cli, ["rerun", resolved["verdict_id"], "--json"], env=installation.settings)
    assert again.exit_code == 0, again.output
    whole = CliRunner().invoke(cli, ["ledger", "verify"], env=installation.settings)
    assert whole.exit_code == 0, whole.output


def test_out_of_its_bounds_a_delegate_signs_for_nobody(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 1)
    waits = open_escalation(installation, worker, session, WIRE)
    ours = sign(installation, waits)
    publish(
        installation,
        [
            sign(installation, waits, through="abroad"),
            sign(installation, waits, through="lesser"),
            sign(installation, waits, through="revoked"),
            sign(installation, waits, by="stranger"),
            sign(installation, waits, by=REVIEWER),
            {**ours, "justification": "let it pass"},
            {**sign(installation, waits, by=REVIEWER), "approver_id": OWNER},
            ours,
        ],
        REVIEWS,
    )
    assert wait_for(installation, ESCALATIONS, session, 2, worker)[1]["delegate"]["id"] == GATEWAY
    assert [one["reason"] for one in wait_for(installation, SESSION_EVENTS, session, 7, worker)] == [
        "not_a_delegate",
        "wrong_delegate_role",
        "not_a_delegate",
        "not_an_approver",
        "wrong_role",
        "wrong_signature",
        "wrong_signature",
    ]


def test_where_the_own_key_is_demanded_only_that_counts(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 2)
    waits = open_escalation(installation, worker, session, WIRE, agent_id=STRICT_AGENT)
    assert waits["own_key"] is True
    publish(
        installation,
        [
            sign(installation, waits),
            answer_signed_by(installation.trust.owner, waits, OWNER, audience=installation.audience),
        ],
        REVIEWS,
    )
    ended = wait_for(installation, ESCALATIONS, session, 2, worker)[1]
    assert (ended["approver_id"], "delegate" in ended) == (OWNER, False)
    assert wait_for(installation, SESSION_EVENTS, session, 1, worker)[0]["reason"] == "own_key_needed"


def test_a_memory_is_reviewed_within_the_same_bounds(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """The held memory of this policy waits for six seconds."""
    session = session_in(installation, 3)
    publish(
        installation, [memories.make_held_write(session, "w", content=neutral_policy.DOUBT)], MEMORY_WRITES
    )
    held = wait_for(installation, QUARANTINE, session, 1, worker)[0]
    fields = {
        "subject_id": held["memory_id"],
        "session_id": session,
        "decision": "reject",
        "approver_id": REVIEWER,
        "digest": held["content_digest"],
        "justification": "nobody knows who said so",
    }
    said = {"channel": "slack", "key_id": installation.trust.gateway.keyid}
    reviews = [
        sign_review(
            {**fields, "delegate": {"id": name, **said}}, installation.trust.gateway, installation.audience
        )
        for name in ("lesser", GATEWAY)
    ]
    publish(installation, [one.model_dump(mode="json", exclude_unset=True) for one in reviews], REVIEWS)
    ended = wait_for(installation, QUARANTINE, session, 2, worker)[1]
    assert (ended["schema"], ended["delegate"]["channel"]) == ("sluice/quarantine_rejected/v1", "slack")
    assert wait_for(installation, SESSION_EVENTS, session, 1, worker)[0]["reason"] == "wrong_delegate_role"
