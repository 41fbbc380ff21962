"""Python's own parser, without its warnings."""

from __future__ import annotations

import ast
import warnings


def parsed(program: str) -> ast.Module | None:
    """The program's tree; None of what is not Python, or too deep for the parser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(program)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
