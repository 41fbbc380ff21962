"""How far a gate goes with an objection: the `mode` that the parts of several gates have in a bundle.

The pipeline applies it to what such a gate finds, with a model or without. `inbound` and `outbound` have
modes of their own, since they also change parameters.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from sluice.core.foundation.strict import StrictModel
from sluice_topics.relaxations import Scale

GateMode = Literal["observe", "nudge", "enforce"]


class ModePart(StrictModel):
    """What the parts of gates with a mode have in common. `mode`: with "enforce" an objection holds the
    action up; with "observe" and "nudge" it passes, and the verdict says what would have been, with "nudge"
    also what the agent is to mind."""

    objection: ClassVar[str] = "an objection"
    """What holds an action up, as a relaxation says it."""

    mode: Annotated[GateMode, Scale(get_args(GateMode), "{before.objection} is only {new}d, not {old}d")] = (
        "enforce"
    )


def get_mode(written: Any) -> GateMode:
    """The mode of a gate's part; a part without one enforces."""
    return written.mode if isinstance(written, ModePart) else "enforce"
