"""What is known to be bad, and whether an item falls under it (seed 004: poisoning detection goes first)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.uri_places import host_of, places_above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.quality_entries import KnownBad

LONGEST_COMPARED = 8192
"""Characters of a URI that is taken apart; a longer one counts as bad where anything of its host is, so that
nobody hides a place behind padding, and nothing costs more than this."""
Subjects = dict[tuple[str, str], "list[KnownBad]"]
"""By subject and value; of sources also by ("host", scheme and host), for a quick no."""
HOST = "host"


def names_of(entry: KnownBad) -> Iterator[tuple[str, str]]:
    """The names under which an entry is kept."""
    yield entry.subject, entry.value
    if entry.subject == "source":
        yield HOST, host_of(entry.value) or ""


def found_bad(
    known: Subjects, tenant: str, item_id: str | None, uri: Any, body_digest: str | None
) -> tuple[KnownBad, ...]:
    """The entries that an item falls under, its tenant's and every tenant's, in the order of their keys."""
    found = [*known.get(("item", item_id or ""), ()), *known.get(("content", body_digest or ""), ())]
    if isinstance(uri, str):
        found += _of_source(known, uri)
    mine = (one for one in found if one.tenant is None or one.tenant == tenant)
    return tuple(sorted(mine, key=lambda one: one.key))


def _of_source(known: Subjects, uri: str) -> list[KnownBad]:
    host = host_of(uri)
    of_host = [] if host is None else known.get((HOST, host), [])
    if not of_host or len(uri) > LONGEST_COMPARED:
        return of_host
    places = places_above(uri, LONGEST_COMPARED)
    return [one for place in places for one in known.get(("source", place), ())]
