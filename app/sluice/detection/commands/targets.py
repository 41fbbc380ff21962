"""Paths, hosts and URLs as they are meant: the spellings that reach the same file or machine.

`/etc/../etc//shadow`, `file:///etc/shadow`, `http://2852039166/`, `http://user@HOST.:80/`: RFC 3986 section 6
(normalisation), WHATWG URL (hosts written as numbers), CWE-22, CWE-918.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address
from itertools import islice
from posixpath import normpath
from typing import TYPE_CHECKING, Annotated

import re2
from pydantic import Field

from sluice.detection.commands.inspection import Described
from sluice.text.expression_sets import PatternSet

if TYPE_CHECKING:
    from collections.abc import Iterator

_GLOB_STAR = r"[^\s'\"`;,()]*"
SPELLED = 32
"""The most paths and the most URLs of one text that are spelled out."""
_BETWEEN_PATHS = re.compile(r"[\s'\"`;,|<>()=]+")
_CROOKED = re.compile(r"/\.{0,2}/|/\.{1,2}\Z")
_URL = re.compile(r"([a-z][a-z0-9+.-]{1,15})://([^\s/'\"`<>?#]+)([^\s'\"`<>]*)", re.IGNORECASE)
_FILE_URL = re.compile(r"file:/{1,3}(?:localhost)?(/[^\s'\"`<>]*)", re.IGNORECASE)
_NUMBER_PART = re.compile(r"0x[0-9a-f]+|[0-9]+", re.IGNORECASE)
SPELLING_CUES = r"//|/\.|~|\$\{?HOME"
"""Without one of these every path and URL in a text is written plainly."""
_CUES = re.compile(SPELLING_CUES)
_HOME = re.compile(r"(?:~|\$\{?HOME\}?)(?=/)")
_PARTS_OF_IPV4 = 4
_BYTE = 256


class TargetPattern(Described):
    """Globs of files, hosts or URLs that no agent should name, in whatever spelling."""

    targets: Annotated[list[Annotated[str, Field(pattern=r"[^*\s]", max_length=1024)]], Field(min_length=1)]


class TargetPatterns:
    """Target patterns, compiled to one automaton, `expressions`."""

    __slots__ = ("expressions",)

    def __init__(self, patterns: list[TargetPattern]) -> None:
        """Raises nothing: a glob always compiles."""
        self.expressions = PatternSet([(pattern, _expression(pattern.targets)) for pattern in patterns])

    def matches(self, text: str) -> list[TargetPattern]:
        """The patterns of which a target stands in the text, each once."""
        return self.expressions.matches(text)


def _expression(targets: list[str]) -> str:
    """Any of the globs, whole words: one expression for a pattern, since each costs its compilation."""
    globs = (_GLOB_STAR.join(re2.escape(part) for part in re.split(r"\*+", target)) for target in targets)
    return rf"(?:^|\W)(?:{'|'.join(globs)})(?:$|\W)"


def spellings(text: str) -> Iterator[str]:
    """The paths, hosts and URLs in a text, each in its plain spelling where it is written in another."""
    if _CUES.search(text) is None:
        return
    for match in islice(_URL.finditer(text), SPELLED):
        yield from _url(match[1], match[2], match[3])
    for match in islice(_FILE_URL.finditer(text), SPELLED):
        yield normpath("/" + match[1].lstrip("/"))
    words = [word for word in _BETWEEN_PATHS.split(text) if "//" in word or "/." in word]
    for word in words[:SPELLED]:
        if "://" not in word and _CROOKED.search(word):
            yield _plain_path(word)
    if _HOME.search(text):
        yield _HOME.sub("/root", text)
        yield _HOME.sub("~", text)


def _plain_path(path: str) -> str:
    """Without `.`, `..` and doubled slashes; leading `..` are taken to reach the root."""
    plain = normpath(path)
    while plain.startswith("../"):
        plain = plain[3:]
    return "/" + plain.lstrip("/") if path.startswith(("/", "..")) else plain


def _url(scheme: str, authority: str, rest: str) -> Iterator[str]:
    host = authority.rpartition("@")[2]
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not colon or not port.isdigit():
        name = host
    name = _host(name.rstrip("."))
    path = _plain_path(rest.partition("?")[0]) if rest.startswith("/") else rest
    yield f"{scheme.lower()}://{name}{path}"
    if name != authority:
        yield name


def _host(name: str) -> str:
    """A host written as one number, or with hexadecimal or octal parts, as the address that it is."""
    parts = name.split(".")
    if len(parts) > _PARTS_OF_IPV4 or not all(_NUMBER_PART.fullmatch(part) for part in parts):
        return name.lower()
    numbers = [_number(part) for part in parts]
    last = _BYTE ** (_PARTS_OF_IPV4 + 1 - len(numbers))
    if any(number >= _BYTE for number in numbers[:-1]) or numbers[-1] >= last:
        return name.lower()
    address = sum(number * _BYTE ** (_PARTS_OF_IPV4 - 1 - index) for index, number in enumerate(numbers[:-1]))
    return str(IPv4Address(address + numbers[-1]))


def _number(part: str) -> int:
    if part[:2].lower() == "0x":
        return int(part, 16) if len(part) <= 2 + 8 else _BYTE**_PARTS_OF_IPV4
    octal = len(part) > 1 and part[0] == "0" and set(part) <= set("01234567")
    return int(part, 8 if octal else 10) if len(part) <= _PARTS_OF_IPV4 * 4 else _BYTE**_PARTS_OF_IPV4
