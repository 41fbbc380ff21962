"""Reading shell text with a real grammar (tree-sitter-bash), without running anything."""

from sluice.core.commands.shell.grammar import shell_bounds
from sluice.core.commands.shell.read_shell import read_shell
from sluice.core.commands.shell.shell_reading import Command, Nested, Redirect, ShellReading

__all__ = ["Command", "Nested", "Redirect", "ShellReading", "read_shell", "shell_bounds"]
