"""The flags of items read in the session that an action acknowledges (seed 004, "Downstream consumers
ignore flags").

`acknowledged_flags` of an action may name a flag ("stale"), an item, or both ("item-7:stale"). This module
denies nothing: a rule of the bundle may cite the outstanding flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.state.remembered import shorten_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SHOWN = 5


class Acknowledgement(NamedTuple):
    """Acknowledged and outstanding flags, as "item:flag" with the item's id as sessions keep it."""

    acknowledged: tuple[str, ...] = ()
    outstanding: tuple[str, ...] = ()


NOTHING = Acknowledgement()


def acknowledgement(flags: Mapping[str, Sequence[str]], named: Sequence[str] | None) -> Acknowledgement:
    """Compare an action with the session. `flags`: those of each flagged item that the session was served;
    `named`: what the action acknowledges.

    The result is sorted, so it does not depend on the order in which the items were read.
    """
    if not flags:
        return NOTHING
    forms = {form for name in named or () for form in _forms(name)}
    acknowledged: list[str] = []
    outstanding: list[str] = []
    for item, raised in flags.items():
        for flag in raised:
            pair = f"{item}:{flag}"
            (acknowledged if forms & {item, flag, pair} else outstanding).append(pair)
    return Acknowledgement(tuple(sorted(acknowledged)), tuple(sorted(outstanding)))


def read_flags(recorded: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The flags by item from which a recorded acknowledgement was made, each item's in order."""
    flags: dict[str, list[str]] = {}
    for pair in (*recorded["acknowledged"], *recorded["outstanding"]):
        item, _, flag = pair.rpartition(":")
        flags.setdefault(item, []).append(flag)
    return {item: sorted(raised) for item, raised in flags.items()}


def advisory(outstanding: Sequence[str]) -> dict[str, Any]:
    """The advisory for an action that leaves flags of items outstanding on which it may depend."""
    shown = ", ".join(outstanding[:MAX_SHOWN])
    more = f" and {len(outstanding) - MAX_SHOWN} more" if len(outstanding) > MAX_SHOWN else ""
    text = f"flags of items read in this session are not acknowledged: {shown}{more}"
    return {"source": "sluice.retrievals", "text": text, "severity": "warn"}


def _forms(name: str) -> tuple[str, str, str]:
    """The possible meanings of a name: an item's id may contain a colon, and a long id is shown by its
    digest, so an action may name an item by either."""
    item, _, flag = name.rpartition(":")
    return name, shorten_id(name), f"{shorten_id(item)}:{flag}" if item else name
