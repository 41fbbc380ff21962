"""How much of a text is signs."""

from __future__ import annotations

import re
import unicodedata

_PLAIN_ASCII = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\n\r\x0b\x0c"
_SIGN = re.compile(r"[^\w\s]|_")


def special_share(text: str) -> float:
    """The share of characters that are no letter, digit or white space; a letter's marks are letters."""
    if not text:
        return 0.0
    if text.isascii():
        return len(text.encode().translate(None, _PLAIN_ASCII)) / len(text)
    return sum(not unicodedata.category(sign).startswith("M") for sign in _SIGN.findall(text)) / len(text)
