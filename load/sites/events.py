"""What the fault runs publish, and how each input says its kind: the worker ignores that, the recount needs
it for what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KIND_HEADER = "load-kind"
MALFORMED = "malformed:"
POISON = "poison"
SLOW_MARK = "slow"
POISON_MARK = "poison"
"""Among an action's parameters, or the words of a memory: asks the slow port, kills whoever evaluates it."""


@dataclass(eq=False, slots=True)
class Write:
    """A memory write as it was first published. `memory_id`: once the broker has said where it lies."""

    fields: dict[str, Any]
    value: bytes
    memory_id: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One record to publish; `topic` is a base name, `write` the memory write that it shows first."""

    topic: str
    key: bytes
    value: bytes
    kind: str
    write: Write | None = None
