"""Bytes to a JSON tree by the letter of RFC 8259 and RFC 7493 (I-JSON), but for the size of integers.

The standard library's scanner does the work; its hooks refuse what it would let through. The good path stops
at the first refusal without knowing where it is; only then is the text read again by hooks that plant the
flaw in the tree, where its path can be seen.

`Unreadable` says why an input could not be read: a code, the place, a sentence.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


Code = Literal[
    "empty",
    "too_large",
    "not_utf8",
    "not_json",
    "too_deep",
    "duplicate_key",
    "not_finite",
    "too_long_number",
    "lone_surrogate",
    "unknown_field",
    "missing_field",
    "ambiguous_field",
    "wrong_type",
    "invalid_value",
    "key_mismatch",
    "wrong_partition",
    "sealed_key_unknown",
    "sealed_key_erased",
    "sealed_invalid",
    "sealed_unmarked",
    "not_sealed",
]

Step = str | int
"""One step of a path: an object's key or an array's index."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_KEY_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An input that is no record. `path` is a JSON path such as `$.parameters.rows[3]`, ASCII and bounded."""

    code: Code
    path: str
    message: str

    def __str__(self) -> str:
        """On one line."""
        return f"{self.code} at {self.path}: {self.message}"


def write_json_path(steps: Iterable[Step]) -> str:
    """Steps as a JSON path (RFC 9535's notation). Keys that are no plain name are quoted, long ones cut."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _write_key(step) for step in steps)


def _write_key(key: str) -> str:
    shown = key if len(key) <= _MAX_KEY_SHOWN else key[:_MAX_KEY_SHOWN] + "..."
    return f".{shown}" if _PLAIN_KEY.fullmatch(shown) else f"[{json.dumps(shown)}]"


# Possessive quantifiers: linear on any text, also on a string that never ends.
_STRING = r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?'
_TOKEN = re.compile(_STRING + r"|[\[\]{},:]", re.DOTALL)
_STRINGS = re.compile(_STRING.encode(), re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"\\'))
_DELTA = tuple(1 if code in b"[{" else -1 for code in range(256))


def measure_depth(raw: bytes) -> int:
    """How deep arrays and objects nest in the text; strings do not count. Linear."""
    marks = raw.replace(rb"\\", rb"\.").replace(rb"\"", rb"\.").translate(None, _NO_MARKS)
    # Two quotes side by side begin and end nothing that is left: what is between others stays so.
    brackets = b"".join(marks.replace(b'""', b"").split(b'"')[::2])
    if b"\\" in brackets:  # outside a string: whether a quote is escaped is then another question
        brackets = _STRINGS.sub(b"", raw).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_DELTA.__getitem__, brackets)), default=0)


def find_steps_at(text: str, stop: int) -> list[Step]:
    """The steps from the top to the value at character `stop`."""
    return _find_steps(text, stop, deepest=None)


def find_steps_below(text: str, deepest: int) -> list[Step]:
    """The steps to the first array or object that lies deeper than `deepest`."""
    return _find_steps(text, len(text), deepest)


def _find_steps(text: str, stop: int, deepest: int | None) -> list[Step]:
    open_at: list[Step | None] = []  # per open container: its current index or key, None before a key
    last_string = ""
    for match in _TOKEN.finditer(text, 0, stop):
        mark = match[0]
        if mark[0] == '"':
            last_string = mark
        elif mark in "[{":
            if len(open_at) == deepest:
                break
            open_at.append(0 if mark == "[" else None)
        elif open_at:
            _advance(open_at, mark, last_string)
    return [step for step in open_at if step is not None]


def _advance(open_at: list[Step | None], mark: str, last_string: str) -> None:
    here = open_at[-1]
    if mark in "]}":
        open_at.pop()
    elif mark == ",":
        open_at[-1] = here + 1 if isinstance(here, int) else None
    elif not isinstance(here, int):
        open_at[-1] = _decode_string(last_string)


def _decode_string(mark: str) -> str:
    try:
        return str(json.loads(mark, strict=False))
    except json.JSONDecodeError:
        return mark.strip('"')


MAX_DEPTH = 64
MAX_NUMBER_LENGTH = 1000
"""Characters of one number; a longer one costs quadratic time to convert."""
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _Flaw(Exception):
    """What no I-JSON text has. Raised on the good path, planted in the tree as a value after it."""

    code: Code
    message: str
    key: str | None = None


def parse(raw: bytes) -> Any:
    """The tree of a JSON text, or Unreadable. Integers are exact; a float that JSON rounds is rounded."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return _describe_not_utf8(raw, error)
    if text.startswith("\ufeff"):
        return Unreadable("not_json", "$", "starts with a byte order mark")
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and measure_depth(raw) > MAX_DEPTH:
        path = write_json_path(find_steps_below(text, MAX_DEPTH))
        return Unreadable("too_deep", path, f"nested over {MAX_DEPTH} deep")
    try:
        tree = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        return _describe_not_json(text, error)
    except _Flaw:
        return _find_planted(text)
    return _find_surrogate(tree) or tree if _SURROGATE_ESCAPE.search(text) else tree


def _describe_not_utf8(raw: bytes, error: UnicodeDecodeError) -> Unreadable:
    before = raw[: error.start].decode("utf-8")
    path = write_json_path(find_steps_at(before, len(before))[:MAX_DEPTH])
    return Unreadable("not_utf8", path, f"byte {error.start} is not UTF-8: {error.reason}")


def _describe_not_json(text: str, error: json.JSONDecodeError) -> Unreadable:
    location = f"line {error.lineno} column {error.colno} (character {error.pos})"
    return Unreadable("not_json", write_json_path(find_steps_at(text, error.pos)), f"{error.msg}: {location}")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Flaw("duplicate_key", "key given twice", _find_repeated(pairs))
    return made


def _find_repeated(pairs: list[tuple[str, Any]]) -> str:
    observed: set[str] = set()
    for key, _ in pairs:
        if key in observed:
            break
        observed.add(key)
    return key


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_NUMBER_LENGTH:
        raise _Flaw("too_long_number", f"a number of over {MAX_NUMBER_LENGTH} characters")
    return int(digits)


def _parse_float(digits: str) -> float:
    if len(digits) > MAX_NUMBER_LENGTH:
        raise _Flaw("too_long_number", f"a number of over {MAX_NUMBER_LENGTH} characters")
    number = float(digits)
    if math.isinf(number):
        raise _Flaw("not_finite", "a number beyond the range of a double")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise _Flaw("not_finite", f"{name} is no JSON number")


def _plant_flaws(hook: Any) -> Any:
    """The hook, returning a flaw in place of raising it."""

    def plant(value: Any) -> Any:
        try:
            return hook(value)
        except _Flaw as flaw:
            return flaw

    return plant


_STRICT = json.JSONDecoder(
    object_pairs_hook=_build_object,
    parse_int=_parse_integer,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
)
_PLANTING = json.JSONDecoder(
    object_pairs_hook=_plant_flaws(_build_object),
    parse_int=_plant_flaws(_parse_integer),
    parse_float=_plant_flaws(_parse_float),
    parse_constant=_plant_flaws(_refuse_constant),
)


def _find_planted(text: str) -> Unreadable:
    try:
        tree = _PLANTING.decode(text)
    except json.JSONDecodeError as error:
        return _describe_not_json(text, error)
    steps = _find_steps_to([tree], lambda leaf: isinstance(leaf, _Flaw)) or []
    flaw = _get_value_at(tree, steps)
    return Unreadable(
        flaw.code, write_json_path(steps if flaw.key is None else (*steps, flaw.key)), flaw.message
    )


def _find_surrogate(tree: Any) -> Unreadable | None:
    steps = _find_steps_to([tree], lambda leaf: isinstance(leaf, str) and _SURROGATE.search(leaf) is not None)
    if steps is None:
        return None
    return Unreadable("lone_surrogate", write_json_path(steps), "half of a surrogate pair is no character")


def _find_steps_to(boxed: list[Any], is_sought: Callable[[Any], bool]) -> list[Step] | None:
    """The steps to the first key or leaf that is wanted, in the text's order; the tree comes in a list."""
    backwards = _find_backwards(boxed, is_sought)
    return None if backwards is None else backwards[-2::-1]


def _find_backwards(tree: dict[str, Any] | list[Any], is_sought: Callable[[Any], bool]) -> list[Step] | None:
    steps: Iterable[tuple[Step, Any]] = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for step, value in steps:
        if isinstance(value, dict | list):
            below = [] if is_sought(step) else _find_backwards(value, is_sought)
            if below is not None:
                return [*below, step]
        elif is_sought(value) or is_sought(step):
            return [step]
    return None


def _get_value_at(tree: Any, steps: list[Step]) -> Any:
    for step in steps:
        tree = tree[step]
    return tree
