# ruff: noqa: RUF001 - the look-alikes are what the file is about
"""Text as a reader sees it: compatibility forms, look-alike letters and invisible characters folded to ASCII.

Unicode Standard Annex 15 (NFKC), Technical Standard 39 (confusables: those of the letters and signs that
commands, SQL and paths are written with), CWE-1007, CVE-2021-42574 (bidirectional controls).
"""

from __future__ import annotations

import re
import unicodedata

_ALIKE = {
    "a": "аɑα⍺",
    "b": "ЬƄ",
    "c": "сϲᴄⅽ",
    "d": "ԁⅾ",
    "e": "еҽ℮",
    "g": "ɡց",
    "h": "һհ",
    "i": "іıι¡ⅰ",
    "j": "јϳ",
    "k": "кκ",
    "l": "ӏⅼ∣ǀ",
    "m": "ⅿм",
    "n": "ոп",
    "o": "оοօ൦",
    "p": "рρ",
    "q": "ԛ",
    "r": "гᴦ",
    "s": "ѕꜱ",
    "t": "тτ",
    "u": "υսц",
    "v": "νѵⅴ",
    "w": "ѡԝա",
    "x": "хⅹ",
    "y": "уүγ",
    "z": "ᴢ",
    "A": "АΑ",
    "B": "ВΒ",
    "C": "СϹⅭ",
    "D": "Ⅾ",
    "E": "ЕΕ",
    "F": "Ϝ",
    "G": "Ԍ",
    "H": "НΗ",
    "I": "ІΙӀ",
    "J": "Ј",
    "K": "КΚ",
    "L": "Ⅼ",
    "M": "МΜⅯ",
    "N": "Ν",
    "O": "ОΟ",
    "P": "РΡ",
    "S": "Ѕ",
    "T": "ТΤ",
    "V": "Ѵ",
    "W": "Ԝ",
    "X": "ХΧ",
    "Y": "ΥҮ",
    "Z": "Ζ",
    "'": "‘’‚‛′ʹʻʼˈ´׳",
    '"': "“”„‟″ʺ״",
    "-": "‐‑‒–—―−⁃﹘",
    "/": "⁄∕╱⧸",
    "\\": "∖⧵⧹",
    "*": "∗⁎٭",
    ";": ";",  # the Greek question mark
    ":": "∶ː",
    "|": "∣❘",
    ".": "․。",
    ",": "‚",
    "<": "‹",
    ">": "›",
    "=": "═",
    "~": "∼",
    "$": "﹩",
    "(": "❨",
    ")": "❩",
    " ": "\u1680\u180e\u2028\u2029\u3000\u00a0",
}
_PLAIN = {other: plain for plain, others in _ALIKE.items() for other in others}
_ANY_ALIKE = re.compile("[" + "".join(map(re.escape, _PLAIN)) + "]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_MARKS = re.compile("[\u0300-\u036f\u20d0-\u20ff]")


def as_seen(text: str) -> str:
    """The text folded to the ASCII that it looks like; other letters stay. An ASCII text is itself."""
    if text.isascii():
        return text
    bare = _INVISIBLE.sub("", text)
    folded = unicodedata.normalize("NFKC", _without_alike(bare))
    return _MARKS.sub("", _without_alike(folded))


def _without_alike(text: str) -> str:
    return _ANY_ALIKE.sub(lambda found: _PLAIN[found.group()], text)
