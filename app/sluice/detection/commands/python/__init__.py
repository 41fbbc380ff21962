"""Reading Python with its own grammar, without running anything: the commands that its calls stand for."""

from sluice.detection.commands.python.parse import python_bounds
from sluice.detection.commands.python.reader import PythonReading, read_python

__all__ = ["PythonReading", "python_bounds", "read_python"]
