"""Sessions as the changelog has them in the end: of each a head, and pages of what it remembers.

Read by the stored form alone (docs/decisions/0017-session-events.md), with no code of the core.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.adapters.kafka.kafka_read import StoredRecord

HEAD, PAGE, PARTITION_KEY = b"s:", b"r:", b"p:"
RETRIEVALS, EARLY, VALUES = 3, 8, 9
"""The numbers of the tables of retrievals, of outcomes that wait, and of the values that came in."""


@dataclass(slots=True)
class StoredSession:
    """`totals`: rows and actions by tenant. `entries`: tenant, agent, table and name of each, in their order.
    `stray`: pages that the head does not name; without a head, every page is. `sizes`: bytes of the entries
    by tenant, agent and table."""

    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    entries: list[tuple[str, str, int, str]] = field(default_factory=list)
    stray: int = 0
    sizes: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def names(self, tenant: str, agent: str, table: int) -> list[str]:
        """The names in one table of an agent, the oldest first."""
        return [entry[3] for entry in self.entries if entry[:3] == (tenant, agent, table)]

    @property
    def early(self) -> int:
        """How many outcomes wait."""
        return sum(entry[2] == EARLY for entry in self.entries)


def read_stored_sessions(changelog: Iterable[StoredRecord]) -> dict[bytes, StoredSession]:
    """By session, of a changelog in its order."""
    heads: dict[bytes, bytes] = {}
    pages: dict[bytes, dict[int, bytes]] = {}
    for record in changelog:
        key = record.key or b""
        if key.startswith(HEAD):
            _take(heads, key[len(HEAD) :], record.value)
        elif key.startswith(PAGE):
            number, _, session = key[len(PAGE) :].partition(b":")
            _take(pages.setdefault(session, {}), int(number), record.value)
    return {name: _session(heads.get(name), pages.get(name, {})) for name in heads.keys() | pages.keys()}


def list_sizes(changelog: Iterable[StoredRecord], session: bytes, table: int) -> Iterator[int]:
    """Bytes of a session's entries of one table, over all agents, after each transaction of a changelog."""
    pages: dict[bytes, int] = {}
    for record in changelog:
        key = record.key or b""
        if key == PARTITION_KEY and pages:
            yield sum(pages.values())
        elif key.startswith((HEAD, PAGE)) and key.endswith(b":" + session):
            stored = json.loads(record.value or b"null")
            page = stored["p"] if stored is not None and key.startswith(HEAD) else stored
            sizes = Counter[tuple[str, str, int]]() if page is None else _measure_page(page)
            pages[key] = sum(size for (*_, number), size in sizes.items() if number == table)


def _measure_page(page: Any) -> Counter[tuple[str, str, int]]:
    """Bytes of a page's entries by tenant, agent and table."""
    agents, entries = page
    sizes = Counter[tuple[str, str, int]]()
    for entry in entries:
        tenant, agent = agents[entry[2]]
        sizes[tenant, agent, entry[3]] += len(json.dumps(entry, separators=(",", ":")))
    return sizes


def _take(stored: dict[Any, bytes], key: Any, value: bytes | None) -> None:
    if value is None:
        stored.pop(key, None)
    else:
        stored[key] = value


def _session(head: bytes | None, pages: dict[int, bytes]) -> StoredSession:
    if head is None:
        return StoredSession(stray=len(pages))
    header = json.loads(head)
    stored = [header["p"], *(json.loads(pages[number]) for number in sorted(pages))]
    entries = [
        (order, (*agents[whose], table, name))
        for agents, rows in filter(None, stored)
        for _, order, whose, table, name, _ in rows
    ]
    sizes = sum(map(_measure_page, filter(None, stored)), Counter[tuple[str, str, int]]())
    totals = {tenant: (int(rows), actions) for tenant, (rows, actions, _) in header["a"].items()}
    stray = sum(number >= header["n"] for number in pages)
    return StoredSession(totals, [entry for _, entry in sorted(entries)], stray, sizes)
