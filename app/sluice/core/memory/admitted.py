"""AdmittedMemory: content that may be kept, released once and in the same transaction as its decision.

A quality field that is not of its form is left out of the release: a writer that need not bring metadata (an
exempt source, a write that was not judged) does not bring other texts in its place. A text that is of its
form, and every id that the writer chose, is read by the content's detectors before it is released.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import is_memory_id
from sluice.core.metadata.moments import MAX_TIME_CHARACTERS, parse_time
from sluice.core.metadata.provenance import is_uri
from sluice_topics.catalog import ADMITTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.detection.text_inspection import Name
    from sluice_topics.records import ProposedMemoryWrite

LONGEST_URI = 65_536
"""As many characters as a bundle may allow."""
_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


FIELDS_BEFORE = ("write_id", "session_id")
"""The free texts that stand before the content in the released record."""


def list_names(write: ProposedMemoryWrite, quality: Mapping[str, Any]) -> list[Name]:
    """The free texts that are released with the content: FIELDS_BEFORE, then those behind it. `quality`: the
    quality fields as they are released. The id of a memory is none: its form leaves no room for words."""
    names: list[Name] = [("write_id", write.write_id), ("session_id", write.session_id)]
    names.append(("source.id", write.source.id))
    for field in ("content_class", "provenance_uri", "provenance_hash"):
        text = quality[field]
        if text is not None:
            names.append((field, text))
    if write.derived_from:
        names += [("derived_from", source) for source in write.derived_from if not is_memory_id(source)]
    return names


def release_quality(write: ProposedMemoryWrite, *, is_valid: bool) -> dict[str, Any]:
    """The quality fields of a write as they are released. `is_valid`: none of them has a fault; then a time
    may still be too long."""
    if not is_valid:
        return select_quality(write)
    timed = write.timestamp
    return {
        "content_class": write.content_class,
        "timestamp": timed if len(timed) <= MAX_TIME_CHARACTERS else None,
        "confidence_score": write.confidence_score,
        "provenance_uri": write.provenance_uri,
        "provenance_hash": write.provenance_hash,
    }


def select_quality(write: ProposedMemoryWrite) -> dict[str, Any]:
    """The quality fields of a write, each null unless it is of its form."""
    timed, score = write.timestamp, write.confidence_score
    return {
        "content_class": write.content_class if _is_text(write.content_class, _CLASS_NAME) else None,
        "timestamp": timed if _is_time(timed) else None,
        "confidence_score": score if _is_share(score) else None,
        "provenance_uri": write.provenance_uri if _is_reference(write.provenance_uri) else None,
        "provenance_hash": write.provenance_hash if _is_text(write.provenance_hash, _HASH) else None,
    }


def _is_text(value: Any, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and parse_time(value) is not None


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_URI and is_uri(value)


SCHEMA = "sluice/admitted_memory/v1"


class Released(NamedTuple):
    """What is known of the memory in addition to its write: `source_type` is the one that counted,
    `coordinates` are the write's, whoever released it. `quality`: its quality fields as they are released,
    None where nobody has read them yet."""

    memory_id: str
    tenant: str
    source_type: str
    content_digest: str
    trust: float
    coordinates: dict[str, Any]
    quality: Mapping[str, Any] | None = None


def release_memory(
    write: ProposedMemoryWrite, memory: Released, now_ms: int, approver_id: str | None = None
) -> OutRecord:
    """`approver_id`: who let it through, None where the gate itself did."""
    body = {
        "schema": SCHEMA,
        "memory_id": memory.memory_id,
        "write_id": write.write_id,
        "agent_id": write.agent_id,
        "session_id": write.session_id,
        "tenant_id": memory.tenant,
        "how": "allowed" if approver_id is None else "approved",
        "approver_id": approver_id,
        "content": write.content,
        "content_digest": memory.content_digest,
        "source": {"id": write.source.id, "type": memory.source_type},
        **(select_quality(write) if memory.quality is None else memory.quality),
        "derived_from": write.derived_from,
        "trust": memory.trust,
        "decided_at": rfc3339(now_ms),
        "input": memory.coordinates,
    }
    return OutRecord(ADMITTED, "AdmittedMemory", body, write.session_id)
