"""Whether a record lies where it belongs: its topic, its partition, its decision id."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from app.verifier.findings import Finding
from app.verifier.kinds import KINDS, Kind
from app.verifier.paged import NumberSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.verifier.findings import Code
    from app.verifier.located import Located
    from app.verifier.record import Coordinates, Opened

_PLACE = re.compile(r":([2-9]|[1-9][0-9]+)")


def is_moved(opened: Opened, located: Located) -> bool:
    """A record of another partition says nothing about this partition's chain."""
    return bool(opened.fields["partition"] != located.partition)


class Placement:
    """Checks each record against its place, and each decision id against all before it.

    Holds one bit per input decided, and an 8-byte digest per id that does not follow from one.
    """

    def __init__(self) -> None:
        self._decided: dict[tuple[str, str, int], NumberSet] = {}
        self._named: set[tuple[str, bytes]] = set()

    def check(self, opened: Opened, located: Located) -> Iterator[Finding]:
        """Every finding about the place of this one record; of a moved one, only that it is moved."""
        if stray := _stray(opened, located):
            yield _finding("moved", opened, located, stray)
            return
        schema = opened.fields["schema"]
        kind = KINDS.get(schema) if isinstance(schema, str) else None
        if kind is None or not located.topic.endswith(kind.topic):
            home = f"belongs to {kind.topic}" if kind else "is not a record of the ledger"
            yield _finding("misplaced", opened, located, f"schema {schema!r} {home}")
        elif kind.id_field is not None:
            yield from self._identity(kind, kind.id_field, opened, located)

    def _identity(self, kind: Kind, field: str, opened: Opened, located: Located) -> Iterator[Finding]:
        name = opened.fields.get(field)
        if not isinstance(name, str):
            yield _finding("foreign_id", opened, located, f"{field} is not a string")
        elif not _follows(kind, name, opened.input):
            message = f"{field} {name!r} does not follow from the input {opened.input}"
            yield _finding("foreign_id", opened, located, message)
        elif not self._first_sight(kind, name, opened):
            yield _finding("duplicate_id", opened, located, f"{field} {name!r} was already given")

    def _first_sight(self, kind: Kind, name: str, opened: Opened) -> bool:
        schema, source = opened.fields["schema"], opened.input
        if source is not None and name == f"{kind.word}:{source}":
            series = (schema, source.topic, source.partition)
            return self._decided.setdefault(series, NumberSet()).add(source.offset)
        token = (schema, hashlib.blake2b(name.encode(), digest_size=8).digest())
        new = token not in self._named
        self._named.add(token)
        return new


def _follows(kind: Kind, name: str, source: Coordinates | None) -> bool:
    """Whether the id is the one that follows from the record's input, where it has to."""
    if kind.word is None:
        return True
    first = f"{kind.word}:{source}"
    if source is None or not name.startswith(first):
        return False
    rest = name[len(first) :]
    return not rest or (kind.many and _PLACE.fullmatch(rest) is not None)


def _stray(opened: Opened, located: Located) -> str:
    said, source = opened.fields["partition"], opened.input
    if said != located.partition:
        return f"the record says that it is of partition {said}"
    if source is not None and source.partition != located.partition:
        return f"its input lies in partition {source.partition}"
    return ""


def _finding(code: Code, opened: Opened, located: Located, message: str) -> Finding:
    sequence = opened.entry.sequence
    return Finding(code, located.partition, sequence, located.topic, located.offset, message)
