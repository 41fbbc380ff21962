"""False outcomes: lower a session's total, or raise it without end, by what is said of an action afterwards.

Signed outcomes are replayed, moved to another action, session or partition, and stripped; unsigned ones claim
too little and too much. Honest ones must settle.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import rfc8785

from load.attacks.attempt import POINT, POINT_KEY, AttackedSession, Attempt, rows_of
from sluice_topics.audience import UNNAMED, record_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from sluice.core.foundation.input_record import InputRecord

ROWS = 400
FULL, SHORT = 25, 3
WINDOW_MINUTES = 60


def run(extent: Extent) -> Iterator[Attempt]:
    """Each way in sessions of their own, as often as the extent says."""
    for number in range(SHORT if extent == "short" else FULL):
        yield from _replays(number)
        yield from _misplace(number)
        yield from _claims(number)
        yield from _controls(number)


def _replays(number: int) -> Iterator[Attempt]:
    """400 rows and an outcome of none; later the same id and the same bytes again, then the outcome."""
    for wait in (0, 59, 60, 61, 120, 24 * 60, 25 * 60):
        session = AttackedSession(f"replay-{number}-{wait}")
        action = session.action("a", ROWS)
        session.take(action)
        outcome = sign_outcome(action, 0)
        session.report(outcome)
        session.later(wait)
        if wait >= WINDOW_MINUTES:
            session.take(session.again(action))
        else:
            session.take(session.action("b", ROWS))
        yield session.report_unchanged(
            f"a signed outcome again after {wait} minutes", outcome, ROWS, "outcome_replayed"
        )
    session = AttackedSession(f"waiting-{number}")
    session.report(
        sign_outcome(AttackedSession("another").action("a", ROWS, reasoning="x"), 0, session=session.session)
    )
    session.take(session.action("a", ROWS))
    yield session.total("a signed outcome that waits for an action of another session", ROWS)


def _misplace(number: int) -> Iterator[Attempt]:
    """A genuine signature over something else than the action."""
    changes: dict[str, dict[str, Any]] = {
        "another partition": {"partition": 7},
        "an earlier offset": {"offset": 0},
        "another topic": {"topic": "gate.outcomes"},
        "another digest": {"digest": "sha256:" + "0" * 64},
    }
    for name, change in changes.items():
        session = AttackedSession(f"misplaced-{number}-{name}")
        action = session.action("a", ROWS)
        session.take(action)
        yield session.report_unchanged(
            f"signed for {name}", sign_outcome(action, 0, input=action.coordinates() | change), ROWS
        )
    session = AttackedSession(f"stripped-{number}")
    action = session.action("a", ROWS)
    session.take(action)
    whole = sign_outcome(action, 0)
    for name in ("input", "action_digest", "signature"):
        yield session.report_unchanged(
            f"without {name}", {key: it for key, it in whole.items() if key != name}, ROWS
        )
    yield session.report_unchanged(
        "signed without any place", _sign(fields("a", session.session, 0)), ROWS, "outcome_unbound"
    )
    yield session.report_unchanged("an altered count", sign_outcome(action, 9) | {"rows_affected": 0}, ROWS)


def _claims(number: int) -> Iterator[Attempt]:
    """An unsigned outcome claims what nobody reserved: bounded, with an alarm, and the session escalates."""
    for digits in (4, 9, 30):
        session = AttackedSession(f"claim-{number}-{digits}")
        session.take(session.action("a", ROWS))
        records = session.report(fields("a", session.session, 10**digits * 5))
        verdict = session.take(session.action("b", 1))
        alarmed = any(record.kind == "OutcomeAlarm" for record in records)
        held = rows_of(verdict) <= 10 * ROWS + 1 and alarmed and verdict["verdict"] == "needs_human"
        answer = f"total {rows_of(verdict)}, alarm {alarmed}, the next action {verdict['verdict']}"
        yield Attempt(f"an unsigned outcome of 5e{digits} for {ROWS} rows", held, answer)
        session.later(61)
        verdict = session.take(session.action("c", 1))
        yield Attempt(
            "waiting until the window has passed", verdict["verdict"] == "needs_human", verdict["verdict"]
        )


def _controls(number: int) -> Iterator[Attempt]:
    for rows in (0, 12, ROWS * 3):
        session = AttackedSession(f"honest-{number}-{rows}")
        action = session.action("a", ROWS)
        session.take(action)
        session.report(sign_outcome(action, rows))
        yield session.total(f"an honest signed outcome of {rows}", rows, harmless=True)
    session = AttackedSession(f"raise-{number}")
    session.take(session.action("a", ROWS))
    session.report(fields("a", session.session, ROWS * 2))
    yield session.total("an agent's own outcome of twice the estimate", ROWS * 2, harmless=True)
    session = AttackedSession(f"early-{number}")
    action = session.action("a", ROWS)
    session.report(sign_outcome(action, 12))
    session.take(action)
    yield session.total("a signed outcome that comes before its action", 12, harmless=True)
    session = AttackedSession(f"settled-{number}")
    action = session.action("a", ROWS)
    session.take(action)
    session.report(fields("a", session.session, 10**30))
    session.report(sign_outcome(action, 12))
    verdict = session.take(session.action("b", 1))
    yield Attempt(
        "a signed outcome ends a dispute", verdict["verdict"] == "allowed", verdict["verdict"], harmless=True
    )


def fields(action_id: str, session: str, rows: int) -> dict[str, Any]:
    """An unsigned outcome."""
    return {"action_id": action_id, "session_id": session, "rows_affected": rows, "reported_by": "honest"}


def sign_outcome(
    action: InputRecord, rows: int, session: str | None = None, **changed: Any
) -> dict[str, Any]:
    """The enforcement point's outcome of an action."""
    bound = {"action_digest": action.digest, "input": action.coordinates(), **changed}
    plain = fields("a", session or (action.key or b"").decode(), rows)
    return _sign(plain | {"reported_by": POINT} | bound)


def _sign(plain: dict[str, Any]) -> dict[str, Any]:
    record = plain | {"reported_by": POINT}
    return record | {
        "signature": base64.b64encode(POINT_KEY.sign(record_message(UNNAMED, rfc8785.dumps(record)))).decode()
    }
