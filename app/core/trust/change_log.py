"""The change log of bundles: every revision that ever counted or was refused, out of what was folded.

Seed 004, "Evidence": signed bundle hash per version with approver identity and change rationale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.core.trust.dsse import Envelope, read_envelope
from app.core.trust.refused import Reason
from app.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE, statement
from topics.catalog import BUNDLES

if TYPE_CHECKING:
    from app.core.arrival import Arrival
    from app.core.trust.fold import Folded
    from app.core.trust.refused import Refused
    from app.core.trust.revisions import Accepted
    from app.core.trust.signed_entries import Statement

State = Literal["in force", "replaced", "refused"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record of the bundles' topic. `at_ms`: the broker's time of it; `name`: "id@revision".

    `approvers`: who might sign it and did, sorted. `looser`: what a quality bundle took back of the revision
    before it. Of a refused record `kind`, `hash` and `rationale` are only what it claims, None where it is
    not readable.
    """

    at_ms: int
    offset: int
    kind: str | None
    name: str
    state: State
    hash: str | None
    approvers: tuple[str, ...]
    rationale: str | None
    looser: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None

    @property
    def id(self) -> str:
        """The bundle's, or as much of a name as there is."""
        return self.name.rpartition("@")[0] or self.name


def change_log(folded: Folded, bundle_id: str | None = None) -> tuple[LogLine, ...]:
    """The lines in the topic's order; of one id, if it is given. Repeats say nothing new and are left out."""
    counted = [one for one in folded.entries.values() if one.kind in (BUNDLE, QUALITY_BUNDLE)]
    refused = [one for one in folded.refused if one.arrival.topic == BUNDLES]
    lines = [*(_counted(one, folded) for one in counted), *map(_refused, refused)]
    wanted = (one for one in lines if bundle_id is None or one.id == bundle_id)
    return tuple(sorted(wanted, key=lambda one: one.offset))


def _counted(one: Accepted, folded: Folded) -> LogLine:
    newest = (folded.bundles if one.kind == BUNDLE else folded.quality)[one.said.id]
    return LogLine(
        one.at_ms,
        one.arrival.offset,
        one.kind,
        one.key,
        "in force" if newest.hash == one.hash else "replaced",
        one.hash,
        tuple(sorted(one.approvers)),
        _rationale(one.said),
        one.looser,
    )


def _refused(one: Refused) -> LogLine:
    said = _claimed(one.arrival)
    key = (one.arrival.key or b"").decode(errors="replace")
    return LogLine(
        one.arrival.timestamp_ms,
        one.arrival.offset,
        None if said is None else said.kind,
        said.key if said else key,
        "refused",
        None if said is None else said.hash,
        tuple(sorted(one.approvers)),
        None if said is None else _rationale(said),
        (),
        one.code,
        one.message,
    )


def _claimed(arrival: Arrival) -> Statement | None:
    envelope = None if arrival.value is None else read_envelope(arrival.value)
    said = statement(arrival.topic, envelope) if isinstance(envelope, Envelope) else None
    return None if isinstance(said, Reason) else said


def _rationale(said: Statement) -> str | None:
    """A policy bundle's document has none, and a refused one may hold anything."""
    rationale = said.document.get("rationale")
    return rationale if isinstance(rationale, str) else None
