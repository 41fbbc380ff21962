"""The roles of a tool's arguments: which parameters name where an action goes, and what it touches.

A tool's entry gives each role JSON paths below the parameters: `$.to`, `$.payee.iban`, `$.invitees[*].email`.
Everything below the place that a path names belongs to the role, whatever its shape, so that an address in an
object of its own is read like one in a text.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field

from sluice.core.foundation.strict import StrictModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_PATHS = 16
MOST_ARGUMENTS = 64
"""Values of one action that are looked up. What lies behind counts as not known."""
DEEPEST = 8
PARAMETER_PATH = r"^\$(?:\.[^.\[\]\x00-\x1f]{1,128}|\[\*\]){1,8}$"
ParameterPath = Annotated[str, Field(max_length=512, pattern=PARAMETER_PATH)]
PathList = Annotated[list[ParameterPath], Field(max_length=MOST_PATHS)]
Role = Literal["destination", "object", "amount", "rows", "content"]
ROLES: tuple[Role, ...] = get_args(Role)


class ArgumentRoles(StrictModel):
    """The JSON paths of each role. `destination`: to whom or where something goes (an address, an account, a
    host, a person who is invited). `object`: what is changed, deleted, shared or run. `amount`: money, units.
    `rows`: how many things it touches. `content`: what is said, so that a link in it is no destination."""

    destination: PathList = Field(default_factory=list)
    object: PathList = Field(default_factory=list)
    amount: PathList = Field(default_factory=list)
    rows: PathList = Field(default_factory=list)
    content: PathList = Field(default_factory=list)


class Argument(NamedTuple):
    """A scalar in an action's parameters, or a name in them that may be a value: its role ("" where the
    tool's entry gives it none), its place, and its value. No two arguments have the same place."""

    role: Role | Literal[""]
    path: str
    value: str | int | float


class RoleReader:
    """Finds the arguments of a tool's calls, with their roles.

    A caller writes the call, and may write it in another shape than the tool's schema. So names are compared
    without their case, a name may hold a path of its own (`payee.iban`, `payee[iban]`), lists do not count, a
    text that stands above the place of a role has that role, and so have a JSON text's own members.
    """

    def __init__(self, roles: ArgumentRoles) -> None:
        self.roles = roles
        self._paths = {fold_names(path): role for role in reversed(ROLES) for path in getattr(roles, role)}
        self._above = {
            path[:length]: role
            for path, role in self._paths.items()
            if role in _JUDGED
            for length in range(1, len(path))
        }
        self._root = self._make_place((), "", is_kept=True)
        self._steps_left = _MOST_STEPS

    def read(self, parameters: Mapping[str, Any]) -> list[Argument]:
        """Every scalar of the parameters but booleans and nulls, in their order, with the role of the longest
        path that leads to it. Below a role that is judged also each name that is not one of the schema's: one
        that is more than a word, or has no text below it; elsewhere each name that is more than a word."""
        arguments: list[Argument] = []
        self._walk(parameters, "$", self._root, arguments)
        return arguments

    def _walk(self, value: Any, path: str, node: _Place, arguments: list[Argument]) -> None:
        if isinstance(value, str):
            if node.is_judged and (parsed := _parse_json(value)) is not None:
                self._walk(parsed, f"{path}!", node, arguments)
            arguments.append(Argument(node.role_of_scalars, path, value))
        elif isinstance(value, dict):
            judges_names = node.role in _JUDGED
            for name, below in value.items():
                written, is_word, under = node.below.get(name) or self._step(node, name)
                if not is_word or (judges_names and not isinstance(below, str | dict | list)):
                    arguments.append(Argument(node.role, f"{path}{written}~", name))
                if type(below) is int or (type(below) is str and not under.is_judged):
                    arguments.append(Argument(under.role_of_scalars, path + written, below))
                else:
                    self._walk(below, path + written, under, arguments)
        elif isinstance(value, list):
            for number, below in enumerate(value):
                self._walk(below, f"{path}[{number}]", node, arguments)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            arguments.append(Argument(node.role_of_scalars, path, value))

    def _step(self, node: _Place, name: str) -> _Step:
        """From a place to the member of a name. Words are kept, as many as a tool has in good faith."""
        pattern, is_word = (*node.pattern, *fold_names(f"$.{name}")), _WORD.fullmatch(name) is not None
        is_kept = node.is_kept and is_word and self._steps_left > 0
        step = _write_name(name), is_word, self._make_place(pattern, node.role, is_kept=is_kept)
        if is_kept:
            self._steps_left -= 1
            node.below[name] = step
        return step

    def _make_place(
        self, pattern: tuple[str, ...], inherited: Role | Literal[""], *, is_kept: bool
    ) -> _Place:
        role = self._paths.get(pattern, inherited)
        return _Place(pattern, role, role or self._above.get(pattern, ""), is_kept=is_kept)


class _Place:
    """Where the walk through parameters stands. `pattern`: the folded names that lead there; `role`: of the
    longest path among them; `role_of_scalars`: the same, or that of a path which leads on from here; `below`:
    by name the steps that were taken from here, where they are kept."""

    __slots__ = ("below", "is_judged", "is_kept", "pattern", "role", "role_of_scalars")

    def __init__(
        self,
        pattern: tuple[str, ...],
        role: Role | Literal[""],
        role_of_scalars: Role | Literal[""],
        *,
        is_kept: bool,
    ) -> None:
        self.pattern = pattern
        self.role = role
        self.role_of_scalars = role_of_scalars
        self.is_judged = role_of_scalars in _JUDGED
        self.is_kept = is_kept
        self.below: dict[str, _Step] = {}


_Step = tuple[str, bool, _Place]
"""The name as a path has it, whether it is a word, and the place below it."""
_MOST_STEPS = 1024


def read_argument_at(parameters: Mapping[str, Any], path: str) -> str | int | float | None:
    """The value at a place that `RoleReader.read` gives an argument; None: there is none."""
    value: Any = parameters
    name = ""
    for word, quoted, number, mark in _STEP.findall(path):
        if number:
            value = value[int(number)] if isinstance(value, list) and int(number) < len(value) else None
        elif mark == "!":
            value = _parse_json(value) if isinstance(value, str) else None
        elif mark:
            return name
        else:
            name = json.loads(quoted) if quoted else word
            value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def split_path(path: str) -> Iterator[str]:
    """The names of a JSON path, one below the other; "*" for each entry of a list."""
    for part in path.removeprefix("$").replace("[*]", ".*").split("."):
        if part:
            yield part


_JUDGED = frozenset(["destination", "object"])
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LONGEST_JSON = 16_384
_STEP = re.compile(r'\.([A-Za-z_][A-Za-z0-9_-]{0,63})|\[("(?:[^"\\]|\\.)*")\]|\[([0-9]{1,9})\]|([!~])')
"""A step of an argument's path: a name, one as JSON, an entry of a list, a JSON text, the name itself."""


def _write_name(name: str) -> str:
    """A member's name in a path: as it is where it is a word, else as JSON, so that two paths never look
    alike."""
    return f".{name}" if _WORD.fullmatch(name) else f"[{json.dumps(name)}]"


@lru_cache(maxsize=4096)
def fold_names(path: str) -> tuple[str, ...]:
    """The names of a path, without their case and without lists."""
    parts = re.split(r"[.\[\]]+", path.removeprefix("$"))
    return tuple(part.casefold() for part in parts if part not in ("", "*") and not part.isdigit())


def _parse_json(text: str) -> Any:
    """The object or list that a text is as JSON; None for every other text."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > _LONGEST_JSON:
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None
