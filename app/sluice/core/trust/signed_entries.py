"""The statement of a control record with a valid signature: which bundle or entry, which revision, which
change.

Payloads are JSON. `gate.bundles`: a whole bundle document, of policy or of quality by the payload's type.
`gate.registry`: {"kind", "id", "revision", "spec"} and, for entries that take effect together,
"change": {"id", "entries"}, the same in each of them. Both may have "installations", the ones that they are
for. An approver's entry takes effect alone, so the list of
allowed signers never waits for other records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import CanonicalError
from sluice.core.foundation.strict import Installations, StrictModel, first_error, json_object
from sluice.core.registry.registry_entries import EntryFile, Name
from sluice.core.trust.dsse import Envelope, read_envelope
from sluice.core.trust.refused import Code, Reason
from sluice_topics.catalog import BUNDLES, BY_NAME, REGISTRY
from sluice_topics.json_text import Unreadable
from sluice_topics.records.base import Digest  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord

BUNDLE = "bundle"
QUALITY_BUNDLE = "quality_bundle"
APPROVER = "approver"
PAYLOAD_TYPES = {
    BUNDLES: "application/vnd.sluice.bundle+json",
    REGISTRY: "application/vnd.sluice.registry-entry+json",
}
"""The first type of each control topic."""
QUALITY_BUNDLE_TYPE = "application/vnd.sluice.quality-bundle+json"
CARRIED = {
    BUNDLES: (PAYLOAD_TYPES[BUNDLES], QUALITY_BUNDLE_TYPE),
    REGISTRY: (PAYLOAD_TYPES[REGISTRY],),
}
"""Every payload type of each control topic. The signature covers the type, so a bundle of one kind cannot be
presented as one of the other kind."""
MAX_TOGETHER = 256
"""Entries of one change; each of them lists all, so its bytes grow with the square: 512 take 10 MB."""
Key = Annotated[str, Field(min_length=1, max_length=512)]
_INVALID: dict[str, Code] = {BUNDLES: "invalid_bundle", REGISTRY: "invalid_entry"}


class EntryChange(StrictModel):
    """Entries that take effect together or not at all: "kind/id@revision" of each, with its hash; one
    revision of each entry. Every member signs the hashes, so no other signer can complete a change with
    other content."""

    id: Name
    entries: Annotated[dict[Key, Digest], Field(min_length=2, max_length=MAX_TOGETHER)]

    @model_validator(mode="after")
    def _check_one_revision_each(self) -> Self:
        if len({entry.rpartition("@")[0] for entry in self.entries}) != len(self.entries):
            raise ValueError("an entry is named twice")
        return self


class SignedEntry(EntryFile):
    """A registry entry as it is signed."""

    change: EntryChange | None = None

    @model_validator(mode="after")
    def _check_in_change(self) -> Self:
        if self.change is None:
            return self
        if self.kind == APPROVER:
            raise ValueError("an approver's entry takes effect alone")
        if f"{self.kind}/{self.id}@{self.revision}" not in self.change.entries:
            raise ValueError("the entry is not among the entries of its change")
        return self


class BundleHead(StrictModel, extra="ignore"):
    """The fields that identify a bundle, read before it is compiled."""

    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    installations: Installations | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """`kind` is "bundle", "quality_bundle" or a registry kind; decisions record `hash`, over the canonical
    `document`."""

    kind: str
    id: str
    revision: int
    hash: str
    document: dict[str, Any]
    change: EntryChange | None = None
    installations: tuple[str, ...] | None = None

    def object_to_installation(self, installation: str) -> Reason | None:
        """Why it does not count in an installation: it names others."""
        if self.installations is None or installation in self.installations:
            return None
        description = f"it is for {', '.join(self.installations)}, and this installation is {installation!r}"
        return Reason("other_installation", "$.installations", description)

    @property
    def key(self) -> str:
        """The key of its Kafka record."""
        name = f"{self.id}@{self.revision}"
        return name if self.kind in (BUNDLE, QUALITY_BUNDLE) else f"{self.kind}/{name}"


def open_record(input_record: InputRecord) -> Envelope | Reason:
    """The envelope in a control record, signed or not."""
    raw = input_record.value
    if raw is None:
        return Reason("tombstone", "$", "no value: nothing that was signed can be taken back by a tombstone")
    limit = BY_NAME[input_record.topic].max_message_bytes
    if len(raw) > limit:
        return Reason("too_large", "$", f"{len(raw)} bytes, at most {limit} are read")
    envelope = read_envelope(raw)
    if isinstance(envelope, Unreadable):
        return Reason("unsigned", envelope.path, f"not a DSSE envelope: {envelope.message}")
    carried = CARRIED[input_record.topic]
    if envelope.payload_type not in carried:
        description = f"{input_record.topic} carries {' and '.join(carried)}"
        return Reason("wrong_payload_type", "$.payloadType", description)
    if not envelope.signatures:
        return Reason("stripped", "$.signatures", "an envelope without a signature")
    return _check_hints(envelope)


def _check_hints(envelope: Envelope) -> Envelope | Reason:
    """The envelope if each signature names its key, else the reason. So a forged record costs at most one
    check per signature."""
    for index, signature in enumerate(envelope.signatures):
        if not signature.keyid:
            return Reason("unsigned", f"$.signatures[{index}].keyid", "the signature does not name its key")
    return envelope


def read_statement(topic: str, envelope: Envelope) -> Statement | Reason:
    """The statement of an envelope's payload in this topic. Trust it only if the signature is valid."""
    try:
        document = json_object(envelope.payload)
        if topic == REGISTRY:
            return _read_entry(document)
        return _read_bundle(
            QUALITY_BUNDLE if envelope.payload_type == QUALITY_BUNDLE_TYPE else BUNDLE, document
        )
    except ValidationError as error:
        path, _, message = first_error(error).partition(": ")
        return Reason(_INVALID[topic], path, message)
    except (CanonicalError, ValueError) as error:
        return Reason(_INVALID[topic], "$", str(error))


def _copy_installations(installations: list[str] | None) -> tuple[str, ...] | None:
    return None if installations is None else tuple(installations)


def _read_bundle(kind: str, document: dict[str, Any]) -> Statement:
    frame = BundleHead.model_validate(document)
    where = _copy_installations(frame.installations)
    return Statement(kind, frame.id, frame.revision, digest(document), document, None, where)


def _read_entry(document: dict[str, Any]) -> Statement:
    entry = SignedEntry.model_validate(document)
    body = entry.model_dump(exclude={"change"})
    where = _copy_installations(entry.installations)
    statement = Statement(entry.kind, entry.id, entry.revision, digest(body), body, entry.change, where)
    if statement.change is not None and statement.change.entries[statement.key] != statement.hash:
        raise ValueError("the change has other content for this entry")
    return statement
