"""Reading Python with its own grammar, without running anything: the commands that its calls stand for."""

from app.core.gate1.python.bounds import python_bounds
from app.core.gate1.python.read import read_python
from app.core.gate1.python.reading import PythonReading

__all__ = ["PythonReading", "python_bounds", "read_python"]
