"""What the judgement of an action takes from its session: read from it, or from the verdict that records it.

The two are one value, so that a rerun judges on exactly what the verdict says and needs no session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.foundation.canonical import hex_of
from app.core.state.acknowledgement import flags_of
from app.core.state.session import totals_of

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from app.core.state.acknowledgement import Acknowledgement
    from app.core.state.draft import SessionDraft
    from app.core.state.session import Who
    from topics.records import ProposedAction

NOTHING_REMEMBERED: Mapping[str, Any] = {}
NO_FLAGS: Mapping[str, Sequence[str]] = {}


class KnownAction(NamedTuple):
    """What is remembered under an action's id: the hex digest and the offset of the first input, and the mark
    of its ruling."""

    digest: str
    offset: int
    mark: str


class ActionSeen(NamedTuple):
    """`rows` and `actions`: its tenant's totals before the action. `room`: whether one more action can be
    remembered; that is asked only where none is `known` under its id. `flags`: by kept id those of the items
    that the agent was let see; `dispute`: the id of an action of its tenant whose outcome is disputed;
    `remembered`: by a gate's name what it remembers of the agent."""

    rows: int
    actions: int
    known: KnownAction | None
    room: bool
    flags: Mapping[str, Sequence[str]]
    dispute: str | None
    remembered: Mapping[str, Any] = NOTHING_REMEMBERED


def read_seen(draft: SessionDraft, owner: Who, action: ProposedAction) -> ActionSeen:
    """From the session, for an action of `owner`."""
    account = draft.account(owner.tenant)
    if account is None:
        return ActionSeen(0, 0, None, draft.has_room(owner), NO_FLAGS, None)
    known = draft.action(owner, action.action_id)
    return ActionSeen(
        account.rows,
        account.actions,
        None if known is None else KnownAction(known.digest, known.offset, known.mark),
        known is not None or draft.has_room(owner),
        draft.served_flags(owner, account),
        account.dispute,
        draft.remembered_by_gates(owner, account),
    )


def seen_by(seen: ActionSeen, gates: Container[str]) -> ActionSeen:
    """The same, of what gates remember only what these do."""
    remembered = {name: one for name, one in seen.remembered.items() if name in gates}
    return seen._replace(remembered=remembered)


def recorded(seen: ActionSeen, flags: Acknowledgement, counted: int | None) -> dict[str, Any]:
    """The verdict's `session`. `flags` are those seen, parted by what the action acknowledges.

    The totals after follow from those before: an action that is carried out adds its `counted` rows and
    itself, whether it can be remembered or not; None is for one that adds nothing. A dispute is named where
    there is one, and what gates remember where they do: verdicts from before there was either stay as they
    are.
    """
    known, before = seen.known, totals_of(seen.rows, seen.actions)
    values: dict[str, Any] = {
        "before": before,
        "after": before if counted is None else totals_of(seen.rows + counted, seen.actions + 1),
        "known": None
        if known is None
        else {"digest": f"sha256:{known.digest}", "offset": known.offset, "mark": known.mark},
        "room": seen.room,
        "flags": {"acknowledged": list(flags.acknowledged), "outstanding": list(flags.outstanding)},
    }
    if seen.dispute is not None:
        values["disputed"] = seen.dispute
    if seen.remembered:
        values["remembered"] = seen.remembered
    return values


def recorded_seen(verdict: Mapping[str, Any]) -> ActionSeen:
    """From a verdict: the way back of `recorded`."""
    session = verdict["session"]
    before, known = session["before"], session["known"]
    return ActionSeen(
        int(before["aggregateRowsAffected"]),
        before["aggregateActionCount"],
        None if known is None else KnownAction(hex_of(known["digest"]), known["offset"], known["mark"]),
        session["room"],
        flags_of(session["flags"]),
        session.get("disputed"),
        session.get("remembered") or NOTHING_REMEMBERED,
    )
