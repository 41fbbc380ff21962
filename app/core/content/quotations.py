# ruff: noqa: RUF001 - the quotation marks of other scripts are meant
"""What stands between quotation marks, in code spans and fences and in quoted lines of a reply."""

from __future__ import annotations

import re

LONGEST_QUOTATION = 600
_SPACED = r"[^\W\u0e00-\u0eff\u2e80-\uffff]"
"""A letter or digit of a script that has spaces between words; others have none around a quotation."""
_QUOTED = re.compile(
    r"```.{1,4000}?```"
    rf"|(?<!{_SPACED})\"[^\"]{{1,{LONGEST_QUOTATION}}}\"(?!{_SPACED})"
    rf"|(?<!\w)'(?=\S)[^\n]{{1,{LONGEST_QUOTATION // 2}}}?(?<=\S)'(?!\w)"
    rf"|`[^`\n]{{1,{LONGEST_QUOTATION}}}`"
    rf"|«[^»]{{1,{LONGEST_QUOTATION}}}»|‹[^›]{{1,{LONGEST_QUOTATION}}}›|»[^»«]{{1,{LONGEST_QUOTATION}}}«"
    rf"|[「『][^」』]{{1,{LONGEST_QUOTATION}}}[」』]|《[^》]{{1,{LONGEST_QUOTATION}}}》"
    r"|^[ \t]{0,3}>[^\n]*",
    re.MULTILINE | re.DOTALL,
)


_TAG = re.compile(r"<[A-Za-z][^<>]{0,4000}>")
_VALUE = re.compile(r"=\s{0,3}(?:\"[^\"]*\"|'[^']*')")


def attributes(text: str) -> list[tuple[int, int]]:
    """(start, end) of each quoted value in an HTML tag, in characters: its marks quote nobody."""
    return [
        (tag.start() + value.start(), tag.start() + value.end())
        for tag in _TAG.finditer(text)
        for value in _VALUE.finditer(tag[0])
    ]


def quotations(text: str) -> list[tuple[int, int]]:
    """(start, end) of each quotation with its marks, in characters; none within another."""
    return [found.span() for found in _QUOTED.finditer(text)]
