"""What `cmd /c` and `powershell -Command` run (their own help texts: `cmd /?`, about_PowerShell_exe)."""

from __future__ import annotations

import base64
import binascii
from itertools import pairwise

from app.core.gate1.shell.interpreters import POWERSHELLS

_LEAST_ENCODED = 8
"""Shortest base64 text that is taken for an encoded command."""


def windows_code(program: str, args: tuple[str, ...]) -> str | None:
    """The text that the program's words ask it to run; None where they ask for nothing."""
    if program == "cmd":
        return _after(args, ("/c", "/k", "/r"))
    if program in POWERSHELLS:
        return _encoded(args) or _after(args, ("-c", "-command", "-com", "/c", "/command")) or _bare(args)
    return None


def _after(args: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    for place, arg in enumerate(args):
        if arg.lower() in flags:
            return " ".join(args[place + 1 :])
    return None


def _encoded(args: tuple[str, ...]) -> str | None:
    for flag, value in pairwise(args):
        name = flag.lower()
        if (
            name[:2] in ("-e", "/e")
            and "encodedcommand".startswith(name[1:])
            and len(value) >= _LEAST_ENCODED
        ):
            try:
                return base64.b64decode(value + "=" * (-len(value) % 4)).decode("utf-16-le", "replace")
            except binascii.Error:
                return None
    return None


def _bare(args: tuple[str, ...]) -> str | None:
    words = [arg for arg in args if arg[:1] not in "-/"]
    return " ".join(words) if len(words) > 1 else None
