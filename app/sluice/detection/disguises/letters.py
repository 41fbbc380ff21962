# ruff: noqa: RUF001 - the look-alikes are what the file is about
"""Text with one spelling for each letter: look-alikes, compatibility forms, accents and invisible characters.

`fold_look` folds a text to the ASCII that it looks like, for actions; `plain` keeps every script, for
content. Expressions of the content library go through `plain_letters` too, so both sides are written alike in
every language.

Unicode Standard Annex 15 (NFKC), Technical Standard 39 (confusables), CWE-1007, CVE-2021-42574 (bidirectional
controls).
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_LOOK_ALIKES = {
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
_PLAIN = {other: plain for plain, others in _LOOK_ALIKES.items() for other in others}
_ANY_ALIKE = re.compile("[" + "".join(map(re.escape, _PLAIN)) + "]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_ACCENT_MARKS = re.compile("[\u0300-\u036f\u20d0-\u20ff]")


def fold_look(text: str) -> str:
    """The text folded to the ASCII that it looks like; other letters stay. An ASCII text is itself."""
    if text.isascii():
        return text
    bare = _UNSEEN.sub("", text)
    folded = unicodedata.normalize("NFKC", _replace_alike(bare))
    return _ACCENT_MARKS.sub("", _replace_alike(folded))


def _replace_alike(text: str) -> str:
    return _ANY_ALIKE.sub(lambda match: _PLAIN[match.group()], text)


_INVISIBLE = re.compile(
    "\x1b\\[[0-9;]{0,12}[A-Za-z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\ufff9-\ufffb\uffa0\U000e0000-\U000e0fff]"
)
_ACCENTS = re.compile(
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u0640\u064b-\u0655\u0670]"  # Hebrew points; Arabic vowels, kashida
)
_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.combining(chr(code)))
_MARKS_ABOVE = "\U00010a0d-\U00010a3f\U00011046-\U00011a99\U0001d165-\U0001d1ad\U0001e000-\U0001e94a"
_MOST_MARKS = 30
_CROWD = re.compile(f"[{_MARKS}]{{{_MOST_MARKS + 1},}}")
_CROWD_ABOVE = re.compile(f"[{_MARKS_ABOVE}]{{{_MOST_MARKS + 1},}}")
"""More marks on a letter than any language writes (UAX 15, Stream-Safe Text Format): to order n of them, as
normalising must, Python takes n * n steps."""
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʹʻʼˈ´＇", "'"),
        **dict.fromkeys("“”„‟″ʺ״＂", '"'),
        **dict.fromkeys("‐‑‒–—―−⁃﹘", "-"),
        **dict.fromkeys("⁄∕╱⧸", "/"),
        "․": ".",
        **dict.fromkeys("\u1680\u2028\u2029\u3000\u00a0", " "),
        **dict(zip("łøđħŧıŁØĐĦŦİ", "lodhtiLODHTI", strict=True)),
        **dict(zip("ىیکةہ", "ييكهه", strict=True)),
    }
)
_PLAIN_SIGNS = re.compile(f"[{''.join(map(chr, _SIGNS))}]")
_CONTROLS = bytes([*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])
_TURNED = dict(zip("ɐɔǝɟƃɓɥᴉɾʞɯɹʇʌʍʎ⅄∀ƎℲ⅁ſ˥ԀΛ", "acefgbhijkmrtvwyYAEFGJLPV", strict=True))
_SMALL_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnopqrstuvwyz", strict=True))
_EMOJI = {
    chr(first + index): chr(ord("A") + index)
    for first in (0x1F150, 0x1F170, 0x1F1E6)  # negative circled, negative squared, regional indicators
    for index in range(26)
}
_CURRENCY = dict(zip("₳฿₵₫€ƒ₲ħłḲ₥₦₱₴₮ʉ₩ɏ", "abcdefghlkmnpstuwy", strict=True))
_ALIKE = str.maketrans(_TURNED | _SMALL_CAPITALS | _EMOJI | _CURRENCY)


class Plain(NamedTuple):
    """`removed`: characters that no reader sees; `how`: what was done, outermost first; "" for nothing."""

    text: str
    removed: int
    how: str


def plain(text: str) -> Plain:
    """The text as it is judged first. Case, line ends and scripts stay."""
    if text.isascii() and len(text.encode().translate(None, _CONTROLS)) == len(text):
        return Plain(text, 0, "")
    bare = _INVISIBLE.sub("", text)
    removed = len(text) - len(bare)
    unmarked = _ACCENTS.sub("", _replace_signs(bare))
    if unmarked.isascii():
        return Plain(unmarked, removed, "invisible" if removed else "")
    compatible = unicodedata.normalize("NFKC", _thin_marks(unmarked))
    how = ["invisible"] * bool(removed) + ["look-alike"] * _gains_letters(bare, compatible)
    return Plain(_remove_accents(compatible), removed, " > ".join(how))


def _thin_marks(text: str) -> str:
    """The text with no more marks in a row than any language writes."""
    thinner = _CROWD.sub(lambda marks: marks[0][:_MOST_MARKS], text)
    return _CROWD_ABOVE.sub(_remove_marks, thinner)


def _remove_marks(run: re.Match[str]) -> str:
    """Letters of a row of characters above the basic plane, if it has so many marks."""
    return "".join(sign for sign in run[0] if not unicodedata.combining(sign))


def _replace_signs(text: str) -> str:
    """Each kind of quotation mark, dash and blank as the one of ASCII; prose has few kinds of them."""
    for sign in set(_PLAIN_SIGNS.findall(text)):
        text = text.replace(sign, _SIGNS[ord(sign)])
    return text


def alike(text: str) -> str:
    """Plain text with every letter as the Latin one that it looks like; no text of other scripts any more."""
    return text if text.isascii() else fold_look(text.translate(_ALIKE))


def plain_letters(expression: str) -> str:
    """An expression as `plain` spells its letters; a sign that becomes one of RE2's own is escaped."""
    if expression.isascii():
        return expression
    return _remove_accents("".join(map(_spell_plainly, expression)))


def _spell_plainly(sign: str) -> str:
    if sign.isascii():
        return sign
    folded = unicodedata.normalize("NFKC", sign.translate(_SIGNS))
    return folded if not folded.isascii() or folded.isalnum() else re.escape(folded)


def _remove_accents(text: str) -> str:
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


def _gains_letters(before: str, after: str) -> bool:
    """Whether letters were written in compatibility forms: full-width, mathematical, circled."""
    return _latin(after) > _latin(before)


def _latin(text: str) -> int:
    return len(_LETTER.findall(text))


_LETTER = re.compile("[A-Za-z]")
