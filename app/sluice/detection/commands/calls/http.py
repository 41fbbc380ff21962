"""The address and the method of an HTTP request: what they do to what (RFC 9110, RFC 3986).

An address names things by collection and id (`/users/5`), and sometimes what is done (`/users/5/delete`,
`/_delete_by_query`, `/users:batchDelete`, `/api/chat.delete`).
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, unquote_plus

import orjson

from sluice.detection.commands.calls.call import NO_OPERATION, Operation, operations_of

if TYPE_CHECKING:
    from collections.abc import Iterator

METHODS = frozenset(
    [
        "get",
        "head",
        "options",
        "trace",
        "post",
        "put",
        "patch",
        "delete",
        "purge",
        "connect",
        "query",
        "move",
        "copy",
    ]
)
SAFE = frozenset(["get", "head", "options", "trace"])
"""RFC 9110, 9.2.1."""
_VERBS = {"post": "create", "put": "update", "patch": "update", "delete": "delete", "purge": "purge"}
LONGEST_TARGET = 2048
"""Characters of an address that are read."""
MOST_SEGMENTS = 32
"""The last segments of a path that are looked at."""
_REQUEST_LINE = re.compile(r"\s*([A-Za-z]{3,7})\s+((?:https?://|/)\S*)")
_TARGET = re.compile(r"(?:([a-z][a-z0-9+.-]*):)?(?://([^/?#\s]*))?([^?#\s]*)(?:\?([^#\s]*))?", re.IGNORECASE)
_VERSION = re.compile(
    r"v\d+(?:[.]\w+)*|v\d+\w*|\d\.\d|api|apis|rest|services?|public|private|internal|admin|core|20\d\d-\d\d"
)
_PLURAL = re.compile(r"[a-z][a-z_-]*[a-rt-z]s|data|people|series|indices")
_PROGRAM_ENDING = re.compile(r"\.(?:php|json|xml|do|action|aspx?|jsp|cgi)\Z")
_QUALIFIERS = frozenset(["bulk", "batch", "mass", "async", "force", "hard", "multi", "do", "soft"])
_EVERYTHING = frozenset(["*", "_all", "**"])
_OPERATION_PARAMETERS = frozenset(
    ["action", "op", "operation", "method", "cmd", "do", "task", "func", "function"]
)


class Target(NamedTuple):
    """An address taken apart, decoded, the host in lower case; `parameters`: the query's names and values."""

    host: str
    path: str
    parameters: tuple[tuple[str, str], ...]

    @property
    def segments(self) -> list[str]:
        """The path's in lower case, without the ending of a program (`.php`)."""
        return [_PROGRAM_ENDING.sub("", segment).lower() for segment in self.path.split("/") if segment][
            -MOST_SEGMENTS:
        ]

    @property
    def last(self) -> str:
        """The last segment from its last colon or dot on: of `users:batchDelete` the name of an operation."""
        segment = _PROGRAM_ENDING.sub("", self.path.rpartition("/")[2])
        return segment.rpartition(":")[2].rpartition(".")[2].lstrip("_$")


def request_line(text: str) -> tuple[str, str] | None:
    """(method, address) of `DELETE /repos/acme/shop`, None for another text."""
    match = _REQUEST_LINE.match(text[:LONGEST_TARGET])
    if match is None or match[1].lower() not in METHODS:
        return None
    return match[1].lower(), match[2]


def target_of(text: str) -> Target:
    """Any text as an address, relative ones included; decoded twice, as servers behind proxies do."""
    match = _TARGET.match(text.strip()[:LONGEST_TARGET])
    _, host, path, query = match.groups() if match else (None, None, text[:LONGEST_TARGET], None)
    path = unquote(unquote(path or ""))
    path = posixpath.normpath("/" + path.lstrip("/")) if path else "/"
    pairs = (part.partition("=") for part in (query or "").split("&") if part)
    parameters = tuple((unquote(name), unquote(value.replace("+", " "))) for name, _, value in pairs)
    return Target((host or "").rpartition("@")[2].lower(), path, parameters)


def take_operation(method: str, target: Target, harmful: frozenset[str]) -> Operation:
    """What a method does to what an address names; the address's own verb counts before the method's."""
    segments = target.segments
    if method in SAFE:
        for operation in _query_protocol(target, harmful):
            return operation
    else:
        for operation in _find_named(method, target, segments, harmful):
            return operation
    return _take_method(method, segments)


def _find_named(method: str, target: Target, segments: list[str], harmful: frozenset[str]) -> list[Operation]:
    """Operations that the address names: by a segment, by the last one's name, by a parameter `action=`."""
    operations: list[Operation] = []
    for index, segment in enumerate(segments):
        if segment.lstrip("_$") in harmful:
            others = [other for at, other in enumerate(segments) if at != index]
            operations.append(_read_operation(others, segment.lstrip("_$")))
    if segments and method != "delete":
        for operation in operations_of(target.last, harmful):
            if operation.verb in harmful and target.last.lower().startswith((operation.verb, *_QUALIFIERS)):
                things = _read_operation(segments[:-1], operation.verb)
                thing = operation.thing or things.thing
                scope = operation.scope if operation.scope != "one" else things.scope
                operations.append(Operation(operation.verb, thing, (*things.words, *operation.words), scope))
    for name, value in target.parameters:
        if name.lower() in _OPERATION_PARAMETERS or not value:
            named = operations_of(value or name, harmful)
            operations += [named_operation for named_operation in named if named_operation.verb in harmful]
    return operations


def _query_protocol(target: Target, harmful: frozenset[str]) -> list[Operation]:
    """`GET /?Action=TerminateInstances`: the query protocol of AWS and of those that copied it."""
    actions = [value for name, value in target.parameters if name == "Action"]
    return [
        operation
        for value in actions
        for operation in operations_of(value, harmful)
        if operation.verb in harmful
    ]


def _take_method(method: str, segments: list[str]) -> Operation:
    return _read_operation(segments, _VERBS.get(method, "get" if method in SAFE else ""))


def _read_operation(segments: list[str], verb: str) -> Operation:
    """The kind of thing at an address: its last collection, if at most one id follows."""
    named = [segment for segment in segments if not _VERSION.fullmatch(segment)]
    if not named:
        return Operation(verb, "", tuple(segments)) if verb else NO_OPERATION
    last = named[-1]
    before = named[-2] if len(named) > 1 else ""
    if any(segment in _EVERYTHING or "*" in segment for segment in named):
        return Operation(verb, before or last, tuple(named), "all")
    if before and _PLURAL.fullmatch(before):
        return Operation(verb, before, tuple(named))
    if _PLURAL.fullmatch(last):
        return Operation(verb, last, tuple(named), "collection" if len(named) == 1 else "many")
    return Operation(verb, last, tuple(named))


JSON_CHARS = 16 * 1024
"""What of one action's JSON texts is read."""
MOST_JSON_LINES = 64
"""Lines of a text of JSON lines that are read."""
MOST_MESSAGES = 32
"""HTTP messages of one text that are read."""
MOST_FIELDS = 256
"""Fields of one form that are read."""
_OVERRIDE = re.compile(
    r"x-http-method(?:-overr?ide)?\s*[:=]\s*[\"']?([a-z]+)|x-method-override\s*[:=]\s*[\"']?([a-z]+)"
    r"|(?:^|[?&\s\"'{,])_method[\"']?\s*[=:]\s*[\"']?([a-z]+)",
    re.IGNORECASE,
)
_GRAPHQL_START = re.compile(r"(?>(?:\s++|#[^\n]*+\n)*)mutation\b\s*+(?:\w++\s*+)?[({@]")
_MESSAGE = re.compile(r"^[ \t]*([A-Za-z]{3,7})[ \t]+(\S+)[ \t]+HTTP/\d", re.MULTILINE)
_FIRST_FIELD = re.compile(r"[\w.%\[\]$-]{1,64}=[^\s\"'<]")
_FORM = re.compile(r"[\w.%\[\]$-]++=[^&\s]*+(?>(?:&[\w.%\[\]$-]++=[^&\s]*+)*)&?")


def http_messages(text: str) -> Iterator[tuple[str, str]]:
    """(method, address) of every HTTP message in a text: a raw request, the parts of an OData batch."""
    if "HTTP/" in text:
        for match, _ in zip(_MESSAGE.finditer(text), range(MOST_MESSAGES), strict=False):
            if match[1].lower() in METHODS:
                yield match[1].lower(), match[2]


def overrides(text: str) -> Iterator[str]:
    """The methods that a text's headers or fields put in place of the one it is sent by."""
    for match in _OVERRIDE.finditer(text[:JSON_CHARS]):
        yield (match[1] or match[2] or match[3]).lower()


def form_fields(text: str) -> list[tuple[str, str]]:
    """The fields of a form (`Action=TerminateInstances&Id=5`), decoded; none of a text that is no form."""
    if "=" not in text or len(text) > JSON_CHARS or _FORM.fullmatch(text) is None:
        return []
    pairs = (part.partition("=") for part in text.split("&")[:MOST_FIELDS] if part)
    return [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def begins_form(text: str) -> bool:
    """Whether a text begins as a form does."""
    return _FIRST_FIELD.match(text) is not None


def begins_mutation(text: str) -> bool:
    """Whether a text begins as a GraphQL mutation does."""
    return _GRAPHQL_START.match(text) is not None


def load_json_lines(text: str) -> Any:
    """A JSON text, or one of JSON lines as a list of them; None where it is neither."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        return [orjson.loads(line) for line in lines] if 1 < len(lines) <= MOST_JSON_LINES else None
    except ValueError:
        return None
