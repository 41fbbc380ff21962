"""What the core wants to happen. Nothing has happened yet: the shell applies and writes it in one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.core.memory.book import Change
    from app.core.session import Transition


@dataclass(slots=True)
class OutRecord:
    """One ledger record without its place in the chain.

    `topic` is the base name of the output topic, `kind` the record's model ("Verdict", ...), `subject` the
    Kafka key: the session's id, or the input's coordinates when no session could be read. Records of topics
    that are no ledger have no place in the chain. `ordered`: whoever made the body vouches that canonical
    form asks nothing more of it (app/core/ledger/canonical.py, `in_order`), with room for the place.
    """

    topic: str
    kind: str
    body: dict[str, Any]
    subject: str
    ordered: bool = False


@dataclass(slots=True)
class Decision:
    """The session's change (None: no session changes), the records to write, in this order, and the changes
    to what the partition keeps beside its sessions."""

    transition: Transition | None
    records: list[OutRecord] = field(default_factory=list)
    book: tuple[Change, ...] = ()
