"""The demo on a real broker: everything is answered, and nothing it started is left, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx2
import pytest

from load.installations.model_server import MODEL, ModelServer
from sluice.broker.process_identity import ProcessIdentity
from sluice.core.actions.stages import GATES
from sluice.core.foundation.strict import json_object
from sluice.core.retrieval.retrieval_kinds import RETRIEVAL
from sluice_demo import run_location
from sluice_demo.answers import list_settled, read_cause, tally_sessions
from sluice_demo.material import RunOptions, prepare
from sluice_demo.run import perform
from sluice_demo.run_location import WorkerError
from sluice_demo.sessions import STORY_AGAIN
from sluice_topics.catalog import ALARMS, DEAD_LETTERS, VERDICTS
from tests.conftest import KEPT
from tests.documents.blocks import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sluice_demo.run import Result

pytestmark = pytest.mark.kafka

INTERRUPTED = 130


class Silence:
    """A narrator, and each of its steps."""

    @contextmanager
    def step(self, what: str) -> Iterator[Silence]:  # noqa: ARG002 - the interface's
        yield self

    def say(self, detail: str) -> None: ...

    def show_progress(self, published: int, answered: int, total: int) -> None: ...


@pytest.fixture
def wish(kafka: str, prefix: str, tmp_path: Path) -> RunOptions:
    known = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    environment = {**known, "KAFKA_BOOTSTRAP_SERVERS": kafka, "SLUICE_CACHE__FOLDER": str(KEPT)}
    config = ROOT / "config"
    bundles = config / "bundles" / "default.json", config / "quality" / "default.json"
    run = prefix.strip(".")
    return RunOptions(run, tmp_path, tmp_path, config / "demo", *bundles, environment, keep=False, now=_now)


def test_a_run_answers_everything_and_leaves_nothing(wish: RunOptions, tmp_path: Path) -> None:
    with ModelServer() as model:
        asked = replace(wish, environment={**wish.environment, **model.environment})
        result = perform(asked, prepare(asked), Silence())
    assert result.well
    assert not result.worker.is_alive()
    assert list(tmp_path.iterdir()) == []
    _every_gate_is_shown(result)
    _an_account_of_strangers_is_not_paid(result)
    _limits_bite(result)
    _totals_are_the_inputs_own(result)
    _every_escalation_ends(result)
    _a_guarded_tool_runs_where_a_person_agreed(result)
    _unreadable_records_alone_are_dead_letters(result)
    _a_person_s_override_lets_an_item_through(result)
    _the_report_has_what_was_decided_and_what_nobody_decided_on(result)


def _every_gate_is_shown(result: Result) -> None:
    """The real SDK asked the model's server, and the encoder ran."""
    found = {(one.gate, one.proposed.split()[0]): one for one in result.judged}
    off = {gate.name for gate in GATES} - set(json_object(result.material.bundle)["stages"])
    assert off <= {gate for gate, _ in found}
    assert found["outbound", "send_note"].said.startswith("outbound_data: card")
    assert found["inbound", "send_note"].said.startswith("injected_instructions")
    assert "probability" in found["similarity", "plan_transfer"].said
    assert found["policies", "note_refund"].said.startswith("policy_violated: refund-limit")
    asking = [found[key] for key in (("causal", "order_supplies"), ("grader", "reply_to_customer"))]
    assert [one.models for one in (*asking, found["policies", "export_customers"])] == [(MODEL,)] * 3
    assert found["tier_auth", "look_up_order"].verdict == "allowed"
    assert found["destinations", "pay_invoice"].said.startswith("new_destination: the account at $.iban")
    assert found["mandate", "look_up_order"].said.startswith("outside_mandate: ")


def _an_account_of_strangers_is_not_paid(result: Result) -> None:
    supplier, stranger = result.payments
    assert (supplier.verdict, supplier.origin, supplier.reason) == ("allowed", "trusted_result", "")
    assert (stranger.verdict, stranger.origin) == ("needs_human", "untrusted_read")
    sentence = (
        r"untrusted_destination: the account at \$\.iban stood only in read_invoice, which came in \d+ s "
    )
    assert re.fullmatch(f"{sentence}before; bookkeeper has never used it", stranger.reason)
    (opened,) = (one for one in result.answers.escalations if one["session_id"] == "invoice")
    assert opened["values"][0]["source"] == "read_invoice"
    assert result.answers.endings[opened["escalation_id"]]["decision"] == "deny"


def _limits_bite(result: Result) -> None:
    kinds = {
        session: [
            read_cause(one.body).kind
            for one in result.answers.iterate(VERDICTS)
            if one.planned.session_id == session
        ]
        for session in ("growing-messages", "growing-writes")
    }
    assert kinds["growing-messages"][0] == "", "the first actions pass"
    for found in kinds.values():
        assert "consequence_score" in found
        assert found[-1] == "irreversible_rows"


def _totals_are_the_inputs_own(result: Result) -> None:
    """Recomputed from what was published and carried out: an outcome may raise rows, not lower them."""
    endings = result.answers.endings
    approved = {name for name, one in endings.items() if one.get("outcome") == "ALLOW"}
    rows = {
        one.planned.fields["action_id"]: one.planned
        for one in result.answers.iterate(VERDICTS)
        if one.planned.role == "action"
        and (
            one.body["verdict"] == "allowed"
            or one.planned.fields.get("mode") == "standard"
            or one.body["escalationId"] in approved
        )
    }
    counted = {action: planned.fields["rows_affected"] for action, planned in rows.items()}
    for one in list_settled(result.answers):
        action = one.planned.fields["action_id"]
        counted[action] = max(counted[action], one.planned.fields["rows_affected"])
    expected: Counter[str] = Counter()
    for action, planned in rows.items():
        expected[planned.session_id] += counted[action]
    assert {one.session_id: one.rows for one in tally_sessions(result.answers) if one.rows} == dict(expected)
    assert len(list_settled(result.answers)) > 0


def _every_escalation_ends(result: Result) -> None:
    endings = Counter(one.get("decision", "expired") for one in result.answers.endings.values())
    assert endings.total() == len(result.answers.escalations)
    assert min(endings[how] for how in ("approve", "deny", "expired")) > 0


def _a_guarded_tool_runs_where_a_person_agreed(result: Result) -> None:
    assert {one.answer: one.ran for one in result.refunds} == {
        "approve": 1,
        "deny": 0,
        "wait": 0,
        "forged": 0,
    }
    told = {one.answer: one.told for one in result.refunds}
    assert "unsigned_agent" in told["forged"]
    assert "approval_denied" in told["deny"]
    assert "approval_expired" in told["wait"]


def _unreadable_records_alone_are_dead_letters(result: Result) -> None:
    spoilt = [one for one in result.material.plan if one.role == "unreadable"]
    assert [one.planned for one in result.answers.iterate(DEAD_LETTERS)] == spoilt
    assert len(spoilt) >= 10


def _a_person_s_override_lets_an_item_through(result: Result) -> None:
    again = [
        one for one in result.answers.iterate_retrievals() if one.planned.fields["request_id"] == STORY_AGAIN
    ]
    overridden = [one for read in again for one in read.decisions if one["override"] is not None]
    assert [(one["outcome"], one["override"]["approver_id"]) for one in overridden] == [("flag", "reviewer")]
    assert len(result.answers.item_escalations) == 1


def _the_report_has_what_was_decided_and_what_nobody_decided_on(result: Result) -> None:
    quality = result.examined.quality
    decided = Counter(
        one["outcome"] for read in result.answers.iterate_retrievals() for one in read.decisions
    )
    assert quality.overall.outcomes == dict(decided)
    assert [one.tier for one in quality.coverage if one.short] == ["bounded"]
    assert [alarm["subject"] for alarm in quality.alarms] == [
        result.material.config.readings.rollout.flag_only
    ]
    assert len(result.answers.bodies[ALARMS]) == 1


def test_a_worker_that_cannot_start_is_reported_with_its_log(wish: RunOptions, tmp_path: Path) -> None:
    broken = {**wish.environment, "PYTHONHOME": str(tmp_path / "nowhere")}
    with pytest.raises(WorkerError, match=r"status 1(.|\n)*The end of .*worker\.log(.|\n)*No module"):
        perform(replace(wish, environment=broken), prepare(wish), Silence())


def test_a_kept_demo_runs_on_until_it_is_stopped(wish: RunOptions, tmp_path: Path) -> None:
    material = prepare(wish)
    readings = replace(material, plan=[one for one in material.plan if one.role == RETRIEVAL.name])
    result = perform(replace(wish, keep=True), readings, Silence())  # none of which waits for a person
    try:
        assert result.worker.is_alive()
        assert run_location.recall(tmp_path) is not None
        assert result.gateway is not None
        assert b"Log in" in httpx2.get(f"{result.gateway.url}/login").content
        unasked = {one.gate: one.said for one in result.judged if not one.answered}
        assert unasked["causal"] == "inconclusive: causal got no answer of constraints"
        assert unasked["grader"] == "inconclusive: grader got no answer of grader"
    finally:
        run_location.stop_kept(tmp_path)
    assert not result.worker.is_alive()
    assert not result.gateway.identity.is_alive()
    assert not result.location.folder.exists()
    assert run_location.stop_kept(tmp_path) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_its_worker(wish: RunOptions, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "sluice", "demo"],
        env={**wish.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert demo.stdout is not None
    with demo.stdout as lines:
        pid = next(int(found[1]) for line in lines if (found := re.search(r"process (\d+) decides", line)))
        worker = ProcessIdentity.find(pid)
        demo.send_signal(number)
        rest = lines.read()
    assert demo.wait() == INTERRUPTED
    assert worker is not None, "it ran when it was announced"
    assert not worker.is_alive()
    assert "Interrupted" in rest


def _now() -> str:
    """The broker's clock is the real one, and an item's age is counted by it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
