"""The names of a program and what is known of them."""

from __future__ import annotations

from app.core.gate1.python.names import BUILTINS, CANONICAL, MODULES
from app.core.gate1.python.values import UNKNOWN, Value

_ASSUMED = {
    **{name: Value(None, CANONICAL.get(name, name)) for name in MODULES | BUILTINS},
    "Path": Value(None, "pathlib.Path"),
    "__file__": Value("./script.py"),
    "__name__": Value("__main__"),
    "__builtins__": Value(None, "builtins"),
    "Popen": Value(None, "subprocess.Popen"),
    "rmtree": Value(None, "shutil.rmtree"),
    "urlopen": Value(None, "urllib.request.urlopen"),
}
"""What a name means that the program did not set: a builtin, or what an earlier cell imported."""
_STAR = frozenset(
    {"os", "subprocess", "shutil", "socket", "pathlib", "ctypes", "glob", "base64", "pickle", "requests"}
)
"""Modules from which `import *` is followed."""


class Scope:
    """Names of a module, or of a function within it; attributes are kept as names with a dot."""

    def __init__(self, *outer: dict[str, Value], stars: tuple[str, ...] = ()) -> None:
        self._names: tuple[dict[str, Value], ...] = ({}, *outer)
        self._stars = stars

    def within(self) -> Scope:
        """The scope of a function that is read here."""
        return Scope(*self._names, stars=self._stars)

    def get(self, name: str) -> Value:
        """What is known of a name."""
        found = self.find(name)
        if found is not None:
            return found
        if name in _ASSUMED:
            return _ASSUMED[name]
        return Value(None, _canonical(f"{self._stars[-1]}.{name}")) if self._stars else UNKNOWN

    def find(self, name: str) -> Value | None:
        """What the program itself made of a name, None if nothing."""
        for names in self._names:
            if name in names:
                return names[name]
        return None

    def set(self, name: str, value: Value) -> None:
        """Bind a name here; an attribute is bound for the whole program."""
        self._names[-1 if "." in name else 0][name] = value

    def imported(self, module: str, name: str | None, alias: str | None) -> None:
        """`import module as alias`, or `from module import name as alias`."""
        if name == "*":
            self._stars += (module,) if module in _STAR else ()
            return
        whole = f"{module}.{name}" if name else module if alias else module.partition(".")[0]
        self.set(alias or name or whole, Value(None, _canonical(whole)))


def _canonical(name: str) -> str:
    first, _, rest = name.partition(".")
    whole = f"{CANONICAL.get(first, first)}.{rest}" if rest else name
    return CANONICAL.get(whole, whole)
