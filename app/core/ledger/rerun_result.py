"""What a rerun says: the same again, the fields that differ, or what is no longer there to execute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from app.core.actions.verdict import RERUN_FIELDS
from app.core.ledger.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

Status = Literal["identical", "different", "evidence_gone"]
HASH_FIELD = "rerun_hash"
_PLACE_IN_THE_LEDGER = frozenset({"partition", "sequence", "prev_hash", "event_hash"})
_DURATION = "durationMs"


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` is a path inside the verdict; None on one side: it is absent or null there."""

    field: str
    recorded: Any
    rerun: Any


@dataclass(frozen=True, slots=True)
class Rerun:
    """One verdict executed again. `missing` names what is gone, and then nothing was executed."""

    verdict_id: str
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """In one word."""
        if self.missing:
            return "evidence_gone"
        return "different" if self.differences else "identical"


def differences(recorded: dict[str, Any], again: dict[str, Any]) -> tuple[Difference, ...]:
    """Every leaf that differs between two verdicts: RERUN_FIELDS first, the hash over them last.

    Durations and the place in the ledger are not compared: a rerun has neither.
    """
    before, after = _comparable(recorded), _comparable(again)
    others = [name for name in {**before, **after} if name not in RERUN_FIELDS and name != HASH_FIELD]
    order = (*RERUN_FIELDS, *others, HASH_FIELD)
    return tuple(one for name in order for one in _leaves(name, before.get(name), after.get(name)))


def _comparable(verdict: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in verdict.items() if name not in _PLACE_IN_THE_LEDGER}
    gates = [{key: gate[key] for key in gate if key != _DURATION} for gate in verdict["gateResults"]]
    compared: dict[str, Any] = orjson.loads(canonical({**kept, "gateResults": gates}))
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
