"""Several approvers of one action on a real broker.

Mend 22.1: they sign one text: `show` says for which parameters the approvals so far are, and a rerun agrees.
Mend 22.4: what became T4 while it waited is not let through by what was enough for T3.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.installations.approvers import approver, entry
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ESCALATIONS, SESSION_EVENTS, VERDICTS
from tests.kafka.installation import (
    action,
    installation_on,
    publish,
    records,
    run_worker,
    wait_for,
    wait_until,
)
from tests.kafka.memories import session_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
TOOL, RISING = "load.transfer", "load.rising"
AGENT = "quorum-agent"
ROLES = {"ann": ["approver"], "ben": ["approver"], "vera": ["vp"], "victor": ["vp"]}
PAYS = {"action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """Two approvers and two VPs; a payment of T3 or T4 needs two of them, a rising tool one as T3."""
    made = installation_on(kafka, tmp_path_factory.mktemp("quorum"), module_prefix.rstrip("."), ORDER_OF_OLD)
    of_old = neutral_policy.bundle(stages=ORDER_OF_OLD)
    bundle = {**of_old, "id": "load.quorum", "approvals": {"quorum": {"T3": 2, "T4": 2}}}
    rising = {**bundle, "id": "load.rising", "approvals": {"quorum": {"T4": 2}}}
    agents = {AGENT: "load.quorum", "rising-agent": "load.rising"}
    entries = [
        *(
            entry("agent", name, tenant_id=neutral_policy.TENANT, tier="T4", policy_bundle_id=its)
            for name, its in agents.items()
        ),
        entry("tool", TOOL, tier="T3", **PAYS),
        entry("tool", RISING, tier="T3", **PAYS),
    ]
    people = [
        approver(made.trust, name, make_private_key(made.folder / f"{name}.pem"), roles)
        for name, roles in ROLES.items()
    ]
    bundles = [made.trust.sign_bundle(json.dumps(one).encode()) for one in (bundle, rising)]
    asyncio.run(publish_policy(kafka, made.prefix, [*people, *bundles, *made.trust.sign_entries(entries)]))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def escalations(installation: TestInstallation, *words: str) -> Result:
    """`sluice escalations`."""
    return CliRunner().invoke(cli, ["escalations", *words], env=installation.settings)


def approve(installation: TestInstallation, opened: dict[str, Any], by: str, *more: str) -> Result:
    """An approver's approval in a terminal."""
    key = ("--as", by, "--key", str(installation.folder / f"{by}.pem"))
    justified = ("--justification", "read and compared", "--yes")
    return escalations(installation, "approve", opened["escalation_id"], *key, *justified, *more)


def parameters(installation: TestInstallation, name: str, value: dict[str, Any]) -> tuple[str, str]:
    """The option with a file of them."""
    file = installation.folder / name
    file.write_text(json.dumps(value), encoding="utf-8")
    return "--parameters", str(file)


def test_a_narrowing_is_what_both_sign_and_show_says_so(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 0)
    fields = {"agent_id": AGENT, "toolName": TOOL, "parameters": {"amount": 500}}
    publish(installation, [action(session, "a-1", **fields)])
    (opened,) = wait_for(installation, ESCALATIONS, session, 1, worker)
    less, more = (
        parameters(installation, "less.json", {"amount": 1}),
        parameters(installation, "more.json", {"amount": 99_999}),
    )
    first = approve(installation, opened, "ann", *less)
    assert (first.exit_code, "approval 1 of 2" in first.stdout) == (0, True), first.output
    other = approve(installation, opened, "ben", *more)
    assert (other.exit_code, "the count started again" in other.stdout) == (0, True), other.output
    assert [one["schema"] for one in records(installation, VERDICTS, session)] == ["sluice/verdict/v1"]
    shown = escalations(installation, "show", opened["escalation_id"]).stdout
    assert "no longer counted: ann (other_parameters)" in shown
    assert "approved so far: other parameters" in shown
    assert '"amount": 99999' in shown
    listed = escalations(installation, "list", "--session", session).stdout
    assert "1 of 2 approvals for other parameters" in " ".join(listed.split())
    last = approve(installation, opened, "vera", "--as-counted")
    assert last.exit_code == 0, last.output
    (_, resolved) = wait_for(installation, VERDICTS, session, 2, worker)
    assert [one["approver_id"] for one in resolved["approvals"]] == ["ben", "vera"]
    assert resolved["narrowed"] == resolved["escalation"]["votes_for"] != opened["parameters_digest"]


def test_what_became_t4_while_it_waited_needs_two_vps(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = session_in(installation, 1)
    publish(installation, [action(session, "a-1", agent_id="rising-agent", toolName=RISING)])
    (opened,) = wait_for(installation, ESCALATIONS, session, 1, worker)
    assert (opened["tier"], opened["required_role"]) == ("T3", "approver")
    risen = {**entry("tool", RISING, tier="T4", **PAYS), "revision": 2}
    asyncio.run(
        publish_policy(
            installation.bootstrap_servers, installation.prefix, [*installation.trust.sign_entries([risen])]
        )
    )

    def has_risen() -> bool:
        count = len(records(installation, VERDICTS, session))
        publish(installation, [action(session, f"probe-{count}", agent_id="rising-agent", toolName=RISING)])
        return bool(wait_for(installation, VERDICTS, session, count + 1, worker)[-1]["tier"] == "T4")

    wait_until(has_risen, worker)
    below = approve(installation, opened, "ann")
    assert (below.exit_code, "the role vp now" in below.stderr) == (1, True), below.output
    one = approve(installation, opened, "vera")
    assert (one.exit_code, "approval 1 of 2" in one.stdout) == (0, True), one.output
    assert [each["outcome"] for each in records(installation, VERDICTS, session) if "resolves" in each] == []
    assert (
        "T4, needs vp, 1 of 2 approvals" in escalations(installation, "show", opened["escalation_id"]).stdout
    )
    two = approve(installation, opened, "victor")
    assert two.exit_code == 0, two.output
    (resolved,) = [each for each in records(installation, VERDICTS, session) if "resolves" in each]
    assert [each["approver_id"] for each in resolved["approvals"]] == ["vera", "victor"]
    refused = records(installation, SESSION_EVENTS, session)
    assert [each["reason"] for each in refused] == ["wrong_role"]


def test_a_rerun_of_both_gives_the_same(installation: TestInstallation, worker: WorkerProcess) -> None:
    del worker
    again = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    assert (again.exit_code, json.loads(again.stdout)["reruns"]) == (0, []), again.output[-3000:]
