"""What a rerun says: the same again, the fields that differ, or what is no longer there to execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from app.core.ledger.canonical import canonical
from app.core.ledger.chain import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

Status = Literal["identical", "different", "evidence_gone"]
Kind = Literal["verdict", "memory_decision", "quality_decision"]
HASH_FIELD = "rerun_hash"
_PLACE_IN_THE_LEDGER = frozenset({*PLACE, "event_hash"})
_GATES = "gateResults"
_DURATION = "durationMs"


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` is a path inside the record; None on one side: it is absent or null there."""

    field: str
    recorded: Any
    rerun: Any


@dataclass(frozen=True, slots=True)
class Rerun:
    """One decision executed again. `missing` names what is gone, and then nothing was executed."""

    kind: Kind
    id: str
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """In one word."""
        if self.missing:
            return "evidence_gone"
        return "different" if self.differences else "identical"


def differences(
    hashed: tuple[str, ...], recorded: dict[str, Any], again: dict[str, Any]
) -> tuple[Difference, ...]:
    """Every leaf that differs between two records of a decision: the `hashed` fields first, their hash last.

    Durations and the place in the ledger are not compared: a rerun has neither.
    """
    before, after = _comparable(recorded), _comparable(again)
    others = [name for name in {**before, **after} if name not in hashed and name != HASH_FIELD]
    order = (*hashed, *others, HASH_FIELD)
    return tuple(one for name in order for one in _leaves(name, before.get(name), after.get(name)))


def _comparable(record: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in record.items() if name not in _PLACE_IN_THE_LEDGER}
    if _GATES in kept:
        kept[_GATES] = [{key: gate[key] for key in gate if key != _DURATION} for gate in kept[_GATES]]
    compared: dict[str, Any] = orjson.loads(canonical(kept))
    return compared


def _leaves(path: str, recorded: Any, again: Any) -> Iterator[Difference]:
    if recorded == again and type(recorded) is type(again):
        return
    if isinstance(recorded, dict) and isinstance(again, dict):
        for key in {**recorded, **again}:
            yield from _leaves(f"{path}.{key}", recorded.get(key), again.get(key))
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for place, pair in enumerate(zip(recorded, again, strict=True)):
            yield from _leaves(f"{path}[{place}]", *pair)
    else:
        yield Difference(path, recorded, again)
