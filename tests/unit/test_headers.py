"""Headers carry CloudEvents, the trace and seed 002's set, and never more than one line each."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.gateway.routes.answer_rendering import render_memory
from sluice_topics.headers import make_input_headers, make_output_headers, make_traceparent
from tests.unit.core.scene import Session
from tests.unit.records import ledger_records

LEDGER = ledger_records()
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RECEIVED = f"00-{TRACE}-00f067aa0ba902b7-01"
W3C = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def headers_of(kind: str, **changed: Any) -> dict[str, str]:
    pairs = make_output_headers(LEDGER[kind] | changed, kind, "sluice/dev", RECEIVED)
    assert len(dict(pairs)) == len(pairs)
    return {name: value.decode("ascii") for name, value in pairs}


@pytest.mark.parametrize("kind", LEDGER)
def test_every_output_is_a_cloud_event(kind: str) -> None:
    headers = headers_of(kind)
    assert headers["ce_specversion"] == "1.0"
    assert re.fullmatch(r"sluice\.gate\.[a-z_]+\.v1", headers["ce_type"])
    assert headers["ce_source"] == "sluice/dev"
    assert headers["ce_time"] == LEDGER[kind]["decided_at"]
    assert headers["ce_id"]
    assert headers["content-type"] == "application/json"
    assert headers["X-Mnemom-Schema"] == LEDGER[kind]["schema"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", headers["X-Mnemom-Version"])


def test_a_verdict_carries_seed_002s_set() -> None:
    headers = headers_of("Verdict")
    assert headers["ce_id"] == "gate.actions.proposed:3:12"
    assert headers["ce_type"] == "sluice.gate.verdict.v1"
    assert headers["X-Mnemom-Request-Id"] == "r-1"
    assert (
        headers["X-Mnemom-Verdict"] == "front=observed; autonomy=enforced; integrity=observed; back=observed"
    )
    assert headers["X-Mnemom-Agent"] == "agent-1"
    assert headers["X-Mnemom-Session"] == "s-1"
    assert json.loads(headers["X-Mnemom-Advisory"]) == LEDGER["Verdict"]["advisories"]


def test_a_verdict_without_a_request_id_can_still_be_asked_about() -> None:
    assert headers_of("Verdict", request_id=None)["X-Mnemom-Request-Id"] == "gate.actions.proposed:3:12"


def test_no_advisory_no_header() -> None:
    assert "X-Mnemom-Advisory" not in headers_of("Verdict", advisories=[])


def test_five_advisories_are_shown_and_long_ones_cut() -> None:
    many = [{"source": "gate", "text": f"{count} " + "x" * 1000} for count in range(9)]
    shown = json.loads(headers_of("Verdict", advisories=many)["X-Mnemom-Advisory"])
    assert [entry["text"][0] for entry in shown] == ["0", "1", "2", "3", "4"]
    assert max(len(entry["text"]) for entry in shown) == 200


@given(st.text(min_size=1, max_size=40))
def test_no_id_can_add_a_line_or_a_header(name: str) -> None:
    advisories = [{"source": name, "text": name, "severity": None, "id": name}]
    headers = headers_of("Verdict", agent_id=name, session_id=name, request_id=name, advisories=advisories)
    assert all(re.fullmatch(r"[ -~]*", value) for value in headers.values())
    assert json.loads(headers["X-Mnemom-Advisory"])[0]["text"] == name


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_different_ids_have_different_headers(one: str, other: str) -> None:
    same = headers_of("Verdict", session_id=one) == headers_of("Verdict", session_id=other)
    assert same == (one == other)


def test_a_valid_trace_is_continued_with_a_span_of_its_own() -> None:
    made = make_traceparent("v-1", RECEIVED)
    assert made.split("-")[1] == TRACE
    assert made.split("-")[2] != RECEIVED.split("-")[2]
    assert made.endswith("-01")
    assert made == make_traceparent("v-1", RECEIVED)
    assert made != make_traceparent("v-2", RECEIVED)


def test_a_trace_of_a_later_version_is_continued() -> None:
    assert make_traceparent("v-1", f"01-{TRACE}-00f067aa0ba902b7-01-more").split("-")[1] == TRACE


@pytest.mark.parametrize(
    "received",
    [
        None,
        "",
        "nonsense",
        RECEIVED.upper(),
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{RECEIVED}-more",
        f"{RECEIVED}\n",
        f"{RECEIVED}\r\nX-Mnemom-Verdict: front=pass",
    ],
)
def test_an_invalid_trace_is_replaced_by_one_of_the_records_id(received: str | None) -> None:
    made = make_traceparent("v-1", received)
    assert W3C.fullmatch(made)
    assert made == make_traceparent("v-1", None)


def test_an_input_gets_the_headers_that_a_producer_owes() -> None:
    headers = dict(make_input_headers("a-1", "ProposedAction", "agents", "2026-11-21T10:00:00Z"))
    assert headers.keys() == {
        "ce_id",
        "ce_source",
        "ce_time",
        "ce_type",
        "ce_specversion",
        "content-type",
        "traceparent",
    }
    assert headers["ce_type"] == b"sluice.gate.proposed_action.v1"
    assert W3C.fullmatch(headers["traceparent"].decode())


@pytest.mark.parametrize("kind", LEDGER)
def test_every_output_names_its_request_and_its_checkpoints(kind: str) -> None:
    """Mend 22.16: seed 002's set is on all outputs, not on verdicts alone."""
    headers = headers_of(kind)
    states = r"(pass|observed|nudged|enforced)"
    line = rf"front={states}; autonomy={states}; integrity={states}; back={states}"
    assert re.fullmatch(line, headers["X-Mnemom-Verdict"])
    assert headers["X-Mnemom-Request-Id"] == LEDGER[kind].get("request_id") or headers["ce_id"]
    judged = kind in {"Verdict", "ResolvedVerdict"}
    assert ("X-AIP-Verdict" in headers) is judged
    decides = {"Verdict", "ResolvedVerdict", "MemoryDecision", "QualityDecision", "ServedRetrieval"}
    if kind not in decides:
        assert set(re.findall(r"=(\w+)", headers["X-Mnemom-Verdict"])) == {"observed"}


def test_a_held_memory_names_where_it_waits() -> None:
    """Mend 22.16: the advisory's id is the id under which a reviewer finds the memory."""
    memory = LEDGER["MemoryDecision"]
    held = headers_of("MemoryDecision", action="quarantine", expires_at="2026-11-24T10:00:00.000Z")
    assert held["X-Mnemom-Verdict"].startswith("front=enforced; ")
    (advisory, *_) = json.loads(held["X-Mnemom-Advisory"])
    assert (advisory["id"], advisory["source"]) == (memory["memory_id"], "sluice.quarantine")
    answer = render_memory(memory | {"action": "quarantine", "expires_at": None})
    assert json.loads(answer.body)["quarantine_id"] == memory["memory_id"]
    assert answer.facts["advisories"][0]["id"] == memory["memory_id"]
    allowed = memory | {"action": "allow", "shadowAction": None, "analysis": {"status": "off"}}
    assert "quarantine_id" not in json.loads(render_memory(allowed).body)
    assert "X-Mnemom-Advisory" not in headers_of("MemoryDecision", **allowed)


def test_a_judgement_of_reasoning_names_its_checkpoint_on_kafka_too() -> None:
    """Mend 22.16: X-AIP-* as the gateway gives them."""
    plain = headers_of("Verdict", stages=["controls", "tier_auth"])
    assert (plain["X-AIP-Verdict"], "X-AIP-Checkpoint-Id" in plain) == ("disabled", False)
    gate = {"gate": "grader", "passed": True, "failureReason": None, "durationMs": 1, "detail": {}}
    judged = headers_of(
        "Verdict",
        stages=["grader"],
        gateResults=[gate],
        model_outputs=[{"gate": "grader", "status": "answered"}],
    )
    assert judged["X-AIP-Verdict"] == "clear"
    assert judged["X-AIP-Checkpoint-Id"] == f"checkpoint:{LEDGER['Verdict']['verdict_id']}"


def test_every_advisory_of_a_verdict_has_an_id_of_its_own() -> None:
    """Mend 22.16: an advisory in a header is found again in the listing and in the record."""
    verdict = Session().verdict(mode=None)
    ids = [one["id"] for one in verdict["advisories"]]
    place = verdict["verdict_id"].removeprefix("verdict:")
    assert ids == [f"advisory:{place}:{number}" for number in range(len(ids))]
    assert len(ids) > 1
