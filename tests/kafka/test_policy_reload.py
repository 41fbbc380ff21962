"""Policy changes while a worker decides: in force soon, whole, and never against the rules of trust."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from sluice.core.foundation.canonical import digest
from sluice_demo.throwaway_trust import ThrowawayTrust, publish_policy
from sluice_topics.catalog import BUNDLES, DEAD_LETTERS, VERDICTS
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_until,
    write,
)
from tests.unit.cli.policy.policy_files import sluice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice_demo.throwaway_trust import ControlRecord

pytestmark = pytest.mark.kafka
FIRST = 2
"""Revision of the first change."""


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    return make_small_installation(kafka, tmp_path, prefix.rstrip("."), SLUICE_POLICY__REFRESH_S="0.05")


@pytest.fixture
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def _publish(installation: TestInstallation, records: list[ControlRecord]) -> None:
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, records))


def _entry(kind: str, name: str, revision: int, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": revision, "spec": spec}


def _bundle(revision: int, **changes: Any) -> bytes:
    return json.dumps({**neutral_policy.bundle(), "revision": revision, **changes}).encode()


def _verdict_of(
    installation: TestInstallation, worker: WorkerProcess, action_id: str, **more: Any
) -> dict[str, Any]:
    publish(installation, [action("s", action_id, **more)])

    def find_result() -> list[dict[str, Any]]:
        verdicts = (json.loads(record.value or b"") for record in read_stored(installation, VERDICTS))
        return [one for one in verdicts if one["action_id"] == action_id]

    wait_until(lambda: bool(find_result()), worker)
    return find_result()[0]


def _wait_for_verdict(
    installation: TestInstallation, worker: WorkerProcess, reason: str, **more: Any
) -> dict[str, Any]:
    """Ask again, each time a new action, until the verdict's reason begins so."""
    names = itertools.count()
    last: dict[str, Any] = {}

    def there() -> bool:
        nonlocal last
        last = _verdict_of(installation, worker, f"{reason}-{next(names)}", **more)
        return str(last["blockReason"] or "allowed").startswith(reason)

    wait_until(there, worker)
    return last


def test_a_freeze_stops_an_agent_at_once_and_its_lifting_lets_it_go_on(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    assert _verdict_of(installation, worker, "before")["outcome"] == "ALLOW"
    freeze = {"subject": "agent", "subject_id": neutral_policy.AGENT, "reason": "under investigation"}
    _publish(installation, installation.trust.sign_entries([_entry("freeze", "f", 1, **freeze)]))
    frozen = _wait_for_verdict(installation, worker, "frozen_agent")
    assert frozen["outcome"] == "BLOCK"
    assert "freeze/f@1" in frozen["registry_hashes"]
    _publish(
        installation, installation.trust.sign_entries([_entry("freeze", "f", 2, **freeze, active=False)])
    )
    assert _wait_for_verdict(installation, worker, "allowed")["outcome"] == "ALLOW"


def test_a_newer_bundle_decides_and_an_older_one_is_refused_in_the_ledger_once(
    installation: TestInstallation,
) -> None:
    frugal = _bundle(3, irreversible_row_threshold=0)
    for worker in run_worker(installation, "first"):
        _publish(installation, [installation.trust.sign_bundle(frugal)])
        newest = _wait_for_verdict(
            installation, worker, "irreversible_rows", toolName=neutral_policy.PURGE_TOOL
        )["bundle_hash"]
        _publish(installation, [installation.trust.sign_bundle(_bundle(2))])
        (refused,) = write(installation, DEAD_LETTERS, 1, worker)
        assert (refused["code"], refused["topic"], refused["partition"]) == ("older_revision", BUNDLES, 0)
    for worker in run_worker(installation, "second"):
        assert _verdict_of(installation, worker, "later")["bundle_hash"] == newest
        assert len(read_stored(installation, DEAD_LETTERS)) == 1


def test_a_worker_refuses_a_relaxed_bundle_and_one_of_a_new_id_until_two_have_signed(
    installation: TestInstallation,
) -> None:
    """Issue 23.10: one approver alone relaxed any gate, or published a bundle of any content beside it."""
    relaxed = _bundle(2, escalation_ttl_ms=3_600_001)
    other = json.dumps({**neutral_policy.bundle(), "id": "load.other"}).encode()
    for worker in run_worker(installation):
        before = _verdict_of(installation, worker, "before")["bundle_hash"]
        _publish(installation, [installation.trust.sign_bundle(one, alone=True) for one in (relaxed, other)])
        letters = write(installation, DEAD_LETTERS, 2, worker)
        assert {(one["code"], one["topic"]) for one in letters} == {("second_approver_missing", BUNDLES)}
        told = " ".join(one["message"] for one in letters)
        assert f"it relaxes {neutral_policy.BUNDLE}@1: an escalation can be answered for 3600001 ms" in told
        assert f"a policy bundle under a new id, beside {neutral_policy.BUNDLE}" in told
        assert _verdict_of(installation, worker, "alone")["bundle_hash"] == before
        _publish(installation, [installation.trust.sign_bundle(one) for one in (other, relaxed)])
        _wait_until_said(worker, "revision 2 replaces revision 1")
        assert _verdict_of(installation, worker, "both")["bundle_hash"] == digest(json.loads(relaxed))


def test_a_worker_decides_by_a_rollback_as_by_the_revision_whose_content_it_has(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """Mend 22.24: publish 2, roll back to 1, and revision 3 decides what 1 decided. What is not valid
    today is nothing to go back to."""
    stages, purge = ("controls", "fast_reject", "tier_auth"), {"toolName": neutral_policy.PURGE_TOOL}
    installation = make_small_installation(
        kafka, tmp_path, prefix.rstrip("."), stages, SLUICE_POLICY__REFRESH_S="0.05"
    )
    installation.trust.write(tmp_path)

    def back(revision: int, *signers: str) -> Result:
        keys = [word for name in signers or ("owner",) for word in ("--key", tmp_path / f"{name}.pem")]
        return sluice(
            "bundle", "rollback", f"{neutral_policy.BUNDLE}@{revision}", *keys, **installation.settings
        )

    for worker in run_worker(installation):
        assert _verdict_of(installation, worker, "by-1", **purge)["outcome"] == "ALLOW"
        _publish(
            installation,
            [installation.trust.sign_bundle(_bundle(2, stages=stages, irreversible_row_threshold=0))],
        )
        by_2 = _wait_for_verdict(installation, worker, "irreversible_rows", **purge)
        alone = back(1)
        assert (alone.exit_code, "second_approver_missing" in alone.stderr) == (1, True)
        assert "`sluice registry show approver/NAME`" in alone.stderr
        done = back(1, "owner", "reviewer")
        assert done.exit_code == 0, done.stderr
        assert f"published {neutral_policy.BUNDLE}@3" in done.stdout
        assert f"relaxed of {neutral_policy.BUNDLE}@2: " in done.stderr
        by_3 = _wait_for_verdict(installation, worker, "allowed", **purge)
        signed = json.loads(read_stored(installation, BUNDLES)[-1].value or b"")
        restored = json.loads(base64.b64decode(signed["payload"]))
        assert restored == json.loads(_bundle(3, stages=stages))
        assert by_3["bundle_hash"] == digest(restored) != by_2["bundle_hash"]

        failing = {"name": "n", "action": {"toolName": "t", "parameters": {}}, "expect": {"outcome": "BLOCK"}}
        _publish(installation, [installation.trust.sign_bundle(_bundle(4, stages=stages, cases=[failing]))])
        refused = back(4)
        assert refused.exit_code == 1
        assert f"{neutral_policy.BUNDLE}@4 does not count: cases_failed" in refused.stderr


def test_what_nobody_trusted_signed_is_refused_and_the_active_bundle_stays(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    active = _verdict_of(installation, worker, "before")["bundle_hash"]
    stranger, (topic, key, signed) = ThrowawayTrust(), installation.trust.sign_bundle(_bundle(2))
    envelope = json.loads(signed)
    altered = {**envelope, "payload": base64.b64encode(_bundle(2, irreversible_row_threshold=9)).decode()}
    failing = _bundle(
        2,
        cases=[
            {
                "name": "reads pass",
                "action": {"toolName": "t", "parameters": {}},
                "expect": {"outcome": "BLOCK"},
            }
        ],
    )
    _publish(
        installation,
        [
            stranger.sign_bundle(_bundle(2)),
            (topic, key, json.dumps(altered).encode()),
            (topic, key, json.dumps({**envelope, "signatures": []}).encode()),
            installation.trust.sign_bundle(failing),
        ],
    )
    refused = [letter["code"] for letter in write(installation, DEAD_LETTERS, 4, worker)]
    assert refused == ["unknown_key", "wrong_signature", "stripped", "cases_failed"]
    assert _verdict_of(installation, worker, "after")["bundle_hash"] == active


def test_no_decision_falls_under_half_of_a_change(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Agent and tool change together under traffic: no verdict has seen one without the other."""
    agent = {"tenant_id": neutral_policy.TENANT, "tier": "T2"}
    tool = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}
    for revision in range(FIRST, FIRST + 10):
        pair = [
            _entry("agent", neutral_policy.AGENT, revision, **agent),
            _entry("tool", neutral_policy.READ_TOOL, revision, **tool),
        ]
        _publish(installation, installation.trust.sign_entries(pair, change=f"change-{revision}"))
        publish(installation, [action(f"s-{n % 5}", f"a-{revision}-{n}") for n in range(40)])
        if revision == FIRST:
            write(
                installation, VERDICTS, 40, worker
            )  # however slow the worker is, some are decided before others
    verdicts = write(installation, VERDICTS, 400, worker)
    pairs = {_revisions(verdict) for verdict in verdicts}
    assert len(pairs) > 1
    assert all(agent == tool for agent, tool in pairs)


def _revisions(verdict: dict[str, Any]) -> tuple[str, str]:
    of_kind = {key.partition("/")[0]: key.rpartition("@")[2] for key in verdict["registry_hashes"]}
    return of_kind["agent"], of_kind["tool"]


def _wait_until_said(worker: WorkerProcess, words: str) -> None:
    wait_until(lambda: words in worker.last_words(), worker)


def test_the_worker_s_log_says_what_is_in_force_what_replaced_it_what_was_refused_and_why_it_stops(
    installation: TestInstallation,
) -> None:
    """Mend 16."""
    for worker in run_worker(installation):
        _publish(installation, [installation.trust.sign_bundle(_bundle(3))])
        _wait_until_said(worker, "revision 3 replaces revision 1")
        _publish(installation, [installation.trust.sign_bundle(_bundle(2))])
        _wait_until_said(worker, "older_revision")
    name = neutral_policy.bundle()["id"]
    said = worker.last_words()
    assert f"policy in force: bundle {name} revision 1, quality bundle" in said
    replaced = f"policy: bundle {name} revision 3 replaces revision 1, signed by"
    assert f"INFO sluice.stream.feeds.policy_feed: {replaced}" in said
    assert "policy: refused, what was in force stays: gate.bundles:0:" in said
    assert "older_revision at $.revision: revision 3 is in force" in said
    assert "asked to stop: commits what is decided and closes partitions [0, 1]" in said
    assert "the worker stops with status 0: it was asked to" in said
