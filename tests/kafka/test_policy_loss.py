"""Mend 22.8: the ledger says which policy is in force, in each partition, from each start and change on, and
a worker does not start on control topics that lost some of it, until two people sign."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.attacks.lost_topics import lose
from load.installations import neutral_policy
from load.installations.installation import gather
from sluice.cli.main import cli
from sluice.stream.process import EXIT_POLICY
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from sluice_demo.throwaway_trust import OWNER, REVIEWER, publish_policy
from sluice_topics.catalog import BUNDLES, POLICY_EVENTS, REGISTRY
from sluice_topics.records import PolicyInForce
from tests.kafka.installation import (
    make_small_installation,
    read_stored,
    run_worker,
    wait_for_own_end,
    wait_until,
)
from tests.unit.cli.policy.policy_files import sluice

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.verifier.ledger_findings import LedgerFinding

pytestmark = pytest.mark.kafka

CONTROL = (REGISTRY, BUNDLES)
WIPE = b"tool/wipe@2"


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    return make_small_installation(kafka, tmp_path, prefix.rstrip("."), SLUICE_POLICY__REFRESH_S="0.05")


def _read_said(installation: TestInstallation) -> dict[int, list[PolicyInForce]]:
    """Each partition's records of the policy in force, in their order."""
    found: dict[int, list[PolicyInForce]] = {}
    for one in read_stored(installation, POLICY_EVENTS):
        found.setdefault(one.partition, []).append(PolicyInForce.model_validate_json(one.value or b""))
    return found


def _findings(installation: TestInstallation) -> list[LedgerFinding]:
    ledger = asyncio.run(gather(installation)).ledger
    located = (Located(one.topic, one.partition, one.offset, one.key, one.value) for one in ledger)
    return [*verify(located).findings]


def _verify(installation: TestInstallation) -> list[dict[str, Any]]:
    """What `sluice ledger verify` finds."""
    words = ["ledger", "verify", "--json"]
    found = json.loads(CliRunner().invoke(cli, words, env=installation.settings).stdout)["findings"]
    assert {one["code"] for one in found} <= {"policy_lost"}
    return sorted(found, key=lambda one: int(one["partition"]))


def _tool(name: str, revision: int, tier: str) -> dict[str, Any]:
    spec = {"tier": tier, "action_type": "DATABASE_WRITE", "reversible": False}
    return {"kind": "tool", "id": name, "revision": revision, "spec": spec}


def _read_refusal(installation: TestInstallation, name: str) -> str:
    """The last words of a worker that does not start on what the control topics hold."""
    status, said = wait_for_own_end(installation, name)
    assert status == EXIT_POLICY, said
    return said


def _owns_all(worker: WorkerProcess, installation: TestInstallation) -> bool:
    return len(worker.partitions()) == installation.partitions


class Owners:
    """The two approvers' files and commands."""

    def __init__(self, installation: TestInstallation, folder: Path) -> None:
        self._installation = installation
        self._folder = folder
        installation.trust.write(folder)

    def draft(self, name: str) -> Path:
        """What is missing, as the command drafts it."""
        file = self._folder / name
        reason = "the signed file is lost, the older one holds"
        found = self._sluice("accept-loss", file, "--reason", reason)
        assert found.exit_code == 0, found.stderr
        assert "missing tool/wipe revision 2 (now 1)" in found.stdout
        return file

    def sign(self, file: Path, *names: str) -> Path:
        """The draft with these people's signatures."""
        out, keys = file.with_suffix(".signed"), [self._folder / f"{name}.pem" for name in names]
        assert self._sluice("sign", file, "--key", keys[0], "--out", out).exit_code == 0
        for key in keys[1:]:
            assert self._sluice("cosign", out, "--key", key).exit_code == 0
        return out

    def publish(self, file: Path) -> list[str]:
        """The codes of what is refused."""
        found = self._sluice("publish", file, "--json")
        return [one["code"] for one in json.loads(found.stdout)["refused"]]

    def _sluice(self, *words: object) -> Result:
        return sluice("registry", *words, **self._installation.settings)


def _publish(installation: TestInstallation, *entries: dict[str, Any]) -> None:
    records = installation.trust.sign_entries(entries)
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, records))


def test_each_start_and_each_change_is_recorded_and_nothing_in_between(
    installation: TestInstallation,
) -> None:
    for worker in run_worker(installation, "first"):
        started = _read_said(installation)
        assert sorted(started) == [*range(installation.partitions)]
        assert all(one.sequence == 1 and one.trigger == "start" for (one,) in started.values())
        assert len({one.digest for (one,) in started.values()}) == 1
        assert started[0][0].kinds["bundle"] == 1
        _publish(installation, _tool("wipe", 1, "T3"))
        wait_until(lambda: all(len(one) == 2 for one in _read_said(installation).values()), worker)
        changed = _read_said(installation)[0][1]
        assert (changed.trigger, changed.previous) == ("change", started[0][0].digest)
        assert [(one.entry, one.before, one.now) for one in changed.added.named] == [("tool/wipe", None, 1)]
    for _ in run_worker(installation, "second"):
        again = _read_said(installation)
    assert [len(one) for one in again.values()] == [3] * installation.partitions
    assert all(one[2].digest == one[2].previous == changed.digest for one in again.values())
    assert all(one[2].added.total == one[2].gone.total == 0 for one in again.values())
    assert _findings(installation) == []
    agent = f"agent/{neutral_policy.AGENT}"
    assert agent in {entry.entry for entry in again[0][0].added.named}
    assert json.loads(read_stored(installation, POLICY_EVENTS)[0].value or b"")["input"] is None


def test_policy_that_went_missing_stops_a_worker_until_two_people_sign(
    installation: TestInstallation, tmp_path: Path
) -> None:
    _publish(installation, _tool("wipe", 1, "T3"), _tool("wipe", 2, "T4"), _tool("audit", 1, "T4"))
    signed = [
        (
            REGISTRY,
            WIPE,
            next(one.value for one in read_stored(installation, REGISTRY) if one.key == WIPE) or b"",
        )
    ]
    for _ in run_worker(installation, "before"):
        pass
    lose(installation, WIPE, b"tool/audit@1")
    recorded = len(read_stored(installation, POLICY_EVENTS))
    said = _read_refusal(installation, "refused")
    assert len(read_stored(installation, POLICY_EVENTS)) == recorded
    assert "ERROR sluice.stream.engine.takeover: policy lost: tool/audit revision 1 (gone)" in said
    assert "policy lost: tool/wipe revision 2 (now 1)" in said
    assert "the worker stops with status 5: " in said
    assert "sluice registry accept-loss" in said
    assert [one["partition"] for one in _verify(installation)] == [*range(installation.partitions)]
    assert (
        "the control topics lack tool/audit revision 1, tool/wipe revision 2"
        in _verify(installation)[0]["message"]
    )

    owners = Owners(installation, tmp_path)
    draft = owners.draft("loss.json")
    alone = owners.sign(draft, OWNER)
    assert owners.publish(alone) == ["second_approver_missing"]
    twice = owners.sign(owners.draft("twice.json"), OWNER, OWNER)
    assert owners.publish(twice) == ["second_approver_missing"]
    elsewhere = json.loads(draft.read_text())
    elsewhere["entries"][0]["installations"] = ["staging"]
    (tmp_path / "staging.json").write_text(json.dumps(elsewhere))
    staging = owners.sign(tmp_path / "staging.json", OWNER, REVIEWER)
    assert owners.publish(staging) == ["other_installation"]
    key = f"policy_loss/{json.loads(draft.read_text())['entries'][0]['id']}@1".encode()
    forced = [(REGISTRY, key, one.read_bytes().strip()) for one in (alone, twice, staging)]
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, forced))
    other = json.loads(draft.read_text())
    other["entries"][0]["id"] = "another-loss"
    other["entries"][0]["spec"]["lost"][-1]["now"] = 7
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert owners.publish(owners.sign(tmp_path / "other.json", OWNER, REVIEWER)) == []
    said = _read_refusal(installation, "wrong-signatures")
    assert "policy lost: tool/wipe revision 2 (now 1)" in said

    assert owners.publish(owners.sign(draft, OWNER, REVIEWER)) == []
    for worker in run_worker(installation, "accepted"):
        last = _read_said(installation)[0][-1]
        assert [(one.entry, one.before, one.now) for one in last.lowered.named] == [("tool/wipe", 2, 1)]
        assert [(one.entry, one.before, one.now) for one in last.gone.named] == [("tool/audit", 1, None)]
        assert min(one.approvers for one in last.accepted) == [OWNER, REVIEWER]
        asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, signed))
        wait_until(lambda: _read_said(installation)[0][-1].replaced.total == 1, worker)
    assert _findings(installation) == []
    assert _verify(installation) == []
    told = CliRunner().invoke(cli, ["show", last.policy_event_id], env=installation.settings).stdout
    assert f"the loss accepted by {OWNER} and {REVIEWER}" in told
    lose(installation, WIPE)
    assert "policy lost: tool/wipe revision 2 (now 1)" in _read_refusal(installation, "again")


def test_a_second_worker_takes_nothing_over_on_lost_policy_and_the_first_goes_on(
    installation: TestInstallation,
) -> None:
    _publish(installation, _tool("wipe", 1, "T3"), _tool("wipe", 2, "T4"))
    for first in run_worker(installation, "first"):
        lose(installation, WIPE)
        assert "policy lost: tool/wipe revision 2 (now 1)" in _read_refusal(installation, "second")
        wait_until(partial(_owns_all, first, installation), first)
    assert {one.digest for records in _read_said(installation).values() for one in records} == {
        _read_said(installation)[0][0].digest
    }
    _publish(installation, _tool("wipe", 2, "T4"))
    for _ in run_worker(installation, "whole"):
        assert _read_said(installation)[0][-1].gone.total == 0
    assert _findings(installation) == []
