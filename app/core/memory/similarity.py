"""Similarity to known attacks: what the core asks an encoder, and what its answer means.

The encoder answers with the window that speaks most for an attack: its cosine to the nearest attack text
and to the nearest benign text of the library. A finding needs both a near attack and a benign side that is
further away, because a vector tells what a text is about and hardly whether it does it or tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from app.core.content.inspection import Finding
from app.core.requests import Request
from app.core.strict import StrictModel

if TYPE_CHECKING:
    from app.core.memory.similarity_settings import SimilaritySettings

PORT = "embedding"
_COSINE_SLACK = 1.001
"""Rounding of 32-bit floats may pass 1 by a little."""


class Nearest(StrictModel):
    """The nearest text of one side of the library, and the bare cosine to it."""

    id: str
    cosine: float = Field(ge=-_COSINE_SLACK, le=_COSINE_SLACK)


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


def similarity_request(text: str, settings: SimilaritySettings) -> Request:
    """The question for the port `embedding`. The library travels by reference: nothing is copied."""
    payload = {"text": text, "library": settings.library, "windows": settings.windows}
    return Request(PORT, payload, settings.budget_ms)


def read_answer(payload: object) -> SimilarityAnswer | None:
    """A port's answer, or one from a record. None when it is none: then similarity is inconclusive."""
    try:
        return SimilarityAnswer.model_validate(payload)
    except ValidationError:
        return None


def similarity_finding(answer: SimilarityAnswer, settings: SimilaritySettings) -> Finding | None:
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
        form="vector",
        reason=f"cosine {nearest.cosine:.3f} to a known attack, {benign:.3f} to the nearest benign text",
        source=attack.source,
        framed=False,
        start=0,
        end=0,
    )
