"""Calls: which function knows what is called, and what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from sluice.detection.commands.python.libraries import (
    files,
    network,
    processes,
    programs,
    texts,
)
from sluice.detection.commands.python.libraries.called import Called
from sluice.detection.commands.python.libraries.translations import ROWS, ROWS_OF_METHODS, translated
from sluice.detection.commands.python.python_values import UNKNOWN, PythonValue, flags, merged
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.python_walk import Walker

    Handler = Callable[[Called], PythonValue]


_LIBRARIES = vocabulary(
    "os ctypes mmap pty pickle marshal shelve pynput keyboard mouse pyhook pyxhook win32api win32process",
    "win32security win32crypt winreg multiprocessing signal resource scapy impacket ldap3 cv2 yaml",
    "logging code ptrace frida pymem wmi evdev pyrasite sounddevice pyaudio mss bluetooth nmap",
    "browser_cookie3 keyring pywifi jsonpickle",
)
"""Libraries whose calls a pattern may judge by name."""


def own_call(call: Called) -> PythonValue:
    """Say the call itself, if its library is one of those; what it returns holds what it was given."""
    library = call.name.partition(".")[0].lower()
    if library in _LIBRARIES and "." in call.name:
        words = [flags(one)[:200] for one in call.args]
        words += [f"--{name}={flags(value)[:200]}" for name, value in call.keywords.items()]
        call.runs(call.name.lower(), *words, fed_by=merged([call.base, *call.given()]))
    elif call.method == "__subclasses__" and call.name == "":
        call.runs("python.subclasses", *(() if call.base.name else ("unnamed",)))
    return call.result()


_KNOWN: dict[str, Handler] = {
    **texts.FUNCTIONS,
    **files.FUNCTIONS,
    **processes.FUNCTIONS,
    **programs.FUNCTIONS,
    **network.FUNCTIONS,
}
_BY_METHOD: dict[str, Handler] = {
    **files.METHODS,
    **programs.METHODS,
    **network.METHODS,
}


def call(walker: Walker, node: ast.Call) -> PythonValue:
    """What a call returns; the commands that it stands for are found."""
    function = node.func
    if isinstance(function, ast.Attribute):
        method, base = function.attr, walker.value(function.value)
        callee = walker.attribute(function, base)
    else:
        method, base, callee = "", UNKNOWN, walker.value(function)
    args: list[PythonValue] = []
    for one in node.args:
        value = walker.value(one)
        args += value.items if isinstance(one, ast.Starred) and value.items is not None else (value,)
    keywords = {one.arg or "**": walker.value(one.value) for one in node.keywords}
    own = walker.functions.own(callee, method)
    if own is not None:
        return walker.functions.call(own, args, keywords)
    return known_call(Called(walker, callee.name, method, base, args, keywords))


def known_call(call: Called) -> PythonValue:
    """A call of a library's function or method, or of what is not known."""
    handler = _KNOWN.get(call.name)
    if handler is not None:
        return handler(call)
    row = ROWS.get(call.name)
    if row is not None:
        return translated(call, row)
    if call.base.text is not None:
        text = texts.method(call)
        if text is not None:
            return text
    if call.base.keys and call.method in texts.MEMBERS:
        return texts.members(call)
    handler = network.cloud_handler(call.name) or _BY_METHOD.get(call.method)
    if handler is not None:
        return handler(call)
    row = ROWS_OF_METHODS.get(call.method)
    return translated(call, row) if row is not None else own_call(call)
