"""Mend 22.8: the verifier says when the policy in force became less."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785

from load.tamper import seal
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from tests.unit.verifier.ledgers import DIGEST

NONE = {"total": 0, "named": []}
FIRST, SECOND = DIGEST, "sha256:" + "1" * 64


def _one(name: str, before: int | None, now: int | None) -> dict[str, Any]:
    return {"total": 1, "named": [{"entry": name, "before": before, "now": now}]}


def _body(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "sluice/policy_in_force/v1",
        "partition": 0,
        "decided_at": "2026-01-01T00:00:00.000Z",
        "input": None,
        "trigger": "start",
        "previous": None,
        "digest": FIRST,
        "entries": 2,
        "kinds": {"tool": 2},
        "added": {"total": 2, "named": []},
        "replaced": NONE,
        "lowered": NONE,
        "gone": NONE,
    } | changes


def _later(**changes: Any) -> dict[str, Any]:
    return _body(**({"previous": FIRST, "digest": FIRST, "added": NONE} | changes))


def _findings(*bodies: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    head, records = "GENESIS", []
    for place, body in enumerate(bodies):
        fields = seal({**body, "policy_event_id": f"p-{place}", "sequence": place + 1, "prev_hash": head})
        head = fields["event_hash"]
        records.append(Located("gate.policy.events", 0, place, b"policy", rfc8785.dumps(fields)))
    return [(one.code, one.sequence, one.message) for one in verify(records).findings]


def test_a_policy_that_stays_or_grows_is_intact() -> None:
    newer = _later(trigger="change", digest=SECOND, replaced=_one("tool/wipe", 1, 2))
    more = _later(previous=SECOND, entries=3, added=_one("tool/new", None, 1))
    assert _findings(_body(), _later(), newer, more) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"entries": 1, "gone": _one("tool/wipe", 2, None)}, "tool/wipe (2 → None)"),
        ({"lowered": _one("tool/wipe", 2, 1)}, "tool/wipe (2 → 1)"),
        ({"entries": 1}, "counts 1 entry in force; the record before and its differences make 2"),
        ({"previous": SECOND}, "record 1 said sha256:000"),
        ({"previous": None}, "record 1 said sha256:000"),
        ({"gone": "x"}, "the record before and its differences make 3"),
        ({"entries": "x"}, "the record before"),
    ],
)
def test_a_policy_that_became_less_is_found_where_it_did(changes: dict[str, Any], said: str) -> None:
    found = _findings(_body(), _later(**({"digest": SECOND} | changes)))
    assert {(code, sequence) for code, sequence, _ in found} == {("policy_lost", 2)}
    assert any(said in message for _, _, message in found)
