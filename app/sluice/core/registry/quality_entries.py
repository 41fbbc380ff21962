"""Registry entries about retrieved items: recorded provenance, what is known to be bad, signed overrides.

Poisoning detection comes first (seed 004): this module finds out whether an item is known to be bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator

from sluice.core.foundation.strict import Instant, StrictModel
from sluice.core.registry.registry_entries import SHORTEST_REASON, Entry, Name, OfTenant
from sluice.text.places import host_of, place_of, places_above
from sluice_topics.records.base import Digest

if TYPE_CHECKING:
    from collections.abc import Iterator

BadSubject = Literal["item", "source", "content"]
Uri = Annotated[str, Field(min_length=1, max_length=8192)]
Reason = Annotated[str, Field(min_length=SHORTEST_REASON, max_length=1024)]
LONGEST_OVERRIDE_MS = 30 * 24 * 3600 * 1000
"""An override is an exception: it expires at the latest 30 days after the broker time of its record."""
_DIGEST = TypeAdapter[str](Digest)


class ProvenanceSpec(OfTenant):
    """The recorded hash of a source; it takes precedence over what the source serves now.

    The entry's id is `make_provenance_id` of the tenant and the URI as written, so each written form has one
    entry. The entry is found under every URI with the same normal form; if two entries share a normal form,
    the one whose key comes first decides, and the other does not count.
    """

    uri: Uri
    hash: Digest


class KnownBadSpec(StrictModel):
    """An item, a source or a content that no agent may read; a null tenant means every one (seed 004:
    poisoning detection goes before the quality gate).

    `value`: the item's id; the content's digest; a URI, which stands for all below it. Lifted by a newer
    revision with `active` false.
    """

    tenant_id: Name | None
    subject: BadSubject
    value: Annotated[str, Field(min_length=1, max_length=2048)]
    reason: Reason
    active: bool = True

    @model_validator(mode="after")
    def _check_value(self) -> Self:
        if self.subject == "source" and place_of(self.value) is None:
            raise ValueError("the value of a source is an absolute URI")
        if self.subject == "content":
            try:
                _DIGEST.validate_python(self.value)
            except ValidationError:
                raise ValueError("the value of a content is sha256:<hex>") from None
        return self


class QualityOverrideSpec(OfTenant):
    """A person's permission to read an item although it failed the quality gate (seed 004, "Interaction
    with HITL"). It counts if `approver_id` signed it, and until `expires_at`.

    Null is no restriction: any agent of the tenant, any session, any body.
    """

    item_id: Name
    agent_id: Name | None = None
    session_id: Name | None = None
    body_digest: Digest | None = None
    approver_id: Name
    expires_at: Instant
    justification: Reason
    active: bool = True

    @field_validator("justification")
    @classmethod
    def _check_justification(cls, value: str) -> str:
        if len(value.strip()) < SHORTEST_REASON:
            raise ValueError(f"a justification has at least {SHORTEST_REASON} characters")
        return value


@dataclass(frozen=True, slots=True)
class Provenance(Entry):
    """The hash recorded for this reference of this tenant; `uri` as it was written."""

    tenant: str
    uri: str
    recorded_hash: str


@dataclass(frozen=True, slots=True)
class KnownBad(Entry):
    """An active entry. `value` of a source is the URI's normal form; `tenant` None: of every tenant."""

    tenant: str | None
    subject: BadSubject
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class QualityOverrideEntry(Entry):
    """An active override; its `id` is the override's. `expires_ms` in ms since 1970, `expires_at` as said."""

    tenant: str
    item_id: str
    agent_id: str | None
    session_id: str | None
    body_digest: str | None
    approver_id: str
    expires_at: str
    expires_ms: int
    justification: str


def make_provenance_id(tenant: str, uri: str) -> str:
    """The id of the entry that records a reference: "tenant_id/" and the hex SHA-256 of the URI."""
    return f"{tenant}/{sha256(uri.encode()).hexdigest()}"


LONGEST_COMPARED = 8192
"""The longest URI, in characters, that is parsed."""
MOST_SEGMENTS = 64
"""The most slashes before the query of a URI that is parsed. A URI that is longer or has more slashes counts
as bad if anything of its host does: padding cannot hide a place, and no item costs more than this."""
BadName = tuple[str | None, str, str]
"""Tenant (None: every tenant), subject and value; for sources also "host" with scheme and host, for a quick
negative answer."""
Known = dict[BadName, "KnownBad"]
"""For each name the entry; of several entries the first by its key."""
HOST = "host"


def list_bad_names(entry: KnownBad) -> Iterator[BadName]:
    """The names under which an entry is kept."""
    yield entry.tenant, entry.subject, entry.value
    if entry.subject == "source":
        yield entry.tenant, HOST, host_of(entry.value) or ""


def find_bad(
    known_bad: Known, tenant: str, item_id: str | None, uri: Any, body_digest: str | None
) -> tuple[KnownBad, ...]:
    """The entry that decides on an item: of all entries that apply, of its tenant or of all tenants, the
    first by its key; empty if there is none. One is enough to deny, and a record has room for one."""
    subjects = [("item", item_id or ""), ("content", body_digest or "")]
    if isinstance(uri, str):
        subjects += _list_sources(known_bad, tenant, uri)
    matches = (known_bad.get((whose, *subject)) for subject in subjects for whose in (None, tenant))
    first = min((match for match in matches if match is not None), key=lambda match: match.key, default=None)
    return () if first is None else (first,)


def _list_sources(by_subject: Known, tenant: str, uri: str) -> list[tuple[str, str]]:
    host = host_of(uri)
    if host is None or not any((whose, HOST, host) in by_subject for whose in (None, tenant)):
        return []
    if len(uri) > LONGEST_COMPARED or _count_segments(uri) > MOST_SEGMENTS:
        return [(HOST, host)]
    return [("source", location) for location in places_above(uri, LONGEST_COMPARED)]


def _count_segments(uri: str) -> int:
    return uri.partition("#")[0].partition("?")[0].count("/")
