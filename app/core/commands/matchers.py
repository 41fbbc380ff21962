"""The compiled pattern sets of a library, one for each thing that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.commands.tells import JOINT, REQUESTS, Tells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.commands.calls.patterns import CallPatterns
    from app.core.commands.patterns.file_patterns import FilePatterns
    from app.core.commands.patterns.patterns import CommandPatterns
    from app.core.commands.sql.injection_patterns import InjectionPatterns
    from app.core.commands.sql.patterns import SqlPatterns
    from app.core.commands.targets import TargetPatterns
    from app.core.commands.tells import Telling
    from app.core.commands.text_patterns import TextPatterns


class Matchers(NamedTuple):
    """`programs`: names that begin a command line where nothing else says that a text is one."""

    text: TextPatterns
    commands: CommandPatterns
    sql: SqlPatterns
    injection: InjectionPatterns
    targets: TargetPatterns
    files: FilePatterns
    calls: CallPatterns
    tells: Telling
    programs: frozenset[str]


def tells(texts: Sequence[str], matchers: Matchers) -> Tells:
    """What the texts may hold."""
    joined = JOINT.join(texts)
    found = matchers.tells.of_texts(texts, joined)
    return Tells(
        matchers.text.anywhere(joined),
        bool(matchers.targets.matches(joined)),
        "breakout" in found,
        "encoding" in found or not joined.isascii(),
        "spelling" in found,
        "place" in found,
        REQUESTS.intersection(found),
    )
