"""Why an input could not be read, as a value: a code, the place, a sentence."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def json_path(steps: Iterable[Step]) -> str:
    """Steps as a JSON path (RFC 9535's notation). Keys that are no plain name are quoted, long ones cut."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _key(step) for step in steps)


def _key(key: str) -> str:
    shown = key if len(key) <= _MAX_KEY_SHOWN else key[:_MAX_KEY_SHOWN] + "..."
    return f".{shown}" if _PLAIN_KEY.fullmatch(shown) else f"[{json.dumps(shown)}]"
