"""The records of the topic of keys, and what stands for a person on it."""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from sluice.secrets.key_wrapping import KeyOwner, Wrapped
from sluice_topics.records.subject_keys import WrappedKey

if TYPE_CHECKING:
    from sluice_topics.sealing import Subject

log = logging.getLogger(__name__)
ROLL: Final = b"roll"
"""The key of a record that says nothing: with it the broker begins a new segment, and can compact the old
one."""


class LyingKey(NamedTuple):
    """A record of a key, which nobody has checked yet."""

    owner: KeyOwner
    wrapped: Wrapped


def digest_person(tenant: str, subject: Subject) -> bytes:
    """What a wrapper takes: other bytes for each subject of each tenant."""
    written = json.dumps([tenant, subject.kind, subject.name], ensure_ascii=False)
    return sha256(written.encode("utf-8", "surrogatepass")).digest()


def write_wrapped_key(owner: KeyOwner, wrapped: Wrapped) -> bytes:
    """The record of a key, whose message key is its id."""
    record = WrappedKey(
        key_id=owner.key_id,
        tenant_id=owner.tenant,
        subject=b64encode(owner.name).decode(),
        wrapped=b64encode(wrapped.text).decode(),
        wrapped_by=wrapped.by,
    )
    return record.model_dump_json(by_alias=True).encode()


def read_lying(key: WrappedKey) -> LyingKey:
    """What a record says, as a wrapper takes it."""
    owner = KeyOwner(key.key_id, key.tenant_id, b64decode(key.subject))
    return LyingKey(owner, Wrapped(b64decode(key.wrapped), key.wrapped_by))


def read_wrapped_key(key_id: str, value: bytes) -> WrappedKey | None:
    """The record under this message key; None, and a line in the log, for what is none."""
    try:
        key = WrappedKey.model_validate_json(value)
        if key.key_id == key_id and all(map(b64decode, (key.subject, key.wrapped))):
            return key
    except ValueError:  # pydantic's and base64's are
        pass
    log.warning("a record of the topic of keys is no key, and is passed over")
    return None
