"""A bundle's `memory.similarity`: the library of known texts, how texts are cut, and when a text is near.

Also what memory writes and actions have in common when an encoder compares them with known ones.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.strict import StrictModel
from sluice.detection.text_inspection import Kind, Weight  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.relaxations import Neutral, StricterWhen, Unordered

if TYPE_CHECKING:
    from collections.abc import Collection

Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(?:[._-][a-z0-9]+)*$", max_length=128)]
Text = Annotated[str, Field(min_length=1, max_length=400)]
"""Short enough to be compared with one window."""
Source = Annotated[str, Field(min_length=1, max_length=256)]
_BEHIND_NAME = re.compile("@|:(?!//)")
Cosine = Annotated[float, Field(ge=-1, le=1)]


EMBEDDING = "embedding"
"""The port that compares texts with a library."""
_COSINE_SLACK = 1.001
"""Rounding of 32-bit floats may pass 1 by a little."""


class Nearest(StrictModel):
    """An entry of one side of a library, and the bare cosine to it."""

    id: str
    cosine: float = Field(ge=-_COSINE_SLACK, le=_COSINE_SLACK)


class BenignText(StrictModel):
    """A harmless text with words like those of attacks. `source`: where the text is from."""

    id: Id
    text: Text
    source: Source


class AttackText(BenignText):
    """A text that poisons a memory; a text near to it gets its kind."""

    kind: Kind


Frame = Annotated[str, Field(pattern=r"^[^{}]*\{\}[^{}]*$", max_length=200)]
"""A sentence that talks about an attack; the attack's text takes the place of `{}`."""


class Calibration(StrictModel):
    """When a window is a finding: its cosine to an attack is at least `at_least`, and by `margin` higher
    than its cosine to any benign text. `weight` is the finding's.
    """

    at_least: Cosine
    margin: Annotated[float, Field(ge=0, le=2)]
    weight: Weight


class SimilarityLibrary(StrictModel):
    """Known texts of both sides, with the calibration that was measured on them.

    The benign side also has every attack inside each of `frames`: a text that quotes an attack is as near to
    the attack as the attack itself, but nearer to the quoted attack.
    """

    attack: Annotated[list[AttackText], Field(min_length=1, max_length=1024)]
    benign: Annotated[list[BenignText], Field(max_length=4096)]
    frames: Annotated[list[Frame], Field(max_length=16)] = Field(default_factory=list)
    calibration: Calibration

    @model_validator(mode="after")
    def _check_distinct(self) -> Self:
        observed: set[str] = set()
        for text in (*self.attack, *self.benign):
            if text.id in observed:
                raise ValueError(f"two texts of the library have the same id: {text.id}")
            observed.add(text.id)
        return self

    @cached_property
    def hash(self) -> str:
        """ "sha256:" and the digest of the canonical form; it names the library with which an answer was
        computed."""
        return digest(self.model_dump(mode="json"))

    @cached_property
    def harmless(self) -> tuple[tuple[str, str], ...]:
        """Id and text of the whole benign side; a framed attack is `framed.` and the attack's id."""
        framed = (
            (f"framed.{text.id}", frame.replace("{}", text.text.rstrip(".")))
            for frame in self.frames
            for text in self.attack
        )
        return (*((text.id, text.text) for text in self.benign), *framed)

    @cached_property
    def attacks(self) -> dict[str, AttackText]:
        """The attack texts by id."""
        return {text.id: text for text in self.attack}


class WindowSettings(StrictModel):
    """How a text is cut: characters per window, characters that two neighbours share, and the most windows
    read.

    A text with more windows is inconclusive.
    """

    characters: Annotated[int, Field(ge=64, le=4096)]
    overlap: Annotated[int, Field(ge=0, le=2048)]
    most: Annotated[int, Field(ge=1, le=1024)]

    @model_validator(mode="after")
    def _check_overlap(self) -> Self:
        if self.overlap * 2 > self.characters:
            raise ValueError("overlap is above half a window")
        return self


OTHERWISE = "memories are compared with other texts, or cut otherwise, which may find less"


class SimilaritySettings(StrictModel):
    """With `enabled: false` no encoder is asked. `budget_ms` is the deadline of one answer."""

    enabled: Annotated[bool, StricterWhen("true", "no memory is compared with known attacks")]
    budget_ms: Annotated[int, Field(ge=1, le=600_000), Neutral("without an answer the memory is held back")]
    windows: Annotated[WindowSettings, Unordered(OTHERWISE)]
    library: Annotated[SimilarityLibrary, Unordered(OTHERWISE)]

    def idle_fields(self) -> frozenset[str]:
        """Everything, where no encoder is asked."""
        return frozenset() if self.enabled else frozenset(type(self).model_fields)


def is_from(source: str, names: Collection[str]) -> bool:
    """Whether an entry of a library comes from one of these origins.

    An entry's `source` lists its origins with semicolons; each is a name, and where there is a commit or a
    path, these stand behind `@` or `:`. Names are compared whole: "own" is not "own writing".
    """
    return any(_BEHIND_NAME.split(part.strip(), maxsplit=1)[0] in names for part in source.split(";"))


def remove_sources(library: SimilarityLibrary, *sources: str) -> SimilarityLibrary:
    """`library` without the texts that come from one of `sources`: to judge rows of these sources.

    Raises pydantic's ValidationError when no attack text is left.
    """
    return SimilarityLibrary(
        attack=[text for text in library.attack if not is_from(text.source, sources)],
        benign=[text for text in library.benign if not is_from(text.source, sources)],
        frames=library.frames,
        calibration=library.calibration,
    )
