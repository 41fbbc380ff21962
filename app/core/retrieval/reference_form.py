"""Whether an item's reference could lead to anything but the item itself (seed 004, "Failure modes")."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from app.core.memory.provenance import fault_of
from app.core.retrieval.dimensions import ProvenanceState
from app.core.uri_places import normal_uri

MAX_URI_CHARACTERS = 8192
"""As many as the records of what is to be resolved take."""
GATE_SOURCE = "gate-source"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USUAL = re.compile(
    r"(?:http|https)://(?!(?:[A-Za-z0-9-]+\.)*(?i:localhost)(?:[/?#]|\Z))"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,3}[A-Za-z]{2,24}(?:[/?#][A-Za-z0-9._~:/?#@!$&'()*,;=-]*)?"
)
"""No address, no number, no port, no user, nothing encoded: about such a reference only one question is open,
whether it names the item. Reading it with the general rules takes 20 us, this 1 us."""


_KEPT, LONGEST_KEPT = 4096, 256
"""Spellings: the same references come again and again, and reading one takes 2 us."""


class Spelling(NamedTuple):
    """What a reference's text says by itself. `name`: its normal form, under which something may be known of
    it. `folded`: in lower case, if its form is the usual one, else None."""

    scheme: str
    name: str
    folded: str | None


def spelling_of(uri: str) -> Spelling:
    """Kept of the last references that are not overlong."""
    return _kept_spelling(uri) if len(uri) <= LONGEST_KEPT else _spelling(uri)


def form_fault(uri: Any, schemes: frozenset[str], item_id: str) -> ProvenanceState | None:
    """Why a reference cannot lead to anything but the item itself; None if it could."""
    if not isinstance(uri, str):
        return unverified("provenance_uri is not a string")
    if len(uri) > MAX_URI_CHARACTERS:
        return unverified(f"provenance_uri has over {MAX_URI_CHARACTERS} characters")
    if _is_usual(uri, schemes, item_id):
        return None
    scheme = scheme_of(uri)
    if scheme and scheme not in schemes:
        return _unregistered(uri, scheme, item_id)
    fault = fault_of(uri, schemes, (item_id,))
    return None if fault is None else unverified(fault)


def scheme_of(uri: str) -> str:
    """In lower case; "" for what has none."""
    found = _SCHEME.match(uri)
    return "" if found is None else found[1].lower()


def unverified(detail: str) -> ProvenanceState:
    """A reference that is there and does not lead to what it should, and why."""
    return ProvenanceState("unverified", detail)


def _spelling(uri: str) -> Spelling:
    usual = _USUAL.fullmatch(uri) is not None
    return Spelling(scheme_of(uri), normal_uri(uri), uri.casefold() if usual else None)


_kept_spelling = lru_cache(maxsize=_KEPT)(_spelling)


def _is_usual(uri: str, schemes: frozenset[str], item_id: str) -> bool:
    scheme, _, folded = spelling_of(uri)
    return folded is not None and scheme in schemes and item_id.casefold() not in folded


def _unregistered(uri: str, scheme: str, item_id: str) -> ProvenanceState:
    """Behind whatever scheme, a reference to the item itself is the graver fault: it can never be resolved.
    A host is put in, since the form of other schemes is their own."""
    behind = uri[len(scheme) + 1 :].lstrip("/")
    fault = fault_of(f"{GATE_SOURCE}://elsewhere.example/{behind}", (GATE_SOURCE,), (item_id,))
    if fault is not None:
        return unverified(fault)
    return ProvenanceState("unregistered_scheme", f"nobody registered the scheme {scheme}")
