"""How far a gate goes with an objection: the `mode` that the parts of several gates have in a bundle.

The pipeline applies it to what such a gate finds, with a model or without. `inbound` and `outbound` have
modes of their own, since they also change parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from sluice.core.foundation.strict import StrictModel
from sluice.core.quality_bundle.loosenings import Loosening

if TYPE_CHECKING:
    from collections.abc import Iterator

GateMode = Literal["observe", "nudge", "enforce"]
_MILDEST_FIRST: tuple[GateMode, ...] = get_args(GateMode)


class ModePart(StrictModel):
    """What the parts of gates with a mode have in common. `mode`: with "enforce" an objection holds the
    action up; with "observe" and "nudge" it passes, and the verdict says what would have been, with "nudge"
    also what the agent is to mind."""

    mode: GateMode = "enforce"


def mode_of(written: Any) -> GateMode:
    """The mode of a gate's part; a part without one enforces."""
    return written.mode if isinstance(written, ModePart) else "enforce"


def find_milder_mode(before: ModePart, after: ModePart, what: str = "an objection") -> Iterator[Loosening]:
    """A milder mode. `what` it is that holds up less."""
    if _MILDEST_FIRST.index(after.mode) < _MILDEST_FIRST.index(before.mode):
        yield Loosening(f"{what} is only {after.mode}d, not {before.mode}d", ("mode",))
