"""The door for texts: what a text says to an agent that reads it, and the secrets in it."""

from __future__ import annotations

from sluice.detection.content.content_inspector import ContentInspector
from sluice.detection.content.findings import ContentInspection, Finding, Kind, Weight, finding_fields
from sluice.detection.content.released_names import NOTHING, Name, Names, Read
from sluice.detection.content.sets import ContentSets
from sluice.detection.sensitive import COMMON, KINDS, SensitiveScan, scan_for

__all__ = [
    "COMMON",
    "KINDS",
    "NOTHING",
    "ContentInspection",
    "ContentInspector",
    "ContentSets",
    "Finding",
    "Kind",
    "Name",
    "Names",
    "Read",
    "SensitiveScan",
    "Weight",
    "finding_fields",
    "inspect_text",
    "scan_for",
]


def inspect_text(inspector: ContentInspector, text: str) -> ContentInspection:
    """Everything found in the text, by a bundle's content library; the same text always gives the same."""
    return inspector.inspect(text)
