"""Encodings that hide a text within a text: URL, HTML and backslash escapes, base64, hexadecimal.

MITRE ATT&CK T1027 and T1140. A decoding counts only if printable text comes out; each is one linear pass.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST_RUN = 11
"""Characters of base64 or hexadecimal that can hold a command worth the name."""
_PRINTABLE_SHARE = 0.9
_URL = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}")
_URL_UTF16 = re.compile(r"%u([0-9A-Fa-f]{4})")
_HTML = re.compile(r"&(?:#[xX]?[0-9A-Fa-f]{2,6}|[a-z]{2,6});?")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{4,6})\}?|([0-3][0-7]{2}))")
LONGEST_RUN = 4096
"""Characters of a run that are decoded; the rest of a longer one is data."""
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FIRST, _SECOND, _THIRD = (
    "".join(sign for value, sign in enumerate(_ALPHABET) if not value & top_bit) for top_bit in (32, 8, 2)
)
"""What may stand at each place of four base64 characters that decode to ASCII: a byte's top bit is in each of
the first three. English words and random bytes fail here early, before anything is decoded."""
_IN_RUN = "A-Za-z0-9+/_-"
_BEGINS = (
    rf"(?:(?:[{_FIRST}][{_SECOND}][{_THIRD}][{_IN_RUN}]){{2}}[{_FIRST}][{_SECOND}][{_IN_RUN}]"
    rf"|(?:0x)?(?:[0-7][0-9A-Fa-f]){{{SHORTEST_RUN // 2}}})"
)
"""How a run begins that holds ASCII, in base64 or hexadecimal."""
ENCODING_CUES = (
    r"%[0-9a-f]{2}|%u[0-9a-f]{4}|&(?:#x?[0-9a-f]{2}|[a-z]{2})|\\(?:x[0-9a-f]{2}|u\{?[0-9a-f]{4}|[0-3][0-7]{2})"
    rf"|(?-i:(?:^|[^{_IN_RUN}]){_BEGINS})"
)
"""Without one of these, in any case, a text is in none of the encodings."""
_RUN = re.compile(
    rf"(?<![{_IN_RUN}])(?=[{_IN_RUN}]{{{SHORTEST_RUN}}}){_BEGINS}[{_IN_RUN}]{{0,{LONGEST_RUN}}}={{0,2}}"
)
_HEX = re.compile(rf"(?:0x)?((?:[0-9A-Fa-f]{{2}}){{{SHORTEST_RUN // 2},}})")
_LARGEST, _FIRST_HALF, _LAST_HALF = 0x10FFFF, 0xD800, 0xDFFF


def decodings(text: str) -> Iterator[tuple[str, str]]:
    """(encoding, decoded text) of each encoding that the text is in; the text may be decoded again.

    Each run of base64 or hexadecimal is decoded once; what cannot be ASCII is left out.
    """
    if "%" in text and _URL.search(text):
        yield "url", _decode_url(text)
    if "&" in text and _HTML.search(text):
        yield "html", html.unescape(text)
    if "\\" in text and _ESCAPE.search(text):
        yield "escapes", _ESCAPE.sub(_character, text)
    yield from _runs(text)


def _decode_url(text: str) -> str:
    return unquote_plus(_URL_UTF16.sub(_utf16_unit, text), errors="replace")


def _utf16_unit(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return match[0] if _is_half(code) else chr(code)


def _character(match: re.Match[str]) -> str:
    code = int(match[3], 8) if match[3] else int(match[1] or match[2], 16)
    return chr(code) if code <= _LARGEST and not _is_half(code) else match[0]


def _is_half(code: int) -> bool:
    """A surrogate, which alone is no character."""
    return _FIRST_HALF <= code <= _LAST_HALF


def _runs(text: str) -> Iterator[tuple[str, str]]:
    for run in dict.fromkeys(match.group()[:LONGEST_RUN] for match in _RUN.finditer(text)):
        hexed = _HEX.fullmatch(run)
        decoded = _readable(bytes.fromhex(hexed[1])) if hexed else _decode_base64(run)
        if decoded is not None:
            yield ("hex" if hexed else "base64"), decoded


def _decode_base64(run: str) -> str | None:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except (binascii.Error, ValueError):
        return None


def _readable(raw: bytes) -> str | None:
    """The text in these bytes: UTF-8, or UTF-16 as PowerShell encodes commands; None if it is none."""
    if not raw.isascii():
        return None
    try:
        text = raw.decode("utf-16-le" if raw.count(0) * 3 > len(raw) else "ascii")
    except UnicodeDecodeError:
        return None
    printable = len(text) if text.isprintable() else sum(map(_is_readable, text))
    return text if text and printable >= _PRINTABLE_SHARE * len(text) and text.isascii() else None


def _is_readable(sign: str) -> bool:
    return sign.isprintable() or sign in "\n\r\t"
