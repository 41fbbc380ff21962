"""Freezes: whom one stops, who asked for it, and the entry as the gates use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.registry_entries import Entry, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

Subject = Literal["all", "tenant", "agent", "session"]
Stage = Literal["stop", "ask"]
ALL: Subject = "all"
"""The subject of a freeze of the whole installation, and its id."""
SESSION: Subject = "session"
ASK: Stage = "ask"
"""The stage of a recovery: what the subject proposes waits for a person."""


class FreezeBy(StrictModel):
    """The person for whom a gateway signed a freeze, by the ids of an approver and of a delegate."""

    approver_id: Name
    delegate_id: Name


class FreezeSpec(StrictModel):
    """A freeze is lifted by a newer revision with `active` false. `subject` "all" with `subject_id` "all"
    freezes the whole installation. The entry's id is by custom the subject: "agent/my-agent", "tenant/acme",
    "session/s-1", "all".

    `stage`: "stop" denies all that the subject proposes; "ask" has a person agree to each of its actions, and
    holds its memory writes for a reviewer. `tenant_id`: a session is frozen for this tenant alone; null: for
    every tenant that has a session of this id. `by`: a gateway signed it for this person, as its delegate.
    Such an entry freezes an agent of a tenant of the delegate, or a session for such a tenant; it is the next
    revision of its id, lifts nothing, and takes the place of no freeze that is in force, apart from one that
    only asks.

    One approver freezes. The freeze of a tenant, or of everything, ends or comes to ask by two.
    """

    subject: Subject
    subject_id: Name
    reason: Name
    active: bool = True
    stage: Stage = "stop"
    tenant_id: Name | None = None
    by: FreezeBy | None = None

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        if self.subject == ALL != self.subject_id:
            raise ValueError('a freeze of "all" has the subject_id "all"')
        if self.tenant_id is not None and self.subject != SESSION:
            raise ValueError("only a freeze of a session is for one tenant")
        return self


@dataclass(frozen=True, slots=True)
class Freeze(Entry):
    """An active freeze. `tenant`: it counts for this one alone; `by`: the approver for whom a gateway signed
    it."""

    subject: Subject
    subject_id: str
    reason: str
    tenant: str | None = None
    by: str | None = None
    stage: Stage = "stop"

    @property
    def word(self) -> str:
        """What a denial or an escalation says: the freeze's effect, its subject and its reason."""
        effect = "recovering" if self.stage == ASK else "frozen"
        return f"{effect}_{self.subject}: {self.reason}"


def find_stop(freezes: Iterable[Freeze]) -> Freeze | None:
    """The first of some freezes that denies; None where all ask."""
    return next((freeze for freeze in freezes if freeze.stage != ASK), None)
