"""What a decision on a memory may look at beside its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.memory.book import Book

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.memory.history import History, SourceName


@dataclass(frozen=True, slots=True)
class Shared:
    """`book`: the partition's own; `histories`: every source's, as the workers share them, which may lag."""

    book: Book = field(default_factory=lambda: Book({}))
    histories: Mapping[SourceName, History] = field(default_factory=dict)
