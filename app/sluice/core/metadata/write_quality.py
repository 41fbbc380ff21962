"""The write-time quality rule: the metadata that a memory must have (seed 004, "Failure modes").

Without metadata at the write, the reader of the memory would have to judge its quality and could not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from sluice.core.foundation.strict import StrictModel
from sluice.core.metadata.moments import MAX_TIME_CHARACTERS, parse_instant, parse_time
from sluice.core.metadata.provenance import find_fault, spell
from sluice_topics.relaxations import Members, StricterWhen

if TYPE_CHECKING:
    from sluice_topics.records import ProposedMemoryWrite

Scheme = Literal["http", "https", "gate-source", "gate-feed"]
ClassName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]
_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


class WriteQuality(StrictModel):
    """`content_classes` null: any well-formed class. `provenance_schemes`: those that lead to something
    external. `future_skew_ms`: how far a timestamp may be ahead of the broker's time."""

    content_classes: Annotated[
        list[ClassName] | None, Members("fewer", "a memory may be of {members}", every="any class")
    ] = None
    future_skew_ms: Annotated[int, Field(ge=0, le=2**53 - 1), StricterWhen("lower")] = 300_000
    provenance_schemes: Annotated[
        list[Scheme], Field(min_length=1), Members("fewer", "a reference may begin with {members}")
    ] = Field(default_factory=lambda: list(get_args(Scheme)))
    max_uri_characters: Annotated[int, Field(ge=1, le=65_536), StricterWhen("lower")] = 2048


@dataclass(frozen=True, slots=True)
class Fault:
    """A field of a write, and its fault: "missing" or another one."""

    field: str
    problem: str


def find_faults(
    quality: WriteQuality, write: ProposedMemoryWrite, now_ms: int, own_ids: frozenset[str]
) -> tuple[Fault, ...]:
    """Every fault of a write's metadata, in the order of the fields; empty if it is valid.

    `now_ms`: broker's time of the write; `own_ids`: ids to which a provenance reference must not lead back.
    """
    problems = {
        "content_class": _class_problem(quality, write.content_class),
        "timestamp": _timestamp_problem(quality, write.timestamp, now_ms),
        "confidence_score": _confidence_problem(write.confidence_score),
        "provenance_uri": _uri_problem(quality, write.provenance_uri, own_ids),
        "provenance_hash": _hash_problem(write.provenance_hash),
    }
    if not any(problems.values()):
        return ()
    return tuple([Fault(name, problem) for name, problem in problems.items() if problem is not None])


def _class_problem(quality: WriteQuality, value: Any) -> str | None:
    if not isinstance(value, str) or value == "":
        return _no_text(value)
    if _CLASS_NAME.fullmatch(value) is None:
        return "malformed: letters, digits and _ . : - only, at most 128"
    content_classes = quality.content_classes
    return (
        None
        if content_classes is None or value in content_classes
        else f"unknown: none of {', '.join(content_classes)}"
    )


def _timestamp_problem(quality: WriteQuality, value: Any, now_ms: int) -> str | None:
    if not isinstance(value, str) or value == "":
        return _no_text(value)
    at_ms = parse_time(value) if len(value) <= MAX_TIME_CHARACTERS else parse_instant(value)
    if at_ms is None:
        return "malformed: not an RFC 3339 date-time with an offset"
    return "in the future" if at_ms > now_ms + quality.future_skew_ms else None


def _confidence_problem(value: Any) -> str | None:
    if value is None:
        return "missing"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "malformed: not a number"
    return None if 0 <= value <= 1 else "malformed: not within 0 and 1"


def _uri_problem(quality: WriteQuality, value: Any, own_ids: frozenset[str]) -> str | None:
    if not isinstance(value, str) or value == "":
        return _no_text(value)
    if len(value) > quality.max_uri_characters:
        return f"malformed: over {quality.max_uri_characters} characters"
    schemes = quality.provenance_schemes
    return None if spell(value).is_usual(schemes, own_ids) else find_fault(value, schemes, own_ids)


def _hash_problem(value: Any) -> str | None:
    if not isinstance(value, str) or value == "":
        return _no_text(value)
    return None if _HASH.fullmatch(value) else "malformed: not sha256: and 64 lower-case hex digits"


def _no_text(value: Any) -> str:
    """The problem of a value that is no text, or an empty one."""
    return "missing" if value is None or value == "" else "malformed: not a string"
