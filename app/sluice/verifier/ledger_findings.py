"""What a verification says: findings that an auditor can act on, and a summary per partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "unreadable",  # not strict JSON, or without the chain's fields
    "altered",  # event_hash is not the hash of the record
    "inserted",  # a second, different record under a number that the chain has already given
    "forked",  # two records end the chain, and nothing tells which of them belongs
    "missing",  # a number that no record carries
    "duplicate_sequence",  # the same record twice
    "duplicate_id",  # two records with one decision id
    "foreign_id",  # a decision id that does not follow from the record's input
    "out_of_order",  # offsets and numbers of one topic disagree
    "moved",  # the record belongs to another partition
    "misplaced",  # the record belongs to another topic, or its topic to another installation
    "key_mismatch",  # the Kafka key is not the session that the record is of
    "too_early",  # the broker took the record before it took the input that it decides
    "unsigned",  # no key that was given signed the record
    "policy_lost",  # the policy in force became less, and nobody accepted it
    "archive_damaged",  # a file of the archive is not what its manifest says; the message names it
    "broken_link",  # prev_hash is not the event_hash of the record before
    "truncated",  # a chain ends before a signed head says
    "dropped",  # nothing is there of a partition of which a signed head states records
    "rewritten",  # the records are not those that a signed head states
    "head_broken",  # a head cannot be read, or does not follow from the one before
    "head_forged",  # no key that counts signed a head
    "head_forked",  # two heads of one number
    "head_missing",  # none at all, or fewer than a copy has
    "unwitnessed",  # too few of the witnesses co-signed any head
    "package_damaged",  # a part of an audit package's file is not what its manifest states
    "incomplete",  # a package does not hold what its selection needs, or less than the verifier asked for
    "input_missing",  # an input that a record decides is not in the package
    "input_altered",  # it is not the input that the record decides
    "unanswered",  # an input that was decided, and that no record answers
    "policy_missing",  # a decision rests on policy that is not in the package
    "policy_unsigned",  # nobody signed it who may
]


@dataclass(frozen=True, slots=True)
class LedgerFinding:
    """One thing wrong and where. `offset` and `topic` are None / "" for what is not there."""

    code: Code
    partition: int
    sequence: int | None
    topic: str
    offset: int | None
    message: str


@dataclass(frozen=True, slots=True)
class Summary:
    """One partition's chain: records read, first and last number, head = the last record's event_hash."""

    records: int
    first: int | None
    last: int | None
    head: str | None


@dataclass(frozen=True, slots=True)
class HeadsSeen:
    """Tree heads that the ledger was held against: how many, number of the last, the records that it states;
    whether their signatures were checked; the last one that enough witnesses co-signed, None where none is,
    or nobody asked."""

    count: int
    last: int
    size: int
    signatures_checked: bool
    witnessed: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The whole result; `intact` when there is nothing to say. `heads`: None where there are none."""

    partitions: dict[int, Summary]
    findings: tuple[LedgerFinding, ...]
    records: int
    heads: HeadsSeen | None = None

    @property
    def intact(self) -> bool:
        return not self.findings


def describe_heads(report: Report) -> str:
    """What tree heads say of the end of the ledger, in a sentence."""
    heads = report.heads
    if heads is None:
        return (
            "No tree heads: a cut-off end, or a ledger that was written again as a whole, would not be seen."
        )
    how = "" if heads.signatures_checked else ", signatures not checked: no head key was given"
    behind = max(report.records - heads.size, 0)
    by = "" if heads.witnessed is None else f"; head {heads.witnessed} is co-signed by enough witnesses"
    return (
        f"Held against {write_count(heads.count, 'tree head')}{how}; head {heads.last} states "
        f"{write_count(heads.size, 'record')}, {behind} are newer{by}."
    )


def write_count(number: int, singular: str, many: str | None = None) -> str:
    """ "1 record", "2 records"; `many` where the plural is not one with an s."""
    return f"{number} {singular if number == 1 else many or singular + 's'}"
