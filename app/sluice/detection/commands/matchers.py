"""The compiled pattern sets of a library, one for each thing that is read, and one look ahead of them.

Most actions carry names, numbers and plain words. Their texts, joined, go through a handful of automata once,
which say what each text need not be asked; only what answers is then looked for leaf by leaf.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.detection.commands.sql.injection import BREAKOUT, BREAKOUT_CUES
from sluice.detection.commands.targets import SPELLING_CUES
from sluice.detection.disguises.encodings import ENCODING_CUES
from sluice.text.expression_sets import PatternSet
from sluice.text.places import LONGEST_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sluice.detection.commands.calls.call_patterns import CallPatterns
    from sluice.detection.commands.languages import TextPatterns
    from sluice.detection.commands.patterns.file_patterns import FilePatterns
    from sluice.detection.commands.patterns.patterns import CommandPatterns
    from sluice.detection.commands.sql.injection import InjectionPatterns
    from sluice.detection.commands.sql.sql_patterns import SqlPatterns
    from sluice.detection.commands.targets import TargetPatterns

_BREAKOUT = PatternSet([("breakout", BREAKOUT)])
_DISGUISE = PatternSet([("encoding", ENCODING_CUES)])
LONGEST_NAMES = 512
"""Characters of a tool's name and keys whose answer is kept."""
JOINT = "\n"
"""Between two texts; expressions take it for the end of a line, so none misses what a text alone shows."""


REQUESTS = frozenset(["call", "override", "mutation"])
"""What may be in a request's text: a word of a pattern, another method than it is sent by, GraphQL."""
_PATCH = r"\+\+\+ |\*\*\* "
_REQUEST_CUES = [("override", r"_method|x-(?:http-)?method"), ("mutation", "mutation")]


class Cues(NamedTuple):
    """False where no text of those looked at can have it."""

    text: bool
    target: bool
    breakout: bool
    disguise: bool
    spelling: bool
    location: bool
    requests: frozenset[str]


ANYTHING = Cues(True, True, True, True, True, True, REQUESTS)
"""Of a text that was not among those looked at."""


_NO_CUES = frozenset[str]()


class CuePatterns:
    """The cues to each thing. Two automata, one of signs and one of words, since each costs a pass over the
    texts, and one of both has the product of their states: noise of 64 KB made 18 ms of new ones."""

    __slots__ = ("_long", "_of_names", "signs", "words")

    def __init__(self, call: str | None, location: str | None) -> None:
        """Expressions for a request and for a place of files; None where no pattern asks for one."""
        signs = [("breakout", BREAKOUT_CUES), ("encoding", ENCODING_CUES), ("spelling", SPELLING_CUES)]
        requests = [] if call is None else [("call", call), *_REQUEST_CUES]
        places = [] if location is None else [("place", location)]
        self.signs, self.words = PatternSet(signs), PatternSet([*requests, *places])
        self._long = PatternSet([*requests, ("place", _PATCH)])
        self._of_names = lru_cache(maxsize=REMEMBERED_KEYS)(self._search_names)

    def search_texts(self, texts: Sequence[str], joined: str) -> frozenset[str]:
        """What the texts may hold; `joined`: all of them by JOINT. One that is too long for a path names a
        place only as a patch."""
        signs = self.signs.matches(joined)
        if len(joined) <= LONGEST_PATH:
            return frozenset([*signs, *self.words.matches(joined)])
        short = JOINT.join([text for text in texts if len(text) <= LONGEST_PATH])
        long = JOINT.join([text for text in texts if len(text) > LONGEST_PATH])
        return frozenset([*signs, *self.words.matches(short), *self._long.matches(long)])

    def search_names(self, names: Iterable[str]) -> frozenset[str]:
        """What a tool's name and its parameters' keys may hold: the same few come again and again."""
        joined = JOINT.join(names)
        return self._of_names(joined) if len(joined) <= LONGEST_NAMES else self._search_names(joined)

    def _search_names(self, joined: str) -> frozenset[str]:
        return frozenset(self.words.matches(joined))


def may_break_out(text: str) -> bool:
    """Whether an inserted value has anything to break out with."""
    return bool(_BREAKOUT.matches(text))


def may_be_disguised(text: str) -> bool:
    """Whether a text is perhaps not what it looks like, or not all."""
    return not text.isascii() or bool(_DISGUISE.matches(text))


class Matchers(NamedTuple):
    """`programs`: names that begin a command line where nothing else says that a text is one."""

    text: TextPatterns
    commands: CommandPatterns
    sql: SqlPatterns
    injection: InjectionPatterns
    targets: TargetPatterns
    files: FilePatterns
    calls: CallPatterns
    cues: CuePatterns
    programs: frozenset[str]


def find_cues(texts: Sequence[str], matchers: Matchers) -> Cues:
    """What the texts may hold."""
    joined = JOINT.join(texts)
    written = joined.encode()
    cues = matchers.cues
    plain = len(joined) <= LONGEST_PATH and not (cues.signs.search(written) or cues.words.search(written))
    cues_met = _NO_CUES if plain else cues.search_texts(texts, joined)
    return Cues(
        bool(matchers.text.anywhere.search(written)),
        bool(matchers.targets.expressions.search(written)),
        "breakout" in cues_met,
        "encoding" in cues_met or not joined.isascii(),
        "spelling" in cues_met,
        "place" in cues_met,
        REQUESTS.intersection(cues_met),
    )
