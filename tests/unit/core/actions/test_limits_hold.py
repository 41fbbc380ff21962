"""A limit against a plain list of what was done: actions, answers, outcomes and takeovers in any order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.state.book import Book
from sluice_topics.catalog import ACTIONS, OUTCOMES
from tests.unit.core.actions.escalation_scene import TTL_MS
from tests.unit.core.actions.test_limits import limit, office
from tests.unit.core.scene import action, kinds, only, outcome, sign

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.decision import Decision

SHARE = 1000
FACTOR = 4
"""How much of a reservation an unsigned outcome claims here: less than what makes it disputed."""


@dataclass
class Done:
    """An action as the list has it. `counts`: its rows against the share; `claimed`: it counts as carried out
    on the word of an unsigned outcome."""

    input_record: InputRecord
    rows: int
    counts: int
    opened: dict[str, Any] | None = None
    expires_ms: int = 0
    carried: bool = False
    signed: bool = False
    claimed: bool = False


@dataclass
class Told:
    """What a partition should count, worked out from what people, agents and enforcement points did."""

    done: list[Done] = field(default_factory=list)
    table: dict[bytes, bytes] = field(default_factory=dict)

    def expire(self, now_ms: int) -> None:
        for one in self.done:
            if one.opened is not None and one.expires_ms <= now_ms:
                one.opened = None
                one.counts = one.counts if one.carried else 0

    @property
    def used(self) -> int:
        return sum(one.counts for one in self.done)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 600), st.integers(0, 3)),
        st.tuples(st.just("erase"), st.integers(0, 600), st.integers(0, 3)),
        st.tuples(st.sampled_from(["approve", "deny"]), st.integers(0, 9), st.just(0)),
        st.tuples(st.sampled_from(["signed", "unsigned"]), st.integers(0, 9), st.integers(0, 700)),
        st.tuples(st.sampled_from(["takeover", "wait"]), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(STEPS)
def test_what_is_used_is_what_was_done_and_nobody_is_unasked_above_the_share(
    steps: list[Any],
) -> None:
    of, told = office(limit()), Told()
    for number, (step, one, two) in enumerate(steps):
        of.now += 1000
        told.expire(of.now)
        if step in ("change", "erase"):
            propose(of, told, f"a-{number}", step, rows=one, session=f"s-{two}")
        elif step in ("approve", "deny"):
            answer(of, told, one, step)
        elif step in ("signed", "unsigned"):
            report(of, told, one, rows=two, signed=step == "signed")
        elif step == "wait":
            of.now += TTL_MS
        else:
            take_over(of, told)


def propose(of: Any, told: Told, name: str, tool: str, *, rows: int, session: str) -> None:
    used = told.used
    record = action(action_id=name, session_id=session, toolName=tool, rows_affected=rows)
    input_record = of.input_record(ACTIONS, record)
    decision: Decision = of.replay.take(input_record)
    verdict = only(decision, "Verdict")
    assert verdict["session"]["limits"]["l-1"] == {"used": used, "share": SHARE}
    fits = rows == 0 or used + rows <= SHARE
    allowed = tool == "change" and fits
    assert verdict["verdict"] == ("allowed" if allowed else "needs_human")
    made = Done(input_record, rows, rows if fits else 0, carried=allowed)
    if "EscalationOpened" in kinds(decision):
        made.opened = only(decision, "EscalationOpened")
        made.expires_ms = input_record.timestamp_ms + TTL_MS
    told.done.append(made)


def answer(of: Any, told: Told, place: int, word: str) -> None:
    waiting = [one for one in told.done if one.opened is not None]
    if not waiting:
        return
    made = waiting[place % len(waiting)]
    used = told.used - made.counts
    of.now -= 1000
    decision = of.answer(made.opened, "ann", word)
    made.opened = None
    if word == "deny":
        made.counts = made.counts if made.carried else 0
        return
    verdict = only(decision, "ResolvedVerdict")
    assert verdict["outcome"] == "ALLOW"
    if not made.carried:
        assert verdict["session"]["limits"]["l-1"] == {"used": used, "share": SHARE}
        made.counts, made.carried = made.rows, True
    elif made.claimed and not made.signed:
        made.counts = max(made.counts, made.rows)


def report(of: Any, told: Told, place: int, *, rows: int, signed: bool) -> None:
    """An outcome of an action that was carried out, or was so though it waits or nobody agreed."""
    if not told.done:
        return
    made = told.done[place % len(told.done)]
    if made.signed:
        return
    rows = rows if signed else min(rows, FACTOR * max(made.rows, 1))
    name, session = read_names(made)
    record = outcome(action_id=name, session_id=session, rows_affected=rows)
    if signed:
        bound = {"action_digest": made.input_record.digest, "input": made.input_record.coordinates()}
        record = sign({**record, "reported_by": "door", **bound})
        made.signed = True
    if rows > 0 and not made.carried:
        made.counts, made.carried = rows if signed else max(made.counts, rows), True
        made.claimed = not signed
    elif made.carried:
        made.counts = rows if signed else max(made.counts, rows)
    of.now -= 1000
    of.take(OUTCOMES, record)


def read_names(made: Done) -> tuple[str, str]:
    fields = json.loads(made.input_record.value or b"{}")
    return fields["action_id"], fields["session_id"]


def take_over(of: Any, told: Told) -> None:
    for key, value in of.replay.book.flush().items():
        if value is None:
            told.table.pop(key, None)
        else:
            told.table[key] = value
    of.replay.book = Book(told.table)
