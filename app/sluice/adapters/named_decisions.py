"""Decisions by the names that callers gave: which decision an action, write, request or decision id means.

Ids of decisions are made of their input's coordinates and need no search. All others are searched for in the
decisions, and where none names one, in the inputs: never seen is told apart from not decided.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.core.decide.kinds import DECIDING, JUDGED, name_decision
from sluice.core.foundation.input_record import read_coordinates
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.core.rerun.walk import LedgerSource, Place

NAMES = {kind.topic: kind.subject for kind in JUDGED}
"""The field by which a caller names an input, by its base topic; the decision on it has it too."""
_OWN = tuple(answer_kind.id_field for answer_kind in DECIDING.values())
_FIELDS = ("request_id", *NAMES.values(), *_OWN)


@dataclass(frozen=True, slots=True)
class Meaning:
    """`decisions`: the ids of the decisions that a name means, in the ledger's order; none: `why`."""

    name: str
    decisions: tuple[str, ...]
    why: str = ""


async def find_meanings(source: LedgerSource, names: Sequence[str]) -> list[Meaning]:
    """Find the meaning of each name. Raises what the source raises."""
    places = {name: coordinates for name in names if (coordinates := _read_place(name)) is not None}
    sought = [name for name in names if name not in places]
    decided = await _find_decided(source, sought) if sought else {}
    undecided = [name for name in sought if name not in decided]
    inputs = await _find_proposed(source, undecided) if undecided else {}
    ends = await source.fetch_ends(tuple(DECIDING)) if places else {}
    found_meanings = []
    for name in names:
        if name in places:
            found_meanings.append(_describe_place(name, places[name], ends))
        elif name in decided:
            found_meanings.append(Meaning(name, tuple(decided[name])))
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
        coordinates = read_coordinates(name)
    except ValueError:
        return None
    return coordinates if coordinates[0] in DECIDING else None


def _describe_place(name: str, coordinates: Place, ends: dict[tuple[str, int], int]) -> Meaning:
    end = ends.get(coordinates[:2], 0)
    if coordinates[2] >= end:
        return Meaning(name, (), f"never seen: {coordinates[0]} partition {coordinates[1]} ends before {end}")
    return Meaning(name, (name,))


async def _find_decided(source: LedgerSource, names: Sequence[str]) -> dict[str, list[str]]:
    decided: dict[str, list[str]] = {}
    async for batch in source.read_decisions():
        for record in batch:
            for name, fields in _find_names(names, record.value):
                coordinates = fields.get("input")
                if isinstance(coordinates, dict):
                    own = fields.get("ledger_event_id")
                    at = (
                        str(coordinates.get("topic")),
                        int(coordinates["partition"]),
                        int(coordinates["offset"]),
                    )
                    decided.setdefault(name, []).append(str(own) if own else name_decision(at))
    return decided


async def _find_proposed(source: LedgerSource, names: Sequence[str]) -> dict[str, Place]:
    proposed: dict[str, Place] = {}
    async for batch in source.read_inputs(tuple(NAMES)):
        for record in batch:
            for name, _ in _find_names(names, record.value or b""):
                proposed.setdefault(name, (record.topic, record.partition, record.offset))
    return proposed


def _find_names(names: Iterable[str], value: bytes) -> Iterator[tuple[str, dict[str, object]]]:
    """Those of the names that a record has in one of its fields. What does not hold one is not parsed."""
    named = [name for name in names if any(written in value for written in _encode_name(name))]
    if not named:
        return
    fields = parse(value)
    if isinstance(fields, dict):
        own = {fields.get(field) for field in _FIELDS if isinstance(fields.get(field), str)}
        yield from ((name, fields) for name in named if name in own)


def _encode_name(name: str) -> tuple[bytes, bytes]:
    """Return the bytes of a name as a record may have them: as it is, or escaped, as some producers write
    it."""
    return json.dumps(name, ensure_ascii=False).encode("utf-8", "replace"), json.dumps(name).encode()
