"""Records that cannot be read, each a readable action spoilt in one way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.demo.encoding import to_bytes
from topics.catalog import MAX_INPUT_VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOO_DEEP = 65


def unreadable_values(action: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """What is wrong and the bytes, of at least ten kinds. `action`: a ProposedAction by wire name."""
    whole = to_bytes(action)
    yield "cut off in the middle", whole[: len(whole) // 2]
    yield "no value at all", b""
    yield "not UTF-8", _with(action, '"\xff"'.encode("latin-1"))
    yield "a key given twice", whole[:-1] + b',"mode":"standard"' * 2 + b"}"
    yield "NaN for a number", _with(action, b'{"limit":NaN}')
    yield "half a surrogate pair", _with(action, rb'{"text":"\ud800"}')
    yield "nested too deep", _with(action, b"[" * _TOO_DEEP + b"]" * _TOO_DEEP)
    yield "over the size limit", _with(action, b'"' + b"x" * MAX_INPUT_VALUE_BYTES + b'"')
    yield "an unknown field", to_bytes({**action, "priority": "urgent"})
    yield "a field missing", to_bytes({name: value for name, value in action.items() if name != "toolName"})
    yield "a number as text", to_bytes({**action, "rows_affected": "12"})
    yield "another session's key", to_bytes({**action, "session_id": f"{action['session_id']}-other"})


def _with(action: dict[str, Any], parameters: bytes) -> bytes:
    """The action with these bytes for its `parameters`, which a JSON writer would not write."""
    rest = {name: value for name, value in action.items() if name != "parameters"}
    return to_bytes(rest)[:-1] + b',"parameters":' + parameters + b"}"
