"""Canonical JSON, RFC 8785: the bytes that the ledger hashes.

orjson with sorted keys writes the same bytes as RFC 8785 for almost every value and is fifty times faster
than the `rfc8785` package. The differences, and how each is excluded before its output is trusted:

- key order: orjson sorts by code point, RFC 8785 by UTF-16 unit. They differ only when some key holds a
  character beyond U+FFFF, whose UTF-8 starts with a byte of 0xF0 or more;
- numbers: orjson writes `1.0`, `-0.0`, `1e+16`, where RFC 8785 writes `1`, `0`, `10000000000000000`. Each
  of them ends in ".0" or has an exponent, and is handed to orjson in RFC 8785's form. Integers beyond 2^53-1
  are refused by orjson's strict option;
- NaN and the infinities, which orjson writes as null.

Anything else that orjson would take (dates, dataclasses) is passed through by option and so refused.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

import orjson
import rfc8785

from sluice.core.foundation.errors import CanonicalError

_OPTIONS_IN_ORDER = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_OPTIONS = _OPTIONS_IN_ORDER | orjson.OPT_SORT_KEYS
MAX_SAFE_INTEGER = 2**53 - 1
_NO_EXPONENT_FROM, _EXPONENT_FROM = 1e-4, 1e16
"""Between these Python writes no exponent."""
_LAST_OF_BMP = "\uffff"
_UTF8_BEYOND_BMP = tuple(bytes([lead]) for lead in range(0xF0, 0xF5))
# Every float that orjson writes differently from RFC 8785 contains one of these. A string may contain one
# too; this only costs the walk below. The single byte is searched first, because most records have none.
_WHOLE = re.compile(rb"\.0(?:[,}\]]|\Z)")
_SMALL = re.compile(rb"-(?<=[0-9]e-)[0-9]")
_LARGE = re.compile(rb"\+(?<=[0-9]e\+)[0-9]")


def canonical(value: Any, *, finite: bool = False) -> bytes:
    """The RFC 8785 form of a JSON value. Raises CanonicalError for a value that has none.

    `finite`: the caller promises that the value has no NaN and no infinity; this saves a walk over a value
    that contains a null.
    """
    try:
        fast = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return _slow(value)
    if _same_by_bytes(fast, finite=finite) or not _is_odd(value):
        return fast
    return _write_odd(value, fast)


def digest_alike(value: Any) -> tuple[str, bool]:
    """The `digest` of a finite value, and whether orjson writes its numbers and sorts its keys as RFC 8785
    does, for `write_alike`."""
    try:
        written = orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return "sha256:" + sha256(_slow(value)).hexdigest(), False
    alike = written.isascii() and not (_WHOLE.search(written) or _SMALL.search(written) or b"+" in written)
    alike = alike or _same_by_bytes(written, finite=True)
    if not alike and _is_odd(value):
        written = _write_odd(value, written)
    return "sha256:" + sha256(written).hexdigest(), alike


def write_alike(value: Any) -> bytes:
    """The canonical form of a value that orjson is known to write alike: nothing is searched for."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except (TypeError, ValueError, RecursionError):
        return _slow(value)


def encode_ordered(value: Any) -> bytes:
    """The canonical form of a value that was built for it: its keys are in order by code point, and
    `is_odd_float` is false for each number. Only characters that sort differently are searched for.
    """
    try:
        written = orjson.dumps(value, option=_OPTIONS_IN_ORDER)
    except (TypeError, ValueError, RecursionError):
        return _slow(value)
    return canonical(value, finite=True) if _sorts_otherwise(written) else written


def digest(value: Any, *, finite: bool = False) -> str:
    """ "sha256:" and the hex digest of the canonical form. Raises CanonicalError."""
    return "sha256:" + sha256(canonical(value, finite=finite)).hexdigest()


def extract_hex(digest_text: str) -> str:
    """The hex digits of a digest as `digest` gives it: state keeps them without "sha256:"."""
    return digest_text[len("sha256:") :]


def wire_safe(value: Any) -> Any:
    """The value with every integer beyond 2^53-1 as a decimal string, as ledger records carry them."""
    if isinstance(value, dict):
        return {key: wire_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [wire_safe(item) for item in value]
    return wire_int(value) if type(value) is int else value


def wire_int(number: int) -> int | str:
    """An integer as ledger records carry it: beyond 2^53-1 it is a decimal string."""
    return number if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER else str(number)


def _sorts_otherwise(fast: bytes) -> bool:
    return not fast.isascii() and any(lead in fast for lead in _UTF8_BEYOND_BMP)


def _same_by_bytes(fast: bytes, *, finite: bool) -> bool:
    if _sorts_otherwise(fast):
        return False
    if _WHOLE.search(fast) or _SMALL.search(fast) or (b"+" in fast and _LARGE.search(fast)):
        return False
    return finite or b"null" not in fast


def is_odd_float(number: float) -> bool:
    """Whether RFC 8785 and orjson write this float differently: one with an exponent, or a whole one."""
    if _NO_EXPONENT_FROM <= number < _EXPONENT_FROM:
        return number.is_integer()
    written = repr(number)
    return written.endswith(".0") or not written.lstrip("-").replace(".", "", 1).isdigit()


def _is_odd(value: Any) -> bool:
    """Whether the value has a number that is written differently, or a key that may sort differently."""
    if isinstance(value, float):
        return is_odd_float(value)
    if isinstance(value, dict):
        return any(max(key, default="") > _LAST_OF_BMP for key in value if not key.isascii()) or any(
            map(_is_odd, value.values())
        )
    return isinstance(value, list | tuple) and any(map(_is_odd, value))


def _write_odd(value: Any, fast: bytes) -> bytes:
    """The form of a value with odd numbers or keys; `fast`: what orjson wrote of it."""
    if _sorts_otherwise(fast):
        return _slow(value)
    return orjson.dumps(_replace_odd_floats(value), option=_OPTIONS)


def _replace_odd_floats(value: Any) -> Any:
    """The value with each odd float as an integer, or as its canonical text where it has no safe one. Most
    members are strings: they are not looked into."""
    if isinstance(value, float):
        if not is_odd_float(value):
            return value
        is_safe = value.is_integer() and abs(value) <= MAX_SAFE_INTEGER
        return int(value) if is_safe else orjson.Fragment(_slow(value))
    if isinstance(value, dict):
        return {
            key: member if type(member) is str else _replace_odd_floats(member)
            for key, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [member if type(member) is str else _replace_odd_floats(member) for member in value]
    return value


def _slow(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, ValueError, TypeError, RecursionError) as error:
        raise CanonicalError(f"no canonical form: {error}") from error
