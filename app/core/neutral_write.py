"""What a memory write must bring along, filled in so that its content alone is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.core.memory.quality import WriteQuality

ANY_CLASS = "note"
SOURCE_ID = "neutral-source"
_ELSEWHERE = "neutral.example/record"
_SOME_HASH = "sha256:" + "0" * 64


def neutral_metadata(quality: WriteQuality, at: str) -> dict[str, Any]:
    """The quality fields of a write in which `quality` finds no fault; `at`: its time, RFC 3339."""
    return {
        "content_class": quality.content_classes[0] if quality.content_classes else ANY_CLASS,
        "timestamp": at,
        "confidence_score": 1,
        "provenance_uri": f"{quality.provenance_schemes[0]}://{_ELSEWHERE}",
        "provenance_hash": _SOME_HASH,
    }
