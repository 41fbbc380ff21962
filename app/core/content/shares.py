"""How much of a text is signs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_PLAIN_ASCII = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\n\r\x0b\x0c"
_SIGN = re.compile(r"[^\w\s]|_")
_ABOVE = re.compile(r"[^\x00-\x7f]+")
_NO_SIGNS = _PLAIN_ASCII + bytes(range(128, 256))


def special_share(text: str) -> float:
    """The share of characters that are no letter, digit or white space; a letter's marks are letters."""
    if not text:
        return 0.0
    signs = len(text.encode().translate(None, _NO_SIGNS))
    if not text.isascii():
        above = Counter(_SIGN.findall("".join(_ABOVE.findall(text))))
        signs += sum(n for sign, n in above.items() if not unicodedata.category(sign).startswith("M"))
    return signs / len(text)
