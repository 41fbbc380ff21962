"""An export of the ledger, for verifying without the broker: one JSON object a line.

`{"topic", "partition", "offset", "timestamp", "key", "value"}`: timestamp is the broker's, in ms; key is
base64 or null; value is the record's text, or null with its bytes in `value_base64` where they are not UTF-8.
`proof_base64` is the header `sluice-proof`, where the record has it. A line from a segment of an archive
(docs/archive.md) has `headers` in its place: `[name, text]`, or `[name, null, base64]`.

`Located` is one record with its place on the broker, as the verifier is given it. The paged memories over
whole numbers make a page when a number in it comes, so that a forged number near 2^53 costs one page and not
the space up to it.
"""

from __future__ import annotations

import base64
import json
from array import array
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Located:
    """A Kafka record's coordinates, key and raw value. `value` is None for a tombstone; `timestamp_ms`, the
    broker's time, None where it is not known; `proof` is its header `sluice-proof`."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    proof: bytes | None = None


_PROOF = "sluice-proof"
_PAGE = 1024
_OFFSET_BITS = 48
_OFFSETS = (1 << _OFFSET_BITS) - 1


class NumberSet:
    """Which numbers were seen: one bit each where they are dense."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, number: int) -> bool:
        """True if the number is new."""
        page, index = divmod(number, _PAGE)
        bits = self._pages.setdefault(page, bytearray(_PAGE // 8))
        byte, bit = index >> 3, 1 << (index & 7)
        new = not bits[byte] & bit
        bits[byte] |= bit
        return new


class Fingerprints:
    """A fingerprint of the hash that stands at each number, and where its record lies: 16 bytes each where
    they are dense."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        self._places: dict[int, array[int]] = {}
        self._topics: dict[str, int] = {}

    def put(self, number: int, digest: str, topic: str, offset: int) -> None:
        """Remember the hash at that number: the record's own text, which a forger may have written."""
        page, index = divmod(number, _PAGE)
        if page not in self._pages:
            self._pages[page] = array("Q", bytes(8 * _PAGE))
            self._places[page] = array("Q", bytes(8 * _PAGE))
        self._pages[page][index] = _compute_fingerprint(digest)
        topic_number = self._topics.setdefault(topic, len(self._topics))
        self._places[page][index] = topic_number << _OFFSET_BITS | offset & _OFFSETS

    def has_number(self, number: int) -> bool:
        """Whether anything stands at the number."""
        page, index = divmod(number, _PAGE)
        return page in self._pages and self._pages[page][index] != 0

    def locate(self, number: int) -> tuple[str, int]:
        """Topic and offset of the record that stands at the number; one must."""
        page, index = divmod(number, _PAGE)
        at = self._places[page][index]
        return list(self._topics)[at >> _OFFSET_BITS], at & _OFFSETS

    def is_same(self, number: int, digest: str) -> bool:
        """Whether that hash stands at the number."""
        page, index = divmod(number, _PAGE)
        return page in self._pages and self._pages[page][index] == _compute_fingerprint(digest)


def _compute_fingerprint(digest: str) -> int:
    return int.from_bytes(blake2b(digest.encode(), digest_size=8).digest(), "big")


class NotAnExport(ValueError):
    """A line that no export has; the message names the line."""


def write_line(located: Located, timestamp_ms: int) -> str:
    """One line of the file, without its end."""
    fields: dict[str, Any] = {
        "topic": located.topic,
        "partition": located.partition,
        "offset": located.offset,
        "timestamp": timestamp_ms,
        "key": None if located.key is None else base64.b64encode(located.key).decode(),
        **_write_value(located.value),
    }
    if located.proof is not None:
        fields["proof_base64"] = base64.b64encode(located.proof).decode()
    return json.dumps(fields, ensure_ascii=False)


def read_lines(lines: Iterable[bytes]) -> Iterator[Located]:
    """The records of an export, in its order. Raises NotAnExport at the first line that is not a record of an
    export."""
    for number, line in enumerate(lines, start=1):
        try:
            yield _read_located(_STRICT.decode(line.decode("utf-8")))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotAnExport(f"line {number} is not a line of a ledger export: {error!r}") from None


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that names no field twice: two readers could take one each."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("an object names a field twice")
    return fields


_STRICT = json.JSONDecoder(object_pairs_hook=_read_object)


def _write_value(value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {"value": None}
    try:
        return {"value": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"value": None, "value_base64": base64.b64encode(value).decode()}


def _read_located(fields: dict[str, Any]) -> Located:
    topic, partition, offset = fields["topic"], fields["partition"], fields["offset"]
    if not (isinstance(topic, str) and type(partition) is int and type(offset) is int):
        raise TypeError("topic, partition or offset has the wrong type")
    key = fields["key"]
    timestamp_ms = fields["timestamp"]
    if type(timestamp_ms) is not int:
        raise TypeError("timestamp has the wrong type")
    decoded = None if key is None else base64.b64decode(key, validate=True)
    proof = base64.b64decode(fields["proof_base64"]) if "proof_base64" in fields else _find_proof(fields)
    return Located(topic, partition, offset, decoded, _decode_value(fields), timestamp_ms, proof)


def _find_proof(fields: dict[str, Any]) -> bytes | None:
    """The proof among the headers of a line from an archive, the first if there are several."""
    for name, text, *encoded in fields.get("headers", ()):
        if name == _PROOF and (encoded or text is not None):
            return base64.b64decode(encoded[0]) if encoded else str(text).encode()
    return None


def _decode_value(fields: dict[str, Any]) -> bytes | None:
    value = fields["value"]
    if "value_base64" in fields:
        if value is not None:
            raise ValueError("value and value_base64 are both there")
        return base64.b64decode(fields["value_base64"], validate=True)
    return None if value is None else value.encode("utf-8")
