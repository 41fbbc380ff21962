"""What a person signs: a bundle's document, the entries of a registry file, a review of a held memory.

Documents and entries are first checked as loading does. sluice/core/registry/keys.py verifies the same bytes
of a review.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sluice.core.actions.limits import compile_condition
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.canonical import canonical, digest
from sluice.core.foundation.errors import BundleError, EnvelopeError, RegistryError
from sluice.core.foundation.strict import first_error, json_object
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.keys import Roots, encode_signed
from sluice.core.registry.loading import load_registry
from sluice.core.registry.registry_entries import EntryFile, RegistryFile
from sluice.core.trust.dsse import MAX_SIGNATURES, read_envelope, sign
from sluice.core.trust.signed_entries import APPROVER, PAYLOAD_TYPES, QUALITY_BUNDLE_TYPE, EntryChange
from sluice.core.trust.signing_authority import Authority
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.json_text import Unreadable
from sluice_topics.records import ReviewDecision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.core.trust.dsse import Envelope, Signer
    from sluice_topics.audience import Audience


def sign_bundle(document: bytes, signers: Iterable[Signer], *, is_loaded: bool = False) -> bytes:
    """The envelope of a whole bundle document. `is_loaded`: it was loaded before. Raises BundleError."""
    if not is_loaded:
        load_bundle(document)
    return sign(PAYLOAD_TYPES[BUNDLES], document, signers).encode()


def sign_quality_bundle(document: bytes, signers: Iterable[Signer], *, is_loaded: bool = False) -> bytes:
    """The envelope of a quality bundle's document. `is_loaded`: it was loaded before. Raises BundleError."""
    if not is_loaded:
        load_quality_bundle(document)
    return sign(QUALITY_BUNDLE_TYPE, document, signers).encode()


def cosign(value: bytes, signers: Iterable[Signer]) -> Envelope:
    """The envelope with these signatures added; an earlier signature by the same key is replaced. The
    content is not judged.

    Raises EnvelopeError if it is not an envelope, or has more signatures than are read.
    """
    envelope = read_envelope(value)
    if isinstance(envelope, Unreadable):
        raise EnvelopeError(f"{envelope.path}: not a DSSE envelope: {envelope.message}")
    added = sign(envelope.payload_type, envelope.payload, signers).signatures
    ours = {signature.keyid for signature in added}
    together = (*(signature for signature in envelope.signatures if signature.keyid not in ours), *added)
    if len(together) > MAX_SIGNATURES:
        raise EnvelopeError(f"$.signatures: {len(together)}, at most {MAX_SIGNATURES} are read")
    return replace(envelope, signatures=together)


def check_entries(raw: bytes) -> list[EntryFile]:
    """The entries of a registry file, in its order. Raises RegistryError with the path and the reason."""
    nobody, registry = Authority(Roots([])), load_registry(raw)
    for limit in (entry for limits in registry.limits.values() for entry in limits):
        try:
            compile_condition(limit.spec.when or "true")
        except BundleError as error:
            raise RegistryError(f"$.entries: {limit.key}: when: {error}") from None
    for approver in registry.approvers.values():
        unusable = nobody.object_to_key(approver)
        if unusable is not None:
            raise RegistryError(f"$.entries: {approver.key}: {unusable.path}: {unusable.message}")
        nobody.admit(approver)
    return RegistryFile.model_validate(json_object(raw)).entries


def sign_entries(entries: Sequence[EntryFile], signers: Sequence[Signer], *, separately: bool) -> list[bytes]:
    """The envelopes of some entries, approvers' first.

    All other entries take effect together, as one change, unless `separately`. Raises
    RegistryError if they cannot: one change cannot have two revisions of one entry.
    """
    alone = [entry for entry in entries if separately or entry.kind == APPROVER]
    rest = [entry for entry in entries if not separately and entry.kind != APPROVER]
    bodies = [
        entry.model_dump()
        for entry in sorted(alone, key=lambda entry: (entry.kind != APPROVER, entry.revision))
    ]
    bodies += _join_change([entry.model_dump() for entry in rest])
    return [sign(PAYLOAD_TYPES[REGISTRY], canonical(body), signers).encode() for body in bodies]


def _join_change(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(bodies) <= 1:
        return bodies
    hashes = {f"{body['kind']}/{body['id']}@{body['revision']}": digest(body) for body in bodies}
    try:
        change = EntryChange(id=digest(bodies), entries=hashes).model_dump()
    except ValidationError as error:
        raise RegistryError(f"these entries are no single change: {first_error(error)}") from None
    return [{**body, "change": change} for body in bodies]


_UNSIGNED = "none"


def sign_review(fields: Mapping[str, Any], key: Signer, audience: Audience) -> ReviewDecision:
    """The review signed for an installation. `fields`: all fields of a ReviewDecision except the signature.
    Raises pydantic.ValidationError."""
    review = ReviewDecision.model_validate({**fields, "signature": _UNSIGNED})
    signature = base64.b64encode(key.sign(encode_signed(review, audience))).decode()
    return review.model_copy(update={"signature": signature})
