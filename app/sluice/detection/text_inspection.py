"""The door for texts: what a text says to an agent that reads it, and the secrets in it."""

from __future__ import annotations

from sluice.detection.content.content_inspector import ContentInspector, inspect_text
from sluice.detection.content.findings import ContentInspection, Finding, Kind, Weight, make_finding_fields
from sluice.detection.content.released_names import NOTHING, Name, Names, Read, Spoken
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
    "Spoken",
    "Weight",
    "inspect_text",
    "make_finding_fields",
    "scan_for",
]
