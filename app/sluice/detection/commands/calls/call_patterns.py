"""Forbidden requests as data: conditions on the common form (call.py), all of which must hold.

A text in a pattern is a glob (`*`, `?`, `[...]`) without regard to case; `a|b` is either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

import re2
from pydantic import Field, model_validator

from sluice.detection.commands.calls.call import (
    ORDINARY,
    Scope,
)
from sluice.detection.commands.inspection import Described
from sluice.detection.commands.patterns.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.detection.commands.calls.call import Call

Glob = Annotated[str, Field(max_length=8192)]
_ONE_SEGMENT, _ANY_SEGMENTS = r"[^/]+", r"(?:/[^/]+)*"
ENCODED = r"%[2-7][0-9a-f]|\\u00|_method|method-override"
"""A verb may be written so, where no word of a pattern stands in the text."""
SHORT = 3
"""A word of so few letters stands within many others, so that it tells something only where a word begins."""


class CallPattern(Described):
    """One forbidden family of requests. It names its verbs, or its methods, or both."""

    protocol: list[Literal["http", "graphql", "operation"]] = Field(default_factory=list)
    method: list[Glob] = Field(default_factory=list)
    verb: list[Glob] = Field(default_factory=list)
    """What is done: by the name of the operation, by the address, else by the method (DELETE: `delete`)."""
    thing: list[Glob] = Field(default_factory=list)
    """To what kind of thing it is done matches one of these."""
    words: list[Glob] = Field(default_factory=list)
    """Some word of the operation's name, its service or the address matches one of these."""
    host: list[Glob] = Field(default_factory=list)
    """With its port."""
    path: list[Glob] = Field(default_factory=list)
    """The address's path: `*` is one segment, `**` any number of them (`**/repos/*/*`)."""
    scope: list[Scope] = Field(default_factory=list)
    unless_thing: list[Glob] = Field(default_factory=list)
    """Not where the kind of thing matches one of these."""

    @model_validator(mode="after")
    def _names_verb(self) -> Self:
        if not (self.verb or self.method):
            raise ValueError("a pattern of requests names a verb or a method")
        return self


class CallPatterns:
    """All patterns of requests, compiled."""

    def __init__(self, patterns: Iterable[CallPattern]) -> None:
        """Raises LibraryError for brackets that are no set of characters."""
        self._compiled = [(pattern, _Conditions(pattern)) for pattern in patterns]
        self.verbs = frozenset(
            literal for pattern, _ in self._compiled for literal in _literals(pattern.verb)
        )
        """The verbs that some pattern asks for."""
        cue_words = {word for pattern, _ in self._compiled for word in _cue_words(pattern)}
        self.cue = _cue(sorted(cue_words)) if cue_words else None
        """An expression without which in its texts and keys no action is a request that a pattern matches."""

    def matches(self, call: Call) -> list[CallPattern]:
        """The patterns that a request matches."""
        return [pattern for pattern, conditions in self._compiled if conditions.hold(call)]


class _Conditions:
    __slots__ = ("_host", "_method", "_path", "_protocol", "_scope", "_thing", "_unless", "_verb", "_words")

    def __init__(self, pattern: CallPattern) -> None:
        self._protocol = pattern.protocol
        self._scope = pattern.scope
        self._method = _globs(pattern.method)
        self._verb = _globs(pattern.verb)
        self._thing = _globs(pattern.thing)
        self._words = _globs(pattern.words)
        self._host = _globs(pattern.host)
        self._unless = _globs(pattern.unless_thing)
        self._path = _template(pattern.path)

    def hold(self, call: Call) -> bool:
        return (
            (self._verb is None or self._verb.match(call.verb))
            and (self._method is None or self._method.match(call.method))
            and (not self._protocol or call.protocol in self._protocol)
            and (not self._scope or call.scope in self._scope)
            and (self._thing is None or self._thing.match(call.thing))
            and (self._words is None or self._words.match_any([*call.words, call.thing]))
            and (self._host is None or self._host.match(call.host))
            and (self._path is None or self._path.fullmatch(call.path) is not None)
            and (self._unless is None or not self._unless.match(call.thing))
        )


def _literals(texts: list[str]) -> set[str]:
    """The alternatives of some globs without their stars."""
    return {alternative.strip("*").lower() for text in texts for alternative in text.split("|")} - {""}


def _cue_words(pattern: CallPattern) -> set[str]:
    """Words of which one must be there: things, where the pattern's verbs are those of any request."""
    verbs, things = _literals(pattern.verb), _literals(pattern.thing)
    if verbs and things and not ORDINARY.isdisjoint(verbs):
        return things
    return verbs or _literals(pattern.method)


def _cue(words: list[str]) -> str:
    short = "|".join(re2.escape(word) for word in words if len(word) <= SHORT)
    long = [word for word in words if len(word) > SHORT]
    each = [
        re2.escape(word) for word in long if not any(shorter in word for shorter in long if shorter != word)
    ]
    return "|".join([*each, ENCODED, *([rf"(?:\b|_)(?:{short})"] if short else [])])


def _globs(texts: list[str]) -> Globs | None:
    return Globs(texts) if texts else None


def _template(texts: list[str]) -> re2._Regexp | None:
    alternatives = [alternative for text in texts for alternative in text.split("|")]
    return (
        re2.compile("|".join(f"(?:{_path(alternative)})" for alternative in alternatives))
        if alternatives
        else None
    )


def _path(template: str) -> str:
    return "".join(
        _ANY_SEGMENTS
        if segment == "**"
        else "/" + _ONE_SEGMENT.join(map(re2.escape, segment.lower().split("*")))
        for segment in template.strip("/").split("/")
    )
