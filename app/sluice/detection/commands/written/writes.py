"""Which files an action writes: by a tool call, or by a command.

Of a tool call (`write_file`, `str_replace_editor`, `fs.writeFile`), whatever its parameters' names: a
parameter that is a path, all of it, and a tool or an operation that writes; then the texts beside it are what
is written. Which paths matter, patterns say; so a call is looked at only where one of them is named. Commands
write by redirection, `tee`, copies, edits in place, downloads, PowerShell.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.detection.commands.matchers import JOINT, may_be_disguised
from sluice.detection.commands.patterns.pattern_words import CommandWords
from sluice.detection.commands.shell.outputs import compute_output
from sluice.detection.disguises.scan import UNFOLDED_CHARS
from sluice.detection.disguises.unfold import forms
from sluice.text.name_words import vocabulary, words_of
from sluice.text.places import LONGEST_PATH, plain_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sluice.detection.commands.leaves import Leaf, Trail, Walk
    from sluice.detection.commands.patterns.file_patterns import FilePatterns
    from sluice.detection.commands.shell.shell_reading import Command

_WRITES = vocabulary(
    "write writes append create edit edits save put update replace insert upsert overwrite patch apply add",
    "set modify change copy move rename upload download commit push store export dump touch link symlink",
    "install",
    "sync transfer generate scaffold template render deploy multiedit editor writer w a wb ab echo tee cp mv",
    "fetch restore extract unzip untar file",
)
_READS = vocabulary(
    "read get list view show cat open search find grep head tail stat exists check glob diff inspect",
    "describe",
    "lint validate parse count hash download_info info watch load preview undo ls tree backup analyze",
    "review r rb",
    "summarize delete remove rm unlink",
)
"""What takes a file away writes nothing; that is judged as a removal."""
_ABOUT = vocabulary(
    "issue ticket comment message email mail task event alert incident review memory notification chat slack",
    "page calendar reminder feedback survey question answer conversation",
)
"""What else tools create and update: a path in it is spoken of."""
_OPERATIONS = vocabulary("command operation op action mode verb method type function subcommand cmd")
_FROM = vocabulary("source src from old original input before template")
_NO_TARGET = _FROM | _OPERATIONS
_NOT_CONTENT = vocabulary("old search find before match anchor original from source src")
_CONTENT = vocabulary(
    "content contents data text body new replacement value patch diff insert code lines line append payload",
    "string str blob raw bytes source script changes edits template",
)
_FOLDERS = vocabulary(
    "dir directory folder cwd root base parent workdir working prefix basepath rootdir outdir"
)
_PATHS = vocabulary(
    "path file filename filepath target destination dest dst to uri location output name key out"
)
_NAMES = vocabulary("name filename file path basename key relative")
_PATCHED = re.compile(r"^(?:\+\+\+ (?:b/)?|\*\*\* (?:Update|Add) File: )([^\s\t][^\n\t]*?)\s*$", re.MULTILINE)
_ADDED = re.compile(r"^\+(?!\+\+)(.*)$", re.MULTILINE)
MOST_FILES = 16
"""The most files of one action that are looked at."""


class Written(NamedTuple):
    """A file that a call writes, its path plain; `content` None where the call does not hold it."""

    path: str
    content: str | None
    trail: Trail


def may_patch(text: str) -> bool:
    """Whether the text may be a patch of files."""
    return "+++ " in text or "*** " in text


def find_written_files(tool_name: str, walk: Walk, files: FilePatterns) -> Iterator[Written]:
    """The files among those that matter which the call writes, at most MOST_FILES."""
    likely = [
        leaf.text
        for leaf in walk.leaves
        if (len(leaf.text) <= LONGEST_PATH and (" " not in leaf.text or _may_be_target(leaf)))
        or may_patch(leaf.text)
    ]
    keys = [key for key in walk.keys if _may_be_path(key)]
    if files.may_name_place(JOINT.join(likely + keys)):
        yield from islice(_find_written(tool_name, walk.leaves, files.is_place), MOST_FILES)


def _may_be_path(key: str) -> bool:
    """`{"/etc/cron.d/x": ...}`, `{".gitlab-ci.yml": ...}`, `{"Jenkinsfile": ...}`."""
    return "/" in key or "." in key or key.endswith("file")


def meant(content: str | None) -> Iterator[tuple[str, str | None]]:
    """(how, content): as it is written, and decoded where it may be encoded. Raises TooManyForms."""
    yield "file", content
    if content is not None and len(content) <= UNFOLDED_CHARS and may_be_disguised(content):
        for form in forms(content):
            yield f"file > {form.how}", form.text


def _find_written(
    tool_name: str, leaves: Sequence[Leaf], is_place: Callable[[str], bool]
) -> Iterator[Written]:
    for leaf in leaves:
        if may_patch(leaf.text):
            yield from _read_patch(leaf, is_place)
    if not _may_write(tool_name, leaves):
        return
    for leaf in leaves:
        path = _place(leaf.text, is_place) if _may_be_target(leaf) else None
        if path is not None:
            yield Written(path, _content_beside(leaf, leaves), leaf.trail)
        elif _may_be_path(leaf.key) and (path := _place(leaf.key, is_place)) is not None:
            yield Written(path, leaf.text, leaf.trail)
    yield from _join_folders(leaves, is_place)


def _place(text: str, is_place: Callable[[str], bool]) -> str | None:
    if len(text) > LONGEST_PATH or "\n" in text:
        return None
    path = plain_path(text)
    return path if path is not None and is_place(path) else None


def _join_folders(leaves: Sequence[Leaf], is_place: Callable[[str], bool]) -> Iterator[Written]:
    """`{"directory": "/etc/cron.d", "name": "sync"}`."""
    folders = [leaf for leaf in leaves if _has(leaf.key, _FOLDERS)][:MOST_FILES]
    if not folders:
        return
    names = [leaf for leaf in leaves if _has(leaf.key, _NAMES) and leaf not in folders][:MOST_FILES]
    for folder in folders:
        for name in names:
            path = _place(f"{folder.text}/{name.text}", is_place)
            if path is not None and not name.text.startswith(("/", "~")):
                yield Written(path, _content_beside(name, leaves), name.trail)


def _read_patch(leaf: Leaf, is_place: Callable[[str], bool]) -> Iterator[Written]:
    """A unified diff, or a patch in the manner of `apply_patch`: what it adds to each file."""
    heads = list(_PATCHED.finditer(leaf.text))
    for head, following in zip(heads, [*heads[1:], None], strict=False):
        path = _place(head[1], is_place)
        if path is not None:
            part = leaf.text[head.end() : following.start() if following else len(leaf.text)]
            yield Written(path, "\n".join(_ADDED.findall(part)), leaf.trail)


def _content_beside(path: Leaf, leaves: Sequence[Leaf]) -> str | None:
    """The texts of the same object or within it; where it has none, those of the whole call."""
    parent = _parent(path)
    others = [leaf for leaf in leaves if leaf is not path and not _has(leaf.key, _NOT_CONTENT - _CONTENT)]
    near = [leaf for leaf in others if _lies_in(leaf, parent)]
    for chosen in (near, others):
        named = [leaf.text for leaf in chosen if _has(leaf.key, _CONTENT) and not _has(leaf.key, {"old"})]
        if named:
            return "\n".join(named)
    return "\n".join(f'"{leaf.key}": "{leaf.text}"' for leaf in others) or None


def _parent(leaf: Leaf) -> Trail:
    return None if leaf.trail is None else leaf.trail[0]


def _lies_in(leaf: Leaf, parent: Trail) -> bool:
    trail = leaf.trail
    while trail is not None:
        trail = trail[0]
        if trail is parent:
            return True
    return False


def _may_be_target(leaf: Leaf) -> bool:
    """Not where something is taken from, nor an operation; with a blank only where its key says a path."""
    words = _words(leaf.key)
    return words.isdisjoint(_NO_TARGET) and (" " not in leaf.text or not words.isdisjoint(_PATHS))


def _may_write(tool_name: str, leaves: Iterable[Leaf]) -> bool:
    """An operation that is named in the call says it, else the tool's name, if that says anything."""
    tool = _words(tool_name)
    for leaf in leaves:
        if len(leaf.text) <= REMEMBERED_WORD and _has(leaf.key, _OPERATIONS):
            asked = _words(leaf.text)
            if asked & (_WRITES | _READS):
                return _first_writes(leaf.text)
    return not tool & _ABOUT and _first_writes(tool_name)


REMEMBERED_WORD = 40
"""A longer text names no operation."""


@lru_cache(maxsize=REMEMBERED_KEYS)
def _first_writes(name: str) -> bool:
    """Whether the first verb of a name is one that writes; a name without any may do so."""
    first = next((word for word in words_of(name) if word in _WRITES - {"file"} or word in _READS), None)
    return first is None or first in _WRITES


def _has(key: str, words: Iterable[str]) -> bool:
    return not _words(key).isdisjoint(words)


@lru_cache(maxsize=REMEMBERED_KEYS)
def _words(key: str) -> frozenset[str]:
    return frozenset(words_of(key))


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
    for redirect in command.redirects:
        if ">" in redirect.operator:
            content = content or _content(command)
            yield from _plain(redirect.target, content)
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
        yield [arg for arg in args if arg[:1] != "-"][-1]
    if program in _TO_ANY:
        yield from (arg for arg in args if arg[:1] != "-")
    option = _IN_PLACE.get(program)
    if option is not None and (
        option in words.flags.letters or "--in-place" in {long_flag.name for long_flag in words.flags.each}
    ):
        yield from (arg for arg in args if arg[:1] != "-")
    if program == "dd":
        yield from (arg[3:] for arg in args if arg.startswith("of="))
    for flag in words.flags.each:
        if flag.name in _BY_FLAG.get(program, ()):
            yield flag.value or flag.following or ""


def _content(command: Command) -> str | None:
    if command.stdin is not None:
        return command.stdin
    if command.program in ("echo", "printf"):
        return compute_output(command.program, command.args, None)
    texts = [arg for arg in command.args if " " in arg]
    return "\n".join(texts) or None
