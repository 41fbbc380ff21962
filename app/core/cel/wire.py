"""The fields of a protocol buffer message: as much of the wire format as a checked expression needs.

protobuf.dev, "Encoding". Reading it here saves a dependency on generated classes for one message type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) in order: whole numbers of varints, the raw bytes of everything else.

    Raises ValueError for a wire type that proto3 does not have.
    """
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire == _LENGTH:
            width, place = _varint(message, place)
        elif wire in _WIDTHS:
            width = _WIDTHS[wire]
        else:
            raise ValueError(f"wire type {wire} of field {number}")
        yield number, message[place : place + width]
        place += width


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, place
        shift += 7
