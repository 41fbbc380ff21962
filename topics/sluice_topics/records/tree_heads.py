"""What the head signer states of the ledger: how long each partition's chain is, and a hash over it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from sluice_topics.records.base import Digest, Moment, Record
from sluice_topics.records.inputs import Base64, DsseEnvelope

PAYLOAD_TYPE = "application/vnd.sluice.tree-head+json"
SAFE_COUNT = 2**53 - 1
Link = Annotated[str, Field(pattern=r"^(GENESIS|sha256:[0-9a-f]{64})$")]


class PartitionHead(Record):
    """The chain of one partition up to a number."""

    partition: Annotated[int, Field(ge=0, le=SAFE_COUNT)]
    size: Annotated[int, Field(ge=0, le=SAFE_COUNT, description="records: the last one's `sequence`")]
    root: Annotated[
        Digest,
        Field(description="of the Merkle tree (RFC 6962) whose leaves are the 32 bytes of each event_hash"),
    ]
    last: Annotated[Link, Field(description="event_hash of the last record; GENESIS of none")]
    policy: Annotated[
        Digest | None, Field(description="digest of the last PolicyInForce record; null before the first")
    ]


class TreeHead(Record):
    """A head: every partition's chain as it was committed, and one tree over all of them."""

    schema_name: Annotated[Literal["sluice/tree_head/v1"], Field(alias="schema")]
    installation: Annotated[str, Field(max_length=256, description="the setting policy.installation")]
    topic_prefix: Annotated[str, Field(max_length=256)]
    number: Annotated[int, Field(ge=1, le=SAFE_COUNT, description="1, 2, 3 … without a gap")]
    previous: Annotated[Link, Field(description="SHA-256 of the payload of the head before; GENESIS of none")]
    signed_at: Annotated[
        Moment, Field(description="the signer's clock, never before that of the head before")
    ]
    size: Annotated[int, Field(ge=1, le=SAFE_COUNT, description="records of all partitions together")]
    root: Annotated[
        Digest,
        Field(description="of the Merkle tree whose leaves are the RFC 8785 forms of `partitions`, in order"),
    ]
    partitions: Annotated[
        list[PartitionHead], Field(min_length=1, max_length=4096, description="all, from 0 on")
    ]


def _describe_payload(schema: dict[str, Any]) -> None:
    payload = TreeHead.model_json_schema(by_alias=True)
    parts = payload.pop("$defs")  # whose references would be taken for the envelope's own
    payload["properties"]["partitions"]["items"] = parts["PartitionHead"]
    schema |= {"contentEncoding": "base64", "contentMediaType": PAYLOAD_TYPE, "contentSchema": payload}


class SignedTreeHead(DsseEnvelope):
    """A DSSE 1.0 envelope around the RFC 8785 form of a TreeHead, with an Ed25519 signature of a head key."""

    payload: Annotated[Base64, Field(json_schema_extra=_describe_payload)]
    payload_type: Annotated[Literal["application/vnd.sluice.tree-head+json"], Field(alias="payloadType")]
