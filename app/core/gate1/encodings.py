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

ENCODED_RUNS = 16
"""The most base64 or hexadecimal runs of one text that are decoded."""
SHORTEST_RUN = 11
"""Characters of base64 or hexadecimal that can hold a command worth the name."""
_PRINTABLE_SHARE = 0.9
_URL = re.compile(r"%[0-9A-Fa-f]{2}|%u[0-9A-Fa-f]{4}")
_URL_UTF16 = re.compile(r"%u([0-9A-Fa-f]{4})")
_HTML = re.compile(r"&(?:#[xX]?[0-9A-Fa-f]{2,6}|[a-z]{2,6});?")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{4,6})\}?|([0-3][0-7]{2}))")
ENCODING_TELLS = rf"%[0-9a-f]{{2}}|%u[0-9a-f]|&(?:#|[a-z])|\\[xu0-3]|[a-z0-9+/_-]{{{SHORTEST_RUN}}}"
"""Without one of these, in any case, a text is in none of the encodings."""
LONGEST_RUN = 4096
"""Characters of a run that are decoded; a longer one is data."""
_BASE64 = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST_RUN},{LONGEST_RUN}}}={{0,2}}")
_HEX = re.compile(rf"(?:0x|\\x|x')?((?:[0-9A-Fa-f]{{2}}){{{SHORTEST_RUN // 2},}})'?")
_LARGEST, _FIRST_HALF, _LAST_HALF = 0x10FFFF, 0xD800, 0xDFFF


def decodings(text: str) -> Iterator[tuple[str, str]]:
    """(encoding, decoded text) of each encoding that the text is in; the text may be decoded again."""
    if "%" in text and _URL.search(text):
        yield "url", _url_decoded(text)
    if "&" in text and _HTML.search(text):
        yield "html", html.unescape(text)
    if "\\" in text and _ESCAPE.search(text):
        yield "escapes", _ESCAPE.sub(_character, text)
    yield from _runs(text)


def _url_decoded(text: str) -> str:
    return unquote_plus(_URL_UTF16.sub(_utf16_unit, text), errors="replace")


def _utf16_unit(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return found[0] if _is_half(code) else chr(code)


def _character(found: re.Match[str]) -> str:
    code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
    return chr(code) if code <= _LARGEST and not _is_half(code) else found[0]


def _is_half(code: int) -> bool:
    """A surrogate, which alone is no character."""
    return _FIRST_HALF <= code <= _LAST_HALF


def _runs(text: str) -> Iterator[tuple[str, str]]:
    for count, found in enumerate(_BASE64.finditer(text)):
        if count == ENCODED_RUNS:
            return
        run = found.group()
        hexed = _HEX.fullmatch(run)
        decoded = _readable(bytes.fromhex(hexed[1])) if hexed else _from_base64(run)
        if decoded is not None:
            yield ("hex" if hexed else "base64"), decoded


def _from_base64(run: str) -> str | None:
    plain = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(plain) % 4 == 1:
        plain = plain[:-1]
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except (binascii.Error, ValueError):
        return None


def _readable(raw: bytes) -> str | None:
    """The text in these bytes: UTF-8, or UTF-16 as PowerShell encodes commands; None if it is none."""
    zeros = raw.count(0)
    try:
        text = raw.decode("utf-16-le") if zeros * 3 > len(raw) else raw.decode()
    except UnicodeDecodeError:
        return None
    printable = sum(map(str.isprintable, text)) + sum(map(text.count, "\n\r\t"))
    return text if text and printable >= _PRINTABLE_SHARE * len(text) and text.isascii() else None
