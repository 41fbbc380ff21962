"""Processes that are ended; text that is run as Python, and functions that others call later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from sluice.detection.commands.python.python_values import HOLE, UNKNOWN, PythonValue, flags, listing, word
from sluice.detection.commands.python.python_walk import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.libraries.called import Called


def all_processes(_: Called) -> PythonValue:
    """`psutil.process_iter()`."""
    return listing(PythonValue(None, "psutil.Process()", every=True))


def one_process(call: Called) -> PythonValue:
    """`psutil.Process(pid)`."""
    return PythonValue(call.arg(0, "pid").text, "psutil.Process()", every=call.arg(0).every)


def ended(call: Called) -> PythonValue:
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


def killed(call: Called) -> PythonValue:
    """`os.kill(pid, signal)`."""
    pid, sig = call.arg(0, "pid", "pgid"), call.arg(1, "sig", "signal", "signalnum")
    name = flags(sig).rpartition(".")[2]
    if pid.text is None and pid.every:
        return ended(call._replace(base=pid))
    call.runs("kill", f"-{name}", word(pid))
    return UNKNOWN


def run(call: Called) -> PythonValue:
    """`exec(text)`, `eval(text)`: read here and now where the text is known."""
    program = call.arg(0, "source")
    if program.text is not None and HOLE not in program.text:
        before = call.walker.found.started
        value = call.walker.inner(program.text)
        if call.name == "eval" and call.walker.found.started > before:
            call.runs("python.eval")
        return value
    if program.feeds:
        return call.result(call.runs("python3", "-", fed_by=program.feeds))
    return UNKNOWN


def compiled(call: Called) -> PythonValue:
    """`compile(text, ...)`: the text."""
    return call.arg(0, "source")


def thread(call: Called) -> PythonValue:
    """`threading.Thread(target=f, args=(...))`: f is called with them."""
    target = call.arg(1, "target")
    args = list(call.arg(3, "args").items or ())
    if target.name:
        call.walker.found_call(target, args)
    return call.result()


def unpickled(call: Called) -> PythonValue:
    """`pickle.loads(data)`: runs what the data says."""
    data = call.arg(0)
    words = (" ".join(data.text.split()),) if data.text is not None else ()
    return call.result(call.runs("pickle.loads", *words, fed_by=data.feeds))


FUNCTIONS: dict[str, Callable[[Called], PythonValue]] = {
    "psutil.process_iter": all_processes,
    "psutil.Process": one_process,
    "psutil.Process().kill": ended,
    "psutil.Process().terminate": ended,
    "os.kill": killed,
    "os.killpg": killed,
    "exec": run,
    "eval": run,
    "compile": compiled,
    "threading.Thread": thread,
    "threading.Timer": thread,
    "multiprocessing.Process": thread,
    "pickle.loads": unpickled,
    "pickle.load": unpickled,
}
