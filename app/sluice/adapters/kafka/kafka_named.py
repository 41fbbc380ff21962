"""Decisions by the names that callers gave: which decision an action, write, request or decision id means.

Ids of decisions are made of their input's coordinates and need no search. All others are searched for in the
decisions, and where none names one, in the inputs: never seen is told apart from not decided.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_evidence import name_decision
from sluice.core.decide.kinds import DECIDING, JUDGED
from sluice.core.foundation.input_record import read_coordinates
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.core.rerun.walk import LedgerSource, Place

NAMES = {kind.topic: kind.subject for kind in JUDGED}
"""The field by which a caller names an input, by its base topic; the decision on it has it too."""
_OWN = tuple(one.id_field for one in DECIDING.values())
_FIELDS = ("request_id", *NAMES.values(), *_OWN)


@dataclass(frozen=True, slots=True)
class Meaning:
    """`decisions`: the ids of the decisions that a name means, in the ledger's order; none: `why`."""

    name: str
    decisions: tuple[str, ...]
    why: str = ""


async def find_meanings(source: LedgerSource, names: Sequence[str]) -> list[Meaning]:
    """Find the meaning of each name. Raises what the source raises."""
    places = {name: place for name in names if (place := _read_place(name)) is not None}
    sought = [name for name in names if name not in places]
    found = await _find_decided(source, sought) if sought else {}
    undecided = [name for name in sought if name not in found]
    inputs = await _find_proposed(source, undecided) if undecided else {}
    ends = await source.fetch_ends(tuple(DECIDING)) if places else {}
    found_meanings = []
    for name in names:
        if name in places:
            found_meanings.append(_describe_place(name, places[name], ends))
        elif name in found:
            found_meanings.append(Meaning(name, tuple(found[name])))
        elif name in inputs:
            at = ":".join(map(str, inputs[name]))
            found_meanings.append(Meaning(name, (), f"seen at {at}, and not decided: is a worker running?"))
        else:
            found_meanings.append(
                Meaning(name, (), "never seen: no decision names it, and no input that is there")
            )
    return found_meanings


def _read_place(name: str) -> Place | None:
    try:
        place = read_coordinates(name)
    except ValueError:
        return None
    return place if place[0] in DECIDING else None


def _describe_place(name: str, place: Place, ends: dict[tuple[str, int], int]) -> Meaning:
    end = ends.get(place[:2], 0)
    if place[2] >= end:
        return Meaning(name, (), f"never seen: {place[0]} partition {place[1]} ends before {end}")
    return Meaning(name, (name,))


async def _find_decided(source: LedgerSource, names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    async for batch in source.read_decisions():
        for one in batch:
            for name, fields in _find_names(names, one.value):
                place = fields.get("input")
                if isinstance(place, dict):
                    own = fields.get("ledger_event_id")
                    at = (str(place.get("topic")), int(place["partition"]), int(place["offset"]))
                    found.setdefault(name, []).append(str(own) if own else name_decision(at))
    return found


async def _find_proposed(source: LedgerSource, names: Sequence[str]) -> dict[str, Place]:
    found: dict[str, Place] = {}
    async for batch in source.read_inputs(tuple(NAMES)):
        for one in batch:
            for name, _ in _find_names(names, one.value or b""):
                found.setdefault(name, (one.topic, one.partition, one.offset))
    return found


def _find_names(names: Iterable[str], value: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    """Those of the names that a record has in one of its fields. What does not hold one is not parsed."""
    held = [name for name in names if any(written in value for written in _encode_name(name))]
    if not held:
        return
    fields = parse(value)
    if isinstance(fields, dict):
        own = {fields.get(field) for field in _FIELDS if isinstance(fields.get(field), str)}
        yield from ((name, fields) for name in held if name in own)


def _encode_name(name: str) -> tuple[bytes, bytes]:
    """Return the bytes of a name as a record may have them: as it is, or escaped, as some producers write
    it."""
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "replace"), json.dumps(name).encode()
