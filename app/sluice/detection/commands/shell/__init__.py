"""Reading shell text with a real grammar (tree-sitter-bash), without running anything."""

from sluice.detection.commands.shell.grammar import shell_bounds
from sluice.detection.commands.shell.read_shell import read_shell
from sluice.detection.commands.shell.shell_reading import Command, Nested, Redirect, ShellReading

__all__ = ["Command", "Nested", "Redirect", "ShellReading", "read_shell", "shell_bounds"]
