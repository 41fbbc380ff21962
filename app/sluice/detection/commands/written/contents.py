"""What runs of a file by itself: the commands of a crontab, a unit, a pipeline's steps, a package's hooks.

Sources: crontab(5), systemd.service(5), udev(7), Desktop Entry Specification, workflow syntax of GitHub
Actions and GitLab CI, launchd.plist(5), npm's "scripts". Each is read by its lines, a broken file as far as
it goes.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.detection.commands.patterns.file_patterns import Reads

MOST_RUN = 24
"""The most texts that are taken from one file."""
_CRON = re.compile(
    r"^[ \t]*(?:@\w+|(?:[-*/,0-9a-z]+[ \t]+){4}[-*/,0-9a-z]+)[ \t]+(?:([a-z_][\w-]*)[ \t]+)?(\S.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_UNIT = re.compile(
    r"^[ \t]*(?:Exec\w*|ENV\{SYSTEMD_WANTS\}|\w+:\d*:\w+)[ \t]*[=:][ \t]*[-@:+!|]*(.+)$", re.MULTILINE
)
_RULE = re.compile(r"(?:RUN|PROGRAM|IMPORT)(?:\{\w+\})?[ \t]*\+?=[ \t]*\"([^\"]+)\"")
_KEYS = (
    "run|script|before_script|after_script|sh|bat|cmd|commands?|inlinescript|bash|powershell|pwsh|entry|args"
    "|pre_build|post_build|build|install|postcreatecommand|onstart"
)
_STEP = re.compile(rf"^([ \t]*)(-[ \t]+)?[\"']?(?:{_KEYS})[\"']?[ \t]*:[ \t]*(.*)$", re.IGNORECASE)
_GROOVY = re.compile(
    r"\b(?:sh|bat|powershell|pwsh)\s*\(?\s*(?:script\s*:\s*)?"
    r"(\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')",
    re.DOTALL,
)
_INSERTED = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_STRING = re.compile(r"<string>(.*?)</string>", re.DOTALL)
_ARRAY = re.compile(r"<array>(.*?)</array>", re.DOTALL)
HOOKS = frozenset(
    ["preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish", "prepack"]
)
"""Scripts of a package that its installation runs (npm documentation, "scripts")."""
_HOOK = re.compile(rf"\"(?:{'|'.join(sorted(HOOKS))})\"\s*:\s*\"((?:[^\"\\]|\\.)*)\"")
_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}


def run_by_itself(content: str, reads: Reads) -> list[str]:
    """The texts that something will run of the content, as it runs them; at most MOST_RUN."""
    reader = _READERS.get(reads)
    texts = [content] if reader is None else reader(content)
    return [text for text in texts if text.strip()][:MOST_RUN]


def _crontab(content: str) -> Iterator[str]:
    """A user's crontab has no user's name before the command: what may be one is read in both ways."""
    for match in _CRON.finditer(_COMMENT.sub("", content)):
        yield match[2]
        if match[1]:
            yield f"{match[1]} {match[2]}"


def _unit(content: str) -> Iterator[str]:
    for match in _UNIT.finditer(content.replace("\\\n", " ")):
        yield match[1]
    for match in _RULE.finditer(content):
        yield match[1]


def _steps(content: str) -> Iterator[str]:
    content = _INSERTED.sub("$INSERTED", content)
    lines = content.split("\n")
    for index, line in enumerate(lines):
        match = _STEP.match(line)
        if match is not None:
            value = match[3].strip()
            if value in ("", "|", ">", "|-", ">-", "|+", ">+", "["):
                yield "\n".join(_block(lines, index + 1, len(match[1]), listed=match[2] is not None))
            else:
                yield _unquote(value)
    for statement in _GROOVY.finditer(content):
        yield statement[1].strip("\"'").replace('\\"', '"').replace("\\'", "'")


def _block(lines: list[str], start: int, indent: int, *, listed: bool) -> Iterator[str]:
    """The lines below a key; a list may stand as far left as the key itself, unless that is in a list too."""
    for line in lines[start:]:
        stripped = line.lstrip(" \t")
        if stripped and len(line) - len(stripped) < indent + (listed or stripped[:1] != "-"):
            return
        yield _unquote(stripped.removeprefix("- "))


def _unquote(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        inner = value[1:-1]
        return inner.replace('\\"', '"') if value[0] == '"' else inner.replace("''", "'")
    if value[:1] == "[" and value[-1:] == "]":
        return " ".join(_unquote(text.strip()) for text in value[1:-1].split(","))
    return value


def _property_list(content: str) -> Iterator[str]:
    arrays = _ARRAY.findall(content) or [content]
    for array in arrays:
        words = [_text(text) for text in _STRING.findall(array)]
        if words:
            yield shlex.join(words)


def _text(escaped: str) -> str:
    for entity, sign in _ENTITIES.items():
        escaped = escaped.replace(entity, sign)
    return escaped


def _package(content: str) -> Iterator[str]:
    for match in _HOOK.finditer(content):
        yield re.sub(r"\\(.)", r"\1", match[1])


_READERS: dict[Reads, Callable[[str], Iterator[str]]] = {
    "cron": _crontab,
    "unit": _unit,
    "steps": _steps,
    "strings": _property_list,
    "scripts": _package,
}
