"""Routes on a real broker: time reminds a group and passes an escalation on, whichever worker is there."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.worker_process import WorkerProcess
from sluice.cli.main import cli
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ESCALATIONS, REGISTRY, REVIEWS, SESSION_EVENTS
from tests.kafka.installation import action, make_small_installation, publish, records, wait_for, wait_until
from tests.kafka.memories import session_in
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
TOOL = "load.refund"
AGENT = "routed-agent"
REMIND_MS, NEXT_MS = 2000, 8000
GROUPS = {"ann": "desk", "ben": "leads"}
KEYS = {name: SigningKey(Ed25519PrivateKey.generate()) for name in GROUPS}
END_S = 60.0


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    """Two approvers of two groups, and an agent whose bundle has a route for its tool."""
    made = make_small_installation(
        kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD, SLUICE_WORKER__TIMER_INTERVAL_S="0.2"
    )
    route = {
        "tools": ["load.ref*"],
        "groups": ["desk", "leads"],
        "remind_after_ms": REMIND_MS,
        "next_after_ms": NEXT_MS,
    }
    routed = {**neutral_policy.bundle(stages=ORDER_OF_OLD), "id": "load.routed"}
    routed["approvals"] = {"routing": [route]}
    entries = [
        entry("agent", AGENT, tenant_id=neutral_policy.TENANT, tier="T2", policy_bundle_id="load.routed"),
        entry("tool", TOOL, tier="T3", action_type="PAYMENT", reversible=False, trusts_row_claims=True),
    ]
    signed = []
    for name, group in GROUPS.items():
        public = KEYS[name].public.text
        raw = orjson.dumps(entry("approver", name, public_key=public, roles=["approver"], groups=[group]))
        value = sign(PAYLOAD_TYPES[REGISTRY], raw, [made.trust.root]).encode()
        signed.append((REGISTRY, f"approver/{name}@1".encode(), value))
    policy = [*signed, made.trust.sign_bundle(json.dumps(routed).encode()), *made.trust.sign_entries(entries)]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    return made


def entry(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A registry entry's first revision."""
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}


def answer(installation: TestInstallation, opened: dict[str, Any], by: str) -> None:
    """Publish an approver's approval."""
    publish(installation, [answer_signed_by(KEYS[by], opened, by, audience=installation.audience)], REVIEWS)


def describe(installation: TestInstallation, *words: str) -> Any:
    """What a command says, as JSON."""
    found = CliRunner().invoke(cli, [*words, "--json"], env=installation.settings)
    assert found.exit_code == 0, (words, found.output, found.stderr)
    return json.loads(found.stdout)


def test_workers_that_are_killed_remind_and_pass_on_once_and_at_the_route_s_times(
    installation: TestInstallation,
) -> None:
    session = session_in(installation, 0)
    first = WorkerProcess(installation, "first", 0)
    wait_until(lambda: bool(first.partitions()), first)
    publish(installation, [action(session, f"a-{one}", agent_id=AGENT, toolName=TOOL) for one in (1, 2)])
    early = wait_for(installation, ESCALATIONS, session, 4, first)
    first.end_now()
    by_id = {one["escalation_id"]: one for one in early if one["schema"].endswith("_opened/v1")}
    one, two = by_id.values()
    assert sorted(each["schema"].split("/")[1] for each in early) == [
        *["escalation_opened"] * 2,
        *["escalation_reminded"] * 2,
    ]
    answer(installation, one, "ben")
    assert time.time() * 1000 < read_milliseconds(one["next_at"]), "the machine is too slow for this test"
    time.sleep(max(0, read_milliseconds(two["next_at"]) / 1000 - time.time()))

    second = WorkerProcess(installation, "second", 0)
    wait_for(installation, ESCALATIONS, session, 8, second)
    (refused,) = wait_for(installation, SESSION_EVENTS, session, 1, second)
    assert (refused["reason"], refused["subject"]) == ("wrong_group", one["escalation_id"])
    listed = describe(installation, "escalations", "list", "--session", session, "--group", "leads")
    assert [(each["group"], each["next_group"]) for each in listed] == [("leads", None)] * 2
    second.end_now()

    third = WorkerProcess(installation, "third", 0)
    answer(installation, one, "ben")
    answer(installation, two, "ann")
    wait_for(installation, ESCALATIONS, session, 10, third)
    assert third.end(END_S) == 0, third.last_words()
    events = records(installation, ESCALATIONS, session)
    for opened in (one, two):
        mine = [each for each in events if each["escalation_id"] == opened["escalation_id"]]
        assert [each["schema"].split("/")[1].removeprefix("escalation_") for each in mine] == [
            *("opened", "reminded", "rerouted", "reminded", "resolved"),
        ]
        began = read_milliseconds(opened["opened_at"])
        due = [read_milliseconds(each["due_at"]) - began for each in mine[1:4]]
        assert due == [REMIND_MS, NEXT_MS, NEXT_MS + REMIND_MS]
        assert [each["outcome"] for each in mine[4:]] == ["ALLOW"]
    shown = (
        CliRunner()
        .invoke(cli, ["escalations", "show", one["escalation_id"]], env=installation.settings)
        .stdout
    )
    assert "went on from desk to leads" in shown
    assert describe(installation, "ledger", "verify")["findings"] == []
    again = describe(installation, "rerun", "--all")
    assert again["reruns"] == []
