"""Every kind of unreadable input of the fault runs, by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.malformed import kinds
from load.malformed_memory import memory_kinds
from load.malformed_retrievals import retrieval_kinds
from topics.catalog import ACTIONS

if TYPE_CHECKING:
    from load.malformed import Maker


def kinds_by_topic() -> dict[str, dict[str, Maker]]:
    """By base topic and name."""
    return {ACTIONS: kinds(), **memory_kinds(), **retrieval_kinds()}
