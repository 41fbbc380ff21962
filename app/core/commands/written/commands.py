"""Files that commands write: by redirection, `tee`, copies, edits in place, downloads, PowerShell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.commands.patterns.words import CommandWords
from app.core.commands.shell.outputs import known_output
from app.core.foundation.words import vocabulary
from app.core.text.places import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.commands.shell.reading import Command

_TO_LAST = vocabulary("cp mv install ln rsync scp gcp copy-item move-item copy move xcopy robocopy")
_TO_ANY = vocabulary("tee sponge set-content add-content out-file new-item ni sc ac ed ex vim vi")
_IN_PLACE = {"sed": "i", "perl": "i", "gsed": "i", "awk": "i", "gawk": "i", "ruby": "i", "yq": "i", "jq": "i"}
_BY_FLAG = {
    "curl": ("-o", "--output"),
    "wget": ("-O", "--output-document"),
    "aria2c": ("-o", "--out"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
    "sort": ("-o", "--output"),
    "cp": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "openssl": ("-out",),
}
_WRITERS = _TO_LAST | _TO_ANY | _IN_PLACE.keys() | _BY_FLAG.keys() | {"dd"}


def files_of(command: Command) -> Iterator[tuple[str, str | None]]:
    """(path, content) of every file that the command writes, paths plain; None for a content not known."""
    content = None
    for one in command.redirects:
        if ">" in one.operator:
            content = content or _content(command)
            yield from _plain(one.target, content)
    if command.program in _WRITERS:
        for path in _paths(command):
            yield from _plain(path, _content(command))


def _plain(path: str, content: str | None) -> Iterator[tuple[str, str | None]]:
    plain = plain_path(path)
    if plain is not None:
        yield plain, content


def _paths(command: Command) -> Iterator[str]:
    program, args = command.program, command.args
    words = CommandWords(command)
    if program in _TO_LAST and words.operands:
        yield [one for one in args if one[:1] != "-"][-1]
    if program in _TO_ANY:
        yield from (one for one in args if one[:1] != "-")
    letter = _IN_PLACE.get(program)
    if letter is not None and (
        letter in words.flags.letters or "--in-place" in {one.name for one in words.flags.each}
    ):
        yield from (one for one in args if one[:1] != "-")
    if program == "dd":
        yield from (one[3:] for one in args if one.startswith("of="))
    for flag in words.flags.each:
        if flag.name in _BY_FLAG.get(program, ()):
            yield flag.value or flag.following or ""


def _content(command: Command) -> str | None:
    if command.stdin is not None:
        return command.stdin
    if command.program in ("echo", "printf"):
        return known_output(command.program, command.args, None)
    texts = [one for one in command.args if " " in one]
    return "\n".join(texts) or None
