"""From raw bytes to what the chain needs of a record: number, links, its computed hash, its input.

The bytes are read as strict JSON and brought into their RFC 8785 form in one pass. Nearly every record lies
in that form, with its hash behind it: where the standard library writes the rest again byte for byte, and
nothing in it is written otherwise there than in RFC 8785, it is read without looking at each value.

The standard library's encoder writes the form where two things hold, and reading a value sees whether they
do: every object key is ASCII (else UTF-16 order and code point order may differ), and every fraction is
written by Python as RFC 8785 writes it. Everything else is written here, slower. A test holds both equal to
the `rfc8785` package, which this folder does without: it runs wherever Python does.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .export import Located


SAFE_INTEGER = 2**53 - 1  # RFC 8785, 3.2.2.3: beyond this a double no longer names one integer


class NotStrict(ValueError):
    """The bytes are not strict JSON of one object; the message says what is wrong."""


class _JsonReader:
    """Reads one value; `plain` stays true while the standard library's encoder would write RFC 8785."""

    def __init__(self) -> None:
        self.plain = True
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._read_object,
            parse_float=self._read_fraction,
            parse_int=self._read_integer,
            parse_constant=self._refuse_constant,
        )

    def read(self, text: str) -> Any:
        self.plain = True
        return self._decoder.decode(text)

    def _read_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise NotStrict("an object names a field twice")
        self.plain = self.plain and "".join(members).isascii()
        return members

    def _read_fraction(self, digits: str) -> float:
        number = float(digits)
        written = repr(number)
        self.plain = self.plain and "e" not in written and not written.endswith(".0")
        return number

    def _read_integer(self, digits: str) -> float:
        number = int(digits)
        if -SAFE_INTEGER <= number <= SAFE_INTEGER:
            return number
        self.plain = False
        if _write_number(float(number)) != digits:
            raise NotStrict(f"the integer {digits[:40]} is not one that a double holds")
        return float(number)

    def _refuse_constant(self, name: str) -> Any:
        raise NotStrict(f"{name} is no JSON number")


_reader = _JsonReader()


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
_ODD_NUMBER = re.compile(rb'(?:":|[\[,])-?(?:[0-9]{16}|[0-9]+(?:\.[0-9]+)?(?:[eE]|\.0(?![0-9])))')
"""Where a number may be that Python writes otherwise than RFC 8785, or an integer that no double holds."""
_WHOLE = (b".0,", b".0]", b".0}")
_ZEROS = bytes.maketrans(b"123456789[:", b"000000000,,")
_LONG = b"," + b"0" * 16
_LONG_NEGATIVE = b",-" + b"0" * 16
_ODD_NAME = re.compile(rb'[\x80-\xff][^"]*":|[\x80-\xff].*\\"|\\".*[\x80-\xff]', re.DOTALL)
"""Where the name of a member may have a character beyond ASCII, by which the order of names differs."""


def read_canonical(raw: bytes) -> dict[str, Any] | None:
    """The object, if these bytes are plainly its RFC 8785 form; None: `read_object` has to tell.

    A name that stands there twice, white space, another order or spelling: all of that is written otherwise
    than it lies.
    """
    if _may_have_odd_number(raw) or (not raw.isascii() and _ODD_NAME.search(raw)):
        return None
    try:
        text = raw.decode("utf-8")
        value = json.loads(text)
        is_same = isinstance(value, dict) and _ENCODER.encode(value) == text
    except (ValueError, RecursionError):
        return None
    return value if is_same else None


def _may_have_odd_number(raw: bytes) -> bool:
    """Whether _ODD_NUMBER is there, in bytes that Python writes so. What is in each such number is searched
    first: that takes a tenth of the time."""
    zeros = raw.translate(_ZEROS)
    is_possible = (
        b"0e-0" in zeros
        or b"0e+0" in zeros
        or _LONG in zeros
        or _LONG_NEGATIVE in zeros
        or _WHOLE[0] in raw
        or _WHOLE[1] in raw
        or _WHOLE[2] in raw
    )
    return is_possible and _ODD_NUMBER.search(raw) is not None


def read_object(raw: bytes) -> tuple[dict[str, Any], bool]:
    """The object and whether it is plain (see above). Raises NotStrict."""
    canonical = read_canonical(raw)
    return _read_strictly(raw) if canonical is None else (canonical, True)


def _read_strictly(raw: bytes) -> tuple[dict[str, Any], bool]:
    try:
        value = _reader.read(raw.decode("utf-8"))
    except (ValueError, OverflowError, RecursionError) as error:
        raise NotStrict(str(error)) from None
    if not isinstance(value, dict):
        raise NotStrict("the value is not an object")
    return value, _reader.plain


def encode_text(text: str) -> bytes:
    """UTF-8. Raises NotStrict for a lone surrogate, which JSON can name and no bytes have."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotStrict(f"not Unicode: {error}") from None


def canonicalize(value: dict[str, Any], *, plain: bool) -> bytes:
    """The RFC 8785 form. Raises NotStrict for what has none (a lone surrogate, an infinite number)."""
    try:
        if plain:
            return _ENCODER.encode(value).encode("utf-8")
        return "".join(_write_value(value)).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise NotStrict(f"no canonical form: {error}") from None


def _write_value(value: Any) -> Iterator[str]:
    """RFC 8785, 3.2: no white space, names in the order of their UTF-16 code units, numbers as ECMAScript."""
    if isinstance(value, dict):
        yield "{"
        for index, name in enumerate(sorted(value, key=lambda key: key.encode("utf-16-be"))):
            yield f"{',' if index else ''}{_ENCODER.encode(name)}:"
            yield from _write_value(value[name])
        yield "}"
    elif isinstance(value, list):
        yield "["
        for index, member in enumerate(value):
            yield "," if index else ""
            yield from _write_value(member)
        yield "]"
    else:
        yield _write_number(value) if isinstance(value, float) else _ENCODER.encode(value)


def _write_number(value: float) -> str:
    """ECMAScript's Number::toString, as in RFC 8785, 3.2.2.3. Raises ValueError for what is not finite."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if value == 0:
        return "0"
    sign, digit_tuple, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101 - of a finite number it is one
    digits = "".join(map(str, digit_tuple)).rstrip("0")
    point = len(digit_tuple) + exponent
    return ("-" if sign else "") + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """The digits of 0.digits times 10 to the power of `point`."""
    if 0 < point <= _LARGEST_PLAIN:
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
        return f"{whole}.{fraction}" if fraction else whole
    if _SMALLEST_PLAIN < point <= 0:
        return f"0.{'0' * -point}{digits}"
    mantissa = digits[0] + (f".{digits[1:]}" if digits[1:] else "")
    return f"{mantissa}e{point - 1:+d}"


_LARGEST_PLAIN, _SMALLEST_PLAIN = 21, -6


_HASH_FOLLOWS = b',"event_hash":"'
_HASH_ENDS = re.compile(rb'sha256:[0-9a-f]{64}"\}')
_REQUIRED = ("schema", "partition", "sequence", "prev_hash", "event_hash", "input")


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where the decided input lies, and the broker's time of it, None where the record does not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None = None

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class ChainEntry:
    """A record as the chain sees it; `at` topic and offset are where it lies."""

    sequence: int
    previous: str
    hash: str
    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A readable record: entry, fields, coordinates of its input, and the hash that it should carry."""

    entry: ChainEntry
    fields: dict[str, Any]
    input: Coordinates | None
    computed_hash: str


def open_record(located: Located) -> Opened:
    """Raises NotStrict for a record that is not strict JSON or lacks what the chain needs."""
    if located.value is None:
        raise NotStrict("the record has no value")
    fields, sealed = _read_sealed(located.value)
    if absent := [name for name in _REQUIRED if name not in fields]:
        raise NotStrict(f"the record lacks {', '.join(absent)}")
    entry = _read_entry(fields, located)
    source = _read_coordinates(fields["input"])
    return Opened(entry, fields, source, f"sha256:{hashlib.sha256(sealed).hexdigest()}")


def _read_sealed(raw: bytes) -> tuple[dict[str, Any], bytes]:
    """The object, and the canonical form of it without its hash. A writer puts the hash behind that form, so
    that in nearly every record the rest lies in it."""
    others, mark, ending = raw.rpartition(_HASH_FOLLOWS)
    others += b"}"
    fields = read_canonical(others) if mark and _HASH_ENDS.fullmatch(ending) else None
    if fields is None or "event_hash" in fields:
        fields, plain = _read_strictly(raw)
        rest = {name: value for name, value in fields.items() if name != "event_hash"}
        return fields, canonicalize(rest, plain=plain)
    fields["event_hash"] = ending[:-2].decode()
    return fields, others


def _read_entry(fields: dict[str, Any], located: Located) -> ChainEntry:
    sequence = _read_whole(fields["sequence"], "sequence", least=1)
    _read_whole(fields["partition"], "partition")
    previous, own = (_read_text(fields[name], name) for name in ("prev_hash", "event_hash"))
    return ChainEntry(sequence, previous, own, located.topic, located.offset)


def _read_coordinates(value: Any) -> Coordinates | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise NotStrict("input is neither an object nor null")
    return Coordinates(
        _read_text(value.get("topic"), "input.topic"),
        _read_whole(value.get("partition"), "input.partition"),
        _read_whole(value.get("offset"), "input.offset"),
        _read_whole(value["timestamp"], "input.timestamp") if "timestamp" in value else None,
    )


def _read_whole(value: Any, name: str, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= SAFE_INTEGER:
        raise NotStrict(f"{name} is not a whole number of at least {least}")
    return value


def _read_text(value: Any, name: str) -> str:
    if not (isinstance(value, str) and value.isascii()):
        raise NotStrict(f"{name} is not a string of ASCII")
    return value
