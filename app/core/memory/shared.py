"""What a decision on a memory or a retrieval may look at beside its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.memory.book import Book

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.memory.history import History, SourceName
    from app.core.retrieval.resolution import Resolution


@dataclass(frozen=True, slots=True)
class Shared:
    """`book`: the partition's own; `histories`: every source's, as the workers share them, which may lag;
    `provenance`: the newest resolution of references, by tenant and URI, which may lag likewise."""

    book: Book = field(default_factory=lambda: Book({}))
    histories: Mapping[SourceName, History] = field(default_factory=dict)
    provenance: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
