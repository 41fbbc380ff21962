"""Which policy decides: what each partition's owner had in force, and what it replaced."""

from typing import Annotated, Literal

from pydantic import Field

from sluice_topics.records.base import Count, Digest, Id, LedgerRecord, Record

MOST_NAMED = 20
"""Entries of one kind of difference that a record names; the others it counts."""

Revision = Annotated[int, Field(ge=1, le=2**53 - 1)]


class PolicyEntryChange(Record):
    """One entry: the revision that the partition recorded before, and the one in force now; null where there
    is none."""

    entry: Annotated[
        str, Field(min_length=1, max_length=1024, description="kind/id, of a fact kind/id@revision")
    ]
    before: Revision | None
    now: Revision | None


class PolicyEntryChanges(Record):
    """How many entries changed so, and the first of them by name."""

    total: Count
    named: Annotated[list[PolicyEntryChange], Field(max_length=MOST_NAMED)]


class AcceptedPolicyLoss(Record):
    """The entry by which people signed that something may be missing."""

    entry: Annotated[str, Field(min_length=1, max_length=1024, description="policy_loss/id@revision")]
    hash: Digest
    approvers: Annotated[list[Id], Field(min_length=2, description="who signed it")]


class PolicyInForce(LedgerRecord):
    """The set of entries in force: the first record of a partition after each start, and one more for each
    change of it. Every decision that follows in the partition falls under this set or, while a change reaches
    the worker's lanes, the one before."""

    schema_name: Annotated[Literal["sluice/policy_in_force/v1"], Field(alias="schema")]
    policy_event_id: Id
    trigger: Annotated[
        Literal["start", "change"], Field(description="a worker took the partition, or it changed")
    ]
    digest: Annotated[
        Digest,
        Field(description="SHA-256 over the RFC 8785 form of {kind/id: [revision, hash]} of all entries"),
    ]
    previous: Annotated[
        Digest | None, Field(description="digest of the partition's record before this one; null for none")
    ]
    entries: Annotated[Count, Field(description="how many are in force")]
    kinds: Annotated[dict[str, Count], Field(description="kind to number; all together are `entries`")]
    added: PolicyEntryChanges
    replaced: Annotated[PolicyEntryChanges, Field(description="by a higher revision")]
    lowered: Annotated[
        PolicyEntryChanges, Field(description="to a lower revision, or to other content of the same: lost")
    ]
    gone: Annotated[PolicyEntryChanges, Field(description="lost")]
    accepted: Annotated[
        list[AcceptedPolicyLoss], Field(max_length=MOST_NAMED, description="by which a loss was accepted")
    ]
