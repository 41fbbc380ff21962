"""Code of languages with calls like C's, read by its calls: JavaScript, Ruby, PHP, Go, Java, C#, Rust."""

from sluice.detection.commands.code.read_code import LANGUAGES, NOTHING, CodeReading, read_code

__all__ = ["LANGUAGES", "NOTHING", "CodeReading", "read_code"]
