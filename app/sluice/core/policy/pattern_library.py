"""The library of known actions, harmful and harmless, and how an action is written down to be compared.

A library is a file of JSON lines (config/patterns). A bundle names it by its digest, and so does every
decision that was made with it.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import orjson
from pydantic import Field, ValidationError, model_validator

from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.similarity_settings import Id, Source, is_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_PATTERNS = 100_000
LONGEST_PATTERN = 2000
"""Characters of a known action as it is compared. It is one window, however a bundle cuts actions."""
CLOSEST = 5
"""Known actions of each side whose cosines count."""
_NAMED = {None: "null", True: "true", False: "false"}
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-./:\s]+")


def render_call(tool: str, parameters: Mapping[str, Any]) -> str:
    """A call as the text that is compared: the tool's name in words, then a line for each parameter.

    Names are split at case and punctuation and put in lower case, values stay as they are. Parameters are in
    the order of their names, those within an object named after their path; a list of plain values is one
    line.
    """
    lines = [_words(tool)]
    _render(parameters, "", lines)
    return "\n".join(lines)


@cache
def _words(name: str) -> str:
    return " ".join(_WORD_ENDS.sub(" ", name).split()).lower()


def _render(value: object, path: str, lines: list[str]) -> None:
    if isinstance(value, dict):
        for name in sorted(value):
            _render(value[name], f"{path} {_words(name)}" if path else _words(name), lines)
    elif not isinstance(value, list):
        lines.append(f"{path}: {_plain(value)}")
    elif any(isinstance(element, dict | list) for element in value):
        for member in value:
            _render(member, path, lines)
    else:
        lines.append(f"{path}: {', '.join(map(_plain, value))}")


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return _NAMED.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)


class LibraryAction(StrictModel):
    """One line of a library: a call, or a text that is compared as it stands. `source`: where it is from."""

    id: Id
    category: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$", max_length=64)]
    label: Literal["harmful", "harmless"]
    tool: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    text: Annotated[str, Field(min_length=1)] | None = None
    source: Source

    @model_validator(mode="after")
    def _check_one_form(self) -> Self:
        if (self.tool is None) is (self.text is None) or (self.text is not None and self.parameters):
            raise ValueError("a known action is a tool with parameters, or a text")
        if len(self.rendered) > LONGEST_PATTERN:
            raise ValueError(f"longer than {LONGEST_PATTERN} characters")
        return self

    @cached_property
    def rendered(self) -> str:
        """The text that is compared."""
        return render_call(self.tool, self.parameters) if self.tool is not None else self.text or ""


class ActionLibrary:
    """Known actions of both sides, each id and each text once. `hash` is "sha256:" and the digest of the
    lines in their order."""

    def __init__(self, actions: Iterable[LibraryAction]) -> None:
        """Raises BundleError where two are the same, or one side is empty."""
        self.actions = tuple(actions)
        self.harmful = tuple(action for action in self.actions if action.label == "harmful")
        self.harmless = tuple(action for action in self.actions if action.label == "harmless")
        for what, values in (
            ("id", [action.id for action in self.actions]),
            ("text", [action.rendered for action in self.actions]),
        ):
            if len(set(values)) < len(values):
                twice = next(value for value in values if values.count(value) > 1)
                raise BundleError(f"two known actions have the same {what}: {twice}")
        if not self.harmful or not self.harmless:
            raise BundleError("a library has known actions of both sides")
        if len(self.actions) > MOST_PATTERNS:
            raise BundleError(f"more than {MOST_PATTERNS} known actions")
        written = b"\n".join(
            action.model_dump_json(exclude_defaults=True).encode() for action in self.actions
        )
        self.hash = f"sha256:{sha256(written).hexdigest()}"

    @classmethod
    def from_lines(cls, raw: bytes) -> ActionLibrary:
        """The library in a file's bytes. Raises BundleError with the line that is refused."""
        return cls(_read_lines(raw))

    def exclude_sources(self, *sources: str) -> ActionLibrary:
        """The library less what comes from these sources: to judge actions of these sources.

        Raises BundleError when a side is empty then.
        """
        return ActionLibrary(action for action in self.actions if not is_from(action.source, sources))


def _read_lines(raw: bytes) -> Iterator[LibraryAction]:
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if line.strip():
            try:
                yield LibraryAction.model_validate(orjson.loads(line))
            except (orjson.JSONDecodeError, ValidationError) as error:
                reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
                raise BundleError(f"line {number}: {reason}") from None
