"""Which of many texts are closest to one: what the core asks an encoder, and what it answers."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.requests import Request
from sluice.core.foundation.strict import StrictModel

PORT = "closest"


class NamedTexts(NamedTuple):
    """What is searched: ids and texts in the same order. `hash` names them."""

    hash: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: dict[str, str]) -> NamedTexts:
        """From id to text."""
        return cls(digest(list(texts.items())), tuple(texts), tuple(texts.values()))


class Near(StrictModel):
    """A text's id, and the cosine to it."""

    id: str
    cosine: Annotated[float, Field(ge=-1.001, le=1.001)]


class ClosestAnswer(StrictModel):
    """What the port answers, the closest first; `model` and `library` are the digests of what it was computed
    with."""

    model: str
    library: str
    nearest: list[Near]


def ask_for_closest(text: str, library: NamedTexts, most: int, budget_ms: int) -> Request:
    """For the `most` texts closest to `text`. The library travels by reference: nothing is copied."""
    return Request(PORT, {"text": text, "library": library, "most": most}, budget_ms)


def read_closest(payload: object, library: NamedTexts) -> dict[str, float] | None:
    """Id to cosine, in the answer's order; None where it is no answer about this library."""
    try:
        read = ClosestAnswer.model_validate(payload)
    except ValidationError:
        return None
    near = {neighbour.id: neighbour.cosine for neighbour in read.nearest}
    return near if read.library == library.hash and near.keys() <= set(library.ids) else None
