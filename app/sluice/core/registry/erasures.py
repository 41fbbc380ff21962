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
    """Keys of persons of one tenant that are erased; nothing in the entry says whose they are, and it erases
    no other tenant's. The entry's id is "tenant_id/key_id" with the first of `key_ids`, so that nobody takes
    another tenant's. `stage`: "ordered" erases them: no worker opens what they sealed. The next revision says
    "destroyed": no broker has a wrapped one any more, as `sluice erase` read back. No revision takes an
    erasure back."""

    tenant_id: Name
    key_ids: Annotated[list[KeyId], Field(min_length=1, max_length=MOST_KEYS)]
    reason: Name
    stage: Stage = "ordered"


@dataclass(frozen=True, slots=True)
class Erasure(Entry):
    """The erasure of keys."""

    tenant_id: str
    key_ids: tuple[str, ...]
    reason: str
    stage: Stage

    @property
    def revision(self) -> int:
        """Its revision, which is part of its key."""
        return int(self.key.rpartition("@")[2])


def make_erasure_id(tenant: str, key_id: str) -> str:
    """The id of the entry that erases keys of this tenant, this one first."""
    return f"{tenant}/{key_id}"
