"""Held memories on the screen."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest
from rich.console import Console

from sluice.cli.ledger.pending_lines import describe_rest, print_memory
from sluice.cli.ledger.pending_subjects import WholeMemory, require_place
from sluice.core.foundation.clock import read_milliseconds, span
from sluice.core.reports.ledger_values import read_decision
from sluice.core.reports.pending_subject import PendingSubject
from tests.unit.records import MOMENT, ledger_records

NOW_MS = read_milliseconds(MOMENT)
KINDS = ledger_records()
NAME = KINDS["QuarantineEntered"]["memory_id"]


def event(kind: str, **changed: Any) -> dict[str, Any]:
    return {**KINDS[kind], **changed}


def life(*events: Any, content: str | None = "a quiet sentence", why: str = "") -> WholeMemory:
    subject = PendingSubject.of(events) if events else None
    decision = read_decision(orjson.dumps(KINDS["MemoryDecision"]))
    return WholeMemory(NAME, subject, decision, content, why)


def print_text(one: WholeMemory, now_ms: int = NOW_MS) -> str:
    out = io.StringIO()
    print_memory(one, now_ms, to=Console(file=out))
    return out.getvalue()


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 s"),
        (1_999, "1 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (3_900_000, "1 h 5 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(ms: int, words: str) -> None:
    assert span(ms) == words


def test_a_memory_whose_time_is_up_is_said_to_be_over_not_to_expire() -> None:
    assert describe_rest(MOMENT, NOW_MS - 60_000) == "expires in 1 min"
    assert describe_rest(MOMENT, NOW_MS) == "over since 0 s"
    assert describe_rest(MOMENT, NOW_MS + 5_000) == "over since 5 s"


def test_a_held_memory_is_shown_with_decision_score_findings_and_content() -> None:
    text = print_text(life(event("QuarantineEntered")), NOW_MS - 60_000)
    assert f"{NAME} waiting, expires in 1 min" in text
    assert "decided: quarantine, unknown_parent" in text
    assert "trust 0.650, without caps 0.845" in text
    assert "sourceReliability 0.700" in text
    assert "at most 0.650: unknown_parent" in text
    assert "weak override.ignore (instruction_override, in source.id, base64 0-9, framed)" in text
    assert "quality: timestamp: missing" in text
    assert "content, 16 characters, sha256:" in text
    assert "│ a quiet sentence" in text


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("QuarantineApproved", "approved: by p-1: read it"),
        ("QuarantineRejected", "rejected: by p-1: read it"),
        ("QuarantineExpired", "expired: late"),
        ("QuarantineEvicted", "evicted: full, memory:x"),
    ],
)
def test_an_end_is_told_with_who_or_what_and_why(kind: str, line: str) -> None:
    own_key = {"delegate": None} if line.partition(" ")[2].startswith("by") else {}
    found = life(event("QuarantineEntered"), event(kind, **own_key))
    assert f"{NAME} {line.partition(':')[0]}\n" in print_text(found)
    assert line in print_text(found)
    assert found.state == line.partition(":")[0]


def test_an_answer_through_a_gateway_is_told_with_its_channel() -> None:
    seen = {"id": "gate-1", "channel": "slack", "key_id": "0" * 64, "entry": "delegate/gate-1@1"}
    delegate = {**seen, "entry_hash": f"sha256:{'0' * 64}"}
    assert "by carol (slack, through gate-1): " in print_text(
        life(event("QuarantineApproved", approver_id="carol", delegate=delegate))
    )


def test_content_that_is_gone_is_said_to_be_gone() -> None:
    assert "no content: it is no longer there" in print_text(life(content=None, why="it is no longer there"))


def test_a_memory_that_was_never_held_says_so() -> None:
    assert "never held" in print_text(life())


def test_no_reason_or_justification_can_paint_the_screen() -> None:
    rejected = event("QuarantineRejected", justification="\x1b[2J[red]x[/]\u202e")
    text = print_text(life(event("QuarantineEntered"), rejected))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]x[/]" in text


def test_an_id_may_be_given_whole_or_by_its_place_alone() -> None:
    place = ("gate.memory.writes.proposed", 3, 17)
    assert require_place("memory:gate.memory.writes.proposed:3:17") == place
    assert require_place("3:17") == place
