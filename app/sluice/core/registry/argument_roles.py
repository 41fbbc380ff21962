"""The roles of a tool's arguments: which parameters name where an action goes, and what it touches.

A tool's entry gives each role JSON paths below the parameters: `$.to`, `$.payee.iban`, `$.invitees[*].email`.
Everything below the place that a path names belongs to the role, whatever its shape, so that an address in an
object of its own is read like one in a text.
"""

from __future__ import annotations

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
    """A scalar in an action's parameters: its role ("" where its tool's entry gives it none), its place as a
    JSON path with numbers, and its value."""

    role: Role | Literal[""]
    path: str
    value: str | int | float


class RoleReader:
    """Finds the arguments of a tool's calls, with their roles."""

    def __init__(self, roles: ArgumentRoles) -> None:
        self.roles = roles
        self._paths = {
            tuple(split_path(path)): role for role in reversed(ROLES) for path in getattr(roles, role)
        }

    def read(self, parameters: Mapping[str, Any]) -> Iterator[Argument]:
        """Every scalar of the parameters but booleans and nulls, in their order, with the role of the longest
        path that leads to it. Structures that are deeper than a JSON text may be are not expected."""
        yield from self._walk(parameters, "$", (), "")

    def _walk(
        self, value: Any, place: str, pattern: tuple[str, ...], role: Role | Literal[""]
    ) -> Iterator[Argument]:
        role = self._paths.get(pattern, role)
        if isinstance(value, str):
            yield Argument(role, place, value)
        elif isinstance(value, dict):
            for name, below in value.items():
                yield from self._walk(below, f"{place}.{name}", (*pattern, name), role)
        elif isinstance(value, list):
            for number, below in enumerate(value):
                yield from self._walk(below, f"{place}[{number}]", (*pattern, "*"), role)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield Argument(role, place, value)


def split_path(path: str) -> Iterator[str]:
    """The names of a JSON path, one below the other; "*" for each entry of a list."""
    for part in path.removeprefix("$").replace("[*]", ".*").split("."):
        if part:
            yield part
