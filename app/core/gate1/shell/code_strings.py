"""Shell commands inside code of other languages: `os.system("...")`, `execSync('...')`, Ruby's backticks."""

from __future__ import annotations

import re

MOST_CODE_COMMANDS = 8
"""Commands taken from one piece of code."""

_CALLS = (
    r"(?:system|popen\w*|exec\w*|spawn\w*|Popen|run|call|check_call|check_output|getoutput|getstatusoutput"
    r"|shell_exec|passthru|proc_open|os\.execute|doShellScript|do shell script)"
)
_CALL = re.compile(
    _CALLS + r"\s*\(?\s*(?:[bru]*)(?:\"((?:[^\"\\]|\\.){2,2000})\"|'((?:[^'\\]|\\.){2,2000})')"
)
_LIST = re.compile(_CALLS + r"\s*\(\s*\[([^\]]{2,500})\]")
_PROGRAM_AND_LIST = re.compile(
    _CALLS + r"\s*\(\s*(?:\"([^\"]{1,200})\"|'([^']{1,200})')\s*,\s*\[([^\]]{1,500})\]"
)
_BACKTICKS = re.compile(r"(?:`|%x[({\[])([^`)}\]]{2,2000})(?:`|[)}\]])")
_STRING = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_BACKTICK_LANGUAGES = frozenset({"ruby", "perl", "php"})


def commands_in_code(text: str, language: str = "") -> list[str]:
    """The shell texts that the code hands to a shell or starts as a program, at most MOST_CODE_COMMANDS."""
    found = [_joined(match[3], match[1] or match[2]) for match in _PROGRAM_AND_LIST.finditer(text)]
    found += [_joined(match[1]) for match in _LIST.finditer(text)]
    found += [(match[1] or match[2]).replace("\\", "") for match in _CALL.finditer(text)]
    if language in _BACKTICK_LANGUAGES:
        found += [match[1] for match in _BACKTICKS.finditer(text)]
    return found[:MOST_CODE_COMMANDS]


def _joined(items: str, program: str = "") -> str:
    words = [match[1] or match[2] or "" for match in _STRING.finditer(items)]
    return " ".join([program, *words] if program else words)
