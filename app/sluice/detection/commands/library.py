"""The pattern library: the sets as a bundle writes them, and the compiled whole that inspects an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from sluice.detection.commands.calls.call_patterns import CallPattern, CallPatterns
from sluice.detection.commands.inspection import Inspection, together
from sluice.detection.commands.inspector import Inspector
from sluice.detection.commands.languages import TextPattern, TextPatterns
from sluice.detection.commands.leaves import Walk
from sluice.detection.commands.matchers import CuePatterns, Matchers
from sluice.detection.commands.patterns.conditions import CommandPattern  # noqa: TC001 - pydantic reads the annotations
from sluice.detection.commands.patterns.file_patterns import FilePattern, FilePatterns
from sluice.detection.commands.patterns.patterns import CommandPatterns
from sluice.detection.commands.sql.injection import InjectionPattern, InjectionPatterns
from sluice.detection.commands.sql.sql_patterns import SqlPattern, SqlPatterns
from sluice.detection.commands.targets import TargetPattern, TargetPatterns
from sluice.detection.library_model import LibraryModel
from sluice.text.name_words import vocabulary
from sluice_topics.relaxations import Members

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGIN_COMMANDS = vocabulary(
    "sudo doas env nohup timeout nice xargs sh bash zsh dash ksh eval exec source curl wget echo printf",
    "cat cd",
)
"""Programs that no pattern may name, but which run or feed others."""


_GLOB = frozenset("*?[")


GONE = Members("more", "the pattern {member} is gone")


class PatternSets(LibraryModel):
    """All patterns of a bundle, by what they read. Ids are unique over all lists."""

    text: Annotated[list[TextPattern], GONE] = Field(default_factory=list)
    commands: Annotated[list[CommandPattern], GONE] = Field(default_factory=list)
    sql: Annotated[list[SqlPattern], GONE] = Field(default_factory=list)
    injection: Annotated[list[InjectionPattern], GONE] = Field(default_factory=list)
    targets: Annotated[list[TargetPattern], GONE] = Field(default_factory=list)
    files: Annotated[list[FilePattern], GONE] = Field(default_factory=list)
    calls: Annotated[list[CallPattern], GONE] = Field(default_factory=list)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        ids: set[str] = set()
        for pattern in (
            *self.text,
            *self.commands,
            *self.sql,
            *self.injection,
            *self.targets,
            *self.files,
            *self.calls,
        ):
            if pattern.id in ids:
                raise ValueError(f"two patterns have the same id: {pattern.id}")
            ids.add(pattern.id)
        return self


class PatternLibrary:
    """Compiled pattern sets."""

    def __init__(self, sets: PatternSets) -> None:
        """Raises LibraryError with the path of what does not compile."""
        programs = {
            name for command in sets.commands for name in command.program if name and not _GLOB & set(name)
        }
        calls, files = CallPatterns(sets.calls), FilePatterns(sets.files)
        self.matchers = Matchers(
            TextPatterns(sets.text),
            CommandPatterns(sets.commands),
            SqlPatterns(sets.sql),
            InjectionPatterns(sets.injection),
            TargetPatterns(sets.targets),
            files,
            calls,
            CuePatterns(calls.cue, files.cue),
            frozenset(programs | _BEGIN_COMMANDS if sets.commands else ()),
        )

    @property
    def programs(self) -> frozenset[str]:
        """Names that begin a command line."""
        return self.matchers.programs

    @property
    def call_verbs(self) -> frozenset[str]:
        """Verbs of requests that some pattern asks for."""
        return self.matchers.calls.verbs

    def inspect(self, tool_name: str, action_type: str, parameters: dict[str, Any]) -> Inspection:
        """Everything found in an action's parameters; the same parameters always give the same."""
        walk = Walk(parameters, tool_name)
        return Inspector(self.matchers, tool_name, action_type).inspect(walk, parameters)


def inspect_call(
    library: PatternLibrary, tool_name: str, action_types: Sequence[str], parameters: dict[str, Any]
) -> Inspection:
    """Everything found in a call's parameters, read as an action of each of these types (at least one)."""
    if len(action_types) > 1:
        return together([library.inspect(tool_name, action_type, parameters) for action_type in action_types])
    walk = Walk(parameters, tool_name)
    return Inspector(library.matchers, tool_name, action_types[0]).inspect(walk, parameters)
