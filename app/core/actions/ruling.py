"""From what the stages found to what is published: mode and enforcement decide what a finding does.

Product.md, "Mode is not enforcement": the caller's mode says who is held up by a verdict, the operator's
enforcement whether the gates may hold up anyone. Shadow publishes ALLOW and stores the real outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.state.reservations import Sighting, count_only, reserve, share_id

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext
    from app.core.state.draft import SessionDraft

VERDICT_OF = {"ALLOW": "allowed", "BLOCK": "denied", "ESCALATE": "needs_human"}
_MARK_SEPARATOR = "/"


class Ruling(NamedTuple):
    """`outcome` is what is published; `shadow` the real one where enforcement is shadow, else None;
    `carried` whether the caller will carry the action out; `waits` whether someone waits for a person."""

    outcome: str
    shadow: str | None
    carried: bool
    waits: bool

    @property
    def real(self) -> str:
        """What the gates found."""
        return self.shadow or self.outcome

    @property
    def mark(self) -> str:
        """Both outcomes as the session remembers them."""
        return self.outcome if self.shadow is None else f"{self.outcome}{_MARK_SEPARATOR}{self.shadow}"

    def stricter(self, real: str, mode: str) -> Ruling:
        """The ruling with another real outcome, under the same enforcement."""
        return _ruling(real, None, mode) if self.shadow is None else _ruling(self.outcome, real, mode)

    @property
    def autonomy(self) -> str:
        """The state of the autonomy checkpoint (seed 002)."""
        if self.real == "ALLOW":
            return "pass"
        return "observed" if self.carried else "enforced"


def rule(real: str, context: ActionContext) -> Ruling:
    """What a real outcome becomes under the action's mode and its tenant's enforcement."""
    if context.org.enforcement == "shadow":
        return _ruling("ALLOW", real, context.mode)
    return _ruling(real, None, context.mode)


def repeated(mark: str, mode: str) -> Ruling:
    """The ruling that a repeat of a remembered action gets again."""
    outcome, _, shadow = mark.partition(_MARK_SEPARATOR)
    return _ruling(outcome, shadow or None, mode)


def _ruling(outcome: str, shadow: str | None, mode: str) -> Ruling:
    held_up = mode == "high_stakes" and outcome != "ALLOW"
    return Ruling(outcome, shadow, not held_up, held_up and outcome == "ESCALATE")


def count(draft: SessionDraft, seen: Sighting, ruling: Ruling, *, known: bool, room: bool) -> None:
    """Count an action that comes for the first time; carried out, it counts whatever else is wrong with it.

    `known`: another action is remembered under its id; `room`: it can be remembered.
    """
    other = draft.action(seen.owner, seen.action_id) if known else None
    if other is not None:
        share_id(draft, seen, other, carried=ruling.carried)
    elif room:
        reserve(draft, seen, ruling.mark, carried=ruling.carried)
    elif ruling.carried:
        count_only(draft, seen)
