"""The mandates that a session remembers of each agent.

They lie beside what gates remember of the agent, each under a part of its digest, in the form in which
verdicts show them (sluice_topics/records/mandates.py, MandateSeen), until the time of each is over. They are
bounded in number and in bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_MANDATES = 8
"""Of one agent in a session."""
LARGEST_MANDATE = 4096
"""Bytes of a mandate as it is kept."""
_PREFIX = "mandate "
_KEPT_DIGITS = 32


def find_mandate(gates: Mapping[str, Any], digest: str) -> Mapping[str, Any] | None:
    """The mandate of this digest among what is kept beside gates in stored form; None for none."""
    kept = gates.get(name_mandate(digest))
    return None if kept is None or kept[1]["digest"] != digest else kept[1]


def count_mandates(gates: Mapping[str, Any], now_ms: int) -> int:
    """How many mandates count at this time."""
    return sum(kept[0] > now_ms for name, kept in gates.items() if name.startswith(_PREFIX))


def name_mandate(digest: str) -> str:
    """The name under which a mandate is kept."""
    return _PREFIX + digest.removeprefix("sha256:")[:_KEPT_DIGITS]


def list_past(gates: Mapping[str, Any], now_ms: int) -> list[str]:
    """The names of mandates whose time is over."""
    return [name for name, kept in gates.items() if name.startswith(_PREFIX) and kept[0] <= now_ms]
