"""Where an item's provenance reference leads, by what is recorded alone (seed 004; product.md, "Retrievals").

Nothing is resolved here: a read waits for no network. What has no fresh record is asked for, for later reads.

A source may sign its word on an item: when its content was so, at which reference, with which hash. Signed is
the RFC 8785 form of {"asserted_at", "provenance_hash", "provenance_uri"}, by Ed25519, in base64.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sluice.core.foundation.canonical import canonical
from sluice.core.metadata.moments import parse_time
from sluice.core.metadata.provenance import (
    GATE_SOURCE,
    MAX_URI_CHARACTERS,
    RESOLVABLE,
    ProvenanceState,
    find_form_fault,
    make_unverified,
    spell,
)
from sluice.core.registry.registry_entries import STRANGERS, Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.metadata.provenance import Resolution
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Entry
    from sluice_topics.records.retrieval_inputs import RetrievedItem

    Resolutions = Mapping[tuple[str, str], Resolution]
    """By tenant and the reference's normal form."""

_REMEMBERED = 1024
"""Verifications: each takes some 100 us, and the same item is read again and again."""
_SIGNATURE_CHARACTERS = 88
_FIELDS = {"asserted_at", "signature"}


def write_assertion(asserted_at: str, provenance_uri: str, provenance_hash: str) -> bytes:
    """The bytes that a source signs."""
    fields = {
        "asserted_at": asserted_at,
        "provenance_hash": provenance_hash,
        "provenance_uri": provenance_uri,
    }
    return canonical(fields)


def find_form_problem(assertion: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of {asserted_at, signature}, before the signature is checked."""
    if assertion.keys() != _FIELDS:
        return "malformed: an assertion has asserted_at and signature"
    at, signature = assertion["asserted_at"], assertion["signature"]
    if not isinstance(at, str) or parse_time(at) is None:
        return "malformed: asserted_at is no RFC 3339 date-time with an offset"
    if not isinstance(signature, str) or len(signature) != _SIGNATURE_CHARACTERS:
        return "malformed: the signature is not that of Ed25519 in base64"
    return None


def is_signed_by_source(key: Ed25519PublicKey, assertion: Mapping[str, Any], uri: str, digest: str) -> bool:
    """Whether a well-formed assertion over this reference and hash bears the key's signature."""
    message = write_assertion(assertion["asserted_at"], uri, digest)
    return _verify(key.public_bytes_raw(), message, assertion["signature"])


@lru_cache(maxsize=_REMEMBERED)
def _verify(raw_key: bytes, message: bytes, signature: str) -> bool:
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(raw_key).verify(raw, message)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


GATE_FEED = "gate-feed"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_MS = 1000
NOT_RESOLVED_YET = "not resolved yet"
"""The detail of a reference that nobody has looked at so far: the next read finds what the resolver saw."""
UNSIGNED = "no signed source identity stands behind this assertion"


class ProvenanceCheck(NamedTuple):
    """`resolution` is the recorded one and `entries` the registry's that `state` rests on.

    `wanted`: the reference should be resolved (again). `asserted_ms`: of a signed assertion that holds;
    `assertion_problem`: of one that does not.
    """

    state: ProvenanceState
    verified: bool = False
    resolution: Resolution | None = None
    entries: tuple[Entry, ...] = ()
    wanted: bool = False
    asserted_ms: int | None = None
    assertion_problem: str | None = None

    @property
    def is_vouched_for(self) -> bool:
        """Whether the registry stands behind it: a registered source that is no stranger, or a hash that the
        registry has. That a web page has this hash says nothing of who wrote it."""
        if not self.verified or not self.entries:
            return False
        return not [entry for entry in self.entries if isinstance(entry, Source) and entry.type in STRANGERS]


class _Reference(NamedTuple):
    """A reference whose form is in order, and whose it is. `name`: under which something may be known of it,
    however `uri` is spelt."""

    tenant: str
    uri: str
    name: str
    scheme: str
    hash: str
    assertion: Any


def check_provenance(
    item: RetrievedItem,
    tenant: str,
    registry: Registry,
    recorded: Resolutions,
    bundle: QualityBundle,
    now_ms: int,
) -> ProvenanceCheck:
    """Where the item's reference leads for this tenant. The keys of `recorded` name URIs in normal form."""
    uri = item.provenance_uri
    if uri is None or uri == "":
        return _fail_without_lookup(item, _MISSING)
    spelling = spell(uri) if isinstance(uri, str) and len(uri) <= MAX_URI_CHARACTERS else None
    if spelling is None or not spelling.is_usual(bundle.schemes, (item.item_id,)):
        fault = find_form_fault(uri, bundle.schemes, item.item_id)
        if fault is not None:
            return _fail_without_lookup(item, fault)
        spelling = spell(uri)
    provenance_hash = item.provenance_hash
    if provenance_hash is None or provenance_hash == "":
        return _fail_without_lookup(item, make_unverified("provenance_hash is missing"))
    if not isinstance(provenance_hash, str) or _HASH.fullmatch(provenance_hash) is None:
        return _fail_without_lookup(
            item, make_unverified("provenance_hash is not sha256: and 64 lower-case hex digits")
        )
    reference = _Reference(
        tenant, uri, spelling.name, spelling.scheme, provenance_hash, item.freshness_assertion
    )
    if reference.scheme in (GATE_SOURCE, GATE_FEED):
        return _check_by_source(reference, registry)
    check = _check_by_registry(reference, registry) or _check_by_record(reference, recorded, bundle, now_ms)
    return _mark_unsigned(reference, check) if isinstance(reference.assertion, dict) else check


def _check_by_source(reference: _Reference, registry: Registry) -> ProvenanceCheck:
    """gate-source and gate-feed: a registered source of the tenant, whose signature or whose recorded hash
    stands behind the item; a wrong one of either is not made good by the other."""
    name = unquote(urlsplit(reference.uri).netloc)
    source = registry.sources.get((reference.tenant, name))
    if source is None:
        return _mark_unsigned(reference, ProvenanceCheck(make_unverified(f"no registered source {name}")))
    check = _check_by_registry(reference, registry) or ProvenanceCheck(
        make_unverified(f"neither the registry's hash nor a signature of source {name} stands behind it")
    )
    check = check._replace(entries=(source, *check.entries))
    return _check_signature(reference, source, check) if isinstance(reference.assertion, dict) else check


def _check_signature(reference: _Reference, source: Source, check: ProvenanceCheck) -> ProvenanceCheck:
    problem = find_form_problem(reference.assertion) or _find_signature_problem(reference, source)
    if problem is not None:
        return check._replace(state=make_unverified(problem), verified=False, assertion_problem=problem)
    asserted_ms = parse_time(reference.assertion["asserted_at"])
    if check.verified or len(check.entries) > 1:
        return check._replace(asserted_ms=asserted_ms)
    state = ProvenanceState("verified", f"signed by source {source.source_id}")
    return check._replace(state=state, verified=True, asserted_ms=asserted_ms)


def _find_signature_problem(reference: _Reference, source: Source) -> str | None:
    key = source.public_key
    if key is None:
        return f"source {source.source_id} has no key to check the signature with"
    signed = is_signed_by_source(key, reference.assertion, reference.uri, reference.hash)
    return None if signed else "wrong signature"


def _check_by_registry(reference: _Reference, registry: Registry) -> ProvenanceCheck | None:
    """By the hash that the registry has for this reference; None: it has none."""
    entry = registry.provenance.get((reference.tenant, reference.name))
    if entry is None:
        return None
    if entry.recorded_hash == reference.hash:
        return ProvenanceCheck(_VERIFIED_BY_REGISTRY, True, None, (entry,))
    return ProvenanceCheck(_WRONG_BY_REGISTRY, entries=(entry,))


def _check_by_record(
    reference: _Reference, recorded: Resolutions, bundle: QualityBundle, now_ms: int
) -> ProvenanceCheck:
    """By the newest recorded resolution, as long as it is young enough to rely on."""
    if reference.scheme not in RESOLVABLE:
        return ProvenanceCheck(make_unverified(f"nothing resolves {reference.scheme}"))
    resolution = recorded.get((reference.tenant, reference.name))
    if resolution is None:
        return ProvenanceCheck(
            make_unverified(NOT_RESOLVED_YET), wanted=len(reference.name) <= MAX_URI_CHARACTERS
        )
    old = bundle.wants_again(resolution, now_ms)
    if resolution.status != "resolved":
        return ProvenanceCheck(
            make_unverified(f"unresolvable: {resolution.detail}"), False, resolution, wanted=old
        )
    if bundle.is_too_old(resolution, now_ms):
        state = make_unverified(
            f"resolved {(now_ms - resolution.seen_ms) / _MS:.0f} s ago, which is too long"
        )
        return ProvenanceCheck(state, False, resolution, wanted=True)
    if resolution.hash != reference.hash:
        return ProvenanceCheck(
            make_unverified("wrong hash: the source has another"), False, resolution, wanted=old
        )
    return ProvenanceCheck(_VERIFIED_BY_RECORD, True, resolution, (), old)


def _fail_without_lookup(item: RetrievedItem, state: ProvenanceState) -> ProvenanceCheck:
    problem = UNSIGNED if isinstance(item.freshness_assertion, dict) else None
    return ProvenanceCheck(state, assertion_problem=problem)


def _mark_unsigned(reference: _Reference, check: ProvenanceCheck) -> ProvenanceCheck:
    """A signed assertion of which nobody could say whose signature it is."""
    return check._replace(assertion_problem=UNSIGNED) if isinstance(reference.assertion, dict) else check


_MISSING = ProvenanceState("missing", "no provenance_uri")
_VERIFIED_BY_REGISTRY = ProvenanceState("verified", "the registry has this hash")
_WRONG_BY_REGISTRY = make_unverified("wrong hash: the registry has another")
_VERIFIED_BY_RECORD = ProvenanceState("verified", "the source had this hash when it was resolved")
