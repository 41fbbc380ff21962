"""What every record shares: strictness, the rule of names on the wire, and the vocabulary of the fields."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8259 section 6, RFC 8785 section 3.2.2.3)."""

Id = Annotated[str, Field(min_length=1, max_length=256)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
"""RFC 3339, UTC, milliseconds."""
MAX_COUNT = 10**36 - 1
"""36 digits: more than anything that is counted, and few enough to remember thousands of them."""
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A whole number as inputs give it; beyond MAX_COUNT it is unreadable."""
LedgerCount = (
    Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)] | Annotated[str, Field(pattern=r"^[1-9][0-9]{15,}$")]
)
"""The same in a ledger record: beyond 2^53-1 it is a decimal string, since RFC 8785 has no such number."""
Texts = Annotated[list[str], Field(fail_fast=True)]
Objects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]

Mode = Literal["standard", "high_stakes"]
Enforcement = Literal["enforce", "shadow"]
VerdictWord = Literal["allowed", "denied", "needs_human"]
Outcome = Literal["ALLOW", "BLOCK", "ESCALATE"]
Tier = Literal["T1", "T2", "T3", "T4"]
Role = Literal["approver", "vp"]
CheckpointState = Literal["pass", "observed", "nudged", "enforced"]
Severity = Literal["info", "warn", "critical"]


@dataclass(frozen=True, slots=True)
class CallersWord:
    """How a caller's value may change the outcome; metadata of every field of an input.

    `tightens`: with the field the outcome is the same or stricter than without it. `ignored`: no gate reads
    it. `counts`: it may make the outcome less strict, within `bound`. docs/fields.md is made from these.
    """

    kind: Literal["tightens", "ignored", "counts"]
    bound: str


def tightens(how: str) -> CallersWord:
    """The caller's value makes the outcome stricter or leaves it unchanged."""
    return CallersWord("tightens", how)


def ignore(why: str) -> CallersWord:
    """No gate reads the caller's value."""
    return CallersWord("ignored", why)


def counts(within: str) -> CallersWord:
    """The caller's value may make the outcome less strict, within this bound."""
    return CallersWord("counts", within)


FOR_PEOPLE = ignore("recorded for people and tools; no gate and no rule reads it")
BY_RULES = "only a rule of the bundle that cites it reads it: no gate does"


class Record(BaseModel):
    """A record or a part of one: frozen, no unknown field, no conversion of types.

    Built in Python by field name, on the wire by alias; a field named twice is an unknown field.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_flood(cls, value: object) -> object:
        """Stop at the first unknown field where there are more than known ones: an error each is slow."""
        fields = cls.__pydantic_fields__
        if isinstance(value, dict) and len(value) > len(fields):
            field_names = fields.keys() | {field.alias for field in fields.values()}
            stranger = next((key for key in value if key not in field_names), None)
            if stranger is not None:
                raise PydanticCustomError("extra_forbidden", "unknown field", {"field": stranger})
        return value


class InputCoordinates(Record):
    """Where the input lies and what it was: enough to find it again and to see that it is unchanged."""

    topic: Id
    partition: Annotated[int, Field(ge=0)]
    offset: Annotated[int, Field(ge=0)]
    timestamp: Annotated[int, Field(ge=0, description="broker's time of the input, ms since 1970")]
    digest: Annotated[Digest, Field(description="SHA-256 over the raw bytes of the input's value")]


class VerifiedSignature(Record):
    """An agent's valid signature of its input: absent where the agent does not sign, or did not.

    `novelty`: what the session knew of the nonce. Only with a new one an input counts.
    """

    key_id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="hex SHA-256 of the public key")]
    nonce: Id
    novelty: Literal["new", "replayed", "forgotten"]
    delegate: Annotated[
        Id | None, Field(description="the registered delegate that signed for the agent; absent for none")
    ] = None
    signed_at_ms: Annotated[int, Field(ge=0, description="by the signer's clock, ms since 1970")]


Channel = Literal["browser", "slack", "api"]
"""How a person who logged in at a gateway decided: on its pages, by Slack, or by a program."""


class ReviewDelegate(Record):
    """The registered delegate that signed a person's answer, with which of its keys, and how the person who
    logged in to it decided."""

    id: Annotated[Id, counts("names the registry entry that bounds what the delegate may sign")]
    channel: Annotated[Channel, counts("is recorded with the answer; no outcome follows from it")]
    key_id: Annotated[
        str,
        Field(pattern=r"^[0-9a-f]{64}$", description="hex SHA-256 of the public key"),
        counts("names which of the delegate's registered keys the signature must fit"),
    ]


BY_DELEGATE = Field(description="that signed for the approver; absent where the approver's own key did")


class DelegateSeen(ReviewDelegate):
    """The same with the registry entry by which the delegate may sign."""

    entry: Annotated[str, Field(description="kind/id@revision")]
    entry_hash: Digest


class LedgerRecord(Record):
    """What every record of the ledger carries; the writer of the partition adds the chain's four fields and
    `decider_version`."""

    partition: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=1, description="gapless within the partition, over all ledger topics")]
    prev_hash: Annotated[str, Field(pattern=r"^(GENESIS|sha256:[0-9a-f]{64})$")]
    event_hash: Annotated[Digest, Field(description="SHA-256 over the RFC 8785 form without this field")]
    decider_version: Annotated[
        str | None,
        Field(min_length=1, max_length=128, description="version and digest of the code that decided"),
    ] = None
    decided_at: Annotated[Moment, Field(description="broker's time of the input, or the timer's tick")]
    input: Annotated[InputCoordinates | None, Field(description="null where a timer decided")]
