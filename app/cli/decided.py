"""What of a decision is told to whoever asks offline: the records that answer an input, without contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.ledger.chain import PLACE
from topics.catalog import BY_NAME

if TYPE_CHECKING:
    from app.core.decision import Decision, OutRecord

_DECISIONS = frozenset({"Verdict", "MemoryDecision", "QualityDecision"})
_BESIDE_A_DECISION = _DECISIONS | {
    "QuarantineEntered",
    "QuarantineApproved",
    "QuarantineRejected",
    "QuarantineExpired",
    "QuarantineEvicted",
    "AdmittedMemory",
    "RetrievalEscalationOpened",
    "ServedRetrieval",
}
_LEFT_OUT = frozenset({"SessionFolded", "EscalationOpened"})
_CONTENT = {"AdmittedMemory": "content", "ServedRetrieval": "body"}
"""The field of the record, or of its items, that holds what was in the line that was read."""


def answers(decision: Decision) -> list[OutRecord]:
    """Of a decision's records those that answer its input; a verdict and what went with it is told alone.

    What the installation tells itself, on internal topics, is nobody's answer.
    """
    records = [record for record in decision.records if BY_NAME[record.topic].direction != "internal"]
    if any(record.kind in _DECISIONS for record in records):
        return [record for record in records if record.kind in _BESIDE_A_DECISION]
    return [record for record in records if record.kind not in _LEFT_OUT]


def without_content(record: OutRecord) -> dict[str, Any]:
    """The record by wire names, without the place in a chain that it never gets; an admitted memory and
    served items without what is in them."""
    told = _without(record.body, *PLACE)
    content = _CONTENT.get(record.kind)
    if content is None:
        return told
    told = _without(told, content)
    if "items" in told:
        told["items"] = [_without(item, content) for item in told["items"]]
    return told


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {one: value for one, value in fields.items() if one not in names}
