"""One linear look at the texts of an action together, which says what each of them need not be asked.

Most actions carry names, numbers and plain words. Their texts, joined, go through a handful of automata once;
only what answers is then looked for leaf by leaf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.gate1.encodings import ENCODING_TELLS
from app.core.gate1.injection_patterns import BREAKOUT, BREAKOUT_TELLS
from app.core.gate1.targets import SPELLING_TELLS
from app.core.patterns import PatternSet

if TYPE_CHECKING:
    from app.core.gate1.matchers import Matchers

_TELLS = PatternSet(
    [("breakout", BREAKOUT_TELLS), ("encoding", ENCODING_TELLS), ("spelling", SPELLING_TELLS)]
)
_BREAKOUT = PatternSet([("breakout", BREAKOUT)])
_DISGUISE = PatternSet([("encoding", ENCODING_TELLS)])
JOINT = "\n"
"""Between two texts; expressions take it for the end of a line, so none misses what a text alone shows."""


class Tells(NamedTuple):
    """False where no text of those looked at can have it."""

    text: bool
    target: bool
    breakout: bool
    disguise: bool
    spelling: bool


ANYTHING = Tells(text=True, target=True, breakout=True, disguise=True, spelling=True)
"""Of a text that was not among those looked at."""


def tells(joined: str, matchers: Matchers) -> Tells:
    """What the texts, joined by JOINT, may hold."""
    found = _TELLS.matches(joined)
    return Tells(
        matchers.text.anywhere(joined),
        bool(matchers.targets.matches(joined)),
        "breakout" in found,
        "encoding" in found or not joined.isascii(),
        "spelling" in found,
    )


def may_break_out(text: str) -> bool:
    """Whether an inserted value has anything to break out with."""
    return bool(_BREAKOUT.matches(text))


def may_be_disguised(text: str) -> bool:
    """Whether a text is perhaps not what it looks like, or not all."""
    return not text.isascii() or bool(_DISGUISE.matches(text))
