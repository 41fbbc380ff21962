"""Functions of the program itself: read where they are called, with what they are called with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.gate1.python.targets import bind
from app.core.gate1.python.values import UNKNOWN, Value

if TYPE_CHECKING:
    from app.core.gate1.python.walker import Walker

    Function = ast.FunctionDef | ast.AsyncFunctionDef

MOST_CALLS_WITHIN = 4
"""How deep calls are followed from function to function."""
_OWN = "def "
_REDUCE = frozenset({"__reduce__", "__reduce_ex__"})


class Functions:
    """All functions and methods by their name; a method's name is enough to find it."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._functions: dict[str, Function] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._unread: dict[Function, None] = {}
        self._read: set[Function] = set()
        self._running: list[str] = []
        self._returned: list[Value] = []

    def defined(self, node: Function) -> None:
        """A function or method; its name means it from now on."""
        self._functions[node.name] = node
        if node not in self._read:
            self._unread[node] = None
        self._walker.scope.set(node.name, Value(None, _OWN + node.name))
        for decorator in node.decorator_list:
            self._walker.value(decorator)

    def class_defined(self, node: ast.ClassDef) -> None:
        """A class: what its body binds, and its methods."""
        self._classes[node.name] = node
        scope = self._walker.scope
        self._walker.body(node.body)
        scope.set(node.name, Value(None, _OWN + node.name))

    def returned(self, value: Value) -> None:
        """What the function that is being read returns; the most telling counts."""
        if not self._running:
            return
        if self._running[-1] in _REDUCE and value.items and len(value.items) > 1:
            self._walker.found_call(value.items[0], list(value.items[1].items or ()))
        before = self._returned[-1]
        if before == UNKNOWN or value.feeds or (value.text is not None and not before.feeds):
            self._returned[-1] = value

    def own(self, callee: Value, method: str) -> str | None:
        """The program's own function that is called, None where it is none."""
        name = callee.name.removeprefix(_OWN) if callee.name.startswith(_OWN) else ""
        if name in self._functions or name in self._classes:
            return name
        return method if not callee.name and method in self._functions else None

    def call(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Read a function's body with its parameters bound; what it returns."""
        if name in self._classes and name not in self._functions:
            self._made(name, args, keywords)
            return Value(None, "")
        if name in self._running or len(self._running) >= MOST_CALLS_WITHIN or not self._walker.may_repeat:
            return UNKNOWN._replace(feeds=tuple(feed for one in args for feed in one.feeds)[:1])
        return self._run(self._functions[name], args, keywords)

    def uncalled(self) -> None:
        """Read the functions that nothing called: callbacks, threads, methods, what others will call."""
        while self._unread:
            self._run(next(iter(self._unread)), [], {})

    def _made(self, name: str, args: list[Value], keywords: dict[str, Value]) -> None:
        for node in self._classes[name].body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                self._run(node, args, keywords)

    def _run(self, node: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        walker, outer = self._walker, self._walker.scope
        self._unread.pop(node, None)
        self._read.add(node)
        walker.scope = outer.within()
        self._parameters(node.args, args, keywords)
        self._running.append(node.name)
        self._returned.append(UNKNOWN)
        walker.body(node.body)
        self._running.pop()
        walker.scope = outer
        return self._returned.pop()

    def _parameters(self, given: ast.arguments, args: list[Value], keywords: dict[str, Value]) -> None:
        walker = self._walker
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        defaults = dict(zip(reversed(names), reversed(given.defaults), strict=False))
        defaults |= {
            one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value
        }
        for name, node in defaults.items():
            bind(walker, ast.Name(name), walker.value(node))
        for name in names:
            if name not in defaults:
                walker.scope.set(name, UNKNOWN)
        for name, value in [*zip(names, args, strict=False), *keywords.items()]:
            if value != UNKNOWN or name not in defaults:
                walker.scope.set(name, value)
        if given.vararg is not None:
            walker.scope.set(given.vararg.arg, Value(items=tuple(args[len(names) :])))
