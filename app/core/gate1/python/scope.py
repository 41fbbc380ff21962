"""The names of a program and what is known of them."""

from __future__ import annotations

from app.core.gate1.python.names import BUILTINS, CANONICAL, MODULES
from app.core.gate1.python.values import PATH, UNKNOWN, Value

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
_STAR = ("os", "subprocess", "shutil", "socket", "pathlib", "ctypes", "glob", "base64", "pickle", "requests")


class Scope:
    """Names of a module, or of a function within it; attributes of `self` are kept as names with a dot."""

    def __init__(self, outer: Scope | None = None) -> None:
        self._names: dict[str, Value] = {}
        self._outer = outer
        self._stars: tuple[str, ...] = ()

    def get(self, name: str) -> Value:
        """What is known of a name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._names:
                return scope._names[name]
            if scope._outer is None:
                return scope._unset(name)
            scope = scope._outer
        return UNKNOWN

    def find(self, name: str) -> Value | None:
        """What the program itself made of a name, None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._names:
                return scope._names[name]
            scope = scope._outer
        return None

    def set(self, name: str, value: Value) -> None:
        """Bind a name here; an attribute is bound for the whole program."""
        scope = self
        while "." in name and scope._outer is not None:
            scope = scope._outer
        scope._names[name] = value

    def imported(self, module: str, name: str | None, alias: str | None) -> None:
        """`import module as alias`, or `from module import name as alias`."""
        if name == "*":
            self._stars += (module,) if module in _STAR else ()
            return
        whole = f"{module}.{name}" if name else module if alias else module.split(".")[0]
        self.set(alias or name or whole, Value(None, _canonical(whole)))

    def _unset(self, name: str) -> Value:
        if name in _ASSUMED:
            return _ASSUMED[name]
        return Value(None, _canonical(f"{self._stars[0]}.{name}")) if len(self._stars) == 1 else self._of_stars(name)

    def _of_stars(self, name: str) -> Value:
        from_any = [f"{module}.{name}" for module in self._stars]
        return Value(None, from_any[-1]) if from_any else UNKNOWN


def _canonical(name: str) -> str:
    first, _, rest = name.partition(".")
    whole = f"{CANONICAL.get(first, first)}.{rest}" if rest else name
    return CANONICAL.get(whole, whole)


def is_path(value: Value) -> bool:
    """Whether the value is one of pathlib's paths."""
    return value.name == PATH
