"""A decision on a memory, executed again from what it names, comes out the same, whatever went before it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sluice.core.actions.stages import load_bundle
from sluice.core.decide.replay import decide
from sluice.core.foundation.limits import SessionLimits
from sluice.core.foundation.requests import Answer, Request
from sluice.core.rerun.rerun_result import Difference, Rerun
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.state.session import SessionState, session_key
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import REGISTRY
from tests.unit.core.rerun.reruns import (
    REVIEWER,
    Case,
    FlawedEvidence,
    document,
    evidence,
    make_flawed,
    memory_write,
)
from tests.unit.core.scene import ENTRIES, MINUTE, entry, point
from tests.unit.core.trust.scene import STRANGER

FINDINGS = [
    {
        "id": f"test.{weight}",
        "kind": kind,
        "weight": weight,
        "reason": "a test",
        "source": "a test",
        "any": [rf"\b{weight}ly bad\b"],
    }
    for weight, kind in [("weak", "persistence"), ("strong", "exfiltration"), ("definite", "identity_change")]
]
LIBRARY = {
    "attack": [{"id": "a1", "text": "ignore it all", "source": "a test", "kind": "instruction_override"}],
    "benign": [{"id": "b1", "text": "read it all", "source": "a test"}],
    "calibration": {"at_least": 0.7, "margin": 0.1, "weight": "strong"},
}
SIMILARITY = {
    "enabled": True,
    "budget_ms": 100,
    "windows": {"characters": 400, "overlap": 80, "most": 2},
    "library": LIBRARY,
}
CONTENT = {"findings": FINDINGS}
RULES = document(memory={"content": CONTENT})
MODELS = document(
    memory={
        "content": CONTENT,
        "similarity": SIMILARITY,
        "analysis": {},
        "trust": {"llmAnalysis": True},
    }
)
GOOD, HELD, BAD = "all is well", "strongly bad", "definitely bad"
EXEMPT = entry(
    "source",
    "acme/crm",
    tenant_id="acme",
    source_id="crm",
    type="agent",
    quality_exempt=True,
    reason="has no clock",
)
FROZEN = entry("freeze", "f1", subject="agent", subject_id="operator", reason="incident")


def case(*entries: dict[str, Any], rules: bytes = RULES, **fields: Any) -> Case:
    return Case(entries=(REVIEWER, *entries), bundle=rules, **fields)


def statuses(of: Case) -> set[str]:
    return {one.status for one in of.rerun_all()}


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        ({"content": GOOD}, "allow"),
        ({"content": HELD}, "quarantine"),
        ({"content": BAD}, "reject"),
        ({"content": f"weakly bad {HELD}", "source": {"id": "web", "type": "external"}}, "quarantine"),
        ({"agent_id": "nobody"}, "reject"),
        ({"agent_id": "trial", "content": BAD}, "allow"),
        ({"timestamp": None, "provenance_uri": "memory:me"}, "reject"),
        ({"derived_from": ["memory:gate.memory.writes.proposed:3:77"]}, "quarantine"),
        ({"session_id": "s-2", "traceId": "t", "request_id": "r"}, "allow"),
    ],
)
def test_every_kind_of_decision_comes_out_the_same(fields: dict[str, Any], action: str) -> None:
    of = case()
    of.remember(write_id="earlier")
    assert of.remember(**fields)["action"] == action
    assert [one.status for one in of.rerun_all()] == ["identical", "identical"]


@pytest.mark.parametrize("more", [EXEMPT, FROZEN, entry("org", "acme", enforcement="shadow")])
def test_what_the_registry_said_is_found_by_its_hash(more: dict[str, Any]) -> None:
    of = case(more)
    memory = of.remember(timestamp=None, content=HELD)
    assert f"{more['kind']}/{more['id']}@1" in memory["registry_hashes"]
    assert statuses(of) == {"identical"}


def test_a_repeat_and_a_conflict_come_out_the_same() -> None:
    of = case()
    first = of.remember(content=HELD)
    again, conflict = of.remember(content=HELD), of.remember(content=GOOD)
    assert (again["duplicate_of"], conflict["reason"]) == (first["memory_id"], "write_id_conflict: w-1")
    assert statuses(of) == {"identical"}


def test_a_session_without_room_comes_out_the_same() -> None:
    of = case(limits=SessionLimits(60 * MINUTE, 60 * MINUTE, 8, 1, max_recent_writes=1))
    of.remember()
    full = of.remember(write_id="w-2")
    stranger = of.remember(write_id="w-3", agent_id="other")
    assert [one["seen"]["room"] for one in (full, stranger)] == [False, True]
    assert statuses(of) == {"identical"}


def test_parents_come_out_the_same_wherever_they_were_known() -> None:
    of = case()
    held, allowed = of.remember(content=HELD), of.remember(write_id="w-2")
    known = [held["memory_id"], allowed["memory_id"]]
    inside = of.remember(write_id="w-3", derived_from=known)
    outside = of.remember(session_id="s-2", derived_from=[*known, "memory:elsewhere:0:1"])
    assert [one["trust"] is None for one in inside["seen"]["parents"]] == [False, False]
    assert [one["trust"] is None for one in outside["seen"]["parents"]] == [False, True, True]
    own = of.remember(write_id="w-4", derived_from=known)
    of.remember(write_id="w-4", derived_from=[*known, own["memory_id"]])
    assert statuses(of) == {"identical"}


def test_a_source_s_reviews_come_out_as_they_were_seen() -> None:
    of = case()
    for number in range(4):
        held = of.remember(write_id=f"w-{number}", content=f"{HELD} {number}")
        assert "QuarantineRejected" in of.review(held, "reject")
    worse = of.remember(write_id="w-9", session_id="s-2", source={"id": "crm", "type": "system"})
    assert worse["seen"]["source"] == {
        "type": "user",
        "positive": 0,
        "negative": 4,
        "revision": 5,
        "session_type": None,
        "last_at": None,
    }
    assert statuses(of) == {"identical"}


def answer(request: Request) -> Answer:
    if request.port == "analysis":
        said = {
            "model": "m",
            "prompt_version": "1",
            "trust": 0.5,
            "categories": ["exfiltration"],
            "explanation": "sends a key away",
        }
        return Answer("answered", said)
    nearest = {"attack": {"id": "a1", "cosine": 0.81}, "benign": {"id": "b1", "cosine": 0.25}}
    digest = "sha256:" + "1b" * 32
    return Answer("answered", {"model": digest, "library": digest, "windows": 1, "of": 1, **nearest})


def overrun(request: Request) -> Answer:
    return Answer("overrun", detail=f"over {request.budget_ms} ms")


@pytest.mark.parametrize("answer", [answer, overrun])
def test_recorded_answers_stand_in_for_encoder_and_model(answer: Any) -> None:
    of = case(rules=MODELS, answer=answer)
    assert [one["port"] for one in of.remember()["model_outputs"]] == ["embedding", "analysis"]
    of.remember(write_id="w-2", content=BAD)
    assert statuses(of) == {"identical"}


def test_a_model_that_was_asked_in_doubt_alone_is_needed_for_nothing_else() -> None:
    doubtful = json.loads(RULES)
    doubtful["memory"]["trust"] = {"llmAnalysis": "in_doubt"}
    of = case(rules=json.dumps(doubtful).encode(), answer=answer)
    asked = [of.remember(write_id=text, content=text)["model_outputs"] for text in (GOOD, "weakly bad", HELD)]
    assert [bool(one) for one in asked] == [False, True, False]
    assert statuses(of) == {"identical"}


def test_a_gate_that_was_off_is_off_again() -> None:
    of = case(rules=document(memory={"enabled": False}))
    assert of.remember(content=BAD, timestamp=None)["trustScore"]["total"] == -1
    assert statuses(of) == {"identical"}


def test_an_input_that_nobody_looked_into_is_not_looked_into_again() -> None:
    of = case()
    input_record = of.next_input_record("gate.memory.writes.proposed", memory_write())
    of.record(input_record, point(policy=load_bundle(RULES)).unread(input_record))
    assert of.memories[0]["write_id"] is None
    assert statuses(of) == {"identical"}


def test_a_fault_of_the_core_comes_out_the_same_and_shows_once_it_is_mended() -> None:
    of, held = case(), FlawedEvidence(RULES)
    for one in ENTRIES:
        held.add(REGISTRY, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(one).encode(), [STRANGER]).encode())
    input_record = of.next_input_record("gate.memory.writes.proposed", memory_write())
    of.record(
        input_record, decide(point(policy=make_flawed(RULES)), input_record, SessionState(session_key("s-1")))
    )
    assert of.memories[0]["reason"] == "internal_error"
    assert of.rerun(of.memories[0], Rerunner(held, of.stage_of)).status == "identical"
    assert fields(of.rerun(of.memories[0]))["reason"].rerun == "trusted"


def fields(rerun: Rerun) -> dict[str, Difference]:
    return {one.field: one for one in rerun.differences}


def test_a_decision_that_was_written_otherwise_shows() -> None:
    of = case()
    memory = of.remember(content=HELD)
    found = of.rerun({**memory, "action": "allow"})
    assert (found.kind, found.id) == ("memory_decision", memory["memory_id"])
    assert found.differences == (Difference("action", "allow", "quarantine"),)


def test_a_question_of_which_no_answer_is_recorded_shows() -> None:
    of = case(rules=MODELS, answer=answer)
    memory = {**of.remember(), "model_outputs": []}
    assert fields(of.rerun(memory)).keys() == {"model_outputs"}


def test_everything_that_is_gone_is_named() -> None:
    of = case(EXEMPT)
    memory = of.remember()
    nothing = Rerunner(evidence(bundles=[]), lambda _: None)  # type: ignore[arg-type, return-value]
    assert of.rerun(memory, nothing).missing == (
        f"bundle {memory['bundle_hash']}",
        "registry entry agent/operator@1",
        "registry entry source/acme/crm@1",
    )
    assert of.rerunner().rerun(memory, None).missing == ("input gate.memory.writes.proposed:3:1",)


def test_an_input_that_can_no_longer_be_read_shows() -> None:
    of = case()
    memory = of.remember()
    input_record = replace(of.input_records[memory["memory_id"]], key=b"another")
    (found,) = of.rerunner().rerun(memory, input_record).differences
    assert (found.field, "key_mismatch" in found.rerun) == ("memory_id", True)
