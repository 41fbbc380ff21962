"""A back-test on a real broker: a mixed run decided again under the same bundle, and under others."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.installations.approvers import approver, entry
from sluice.cli.main import cli
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice.core.registry.keys import SigningKey
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import (
    ESCALATIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    REVIEWS,
    SESSION_EVENTS,
    VERDICTS,
)
from tests.kafka.installation import action, make_small_installation, publish, run_worker, wait_for
from tests.kafka.memories import make_held_write, write
from tests.kafka.retrievals import retrieval
from tests.unit.core.actions.escalation_scene import answer_signed_by

if TYPE_CHECKING:
    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[2]
TOOL = "load.refund"
KEY = SigningKey(Ed25519PrivateKey.generate())
REFUND = {"tier": "T3", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
FEW_ROWS = {
    "id": "rows",
    "type": "invariant",
    "reason": "too many rows in a session",
    "severity": "critical",
    "description": "A bound.",
    "condition": "session.aggregateRowsAffected <= 1000",
}


def make_bundle(revision: int, purge_limit: int = neutral_policy.PURGE_LIMIT) -> dict[str, Any]:
    return {**neutral_policy.bundle(revision, purge_limit, ORDER_OF_OLD), "rules": [FEW_ROWS]}


def outcome(session: str, name: str, rows: int) -> dict[str, Any]:
    reporter = neutral_policy.AGENT
    return {"action_id": name, "session_id": session, "rows_affected": rows, "reported_by": reporter}


def purge(session: str, name: str, rows: int) -> dict[str, Any]:
    return action(session, name, toolName=neutral_policy.PURGE_TOOL, rows_affected=rows)


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """Actions, outcomes, memories, retrievals, and what people said, all decided."""
    folder = tmp_path_factory.mktemp("backtest")
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."), ORDER_OF_OLD)
    policy = [
        approver(made.trust, "ann", KEY, ["approver"]),
        made.trust.sign_bundle(json.dumps(make_bundle(2)).encode()),
        *made.trust.sign_entries([entry("tool", TOOL, **REFUND)]),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    for worker in run_worker(made):
        publish(made, [purge("s", "a-1", 800), action("t", "a-1", toolName=TOOL)])
        publish(made, [action(name, "r-1", toolName=TOOL) for name in ("u", "v", "w")])
        wait_for(made, VERDICTS, {"s", "t", "u", "v", "w"}, 5, worker)
        publish(made, [outcome("s", "a-1", 800)], OUTCOMES)
        wait_for(made, SESSION_EVENTS, "s", 1, worker)
        publish(made, [action("s", f"a-{number}", rows_affected=100) for number in (2, 3, 4)])
        publish(made, [write("s", "w-1"), make_held_write("t", "w-2")], MEMORY_WRITES)
        publish(made, [retrieval("s", "q-1")], RETRIEVALS)
        opened = {each["session_id"]: each for each in wait_for(made, ESCALATIONS, {*"tuvw"}, 4, worker)}
        answers = [("t", "approve"), ("u", "deny"), ("v", "approve")]
        signed = [
            answer_signed_by(KEY, opened[session], "ann", decision, audience=made.audience)
            for session, decision in answers
        ]
        publish(made, signed, REVIEWS)
        wait_for(made, ESCALATIONS, {*"tuvw"}, 7, worker)
        wait_for(made, VERDICTS, "s", 4, worker)
        wait_for(made, MEMORY_DECISIONS, {"s", "t"}, 2, worker)
        wait_for(made, QUALITY_DECISIONS, "s", 1, worker)
    return made


def backtest(installation: TestInstallation, *words: object) -> Result:
    return CliRunner().invoke(cli, ["backtest", *map(str, words)], env=installation.settings)


def report(installation: TestInstallation, *words: object) -> dict[str, Any]:
    result = backtest(installation, *words, "--json")
    assert result.exit_code == 0, result.output
    read: dict[str, Any] = json.loads(result.stdout)
    schema = json.loads((ROOT / "docs/reference/backtest.schema.json").read_bytes())
    Draft202012Validator(schema).validate(read)
    return read


def write_file(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "candidate.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_the_same_bundle_changes_nothing(installation: TestInstallation, tmp_path: Path) -> None:
    file = write_file(tmp_path, make_bundle(2))
    alone, together = (report(installation, "--bundle", file, "--processes", count) for count in (1, 3))
    assert alone == together
    counts, questions = alone["decisions"], alone["questions"]
    assert counts["by_kind"] == {
        "memory_decision": 2,
        "quality_decision": 1,
        "resolved_verdict": 2,
        "verdict": 8,
    }
    assert (counts["unchanged"], counts["changed"], counts["unknown"], counts["skipped"]) == (13, 0, 0, {})
    assert (counts["not_reproduced"], alone["listed"], alone["transitions"]) == (0, [], [])
    assert (questions["before"], questions["after"]) == (5, 5)
    assert questions["still_asked"] == {"approved": 2, "denied": 1, "waiting": 2}
    assert questions["newly_asked"]["questions"] == 0


def test_one_threshold_changes_exactly_what_it_says_and_what_follows_from_it(
    installation: TestInstallation, tmp_path: Path
) -> None:
    """The purge of 800 rows is over the new limit; without it the session's total has room for the last."""
    file = write_file(tmp_path, make_bundle(3, purge_limit=400))
    read = report(installation, "--bundle", file)
    listed = {
        change["reason_before"] or change["reason_after"]: (
            change["before"],
            change["after"],
            change["because"],
        )
        for change in read["listed"]
    }
    assert sorted(listed.values()) == [("ALLOW", "BLOCK", "policy"), ("BLOCK", "ALLOW", "state")]
    counts = read["decisions"]
    assert (counts["changed"], counts["by_policy"], counts["by_state"]) == (2, 1, 1)
    assert (counts["newly_allowed"], counts["newly_stopped"]) == (1, 1)
    assert [change["name"] for change in read["by_gate"]] == ["fast_reject", "rules"]
    assert {change["name"] for change in read["by_tool"]} == {
        neutral_policy.PURGE_TOOL,
        neutral_policy.READ_TOOL,
    }
    assert [change["name"] for change in read["by_agent"]] == [neutral_policy.AGENT] * 2


def test_what_people_had_answered_and_the_questions_of_each_day(
    installation: TestInstallation, tmp_path: Path
) -> None:
    entries = [
        {"kind": "tool", "id": TOOL, "revision": 9, "spec": {**REFUND, "tier": "T2"}},
        {"kind": "tool", "id": neutral_policy.PURGE_TOOL, "revision": 9, "spec": REFUND},
    ]
    read = report(installation, "--registry", write_file(tmp_path, {"entries": entries}))
    questions = read["questions"]
    assert questions["no_longer_asked"] == {"approved": 2, "denied": 1, "waiting": 1}
    assert questions["newly_asked"] == {
        "questions": 1,
        "by_outcome": {"ALLOW": 1},
        "carried_out": 1,
        "outcome_reported": 1,
    }
    assert (questions["before"], questions["after"]) == (5, 2)
    assert sum(day["before"] for day in questions["by_day"]) == 5
    assert sum(day["after"] for day in questions["by_day"]) == 2
    assert read["decisions"]["newly_allowed"] == 4 + 1


def test_bounds_and_an_empty_period_have_exit_codes(installation: TestInstallation, tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    same.mkdir()
    other.mkdir()
    inside = write_file(same, make_bundle(2))
    outside = write_file(other, make_bundle(3, purge_limit=400))
    page = tmp_path / "page.html"
    bounds = ("--max-changed", "0", "--max-newly-allowed", "0", "--max-questions-per-day", "5")
    within = backtest(installation, "--bundle", inside, *bounds, "--html", page)
    assert (within.exit_code, "13 decided again" in within.stdout) == (0, True)
    assert "<h1>Back-test of a policy</h1>" in page.read_text(encoding="utf-8")
    assert backtest(installation, "--bundle", outside, *bounds).exit_code == 1
    assert backtest(installation, "--bundle", outside, "--max-changed", "20%").exit_code == 0
    assert backtest(installation, "--bundle", inside, "--max-questions-per-day", "4").exit_code == 1
    assert backtest(installation, "--bundle", inside, "--until", "1d").exit_code == 3
    late = json.loads(backtest(installation, "--bundle", inside, "--since", "1h", "--json").stdout)
    assert (late["decisions"]["decided"], late["decisions"]["unchanged"]) == (13, 13)


@pytest.mark.parametrize(
    ("made_by", "name"),
    [
        (("audit", "export", "--since", "1d", "--out"), "period.zip"),
        (("archive", "run", "--once", "--to"), "archive"),
    ],
    ids=["package", "archive"],
)
def test_an_archive_and_a_package_give_the_same_report_without_a_broker(
    installation: TestInstallation, tmp_path: Path, made_by: tuple[str, ...], name: str
) -> None:
    place, file = tmp_path / name, write_file(tmp_path, make_bundle(3, purge_limit=400))
    made = CliRunner().invoke(cli, [*made_by, str(place)], env=installation.settings)
    assert made.exit_code == 0, made.output
    topics = report(installation, "--bundle", file)
    offline = {**installation.settings, "SLUICE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    words = ["backtest", "--bundle", str(file), "--from", str(place), "--processes", "2", "--json"]
    result = CliRunner().invoke(cli, words, env=offline)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {**topics, "source": str(place)}


def test_what_cannot_be_tested_is_refused(installation: TestInstallation, tmp_path: Path) -> None:
    stranger = write_file(tmp_path, {**make_bundle(1), "id": "load.stranger"})
    refused = backtest(installation, "--bundle", stranger)
    assert (refused.exit_code, "load.stranger" in refused.output) == (2, True)
    assert backtest(installation).exit_code == 2
    assert backtest(installation, "--bundle", stranger, "--max-changed", "many").exit_code == 2
