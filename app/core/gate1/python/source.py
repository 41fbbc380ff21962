"""From what an agent hands over to Python proper: fences, prompts and the commands of notebooks."""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

_FENCE = re.compile(
    r"\A\s*```[ \t]*(?:python3?|py|ipython)?[ \t]*\n(.*?)(?:```\s*)?\Z", re.DOTALL | re.IGNORECASE
)
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?)", re.MULTILINE)
_CELL_SHELL = re.compile(r"\A\s*%%(?:bash|sh|script[ \t]+(?:ba|z)?sh|!)[^\n]*\n(.*)\Z", re.DOTALL)
_CELL = re.compile(r"\A\s*%%\w+[^\n]*\n")
_LINE = re.compile(
    r"^([ \t]*)(?:(\w+)[ \t]*=[ \t]*)?(?:!{1,2}|%(?:sx|system|sc)[ \t])([^=\n][^\n]*)$"
    r"|^([ \t]*)%[a-zA-Z][^\n]*$",
    re.MULTILINE,
)
_MAGIC = re.compile(r"(?:\A|\n)[ \t]*(?:\w+[ \t]*=[ \t]*)?[!%]")
_PRINT = re.compile(r"^([ \t]*)print[ \t]+([^\n(=][^\n]*)$", re.MULTILINE)
_EXCEPT = re.compile(r"^([ \t]*except[ \t]+[\w.() ,]+?),[ \t]*(\w+)[ \t]*:", re.MULTILINE)


class Source(NamedTuple):
    """The program, and the shell texts that stood in it as a notebook's commands."""

    program: str
    shell: tuple[str, ...] = ()


def source(text: str) -> Source:
    """IPython's `!command`, `%%bash` and magics taken out, doctest prompts and Markdown fences stripped."""
    fenced = _FENCE.match(text) if "```" in text else None
    text = fenced[1] if fenced else text
    if text[:1] in {" ", "\t", "\n"}:
        text = textwrap.dedent(text)
    if ">>>" in text or text.startswith("In ["):
        text = _PROMPT.sub("", text)
    if not _MAGIC.search(text):
        return Source(text)
    cell = _CELL_SHELL.match(text)
    if cell:
        return Source("", (cell[1],))
    shell: list[str] = []

    def plain(match: re.Match[str]) -> str:
        if match[3] is None:
            return f"{match[4]}pass"
        shell.append(match[3])
        return f"{match[1]}pass"

    return Source(_LINE.sub(plain, _CELL.sub("", text)), tuple(shell))


def of_python_two(text: str) -> str | None:
    """The text with Python 2's print statements and except clauses as Python 3 has them; None without any."""
    changed = _EXCEPT.sub(r"\1 as \2:", _PRINT.sub(r"\1print(\2)", text))
    return None if changed == text else changed
