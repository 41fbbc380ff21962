"""What is known to be bad, and whether an item falls under it (seed 004: poisoning detection goes first)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.text.uri_places import host_of, places_above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.registry.quality_entries import KnownBad

LONGEST_COMPARED = 8192
"""Characters of a URI that is taken apart."""
MOST_SEGMENTS = 64
"""Slashes before the query of a URI that is taken apart. One that is longer, or has more of them, counts as
bad where anything of its host is: nobody hides a place behind padding, and no item costs more than this."""
Name = tuple[str | None, str, str]
"""Tenant (None: every tenant), subject and value; of sources also "host" with scheme and host, for a quick
no."""
Known = dict[Name, "KnownBad"]
"""Of several entries under one name the first by its key."""
HOST = "host"


def names_of(entry: KnownBad) -> Iterator[Name]:
    """The names under which an entry is kept."""
    yield entry.tenant, entry.subject, entry.value
    if entry.subject == "source":
        yield entry.tenant, HOST, host_of(entry.value) or ""


def found_bad(
    known: Known, tenant: str, item_id: str | None, uri: Any, body_digest: str | None
) -> tuple[KnownBad, ...]:
    """The entry that decides on an item, of all that it falls under the first by its key: its tenant's and
    every tenant's; empty if there is none. One is enough to deny, and one is all that a record holds."""
    subjects = [("item", item_id or ""), ("content", body_digest or "")]
    if isinstance(uri, str):
        subjects += _of_source(known, tenant, uri)
    found = (known.get((whose, *subject)) for subject in subjects for whose in (None, tenant))
    first = min((one for one in found if one is not None), key=lambda one: one.key, default=None)
    return () if first is None else (first,)


def _of_source(known: Known, tenant: str, uri: str) -> list[tuple[str, str]]:
    host = host_of(uri)
    if host is None or not any((whose, HOST, host) in known for whose in (None, tenant)):
        return []
    if len(uri) > LONGEST_COMPARED or _segments(uri) > MOST_SEGMENTS:
        return [(HOST, host)]
    return [("source", place) for place in places_above(uri, LONGEST_COMPARED)]


def _segments(uri: str) -> int:
    return uri.partition("#")[0].partition("?")[0].count("/")
