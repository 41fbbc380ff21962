"""Files of DSSE envelopes, one a line, as `sluice bundle sign` and `sluice registry sign` write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.trust.dsse import read_envelope
from app.core.trust.publishing import arrivals
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.core.foundation.arrival import Arrival
    from app.core.trust.refused import Refused


class PolicyFileError(Exception):
    """A file cannot be read or does not count; a line for each reason."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One line of a file; `place` says where it is from."""

    place: str
    value: bytes


def envelopes(path: Path) -> list[Envelope]:
    """The envelopes in a file, signed or not. Raises PolicyFileError at the first line that is none."""
    return [_envelope(f"{path}: line {number}", line) for number, line in _lines(path)]


def control_records(topic: str, files: Sequence[Path], at_ms: int) -> tuple[list[Arrival], dict[str, str]]:
    """The files' envelopes as they would lie in a control topic, and each one's place in the files by its id.

    Raises PolicyFileError.
    """
    read = [one for path in files for one in envelopes(path)]
    if not read:
        raise PolicyFileError(f"{', '.join(map(str, files))}: no envelope in it")
    records = arrivals(topic, [one.value for one in read], [], at_ms)
    places = zip(records, read, strict=True)
    return records, {record.decision_id: one.place for record, one in places}


def told(refused: Sequence[Refused], places: dict[str, str]) -> str:
    """A line for each refusal, with its place in the files."""
    return "\n".join(
        f"{places[one.arrival.decision_id]}: {one.code} at {one.path}: {one.message}" for one in refused
    )


def read_file(path: Path) -> bytes:
    """A file's bytes. Raises PolicyFileError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyFileError(f"cannot read {path}: {error.strerror}") from error


def _lines(path: Path) -> list[tuple[int, bytes]]:
    numbered = enumerate(read_file(path).split(b"\n"), start=1)
    return [(number, line) for number, line in numbered if line.strip()]


def _envelope(place: str, line: bytes) -> Envelope:
    found = read_envelope(line)
    if isinstance(found, Unreadable):
        raise PolicyFileError(f"{place}: not a DSSE envelope: {found.message}")
    return Envelope(place, line)
