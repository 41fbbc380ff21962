"""What stands in the control topics: signed bundles and signed registry entries, each in a DSSE envelope."""

from typing import Annotated

from pydantic import Field

from topics.records.base import Id, Record

Base64 = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


class Signature(Record):
    """One signature over the envelope's pre-authentication encoding; `keyid` is a hint and not trusted."""

    keyid: Id
    sig: Annotated[Base64, Field(min_length=1, max_length=1024)]


class DsseEnvelope(Record):
    """A DSSE 1.0 envelope; `payloadType` says whether a bundle or a registry entry is inside."""

    payload: Base64
    payload_type: Annotated[Id, Field(alias="payloadType")]
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=16)]
