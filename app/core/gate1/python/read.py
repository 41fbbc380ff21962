"""From Python text to the commands that it stands for."""

from __future__ import annotations

from app.core.gate1.python.bounds import python_bounds
from app.core.gate1.python.parse import parsed
from app.core.gate1.python.reading import PythonReading
from app.core.gate1.python.source import of_python_two, source
from app.core.gate1.python.walker import Walker


def read_python(text: str) -> PythonReading:
    """The reading of a text; one that is not Python, or passes a bound, gives next to nothing.

    The same text always gives the same reading.
    """
    program, shell = source(text)
    past = python_bounds(program)
    tree = None if past else parsed(program)
    if tree is None and not past:
        older = of_python_two(program)
        tree = None if older is None else parsed(older)
    if tree is None and not shell:
        return PythonReading(inconclusive=past)
    walker = Walker()
    for line in shell:
        walker.found.shell(line)
    if tree is not None:
        walker.program(tree)
    found = walker.found
    return PythonReading(
        tuple(found.commands), tuple(found.nested), past or found.inconclusive, parsed=tree is not None
    )
