"""Processes that are ended."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.commands.python.values import HOLE, UNKNOWN, Value, flags, listing, word
from app.core.commands.python.walk import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called


def all_processes(_: Called) -> Value:
    """`psutil.process_iter()`."""
    return listing(Value(None, "psutil.Process()", every=True))


def one_process(call: Called) -> Value:
    """`psutil.Process(pid)`."""
    return Value(call.arg(0, "pid").text, "psutil.Process()", every=call.arg(0).every)


def ended(call: Called) -> Value:
    """`process.kill()`: by the words that the tests around it compare with, or all there are."""
    around = call.walker.around
    if call.base.every and around.tests:
        call.runs("pkill", "-9", *(_compared(call) or (HOLE,)))
    elif call.base.every:
        call.runs("kill", "-9", "-1")
    else:
        call.runs("kill", "-9", word(call.base))
    return UNKNOWN


def _compared(call: Called) -> tuple[str, ...]:
    found: list[str] = []
    for node in (one for test in call.walker.around.tests for one in nodes(test)):
        value = UNKNOWN
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.Name):
            value = call.walker.scope.get(node.id)
        found += [one.text for one in (value, *(value.items or ())) if one.text and not one.every]
    return tuple(dict.fromkeys(found))[:10]


def killed(call: Called) -> Value:
    """`os.kill(pid, signal)`."""
    pid, sig = call.arg(0, "pid", "pgid"), call.arg(1, "sig", "signal", "signalnum")
    name = flags(sig).rpartition(".")[2]
    if pid.text is None and pid.every:
        return ended(call._replace(base=pid))
    call.runs("kill", f"-{name}", word(pid))
    return UNKNOWN


FUNCTIONS: dict[str, Callable[[Called], Value]] = {
    "psutil.process_iter": all_processes,
    "psutil.Process": one_process,
    "psutil.Process().kill": ended,
    "psutil.Process().terminate": ended,
    "os.kill": killed,
    "os.killpg": killed,
}
