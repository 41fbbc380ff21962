"""The common form of a request, whatever structure it was written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from app.core.commands.leaves import Trail
    from topics.records.base import Severity

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
