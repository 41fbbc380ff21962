"""One attempt of an attacker, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Extent = Literal["short", "full"]
"""How much is tried: `short` takes seconds and runs in the tests, `full` is for `make attacks`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was tried, whether the guarantee held, and what the system answered.

    `harmless` marks a control: an honest input that must pass, so that an attack cannot be "repelled" by a
    system that refuses everything. Its `held` says that it did pass. `known_limit` marks what the docs list
    as not held: it is shown as that, and counts neither way.
    """

    tried: str
    held: bool
    answer: str
    harmless: bool = False
    known_limit: bool = False


@dataclass(frozen=True, slots=True)
class Attack:
    """A family of attempts. `point`: the number of what it attacks, as in tests; `aim`: the attacker's."""

    point: int
    name: str
    aim: str
    run: Callable[[Extent], Iterator[Attempt]]
    needs_broker: bool = False
