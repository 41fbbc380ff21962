"""The inputs of a decision besides its session, and the changes that it returns.

A decision changes nothing itself: the shell applies and writes its changes in one step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.core.state.book import Book

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.metadata.provenance import Resolution
    from sluice.core.state.book import Change
    from sluice.core.state.history import History, SourceName
    from sluice.core.state.session import SessionChange
    from sluice.core.state.usual import UseCount, UsualName


@dataclass(slots=True)
class Decision:
    """The session's changes, in this order (none: no session changes), the records to write, in this order,
    and the changes to the partition's book."""

    session: tuple[SessionChange, ...]
    records: list[OutRecord] = field(default_factory=list)
    book: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """State that several sessions share. `book`: the partition's own. `histories`: those of all sources,
    which the workers share and which may lag. `provenance`: the newest resolution of references, by tenant
    and URI, which may lag too. `uses`: how often destinations were used, which may lag as well."""

    book: Book = field(default_factory=lambda: Book({}))
    histories: Mapping[SourceName, History] = field(default_factory=dict)
    provenance: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
    uses: Mapping[UsualName, UseCount] = field(default_factory=dict)
