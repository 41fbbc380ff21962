"""Similarity to known attacks: what the core asks an encoder, and what its answer means.

The encoder answers with the window that speaks most for an attack: its cosine to the nearest attack text
and to the nearest benign text of the library. A finding needs both a near attack and a benign side that is
further away, because a vector tells what a text is about and hardly whether it does it or tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from sluice.core.foundation.requests import Request
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.similarity_settings import EMBEDDING, Nearest
from sluice.detection.text_inspection import Finding

if TYPE_CHECKING:
    from sluice.core.policy.similarity_settings import SimilaritySettings, WindowSettings


VECTOR = "vector"
"""The form of a finding of similarity, which no detector gives."""


class SimilarityAnswer(StrictModel):
    """What the port answers; `model` and `library` are "sha256:" digests of what it was computed with.

    `attack` and `benign` are of one window, the one that speaks most for an attack; both are None for a text
    without windows.
    """

    model: str
    library: str
    windows: int = Field(ge=0)
    of: int = Field(ge=0)
    attack: Nearest | None
    benign: Nearest | None

    @property
    def inconclusive(self) -> bool:
        """Whether some of the text was not read."""
        return self.windows < self.of


def request_similarity(text: str, settings: SimilaritySettings) -> Request:
    """The question for the port `embedding`. The library travels by reference: nothing is copied."""
    payload = {"text": text, "library": settings.library, "windows": settings.windows}
    return Request(EMBEDDING, payload, settings.budget_ms)


def read_answer(payload: object) -> SimilarityAnswer | None:
    """A port's answer, or one from a record. None when it is none: then similarity is inconclusive."""
    try:
        return SimilarityAnswer.model_validate(payload)
    except ValidationError:
        return None


def find_similarity(answer: SimilarityAnswer, settings: SimilaritySettings) -> Finding | None:
    """The finding that an answer stands for by the library's calibration, if any."""
    nearest, calibration = answer.attack, settings.library.calibration
    if nearest is None or nearest.cosine < calibration.at_least:
        return None
    benign = answer.benign.cosine if answer.benign else -1.0
    attack = settings.library.attacks.get(nearest.id)
    if attack is None or nearest.cosine - benign < calibration.margin:
        return None
    return Finding(
        id=f"similarity.{nearest.id}",
        kind=attack.kind,
        weight=calibration.weight,
        form=VECTOR,
        reason=f"cosine {nearest.cosine:.3f} to a known attack, {benign:.3f} to the nearest benign text",
        source=attack.source,
        framed=False,
        start=0,
        end=0,
    )


LONGEST_WORD = 32
"""A window grows by up to this many characters at each side so as not to cut a word; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class Windows:
    """`texts` are the first windows in their order, `of` is how many the whole text has.

    A window is counted in characters, not words: a word has no bounded length, and a script without spaces
    has no words to count. Where the pieces of a window still exceed the encoder's bound (one piece a
    character), the port that cuts the text into pieces cuts it again.
    """

    texts: tuple[str, ...]
    of: int


def split_windows(text: str, settings: WindowSettings) -> Windows:
    """Windows that cover `text` and overlap, up to the cap. Costs no more for a text beyond the cap."""
    step = settings.characters - settings.overlap
    of = max(1, -(-(len(text) - settings.overlap) // step)) if text else 0
    starts = range(0, min(of, settings.most) * step, step)
    cut = (_window(text, start, start + settings.characters) for start in starts)
    return Windows(tuple(cut), of)


def _window(text: str, start: int, end: int) -> str:
    return text[_find_word_start(text, start) : _right(text, end)]


def _find_word_start(text: str, start: int) -> int:
    """The beginning of the word that `start` is in."""
    for at in range(start, max(0, start - LONGEST_WORD), -1):
        if text[at - 1].isspace():
            return at
    return start if start > LONGEST_WORD else 0


def _right(text: str, end: int) -> int:
    """The end of the word that the character before `end` is in."""
    for at in range(end, min(len(text), end + LONGEST_WORD)):
        if text[at].isspace():
            return at
    return min(end, len(text))
