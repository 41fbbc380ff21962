"""Malformed proposed actions of over 200 named kinds, for the fault runs and for the reader's tests.

Each kind makes a value from a session id and a salt; where there is room for the salt, no two are alike.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from load.inputs.malformed_fields import REQUIRED, SEED_FORMS, changes
from load.inputs.malformed_json import DEPTHS, DUPLICATES, LITERALS, NUMBERS, STRINGS, STRUCTURES

Maker = Callable[[str, str], bytes]

_OVER_A_MEGABYTE = 1024 * 1024 + 1
_CUTS = 12


def kinds() -> dict[str, Maker]:
    """Every kind by name: (session id, salt) to bytes that are no readable ProposedAction."""
    fragments = {
        "number": NUMBERS,
        "literal": LITERALS,
        "string": STRINGS,
        "structure": STRUCTURES,
        "duplicate": DUPLICATES,
        "depth": DEPTHS,
    }
    inside = {
        f"{family}_{name}": _insert_value(text.encode())
        for family, texts in fragments.items()
        for name, text in texts.items()
    }
    return (
        inside
        | _bare()
        | _make_around()
        | _make_doubled()
        | _cut()
        | _make_encoded()
        | _bytes_inside()
        | _fields()
    )


def action(session_id: str, salt: str, /, **changed: Any) -> dict[str, Any]:
    """A readable ProposedAction, with fields replaced or added."""
    return {
        "action_id": f"malformed-{salt}",
        "agent_id": "malformed-agent",
        "session_id": session_id,
        "toolName": "sql.query",
        "parameters": {"salt": salt},
        "mode": "high_stakes",
        **changed,
    }


def readable(session_id: str, salt: str, /, **changed: Any) -> bytes:
    """The bytes of `action`."""
    return json.dumps(action(session_id, salt, **changed)).encode()


def _insert_value(fragment: bytes) -> Maker:
    """A value of the parameters that is the fragment."""
    return lambda session, salt: readable(session, salt, parameters={"salt": salt, "value": 0}).replace(
        b'"value": 0', b'"value": ' + fragment
    )


def _bare() -> dict[str, Maker]:
    """Whole values that are no object, or an empty one."""
    texts = {
        "empty": b"",
        "space": b" ",
        "lines": b"\n\n",
        "null": b"null",
        "true": b"true",
        "number": b"42",
        "string": b'"action"',
        "array": b"[]",
        "object": b"{}",
        "nul_bytes": b"\x00\x00\x00\x00",
        "every_byte": bytes(range(256)),
        "byte_order_mark": b"\xef\xbb\xbf",
        "xml": b"<action/>",
        "yaml": b"action_id: a\nagent_id: b\n",
        "form": b"action_id=a&agent_id=b",
        "csv": b"action_id,agent_id\na,b\n",
        "message_pack": b"\x82\xa1a\x01\xa1b\x02",
    }
    return {f"whole_{name}": _constant(text) for name, text in texts.items()}


def _constant(text: bytes) -> Maker:
    return lambda _session, _salt: text


def _make_around() -> dict[str, Maker]:
    """A readable action with something before, after or around it."""
    frames = {
        "in_array": (b"[", b"]"),
        "in_round_brackets": (b"(", b")"),
        "callback": (b"f(", b");"),
        "anti_hijack": (b")]}'\n", b""),
        "record_separator": (b"\x1e", b""),
        "schema_id_before": (b"\x00\x00\x00\x00\x01", b""),
        "comma_before": (b",", b""),
        "comment_before": (b"// action\n", b""),
        "comma_after": (b"", b","),
        "brace_after": (b"", b"}"),
        "nul_after": (b"", b"\x00"),
        "word_after": (b"", b" end"),
        "comment_after": (b"", b"/* end */"),
        "second_after": (b"", b"\n{}"),
        "assignment": (b"action = ", b""),
        "byte_order_mark_before": (b"\xef\xbb\xbf", b""),
        "oversize_spaces": (b" " * _OVER_A_MEGABYTE, b""),
    }
    made = {f"around_{name}": _frame(*frame) for name, frame in frames.items()}
    return made | {
        "around_encoded_twice": lambda session, salt: json.dumps(readable(session, salt).decode()).encode(),
        "oversize_parameter": lambda session, salt: readable(
            session, salt, parameters={"text": "x" * _OVER_A_MEGABYTE}
        ),
    }


def _frame(before: bytes, after: bytes) -> Maker:
    return lambda session, salt: before + readable(session, salt) + after


def _make_doubled() -> dict[str, Maker]:
    """A readable action with one of its own fields given again."""
    return {f"duplicate_field_{field}": _again(field) for field in (*REQUIRED, "mode")}


def _again(field: str) -> Maker:
    def make(session: str, salt: str) -> bytes:
        again = json.dumps({field: action(session, salt)[field]}).encode()
        return readable(session, salt)[:-1] + b", " + again[1:]

    return make


def _cut() -> dict[str, Maker]:
    """A readable action that ends too early."""
    return {f"cut_{part}_of_{_CUTS}": _cut_at(part) for part in range(1, _CUTS)}


def _cut_at(part: int) -> Maker:
    def make(session: str, salt: str) -> bytes:
        whole = readable(session, salt)
        return whole[: len(whole) * part // _CUTS]

    return make


def _make_encoded() -> dict[str, Maker]:
    """A readable action in another encoding than UTF-8."""
    codecs = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig", "cp037")
    made = {f"encoding_{codec}": _encode_in(codec) for codec in codecs}
    return made | {"encoding_gzip": lambda session, salt: gzip.compress(readable(session, salt), mtime=0)}


def _encode_in(codec: str) -> Maker:
    return lambda session, salt: readable(session, salt).decode().encode(codec)


def _bytes_inside() -> dict[str, Maker]:
    """Bytes inside a string that are not UTF-8."""
    sequences = {
        "latin_1": b"caf\xe9",
        "windows_1252": b"\x93a\x94",
        "shift_jis": b"\x83\x65",
        "continuation_alone": b"\x80",
        "two_continuations": b"\x80\xbf",
        "two_byte_cut": b"\xc3",
        "three_byte_cut": b"\xe2\x82",
        "four_byte_cut": b"\xf0\x9f\x98",
        "overlong_nul": b"\xc0\x80",
        "overlong_slash": b"\xc0\xaf",
        "overlong_slash_three": b"\xe0\x80\xaf",
        "overlong_slash_four": b"\xf0\x80\x80\xaf",
        "overlong_quote": b"\xc0\xa2",
        "surrogate": b"\xed\xa0\x80",
        "surrogate_pair": b"\xed\xa0\xbd\xed\xb8\x80",
        "beyond_unicode": b"\xf4\x90\x80\x80",
        "lead_f5": b"\xf5\x80\x80\x80",
        "five_bytes": b"\xf8\x88\x80\x80\x80",
        "six_bytes": b"\xfc\x84\x80\x80\x80\x80",
        "fe": b"\xfe",
        "ff": b"\xff",
    }
    made = {f"bytes_{name}": _insert_value(b'"' + text + b'"') for name, text in sequences.items()}
    return made | {
        "bytes_in_key": _insert_value(b'{"\xff": 1}'),
        "bytes_between_values": _insert_value(b"\xff1"),
    }


def _fields() -> dict[str, Maker]:
    made = {name: _change(change) for name, change in changes().items()}
    made |= {f"missing_{field}": _drop_fields((field,), {}) for field in REQUIRED}
    made |= {
        f"seed_form_{name}": _drop_fields(("toolName", "parameters"), {"proposed_action": form})
        for name, form in SEED_FORMS.items()
    }
    return made


def _change(change: dict[str, Any]) -> Maker:
    return lambda session, salt: readable(session, salt, **change)


def _drop_fields(fields: tuple[str, ...], added: dict[str, Any]) -> Maker:
    def make(session: str, salt: str) -> bytes:
        fields_left = {name: value for name, value in action(session, salt).items() if name not in fields}
        return json.dumps(fields_left | added).encode()

    return make
