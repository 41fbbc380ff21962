"""The change log of a control topic: every revision that ever counted or was refused.

Seed 004, "Evidence": signed bundle hash per version with approver identity and change rationale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sluice.core.registry.loading import FACT
from sluice.core.trust.dsse import Envelope, read_envelope
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import read_statement
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.refused import Refused
    from sluice.core.trust.revisions import Accepted
    from sluice.core.trust.signed_entries import Statement

State = Literal["in force", "replaced", "refused"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record of the topic. `at_ms`: its broker time; `name`: "id@revision", of an entry
    "kind/id@revision".

    `approvers`: those who signed it and were allowed to, sorted; empty if a root key signed. `relaxations`:
    what a bundle relaxes of the revision before it. For a refused
    record `kind`, `hash` and `rationale` are only its claims, None if it is not readable.
    """

    at_ms: int
    offset: int
    kind: str | None
    name: str
    state: State
    hash: str | None
    approvers: tuple[str, ...]
    rationale: str | None
    relaxations: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None

    @property
    def id(self) -> str:
        """The bundle's id or the entry's "kind/id", or as much of a name as there is."""
        return self.name.rpartition("@")[0] or self.name


def build_change_log(
    reduced: ReducedPolicy, named: str | None = None, topic: str = BUNDLES
) -> tuple[LogLine, ...]:
    """The lines in the topic's order, for one id if it is given. Repeats are left out."""
    counted = [one for one in reduced.entries.values() if one.input_record.topic == topic]
    refused = [one for one in reduced.refused if one.input_record.topic == topic]
    in_force = {one.hash for one in list_entries_in_force(reduced, topic)}
    lines = [
        *(_describe_accepted(one, one.hash in in_force) for one in counted),
        *map(_describe_refused, refused),
    ]
    wanted = (one for one in lines if named is None or one.id == named)
    return tuple(sorted(wanted, key=lambda one: one.offset))


def list_entries_in_force(reduced: ReducedPolicy, *topics: str) -> list[Accepted]:
    """The bundles or entries of topics that count now, topic by topic, in its order: the newest revision of
    each, and all revisions of a fact, because each counts for its time."""
    newest: dict[tuple[str, ...], Accepted] = {}
    for one in reduced.entries.values():
        if one.input_record.topic in topics:
            name = (one.input_record.topic, one.kind, one.said.id, *([one.key] if one.kind == FACT else []))
            if name not in newest or newest[name].said.revision < one.said.revision:
                newest[name] = one
    return sorted(
        newest.values(), key=lambda one: (topics.index(one.input_record.topic), one.input_record.offset)
    )


def _describe_accepted(one: Accepted, is_in_force: bool) -> LogLine:
    return LogLine(
        one.at_ms,
        one.input_record.offset,
        one.kind,
        one.key,
        "in force" if is_in_force else "replaced",
        one.hash,
        tuple(sorted(one.approvers)),
        _get_rationale(one.said),
        one.relaxations,
    )


def _describe_refused(one: Refused) -> LogLine:
    said = _read_claim(one.input_record)
    key = (one.input_record.key or b"").decode(errors="replace")
    return LogLine(
        one.input_record.timestamp_ms,
        one.input_record.offset,
        None if said is None else said.kind,
        said.key if said else key,
        "refused",
        None if said is None else said.hash,
        tuple(sorted(one.approvers)),
        None if said is None else _get_rationale(said),
        (),
        one.code,
        one.message,
    )


def _read_claim(input_record: InputRecord) -> Statement | None:
    envelope = None if input_record.value is None else read_envelope(input_record.value)
    said = read_statement(input_record.topic, envelope) if isinstance(envelope, Envelope) else None
    return None if isinstance(said, Reason) else said


def _get_rationale(said: Statement) -> str | None:
    """The rationale of a document. A policy bundle has none, and a refused document may have any value."""
    rationale = said.document.get("rationale")
    return rationale if isinstance(rationale, str) else None
