"""Erasures: which keys of persons were destroyed, and who ordered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.registry_entries import Entry, Name
from sluice_topics.records.subject_keys import KeyId  # noqa: TC001 - pydantic reads the annotations

Stage = Literal["ordered", "destroyed"]
MOST_KEYS = 256


class ErasureSpec(StrictModel):
    """Keys of persons that are erased; nothing in the entry says whose they are. The entry's id is the first
    of `key_ids`. `stage`: "ordered" erases them: no worker opens what they sealed. The next revision says
    "destroyed": no broker has a wrapped one any more, as `sluice erase` read back. No revision takes an
    erasure back."""

    key_ids: Annotated[list[KeyId], Field(min_length=1, max_length=MOST_KEYS)]
    reason: Name
    stage: Stage = "ordered"


@dataclass(frozen=True, slots=True)
class Erasure(Entry):
    """The erasure of one key."""

    key_ids: tuple[str, ...]
    reason: str
    stage: Stage

    @property
    def revision(self) -> int:
        """Its revision, which is part of its key."""
        return int(self.key.rpartition("@")[2])
