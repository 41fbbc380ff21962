"""Forged, stripped, swapped, stale and replayed records of agents that sign: none counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS
from tests.unit.core.signing_scene import (
    ID,
    NEXT,
    OWN,
    STRANGE,
    WINDOW_MS,
    Signing,
    answer_of,
    key_id,
    sign,
)

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord

TOPICS = (ACTIONS, MEMORY_WRITES, RETRIEVALS, OUTCOMES)


def _claim(input_record: InputRecord) -> InputRecord:
    """Signed by a stranger, under the agent's own key id."""
    header = sign(input_record, STRANGE, "n" * 16).signature_header or b""
    return replace(
        input_record, signature_header=header.replace(key_id(STRANGE).encode(), key_id(OWN).encode())
    )


def _forge(case: Signing, numbers: count[int]) -> list[tuple[str, InputRecord]]:
    """One signed record of each kind that counted, and what an attacker makes of it."""
    number = next(numbers)
    made: list[tuple[str, InputRecord]] = []
    for topic in TOPICS:
        name = "act-1" if topic == OUTCOMES else f"n-{number}"
        original = case.sign(
            case.make(topic, **{ID[topic]: name}, rows_affected=1)
            if topic == OUTCOMES
            else case.make(topic, **{ID[topic]: name})
        )
        fresh = case.make(topic, **{ID[topic]: f"x-{number}"})
        other = case.make(topic, "colleague", **{ID[topic]: f"y-{number}"})
        elsewhere = case.make(topic, session_id="s-2")
        raw = bytearray(original.signature_header or b"")
        raw[-3 - number % 80] = 65 if raw[-3 - number % 80] != 65 else 66
        made += [
            ("stripped", replace(original, signature_header=None)),
            ("forged", case.sign(fresh, STRANGE)),
            (
                "claimed",
                _claim(fresh),
            ),
            ("bent", replace(fresh, signature_header=bytes(raw))),
            ("swapped", replace(fresh, signature_header=original.signature_header)),
            ("another agent", replace(other, signature_header=original.signature_header)),
            ("another agent's key", case.sign(fresh, NEXT)),
            ("another session", replace(elsewhere, signature_header=original.signature_header)),
            ("another key", replace(original, key=b"s-2")),
            ("changed", replace(original, value=(original.value or b"") + b" ")),
            ("stale", case.sign(fresh, at_ms=case.now - WINDOW_MS - 1 - number)),
            ("to come", case.sign(fresh, at_ms=case.now + WINDOW_MS + 1 + number)),
            (
                "another topic",
                replace(
                    fresh,
                    signature_header=sign(
                        replace(fresh, topic=TOPICS[TOPICS.index(topic) - 1]), OWN, f"{number:016d}"
                    ).signature_header,
                ),
            ),
        ]
    return made


def test_of_ten_thousand_forged_stripped_swapped_and_stale_records_none_counts() -> None:
    case, numbers, tried = Signing(), count(), 0
    case.put(case.sign(case.make(ACTIONS)))
    before, changes = case.totals(), 0
    while tried < 10_000:
        for what, input_record in _forge(case, numbers):
            tried += 1
            decision = case.decide(case.again(input_record))
            body = answer_of(decision)
            refused = body["schema"] == "sluice/dead_letter/v1" or "unsigned_agent" in (
                body.get("reason"),
                *(str(body.get(name)).split(":")[0] for name in ("blockReason", "reason")),
            )
            assert refused, (what, body)
            changes += decision.session != ()
    assert (case.totals(), case.totals("s-2"), changes) == (before, (0, 0), 0)


def test_replays_of_what_counted_count_nowhere() -> None:
    case, firsts = Signing(), []
    for number in range(30):
        firsts.append(case.sign(case.make(ACTIONS, action_id=f"a-{number}", session_id=f"s-{number}")))
        assert case.verdict(firsts[-1])["verdict"] == "allowed"
    for number in range(3000):
        case.now += 7
        first = firsts[number % 30]
        input_record = case.again(first)
        found = case.verdict(input_record if number % 2 else replace(input_record, key=first.key))
        assert found["duplicate_of"] is not None
    assert all(case.totals(f"s-{number}") == (1, 1) for number in range(30))
