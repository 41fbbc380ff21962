"""Encodings of whole texts within a text, each a linear pass whose result is never longer than the text.

No expression looks ahead behind a run that it may not give back, or a run that fails would be read again from
each of its places. MITRE ATT&CK T1027, MITRE ATLAS AML.T0068 (LLM prompt obfuscation). All pieces of one
encoding are read as one text, a line each, so that no number of decoys hides one. URL, HTML and backslash
escapes are Gate 1's.
"""

from __future__ import annotations

import base64
import binascii
import quopri
import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.disguises.encodings import decodings as escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_READABLE_SHARE = 0.9
_SHORTEST = 6
"""Characters. What decodes to fewer is chance."""
_RUNS = frozenset(["base64", "hex"])
_MORSE_CODE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- "
    "-.-- --.. ----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .-.-.- --..-- ..--.. -.-.-- "
    "-..-. -...- .--.-."
)
MORSE = dict(zip(_MORSE_CODE.split(), "abcdefghijklmnopqrstuvwxyz0123456789.,?!/=@", strict=True))


def _text(decode: Callable[[str], bytes | str], piece: str) -> str | None:
    """What a piece says: text of any language with hardly a control character in it; else None."""
    try:
        raw = decode(piece)
        text = raw if isinstance(raw, str) else raw.decode("utf-16-le" if raw[1:2] == b"\0" else "utf-8")
    except (ValueError, binascii.Error):
        return None
    readable = len(text) if text.isprintable() else sum(map(_is_readable, text))
    return text if len(text) >= _SHORTEST and readable >= _READABLE_SHARE * len(text) else None


def _is_readable(sign: str) -> bool:
    return sign.isprintable() or sign in "\n\r\t"


def _base64(piece: str) -> bytes:
    run = re.sub(r"\s+", "", piece).rstrip("=").replace("-", "+").replace("_", "/")
    run = run[:-1] if len(run) % 4 == 1 else run
    return base64.b64decode(run + "=" * (-len(run) % 4))


def _base32(piece: str) -> bytes:
    run = piece.rstrip("=")
    return base64.b32decode(run + "=" * (-len(run) % 8))


def _hex(piece: str) -> bytes:
    return bytes.fromhex(re.sub(r"0x|\\x|[^0-9A-Fa-f]", "", piece))


def is_readable_hex(piece: str) -> bool:
    """Whether digits in hex, with or without signs between them, are those of a text."""
    return _text(_hex, piece) is not None


def _numbers(base: int) -> Callable[[str], bytes]:
    return lambda piece: bytes(int(number, base) for number in re.findall(r"\d+", piece))


def _binary(piece: str) -> bytes:
    bits = re.sub(r"[^01]", "", piece)
    width = 7 if re.search(r"\b[01]{7}\b", piece) else 8
    return bytes(int(bits[at : at + width], 2) for at in range(0, len(bits) - width + 1, width))


def _morse(piece: str) -> str:
    words = re.split(r"\s*[/|]\s*|\s{3,}", piece.strip())
    return " ".join("".join(MORSE.get(sign, "?") for sign in word.split()) for word in words)


def _decode_quoted_printable(piece: str) -> bytes:
    return quopri.decodestring(piece.encode())


def _ascii85(piece: str) -> bytes:
    return base64.a85decode(piece, adobe=True)


class _Encoding(NamedTuple):
    """`cue`: RE2, without regard to case; without it in a text none of the `pieces` is."""

    how: str
    cue: str
    pieces: re.Pattern[str]
    decode: Callable[[str], bytes | str]


_ENCODINGS = (
    _Encoding(
        "base64",
        r"(?-i:[a-z0-9][A-Z][0-9A-Za-z+/_-]{6}|[0-9A-Za-z+/_-]{6}[a-z0-9][A-Z])",
        re.compile(r"(?<![0-9A-Za-z+/_-])[0-9A-Za-z+/_-]{11,}+(?:\s{1,3}[0-9A-Za-z+/_-]{40,}+)*={0,2}"),
        _base64,
    ),
    _Encoding(
        "base32",
        r"(?-i:[A-Z2-7]{16})",
        re.compile(r"(?<![0-9A-Za-z])[A-Z2-7]{16,}+={0,6}(?![0-9A-Za-z])"),
        _base32,
    ),
    _Encoding(
        "hex",
        r"(?:(?:0x|\\x)?[0-9a-f]{2}[\s:,;-]?){6}",
        re.compile(r"(?<![0-9A-Za-z])(?>(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[\s:,;-]?){6,})"),
        _hex,
    ),
    _Encoding(
        "binary",
        r"(?:[01]{7,8}[\s,;-]{0,2}){4}",
        re.compile(r"(?<![0-9A-Za-z])(?>(?:[01]{7,8}[\s,;-]{0,2}){4,})"),
        _binary,
    ),
    _Encoding(
        "decimal",
        r"(?:[1-9]\d{1,2}[,; ]{1,2}){7}",
        re.compile(r"(?<![0-9.])[1-9]\d{1,2}(?>(?:[,;\s]\s?[1-9]\d{1,2}){6,})"),
        _numbers(10),
    ),
    _Encoding(
        "octal",
        r"(?:[01][0-7]{2}[\s,;]{1,2}){7}",
        re.compile(r"(?<![0-9.])[01][0-7]{2}(?>(?:[\s,;]{1,2}[01][0-7]{2}){6,})"),
        _numbers(8),
    ),
    _Encoding(
        "morse",
        r"(?:[.-]{1,6}[ /|]{1,3}){6}",
        re.compile(r"(?<![.\-\w])(?>(?:[.-]{1,6}(?:[ ]{1,4}|[ ]?[/|][ ]?)){6,})[.-]{0,6}"),
        _morse,
    ),
    _Encoding(
        "quoted-printable",
        r"=[0-9a-f]{2}\S*=[0-9a-f]{2}",
        re.compile(r"(?<!\S)(?:[^\s=]*+=[0-9A-F]{2}){2,}\S*"),
        _decode_quoted_printable,
    ),
    _Encoding("ascii85", r"<~", re.compile(r"<~[!-uz\s]{8,4096}?~>"), _ascii85),
)
_ESCAPES = (
    r"%[0-9a-f]{2}|%u[0-9a-f]{4}|&(?:#x?[0-9a-f]{2}|[a-z]{2,6};)"
    r"|\\(?:x[0-9a-f]{2}|u\{?[0-9a-f]{4}|[0-3][0-7]{2})"
)
CUES = [("escapes", _ESCAPES), *((encoding.how, encoding.cue) for encoding in _ENCODINGS)]
"""RE2 expressions by what they are a cue to; without one of them in a text it holds nothing of that."""


def decodings(text: str, cues: list[str]) -> Iterator[tuple[str, str]]:
    """(encoding, decoded text) of each encoding told of; the text may be decoded again."""
    if "escapes" in cues:
        yield from takewhile(lambda form: form[0] not in _RUNS, escapes(text))
    for encoding in _ENCODINGS:
        if encoding.how in cues:
            pieces = (_text(encoding.decode, match[0]) for match in encoding.pieces.finditer(text))
            yield encoding.how, "\n".join(filter(None, pieces))
