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
    counted = [entry for entry in reduced.entries.values() if entry.input_record.topic == topic]
    refused = [refusal for refusal in reduced.refused if refusal.input_record.topic == topic]
    in_force = {entry.hash for entry in list_entries_in_force(reduced, topic)}
    lines = [
        *(_describe_accepted(entry, entry.hash in in_force) for entry in counted),
        *map(_describe_refused, refused),
    ]
    wanted = (line for line in lines if named is None or line.id == named)
    return tuple(sorted(wanted, key=lambda line: line.offset))


def list_entries_in_force(reduced: ReducedPolicy, *topics: str) -> list[Accepted]:
    """The bundles or entries of topics that count now, topic by topic, in its order: the newest revision of
    each, and all revisions of a fact, because each counts for its time."""
    newest: dict[tuple[str, ...], Accepted] = {}
    for entry in reduced.entries.values():
        if entry.input_record.topic in topics:
            name = (
                entry.input_record.topic,
                entry.kind,
                entry.statement.id,
                *([entry.key] if entry.kind == FACT else []),
            )
            if name not in newest or newest[name].statement.revision < entry.statement.revision:
                newest[name] = entry
    return sorted(
        newest.values(),
        key=lambda accepted_entry: (
            topics.index(accepted_entry.input_record.topic),
            accepted_entry.input_record.offset,
        ),
    )


def _describe_accepted(entry: Accepted, is_in_force: bool) -> LogLine:
    return LogLine(
        entry.at_ms,
        entry.input_record.offset,
        entry.kind,
        entry.key,
        "in force" if is_in_force else "replaced",
        entry.hash,
        tuple(sorted(entry.approvers)),
        _get_rationale(entry.statement),
        entry.relaxations,
    )


def _describe_refused(refusal: Refused) -> LogLine:
    statement = _read_claim(refusal.input_record)
    key = (refusal.input_record.key or b"").decode(errors="replace")
    return LogLine(
        refusal.input_record.timestamp_ms,
        refusal.input_record.offset,
        None if statement is None else statement.kind,
        statement.key if statement else key,
        "refused",
        None if statement is None else statement.hash,
        tuple(sorted(refusal.approvers)),
        None if statement is None else _get_rationale(statement),
        (),
        refusal.code,
        refusal.message,
    )


def _read_claim(input_record: InputRecord) -> Statement | None:
    envelope = None if input_record.value is None else read_envelope(input_record.value)
    statement = read_statement(input_record.topic, envelope) if isinstance(envelope, Envelope) else None
    return None if isinstance(statement, Reason) else statement


def _get_rationale(statement: Statement) -> str | None:
    """The rationale of a document. A policy bundle has none, and a refused document may have any value."""
    rationale = statement.document.get("rationale")
    return rationale if isinstance(rationale, str) else None
