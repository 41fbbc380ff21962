"""The common form of a request, whatever structure it was written in, and the names of operations.

Names are written in many ways: `DeleteBucket`, `repos.delete`, `delete_user`, `stripe.Refund.create`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.text.name_words import vocabulary, words_of

if TYPE_CHECKING:
    from sluice.detection.commands.leaves import Trail
    from sluice_topics.records.base import Severity

Scope = Literal["one", "many", "collection", "all"]
"""How much a request is about: one thing; some that it lists; every thing that lies directly under the
address of a collection (`DELETE /users`); everything, by a wildcard or a condition that holds for all."""
Trial = Literal["", "asked", "sure"]
"""Whether it only tries: `sure` where the addressee is known to honour what says so, `asked` where it may
ignore it, "" where nothing says so."""


_CHANGING = frozenset(["post", "put", "patch", "delete", "purge"])
_SEARCHES = ("/_search", "/_msearch", "/_count", "/graphql")
"""Addresses that are read by a POST; what a GraphQL document changes is known from the document."""


class Call(NamedTuple):
    """One request. All texts are in lower case.

    `protocol`: "http", "graphql" or "operation". `method`: the HTTP method, "" where none is known. `host`
    with its port. `path`: without query, percent-decoded, as a normal path ("/repos/acme/shop"). `verb` and
    `thing`: what is done, to what kind of thing ("delete", "bucket"), from the name of an operation or from
    method and path. `words`: all words around the verb, also those of the service and of the kind of resource
    that the request names.
    """

    protocol: str
    method: str = ""
    host: str = ""
    path: str = ""
    verb: str = ""
    thing: str = ""
    words: tuple[str, ...] = ()
    scope: Scope = "one"
    trial: Trial = ""


def may_change(call: Call) -> bool:
    """Whether a request may change anything, by its method or as a field of a mutation; a search does not."""
    if call.protocol == "graphql":
        return True
    return call.method in _CHANGING and not call.path.endswith(_SEARCHES)


def milder(severity: Severity, trial: Trial) -> Severity | None:
    """What a pattern's severity becomes for a request that says it only tries; None: nothing.

    One step less where the addressee may ignore it: a server that does not know `?dry_run=true` deletes.
    """
    if trial == "":
        return severity
    return "warn" if trial == "asked" and severity == "critical" else None


class CallReading(NamedTuple):
    """The requests of an action with their places, and command lines that some of them stand for.

    `inconclusive` says which bound stopped the reading.
    """

    calls: tuple[tuple[Call, Trail], ...] = ()
    lines: tuple[tuple[str, str, Trail], ...] = ()
    """(the program, its command line, the place)."""
    inconclusive: str | None = None
    fields: tuple[tuple[str, str, Trail], ...] = ()
    """(name, value, place) of what addresses and forms carry, decoded."""


LONGEST_NAME = 96
"""Characters of a name of an operation; AWS's longest has 67."""
READING = vocabulary(
    "get list describe search find query read fetch show view count check head exists lookup retrieve",
    "scan select download export preview validate verify test ping is has can may should will must on",
    "before after pre diff plan estimate explain help inspect monitor watch audit report browse resolve",
    "compare history analyze analyse peek stat stats lint render parse log print",
)
"""Verbs that change nothing, and words that make a question or an event of a verb: `can_delete`."""
_NEGATING = vocabulary(
    "cancel abort undo prevent skip stop deny forbid block restore recover no not without un",
)
"""Before another verb they take it back: `cancel_delete`."""
ORDINARY = vocabulary(
    "create add update set put post patch insert upsert write send upload start run enable make new edit",
    "save change modify schedule register assign grant attach open publish submit apply import copy move",
    "rename merge approve reject invite share tag notify mark restart reboot sync generate issue pay",
    "transfer refund charge payout withdraw capture do execute call invoke perform deploy configure",
    "rotate replace increment append request confirm process",
)
"""Verbs that change something, most of them every day."""
_BULK: dict[str, Scope] = {
    "bulk": "many",
    "batch": "many",
    "mass": "many",
    "many": "many",
    "multiple": "many",
    "multi": "many",
}
_ALL = vocabulary("all everything every entire whole")
_NOTHING = vocabulary(
    "force forced hard permanent permanently now forever async sync request requests command mutation",
    "operation op api input rpc method action call the a an my this v1 v2 v3 v4 v 1 2 3 4 one safe safely",
    "soft unsafe rest http",
)
"""Words of a name that say nothing of what is done to what."""
_AFTER_THING = vocabulary("by from for in of with where to via using on if as")
_PARTS = re.compile(r"[.:/#>]+")
_FORM = re.compile(r"[A-Za-z_$][\w$.:/#>-]*(?: [\w$-]+){0,4}(?:\(.*)?", re.DOTALL)
_INFLECTED = re.compile(r"(?:d|s|r|rs|ing|ion|able|al|als|ed|er|ers)$")
_LIBRARIES = 64
"""Sets of verbs that are remembered: one for each bundle in force."""
_LEAST_VERB = 5
"""Letters of a verb that is seen in a word without a seam; `drop` begins many words."""
_AND = frozenset(["and", "or", "then"])


class Operation(NamedTuple):
    """`verb` "" where the name has none; `scope`: "many" or "all" where the name says so."""

    verb: str
    thing: str
    words: tuple[str, ...]
    scope: Scope = "one"


NO_OPERATION = Operation("", "", ())


def is_name(text: str) -> bool:
    """Whether a text may be the name of an operation, a call's arguments behind it included."""
    return len(text) <= LONGEST_NAME and _FORM.fullmatch(text) is not None


@lru_cache(maxsize=REMEMBERED_KEYS)
def operations_of(name: str, harmful: frozenset[str]) -> tuple[Operation, ...]:
    """What a name says is done: several for `findOneAndDelete`. `harmful`: the verbs that patterns know."""
    parts = [part for part in _PARTS.split(name.partition("(")[0]) if part]
    for index in range(len(parts) - 1, -1, -1):
        words = _split_words(words_of(parts[index]), harmful)
        around = tuple(word for part in parts[:index] for word in words_of(part))
        operations = [_operation(some, around, harmful) for some in _share_by_and(words)]
        operations = [operation for operation in operations if operation.verb]
        if operations:
            return tuple(operations)
    return ()


def _split_words(words: list[str], harmful: frozenset[str]) -> list[str]:
    """`deletebucket` is two words and `batchdelete` too, `deleted` and `deletion` are one."""
    split: list[str] = []
    for word in words:
        match = None if word in harmful else _seams(harmful).fullmatch(word)
        if match is None or _INFLECTED.fullmatch(match["rest"]):
            split.append(word)
        else:
            split += [part for part in (match["bulk"], match["verb"], match["rest"]) if part]
    return split


@lru_cache(maxsize=_LIBRARIES)
def _seams(harmful: frozenset[str]) -> re.Pattern[str]:
    verbs = sorted((verb for verb in harmful if len(verb) >= _LEAST_VERB), key=len, reverse=True)
    return re.compile(rf"(?P<bulk>{'|'.join(_BULK)})?(?P<verb>{'|'.join(verbs) or '(?!)'})(?P<rest>[a-z]*)")


def _share_by_and(words: list[str]) -> list[list[str]]:
    joined: list[list[str]] = [[]]
    for word in words:
        if word in _AND:
            joined.append([])
        else:
            joined[-1].append(word)
    return joined


def _operation(words: list[str], around: tuple[str, ...], harmful: frozenset[str]) -> Operation:
    index = _verb_place(words, harmful)
    if index is None:
        return NO_OPERATION
    rest = [word for at, word in enumerate(words) if at != index]
    after = words[index + 1 :]
    named = after or words[:index] or list(around)
    cut = next((at for at, word in enumerate(named) if word in _AFTER_THING), len(named))
    things = [word for word in named[:cut] if word not in _NOTHING and word not in _BULK and word not in _ALL]
    if not things and around:
        things = [word for word in around if word not in _NOTHING]
    scope: Scope = next((_BULK[word] for word in rest if word in _BULK), "one")
    if _ALL.intersection(rest):
        scope = "all"
    return Operation(words[index], things[-1] if things else "", (*around, *rest), scope)


def _verb_place(words: list[str], harmful: frozenset[str]) -> int | None:
    ordinary = READING | _NEGATING | ORDINARY | harmful
    first = next((at for at, word in enumerate(words) if word in ordinary), None)
    if first is None or words[first] in harmful or words[first] in READING or words[first] in _NEGATING:
        return first
    return len(words) - 1 if words[-1] in harmful else first


@lru_cache(maxsize=REMEMBERED_KEYS)
def only_reads(name: str) -> bool:
    """Whether a tool of that name looks something up: `search_audit_log`."""
    words = words_of(name)
    verb = next((word for word in words if word in READING or word in ORDINARY), "")
    return verb in READING
