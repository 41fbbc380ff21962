"""What the parameters of a call say of a request, gathered from wherever they say it.

Tools nest a request in their own ways: `method` beside `url`, in `options`, in `request`, in a JSON text. So
objects within each other make one frame; each object of a list is a frame of its own, which takes from the
one around it what it does not say itself.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from sluice.detection.commands.calls.call import LONGEST_NAME, is_name, operations_of
from sluice.detection.commands.calls.frame import RequestFrame, Role, Said, role_of
from sluice.detection.commands.calls.graphql import CUE, MOST_CHARS, parse_mutations
from sluice.detection.commands.calls.http import (
    JSON_CHARS,
    LONGEST_TARGET,
    METHODS,
    MOST_FIELDS,
    MOST_JSON_LINES,
    begins_form,
    begins_mutation,
    form_fields,
    http_messages,
    load_json_lines,
    overrides,
    request_line,
)
from sluice.detection.commands.languages import is_prose_key
from sluice.text.name_words import words_of

if TYPE_CHECKING:
    from sluice.detection.commands.leaves import Trail

VALUES = 2000
"""The most values of one action that are looked at for a request."""
BLANKS = 64
"""So many characters of a text are looked at for what it begins with."""
MOST_OF_A_KIND = 8
"""The most addresses and names of operations of one frame."""
MOST_DEPTH = 96
"""The deepest nesting, that of JSON within texts included, which no record's reader bounds."""
Noted = TypeVar("Noted")
Within = Literal["", "carried", "filter"]
_ARGUMENT_ROLES = frozenset(["arguments", "params", "parameters", "args", "input", "kwargs"])
_YES = frozenset(["true", "1", "yes", "all", "client", "server", "on"])
_BARE_METHODS = frozenset(["DELETE", "PURGE"])
"""Methods that are seen under any key beside an address."""
_WILDCARDS = frozenset(["*", "_all", "**", "%"])


class Gatherer:
    """Walks over the parameters once, within its bounds."""

    def __init__(self, harmful: frozenset[str], requests: frozenset[str]) -> None:
        self._harmful = harmful
        self._overrides = "override" in requests
        self._mutations = "mutation" in requests
        self.frames: list[RequestFrame] = []
        self.fields: list[tuple[str, str, Trail]] = []
        """The fields of addresses and forms, decoded."""
        self.inconclusive: str | None = None
        self.left_out: str | None = None
        """Why a JSON text was not read, which matters only if there is a request at all."""
        self._values_left = VALUES
        self._depth = 0
        self._json_left = JSON_CHARS

    def gather(self, parameters: dict[str, Any]) -> None:
        """Every frame of the parameters, the outermost first."""
        frame = self._new(None)
        frame.own = parameters
        self._object(parameters, frame, None, within="")

    def _new(self, above: RequestFrame | None) -> RequestFrame:
        frame = RequestFrame(above)
        self.frames.append(frame)
        return frame

    def _object(self, value: dict[str, Any], frame: RequestFrame, trail: Trail, *, within: Within) -> None:
        has_arguments = not _ARGUMENT_ROLES.isdisjoint(value)
        self._read_named_header(value, frame, trail)
        for key, inner in value.items():
            if self._is_past_bounds():
                return
            here: Trail = (trail, key)
            role = role_of(key)
            if isinstance(inner, str):
                self._text(role, key, inner, frame, here, within=within, has_arguments=has_arguments)
            elif isinstance(inner, dict):
                self._inner(role, key, inner, frame, here, within=within)
            elif isinstance(inner, list):
                self._list(key, inner, frame, here, within=within)
            elif inner is True or inner == 1:
                frame.try_only(role, within)
                frame.everything |= role == "all"

    def _is_past_bounds(self) -> bool:
        self._values_left -= 1
        if self._values_left < 0:
            self.inconclusive = f"more than {VALUES} values to look at for a request"
        elif self._depth > MOST_DEPTH:
            self.inconclusive = "values are nested too deep to look at for a request"
        return self.inconclusive is not None

    def _inner(
        self, role: Role, key: str, inner: dict[str, Any], frame: RequestFrame, here: Trail, *, within: Within
    ) -> None:
        if role == "filter" and not inner:
            frame.everything = True
        if key == "match_all":
            frame.everything = True
        if inner:
            self._act(key, frame, here, within)
        if role in ("command", "operation"):
            name = next(iter(inner), "")
            self._operation(
                "operation", name, frame, Said(name, here, within == "carried"), has_arguments=False
            )
        self._depth += 1
        self._object(inner, frame, here, within=_deeper(within, role))
        self._depth -= 1

    def _list(self, key: str, value: list[Any], frame: RequestFrame, trail: Trail, *, within: Within) -> None:
        texts = [text for text in value[:2] if isinstance(text, str)]
        if len(texts) == 2 and texts[0].lower() in METHODS:  # noqa: PLR2004 - a method and an address
            self._line(" ".join(texts), frame, trail)
        self._act(key, frame, trail, within)
        role = role_of(key)
        for index, inner in enumerate(value):
            if self._is_past_bounds():
                return
            here: Trail = (trail, index)
            if isinstance(inner, dict):
                new = self._new(frame)
                new.own = inner
                self._depth += 1
                self._object(inner, new, here, within=within)
                self._depth -= 1
            elif isinstance(inner, list):
                self._depth += 1
                self._list(key, inner, frame, here, within=within)
                self._depth -= 1
            elif isinstance(inner, str):
                self._text(role, key, inner, frame, here, within=within, has_arguments=False)

    def _act(self, key: str, frame: RequestFrame, here: Trail, within: Within) -> None:
        """A key that names what is done: `{"delete": {"_id": 5}}`, `{"DeleteRequest": {...}}`."""
        if (
            within == "filter"
            or not is_name(key)
            or not any(operation.verb in self._harmful for operation in operations_of(key, self._harmful))
        ):
            return
        first = words_of(key)[0]
        if any(first.startswith(operation.verb) for operation in operations_of(key, self._harmful)):
            self._note(frame.acts, Said(key, here, within == "carried"))

    def _note(self, noted: list[Noted], entry: Noted) -> None:
        """Keep it, unless there are more of them than a real request has."""
        if len(noted) < MOST_OF_A_KIND:
            noted.append(entry)
        else:
            self.left_out = f"more than {MOST_OF_A_KIND} addresses or names of operations in one request"

    def _read_named_header(self, value: dict[str, Any], frame: RequestFrame, trail: Trail) -> None:
        """`{"name": "X-HTTP-Method-Override", "value": "DELETE"}`."""
        content = value.get("value")
        if not isinstance(content, str):
            return
        for key in ("name", "key", "header"):
            name = value.get(key)
            if isinstance(name, str) and (role_of(name) == "override" or name == "_method"):
                (frame.above or frame).override(content.strip().lower(), trail)

    def _text(  # noqa: PLR0913 - one argument for each thing that decides how a text is read
        self,
        role: Role,
        key: str,
        text: str,
        frame: RequestFrame,
        here: Trail,
        *,
        within: Within,
        has_arguments: bool,
    ) -> None:
        stripped = text.strip() if len(text) <= LONGEST_TARGET else text
        folded = stripped.lower() if len(stripped) <= LONGEST_NAME else ""
        named = Said(stripped, here, within != "")
        if role == "override" or (role == "method" and key == "_method"):
            frame.override(folded, here)
        elif role == "method" and folded in METHODS:
            frame.send_by(folded, here)
        elif stripped in _BARE_METHODS and role == "":
            frame.bare_methods = [(folded, here)]
        elif role == "trial":
            frame.try_only(role if folded in _YES else "", within)
        elif role == "all":
            frame.everything |= folded in _YES
        elif role == "kind" and len(stripped) <= LONGEST_NAME:
            frame.kinds += [stripped] if len(frame.kinds) < MOST_OF_A_KIND else []
        elif within != "filter":
            self._operation(role, stripped, frame, named, has_arguments=has_arguments)
        if stripped in _WILDCARDS:
            frame.everything = True
        if role in ("target", "operation") and stripped:
            self._target(role, stripped, frame, named)
        self._free(key, text, frame, here, within=within)

    def _operation(
        self, role: Role, text: str, frame: RequestFrame, named: Said, *, has_arguments: bool
    ) -> None:
        if not is_name(text) or not (
            role in ("method", "operation")
            or (role == "name" and has_arguments)
            or (role == "target" and "." in text and "//" not in text)
            or (role == "command" and " " not in text and len(words_of(text)) > 1)
        ):
            return
        if any(operation.verb in self._harmful for operation in operations_of(text, self._harmful)):
            self._note(frame.operations, named)
        elif len(frame.operations) < MOST_OF_A_KIND:
            frame.operations.append(named)

    def _target(self, role: Role, text: str, frame: RequestFrame, named: Said) -> None:
        if request_line(text) is not None or (role != "target" and "/" not in text):
            return
        if not named.carried:
            self._note(frame.targets, (text, named.trail))
        elif len(frame.carried_targets) < MOST_OF_A_KIND:
            frame.carried_targets.append((text, named.trail))

    def _free(self, key: str, text: str, frame: RequestFrame, here: Trail, *, within: Within) -> None:
        """What a text says by its own form, whatever its key: a request line, an override, JSON, GraphQL."""
        if not is_prose_key(key):
            self._line(text, frame, here)
        if self._overrides:
            for method in islice(overrides(text), MOST_OF_A_KIND):
                frame.override(method, here)
        for method, target in http_messages(text):
            frame.send_by(method, here)
            self._note(frame.targets, (target, here))
        fields = form_fields(text.partition("?")[2] or text)
        if len(fields) == MOST_FIELDS or (len(text) > JSON_CHARS and begins_form(text)):
            self.left_out = "a form of too many fields to read"
        for name, value in fields:
            self.fields.append((name, value, here))
            self._text(role_of(name), name, value, frame, here, within="carried", has_arguments=False)
        if self._mutations and CUE in text:
            self._graphql(text, frame, here)
        if text[:BLANKS].lstrip()[:1] in ("{", "["):
            self._json(key, text, frame, here, within=within)

    def _line(self, text: str, frame: RequestFrame, here: Trail) -> None:
        line = request_line(text)
        if line is not None:
            frame.send_by(line[0], here)
            self._note(frame.targets, (line[1], here))
        elif len(frame.addresses) < MOST_OF_A_KIND and text.startswith(("https://", "http://", "/")):
            frame.addresses.append((text, here))

    def _graphql(self, text: str, frame: RequestFrame, here: Trail) -> None:
        if len(text) > MOST_CHARS:
            if begins_mutation(text):
                self.inconclusive = f"a GraphQL document of {len(text)} characters is too long to read"
            return
        fields = parse_mutations(text)
        if fields is None:
            if begins_mutation(text):
                self.inconclusive = "a GraphQL mutation that cannot be read"
            return
        frame.fields += [(field, here) for field in fields]

    def _json(self, key: str, text: str, frame: RequestFrame, here: Trail, *, within: Within) -> None:
        self._json_left -= len(text)
        if self._json_left < 0:
            self.left_out = f"more than {JSON_CHARS} characters of JSON within texts"
            return
        value = load_json_lines(text)
        self._depth += 1
        if value is None and text.count("\n") >= MOST_JSON_LINES:
            self.left_out = f"more than {MOST_JSON_LINES} lines of JSON in a text"
        if isinstance(value, dict):
            self._object(value, frame, here, within=within)
        elif isinstance(value, list):
            self._list(key, value, frame, here, within=within)
        self._depth -= 1


def _deeper(within: Within, role: Role) -> Within:
    return "filter" if "filter" in (within, role) else "carried" if "carried" in (within, role) else ""
