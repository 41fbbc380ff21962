"""The keys of personal data: each is sealed with the key of the person whom it concerns."""

import re
from typing import Annotated

from pydantic import Field

from sluice_topics.records.base import Id, Record
from sluice_topics.records.inputs import Base64

KEY_ID = re.compile(r"^[0-9a-f]{32}$")
KeyId = Annotated[str, Field(pattern=KEY_ID.pattern)]
"""128 random bits: nothing of the person is in it."""


class WrappedKey(Record):
    """A person's key. It has no plain byte of the key, and none of the person."""

    key_id: Annotated[KeyId, Field(description="the message's key too")]
    tenant_id: Annotated[Id, Field(description="whose agents seal and open with the key")]
    subject: Annotated[
        Base64,
        Field(
            description="HMAC-SHA-256 of the person's name under a key that follows from the wrapping one",
            max_length=64,
        ),
    ]
    wrapped: Annotated[
        Base64,
        Field(
            description="the key and a digest of the person, encrypted by `wrapped_by` for all of the above",
            max_length=4096,
        ),
    ]
    wrapped_by: Annotated[str, Field(min_length=1, max_length=256, description="the id of the wrapping key")]
