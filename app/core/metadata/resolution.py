"""What is recorded of where a provenance reference leads. The read path looks it up and resolves nothing."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Resolution(NamedTuple):
    """A reference's newest recorded resolution.

    `hash`: "sha256:<hex>" over the bytes that were found, None if nothing was; `seen_ms`: ms since 1970;
    `detail`: why it could not be resolved, else empty.
    """

    status: Literal["resolved", "unresolvable"]
    hash: str | None
    resolver: str
    seen_ms: int
    detail: str


ProvenanceStatus = Literal["missing", "verified", "unverified", "unregistered_scheme"]


class ProvenanceState(NamedTuple):
    """Where an item's reference leads; `detail` in words, never empty."""

    status: ProvenanceStatus
    detail: str
