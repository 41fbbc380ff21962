"""Decisions as OCSF events: what OCSF requires, what came of it, and no content."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from sluice.cli.ledger.export import _write
from sluice.notify.backlog import CommittedEvent
from sluice.offline.ocsf_events import OCSF_VERSION, build_event, find_disposition
from sluice_topics.catalog import MEMORY_DECISIONS, QUALITY_DECISIONS, VERDICTS
from sluice_topics.records.base import Outcome
from sluice_topics.records.memory import MemoryAction
from sluice_topics.records.retrievals import QualityOutcome
from tests.unit import memory_records, retrieval_records
from tests.unit.records import ledger_records

SCHEMA = {
    "type": "object",
    "required": [
        "activity_id",
        "actor",
        "api",
        "category_uid",
        "class_uid",
        "metadata",
        "severity_id",
        "src_endpoint",
        "time",
        "type_uid",
    ],
    "properties": {
        "activity_id": {"const": 99},
        "category_uid": {"const": 6},
        "class_uid": {"const": 6003},
        "type_uid": {"const": 600399},
        "time": {"type": "integer", "minimum": 1_000_000_000_000},
        "severity_id": {"enum": [1, 2, 3]},
        "action_id": {"enum": [1, 2]},
        "disposition_id": {"enum": [1, 2, 3, 8, 17, 18, 99]},
        "api": {"type": "object", "required": ["operation"]},
        "actor": {"type": "object", "required": ["user"]},
        "src_endpoint": {"type": "object", "required": ["uid"]},
        "metadata": {
            "type": "object",
            "required": ["product", "version", "uid"],
            "properties": {"version": {"const": OCSF_VERSION}},
        },
    },
}
"""What API Activity requires in the version that is pinned, and the numbers that are used here."""
RECORDS = {
    VERDICTS: ledger_records()["Verdict"],
    MEMORY_DECISIONS: {**ledger_records(), **memory_records.other_records()}["MemoryDecision"],
    QUALITY_DECISIONS: {**ledger_records(), **retrieval_records.other_records()}["QualityDecision"],
}


def test_an_id_ends_no_line_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "s\u2028\u0085\u009b31m\u202e"
    fields = {**RECORDS[VERDICTS], "session_id": hostile}
    _write([CommittedEvent((VERDICTS, 0), 7, 1_750_000_000_000, fields)])
    written = capsys.readouterr().out
    assert len(written.splitlines()) == 1
    assert written.isascii()
    assert hostile in list_values(json.loads(written))


def list_values(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [found for value in node.values() for found in list_values(value)]
    return [found for value in node for found in list_values(value)] if isinstance(node, list) else [node]


@pytest.mark.parametrize("topic", RECORDS)
def test_an_event_has_what_ocsf_requires_and_no_null(topic: str) -> None:
    event = build_event(topic, RECORDS[topic], 1_800_000_000_000)
    Draft202012Validator(SCHEMA).validate(event)
    assert None not in list_values(event)
    assert event["metadata"]["logged_time"] == 1_800_000_000_000
    assert event["unmapped"]["event_hash"] == RECORDS[topic]["event_hash"]


@pytest.mark.parametrize("topic", RECORDS)
def test_content_that_a_record_may_have_is_in_no_event(topic: str) -> None:
    hidden = "4111-1111"
    added = {
        "gateResults": [{"gate": "rules", "passed": False, "detail": {"seen": hidden}}],
        "model_outputs": [{"payload": hidden}],
        "rule_results": [{"value": hidden}],
        "advisories": [{"text": hidden}],
        "evidence_refs": [hidden],
        "findings": [{"text": hidden}],
        "provenance_uri": hidden,
    }
    assert hidden not in json.dumps(build_event(topic, {**RECORDS[topic], **added}, 0))


@pytest.mark.parametrize(
    ("record", "caption"),
    [
        ({"outcome": "ALLOW"}, "Allowed"),
        ({"outcome": "ALLOW", "approvals": [{}]}, "Approved"),
        ({"outcome": "ALLOW", "shadowOutcome": "BLOCK"}, "Logged"),
        ({"outcome": "ALLOW", "shadowOutcome": "ALLOW"}, "Allowed"),
        ({"outcome": "ESCALATE"}, "Waits for a person"),
        ({"outcome": "BLOCK", "approvals": [{}]}, "Blocked"),
        ({"action": "quarantine"}, "Quarantined"),
        ({"action": "allow", "shadowAction": "reject"}, "Logged"),
        ({"outcome": "downgrade"}, "Tagged"),
    ],
)
def test_what_came_of_it(record: dict[str, Any], caption: str) -> None:
    assert find_disposition(record).caption == caption


@pytest.mark.parametrize("word", [*get_args(Outcome), *get_args(MemoryAction), *get_args(QualityOutcome)])
def test_every_word_of_a_decision_has_a_disposition(word: str) -> None:
    assert find_disposition({"outcome": word}).severity_id in (1, 2, 3)


def test_a_record_that_is_no_decision_is_refused() -> None:
    with pytest.raises(KeyError):
        build_event(VERDICTS, {"schema": "sluice/dead_letter/v1", "outcome": "LOST"}, 0)
