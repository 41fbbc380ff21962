"""The compiled pattern sets of a library, one for each thing that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from app.core.gate1.commands.patterns import CommandPatterns
    from app.core.gate1.injection_patterns import InjectionPatterns
    from app.core.gate1.sql.patterns import SqlPatterns
    from app.core.gate1.targets import TargetPatterns
    from app.core.gate1.text_patterns import TextPatterns


class Matchers(NamedTuple):
    """`programs`: names that begin a command line where nothing else says that a text is one."""

    text: TextPatterns
    commands: CommandPatterns
    sql: SqlPatterns
    injection: InjectionPatterns
    targets: TargetPatterns
    programs: frozenset[str]
