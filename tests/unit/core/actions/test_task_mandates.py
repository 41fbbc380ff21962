"""A mandate counts in its session if an issuer signed it, lies within those above it, and there is room."""

from __future__ import annotations

import json
import time
from hashlib import sha256
from typing import Any

import pytest

from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import digest_mandate
from sluice.core.state.mandates import LARGEST_MANDATE, MOST_MANDATES
from sluice.core.state.session import SessionState
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import MANDATES
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import TaskMandate
from tests.documents.blocks import blocks
from tests.unit.core.actions.mandate_scene import (
    CONSOLE,
    ISSUERS,
    OTHER,
    REFUND,
    Mandated,
    digest_of,
    make_mandate,
    write_pem,
)
from tests.unit.core.scene import LIMITS, MINUTE, START, entry, public_key

DEADLY = {"tool": "pay", "condition": "action.parameters.amount < 100", "count": 2}


def scene(*more: dict[str, Any]) -> Mandated:
    return Mandated(entries=(*ISSUERS, REFUND, *more))


def read_session(case: Mandated, mandate: str | None) -> Any:
    """What the session says of a mandate in a verdict."""
    verdict = case.propose(action_id=f"see-{mandate}-{case.now}", mandate_digest=mandate)
    assert case.rerun_states() == {"identical"}
    return verdict["session"].get("mandate")


def test_a_mandate_is_recorded_and_seen_in_its_session_by_its_digest() -> None:
    case, mandate = scene(), make_mandate(tools=[DEADLY], destinations=["acme@example.org"])
    found = case.issue(mandate)
    digest = digest_of(mandate)
    assert (found["schema"], found["mandate"]["digest"]) == ("sluice/mandate_recorded/v1", digest)
    assert {"issuer/console@1", "agent/operator@1"} == found["registry_hashes"].keys()
    seen = read_session(case, digest)
    assert seen == found["mandate"]
    assert seen["task_hash"] == "sha256:" + sha256(b"Find the open orders").hexdigest()
    assert seen["scopes"][0]["tools"] == [DEADLY]
    assert seen["scopes"][0]["destinations"] == ["acme@example.org"]


def test_the_client_and_the_gate_name_a_mandate_alike() -> None:
    mandate = make_mandate(
        tools=[DEADLY], destinations=["gé@example.org", "\U0001f600"], task="ä\n\t\x01\U0001f600"
    )
    known = read(TaskMandate, json.dumps(mandate).encode())
    assert not isinstance(known, Unreadable)
    assert digest_mandate(known) == digest_of(mandate)
    assert scene().issue(mandate)["schema"] == "sluice/mandate_recorded/v1"


def test_what_no_mandate_names_stays_as_it_was() -> None:
    case = scene()
    assert "mandate" not in case.propose()["session"]
    case.issue(make_mandate())
    session = case.propose(action_id="later")["session"]
    assert session["mandates"] == 1
    assert "mandate" not in session
    assert read_session(case, "sha256:" + 64 * "0") is None
    assert case.rerun_states() == {"identical"}


OVER = {"issuer": "console", "until_ms": START}
FORGED = {**make_mandate(), "agent_id": "chief"}
STEALS = entry("agent", "thief", tenant_id="acme", tier="T3", keys=[{"public_key": public_key(CONSOLE)}])
GATEWAY = entry("delegate", "gateway", tenants=["acme"], keys=[{"public_key": public_key(CONSOLE)}])
ENDED = entry(
    "issuer",
    "ended",
    tenant_id="acme",
    keys=[{"public_key": public_key(OTHER), "revoked_at": "2025-01-01T00:00:00.000Z"}],
)


TEMPLATED = entry(
    "issuer", "templated", tenant_id="acme", keys=[{"public_key": public_key(OTHER)}], tasks=["refund"]
)
FILLED = {"id": "refund", "values": {"order": "o-1", "account": "DE1"}}
READ = entry("task", "read", tenant_id="acme", task="Read", tools=[{"tool": "find"}])


def test_an_issuer_that_has_templates_issues_by_them_alone_whatever_the_task_says() -> None:
    case = scene(TEMPLATED, READ)
    mandate = make_mandate("templated", OTHER, template=FILLED, task="What a person said")
    found = case.issue(mandate)["mandate"]
    assert found["task"] == "What a person said"
    assert [one["tool"] for one in found["scopes"][0]["tools"]] == ["find", "pay"]
    by_another = make_mandate("templated", OTHER, template={"id": "read", "values": {}})
    for refused in (make_mandate("templated", OTHER), by_another):
        assert case.issue(refused)["reason"] == "issuer_not_entitled"
    child = make_mandate("templated", OTHER, parent=mandate, tools=[{"tool": "find"}])
    assert case.issue(child)["reason"] == "issuer_not_entitled"


@pytest.mark.parametrize(
    ("mandate", "more", "reason"),
    [
        (make_mandate("nobody"), (), "unknown_issuer"),
        (make_mandate("foreign", OTHER), (), "unknown_issuer"),
        (make_mandate("narrow", OTHER), (), "issuer_not_entitled"),
        (make_mandate(key=OTHER), (), "issuer_not_entitled"),
        (make_mandate("ended", OTHER), (ENDED,), "issuer_not_entitled"),
        (make_mandate(), (STEALS,), "issuer_not_entitled"),
        (make_mandate(), (GATEWAY,), "issuer_not_entitled"),
        (make_mandate(audience=Audience("elsewhere")), (), "bad_signature"),
        (FORGED, (), "bad_signature"),
        ({**make_mandate(), "tools": []}, (), "bad_signature"),
        ({**make_mandate(session_id="s-0"), "session_id": "s-1"}, (), "bad_signature"),
        (make_mandate(agent_id="nobody"), (), "unknown_agent"),
        (make_mandate(until_ms=START), (), "mandate_over"),
        (make_mandate(until_ms=START + LIMITS.idle_timeout_ms + 1), (), "mandate_too_long"),
        (make_mandate(task_hash="sha256:" + 64 * "0", task="another"), (), "wrong_task_hash"),
        (make_mandate(tools=[{"tool": "pay", "condition": "nothing =="}]), (), "bad_condition"),
        (make_mandate(tools=[{"tool": "pay", "condition": "action.rows"}]), (), "bad_condition"),
        (make_mandate(template={"id": "other"}), (), "unknown_task"),
        (make_mandate(template={"id": "refund", "values": {"order": "7"}}), (), "wrong_values"),
        (
            make_mandate(task="x" * 2048, destinations=[f"{n:0512}" for n in range(9)]),
            (),
            "mandate_without_room",
        ),
    ],
)
def test_what_no_issuer_may_say_is_refused_and_changes_nothing(
    mandate: dict[str, Any], more: tuple[dict[str, Any], ...], reason: str
) -> None:
    case = scene(*more)
    found = case.issue(mandate)
    assert (found["schema"], found["reason"]) == ("sluice/input_refused/v1", reason)
    assert found["subject"] == "m-1"
    assert read_session(case, digest_of(mandate)) is None


def test_a_mandate_under_another_sessions_key_is_no_input() -> None:
    raw = json.dumps(make_mandate()).encode()
    moved = read_input_message(InputRecord(MANDATES, 3, 1, START, b"s-2", raw))
    assert isinstance(moved, Unreadable)
    assert moved.code == "key_mismatch"


def test_a_template_is_filled_in_with_the_values_of_its_slots() -> None:
    case = scene()
    mandate = make_mandate(template={"id": "refund", "values": {"order": "7", "account": "DE1'); true"}})
    found = case.issue(mandate)["mandate"]
    assert found["task"] == "Refund order 7 to DE1'); true"
    assert found["scopes"][0]["destinations"] == ["DE1'); true"]
    assert found["scopes"][0]["values"] == {"order": "7", "account": "DE1'); true"}
    assert [one["tool"] for one in found["scopes"][0]["tools"]] == ["find", "pay"]
    assert found["entries"].keys() == {"issuer/console@1", "task/refund@1"}


PARENT_TOOLS = [{"tool": "find"}, {"tool": "pay", "count": 2}]
PARENT = make_mandate(
    agent_id="chief", session_id="s-0", tools=PARENT_TOOLS, destinations=["a@b.c"], mandate_id="m-0"
)


def make_child(**given: Any) -> dict[str, Any]:
    return make_mandate(**{"tools": [{"tool": "find"}], "parent": PARENT, **given})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"tools": [{"tool": "pay", "count": 1}, {"tool": "pay", "count": 1}]},
        {"tools": []},
        {"destinations": ["a@b.c"]},
    ],
)
def test_a_mandate_within_its_parents_counts_with_the_parents_tools_beside_its_own(
    given: dict[str, Any],
) -> None:
    case, mandate = scene(), make_child(**given)
    found = case.issue(mandate)
    assert found["schema"] == "sluice/mandate_recorded/v1"
    assert [one["digest"] for one in found["mandate"]["scopes"]] == [digest_of(mandate), digest_of(PARENT)]
    assert found["mandate"]["scopes"][1]["tools"] == PARENT_TOOLS
    assert read_session(case, digest_of(PARENT)) is None, "a parent of another session does not count here"


@pytest.mark.parametrize(
    ("mandate", "reason"),
    [
        (make_child(tools=None), "outside_parent"),
        (make_child(tools=[{"tool": "change"}]), "outside_parent"),
        (make_child(tools=[{"tool": "pay"}]), "outside_parent"),
        (make_child(tools=[{"tool": "pay", "count": 3}]), "outside_parent"),
        (make_child(tools=[{"tool": "pay", "count": 2}, {"tool": "pay", "count": 1}]), "outside_parent"),
        (make_child(destinations=["x@y.z"]), "outside_parent"),
        (make_child(until_ms=START + 11 * MINUTE), "outside_parent"),
        ({**make_child(), "parents": None}, "parent_missing"),
        ({**make_child(), "parents": [make_mandate(mandate_id="m-9")]}, "parent_missing"),
        ({**make_mandate(), "parents": [make_mandate(mandate_id="m-9")]}, "parent_missing"),
        ({**make_child(), "parents": [{**PARENT, "parents": None}]}, None),
    ],
)
def test_what_goes_beyond_its_parent_or_does_not_carry_it_is_refused(
    mandate: dict[str, Any], reason: str | None
) -> None:
    if reason is None:
        assert isinstance(read(TaskMandate, json.dumps(mandate).encode()), Unreadable)
        return
    assert scene().issue(mandate)["reason"] == reason


def test_a_parent_that_nobody_entitled_signed_is_refused() -> None:
    forged = make_mandate("narrow", OTHER, agent_id="chief", tools=PARENT_TOOLS)
    assert scene().issue(make_child(parent=forged))["reason"] == "issuer_not_entitled"


def test_the_agent_has_room_for_a_few_and_those_that_are_over_make_room() -> None:
    case = scene()
    for place in range(MOST_MANDATES):
        short = make_mandate(mandate_id=f"m-{place}", until_ms=START + (place + 1) * MINUTE)
        assert case.issue(short)["schema"] == "sluice/mandate_recorded/v1"
        assert case.issue(short)["schema"] == "sluice/mandate_recorded/v1", "the same again is kept once"
    assert case.issue(make_mandate(mandate_id="more"))["reason"] == "mandate_without_room"
    assert case.issue(make_mandate(agent_id="chief"))["schema"] == "sluice/mandate_recorded/v1"
    case.now += MINUTE
    assert case.issue(make_mandate(mandate_id="more"))["schema"] == "sluice/mandate_recorded/v1"


def test_a_session_keeps_its_mandates_when_it_is_stored_and_read_back() -> None:
    case, mandate = scene(), make_mandate(tools=[DEADLY])
    case.issue(mandate)
    state = case._replay.session(b"s-1")  # noqa: SLF001 - what the scene has
    stored = state.entries()
    again = SessionState.read(state.key, stored)
    assert again.accounts["acme"].agents["operator"].gates == {
        name: list(one) for name, one in state.accounts["acme"].agents["operator"].gates.items()
    }
    assert sum(map(len, stored.values())) < LARGEST_MANDATE


def test_what_ends_a_mandate_before_its_time_is_said_where_an_action_names_it() -> None:
    mandate = make_child()
    cases = {
        digest_of(mandate): "mandate_revocation",
        digest_of(PARENT): "mandate_revocation",
    }
    for digest, kind in cases.items():
        case = scene()
        case.issue(mandate)
        revoked = scene(
            entry("mandate_revocation", digest, tenant_id="acme", reason="the order was cancelled")
        )
        revoked._replay._sessions = case._replay._sessions  # noqa: SLF001 - the same sessions under a new policy
        seen = read_session(revoked, digest_of(mandate))
        assert seen["void"] == f"revoked by {kind}/{digest}@1: the order was cancelled"
        assert f"{kind}/{digest}@1" in revoked.verdicts[-1]["registry_hashes"]
    for ended in (
        entry("issuer", "console", 2, tenant_id="acme", keys=[{"public_key": public_key(OTHER)}]),
        entry(
            "issuer", "console", 2, tenant_id="acme", keys=[{"public_key": public_key(CONSOLE)}], agents=[]
        ),
        STEALS,
    ):
        case = scene()
        case.issue(mandate)
        later = scene(ended)
        later._replay._sessions = case._replay._sessions  # noqa: SLF001 - the same sessions under a new policy
        assert read_session(later, digest_of(mandate))["void"]
    other = scene(entry("mandate_revocation", digest_of(mandate), tenant_id="globex", reason="not theirs"))
    other.issue(mandate)
    assert "void" not in read_session(other, digest_of(mandate))


def test_the_lines_of_the_guide_make_a_mandate_that_counts() -> None:
    """As written, but for the key, the installation and the session's clock of the cases here."""
    (lines,) = [one.text for one in blocks("docs/mandates.md") if one.text.startswith("from datetime")]
    here = lines.replace('Path("console.key").read_bytes()', "pem").replace(
        'Audience("production")', "UNNAMED"
    )
    names: dict[str, Any] = {"pem": write_pem(CONSOLE), "UNNAMED": UNNAMED}
    exec(here.replace('"ticket-4711"', '"s-1"'), names)  # noqa: S102 - our own
    case = scene(entry("agent", "accountant", tenant_id="acme", tier="T3"))
    case.now = time.time_ns() // 1_000_000
    assert case.issue(names["mandate"])["mandate"]["task"] == "Pay the invoice of ACME"


def test_a_mandate_published_again_after_its_session_has_folded_is_over() -> None:
    """Else what was used of its counts would be forgotten with the session."""
    case = scene()
    mandate = make_mandate(until_ms=START + LIMITS.idle_timeout_ms, tools=[{"tool": "find", "count": 1}])
    assert case.issue(mandate)["schema"] == "sluice/mandate_recorded/v1"
    case.now += LIMITS.idle_timeout_ms
    assert case.issue(mandate)["reason"] == "mandate_over"
